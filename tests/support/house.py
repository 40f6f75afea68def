"""A customer's small service on a real port: rooms to book, long reports, and pauses that the test ends."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from deploy.sockets import address, listen, serving

REPORT = "x" * 400_000


class NewBooking(BaseModel):
    """A room."""

    room: str


class Booking(BaseModel):
    """A booked room."""

    id: str
    room: str


class Report(BaseModel):
    """A report."""

    name: str
    text: str


class Pause(BaseModel):
    """How long it was."""

    seconds: float


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class House:
    """The service and its record. ``dropping``: rooms whose booking takes effect although the response is 504.

    A pause ends when ``going_on`` is set, which it is at first.
    """

    host: str
    dropping: set[str] = field(default_factory=set)
    booked: list[str] = field(default_factory=list)
    going_on: threading.Event = field(default_factory=_set)
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its OpenAPI document."""
        return json.dumps(self.document)


@contextmanager
def serve_house() -> Iterator[House]:
    """Serve a house until the context ends."""
    bound = listen("127.0.0.1", 0)
    house = House(address(bound))
    app = FastAPI(title="House", version="1")

    @app.post("/bookings", operation_id="bookRoom", summary="Book a room", status_code=201, response_model=Booking)
    async def book(body: NewBooking) -> Response:
        """Book a meeting room by its name."""
        house.booked.append(body.room)
        if body.room in house.dropping:
            return Response(status_code=504)
        return JSONResponse({"id": f"bkg_{len(house.booked)}", "room": body.room}, 201)

    @app.get("/reports/{name}", operation_id="getReport", summary="Get a report by its name")
    async def report(name: str) -> Report:
        return Report(name=name, text=REPORT)

    @app.get("/pauses/{seconds}", operation_id="pause", summary="Pause for some seconds")
    async def pause(seconds: float) -> Pause:
        await asyncio.to_thread(house.going_on.wait)
        return Pause(seconds=seconds)

    house.document = app.openapi()
    with serving(app, bound=bound):
        try:
            yield house
        finally:
            house.going_on.set()
