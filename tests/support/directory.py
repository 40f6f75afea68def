"""A company's directory on a real port. Each kind of people has its own search. The service counts every call.

Agendas and notes take the person ids that all searches return.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query
from fastapi import Path as PathParameter
from pydantic import BaseModel, Field

from deploy.sockets import address, listen, serving

KINDS = ("colleague", "customer", "supplier", "visitor")
PersonId = Annotated[str, PathParameter(description="Id of the person.", pattern="^per_[0-9]+$", examples=["per_12"])]


class Person(BaseModel):
    """Somebody who is known here."""

    person_id: str = Field(description="Id of the person.", examples=["per_12"], pattern="^per_[0-9]+$")
    name: str = Field(description="The person's name.", examples=["Ada Lovelace"])


class People(BaseModel):
    """Those whom a search finds."""

    items: list[Person]


class Agenda(BaseModel):
    """A person's appointments."""

    person_id: str
    next_appointment: str = Field(description="When and what the person's next appointment is.")


class Note(BaseModel):
    """A note in somebody's file."""

    note_id: str


class NewNote(BaseModel):
    """What is to be noted."""

    person_id: str = Field(description="Id of the person whom the note is about.", pattern="^per_[0-9]+$")
    text: str = Field(description="Text of the note.")


@dataclass
class Directory:
    """The service. ``people`` maps kinds to names to ids; ``calls`` counts requests by path."""

    host: str
    people: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    agendas: dict[str, str] = field(default_factory=dict)
    refusing: str = ""
    """If not empty, agendas answer 422 with this text."""
    fuzzy: bool = False
    """Whether a search also finds people who have only one word of the name."""
    after_note: bool = False
    """Whether agendas answer only after a note was added."""
    calls: Counter[str] = field(default_factory=Counter)
    notes: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its OpenAPI document."""
        return json.dumps(self.document)

    def reset(self) -> None:
        """Remove all people and notes, and reset counters and switches."""
        for known in (*self.people.values(), self.agendas):
            known.clear()
        self.calls.clear()
        self.notes.clear()
        self.removed.clear()
        self.refusing = ""
        self.after_note = self.fuzzy = False

    def found(self, kind: str, name: str) -> People:
        """Search people of one kind by a part of their name, in any case."""
        self.calls[f"/{kind}s"] += 1
        parts = name.lower().split() if self.fuzzy else [name.lower()]
        known = self.people[kind].items()
        found = [(full, one) for full, one in known if any(part in full.lower() for part in parts)]
        return People(items=[Person(person_id=one, name=full) for full, one in found])

    def searches(self) -> int:
        """The number of searches of all kinds."""
        return sum(self.calls[f"/{kind}s"] for kind in KINDS)


@contextmanager
def serve_directory() -> Iterator[Directory]:
    """Serve a directory until the context ends."""
    bound = listen("127.0.0.1", 0)
    directory = Directory(address(bound))
    app = FastAPI(title="Directory", version="1")

    def add_search(kind: str) -> None:
        @app.get(f"/{kind}s", operation_id=f"find{kind.title()}", summary=f"Find a person among the {kind}s by name")
        async def search(name: Annotated[str, Query(description="Name of the person.", examples=["Ada"])]) -> People:
            return directory.found(kind, name)

    for kind in KINDS:
        add_search(kind)

    @app.get("/agendas/{person_id}", operation_id="getAgenda", summary="Get a person's next appointment")
    async def agenda(person_id: PersonId) -> Agenda:
        directory.calls["/agendas"] += 1
        while directory.after_note and not directory.notes:  # noqa: ASYNC110 - notes are a plain list
            await asyncio.sleep(0.01)
        if directory.refusing:
            raise HTTPException(422, directory.refusing)
        if person_id not in directory.agendas:
            raise HTTPException(404, "nobody has this id")
        return Agenda(person_id=person_id, next_appointment=directory.agendas[person_id])

    @app.post("/notes", operation_id="addNote", summary="Add a note about a person", status_code=201)
    async def note(body: NewNote) -> Note:
        directory.calls["/notes"] += 1
        directory.notes.append((body.person_id, body.text))
        return Note(note_id=f"note_{len(directory.notes)}")

    @app.delete("/people/{person_id}", operation_id="deletePerson", summary="Delete a person", status_code=204)
    async def delete(person_id: PersonId) -> None:
        directory.removed.append(person_id)

    directory.document = app.openapi()
    with serving(app, bound=bound):
        yield directory
