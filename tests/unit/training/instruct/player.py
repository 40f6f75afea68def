"""Plays the model behind a chat completions server: answers by what it is asked, wrongly where it is told to."""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.chat_server import ChatServer, Reply, hangs, says, serve_chat

FIELDS = ("Travel", "Kitchen")
SUBFIELDS = {"Travel": ("Trains", "Museums"), "Kitchen": ("Recipes", "Ovens")}
AGAIN = "An earlier answer was of no use"
"""What a question says that is asked again."""
Fault = Callable[[dict[str, Any]], Any]
"""Makes an answer wrong: the object, or the text that is sent for it."""


def tools_of(field: str, subfield: str) -> list[dict[str, Any]]:
    """Two tools of a subfield; the second takes what the first answers."""
    one = subfield.lower()[:-1]
    text = {"type": "str", "description": "In words (e.g., Lisbon)"}
    finder = {
        "api_name": f"locate{subfield}",
        "api_description": f"Looks up {subfield.lower()} at a place",
        "field": f"{field}/{subfield}",
        "parameters": {"place": text, "most": {"type": "int", "description": "How many at most (e.g., 3)"}},
        "required": ["place"],
        "responses": {f"{one}_id": text},
    }
    rater = {
        "api_name": f"{one}Quality",
        "api_description": f"How good one of the {subfield.lower()} is",
        "field": f"{field}/{subfield}",
        "parameters": {f"{one}_id": text},
        "required": [f"{one}_id"],
        "responses": {"stars": {"type": "float", "description": "From 0 to 5"}},
    }
    return [finder, rater]


ALL_TOOLS = [tool for field, subfields in SUBFIELDS.items() for name in subfields for tool in tools_of(field, name)]


class Player:
    """The model.

    Args:
        faults: each spoils the first answer to one question for a request, in turn; asked again, it answers rightly.
        begin: the first of the numbers that its requests are made of.
    """

    def __init__(self, faults: Iterable[Fault] = (), begin: int = 0) -> None:
        self.asked: list[str] = []
        self.begin = begin
        self.faults = list(faults)

    def answer(self, prompt: str) -> str:
        """What it says."""
        self.asked.append(prompt)
        if match := re.search(r'subfields of the field "(\w+)"', prompt):
            return f"Of course:\n```json\n{json.dumps(SUBFIELDS[match[1]])}\n```"
        if match := re.search(r'APIs of the field "(\w+)", subfield "(\w+)"', prompt):
            return "\n\n".join(json.dumps(tool, indent=1) for tool in tools_of(match[1], match[2]))
        if "fields of life and work" in prompt:
            return json.dumps(FIELDS)
        right = self.request(prompt)
        if AGAIN in prompt or not self.faults:
            return json.dumps(right)
        wrong = self.faults.pop(0)(right)
        return wrong if isinstance(wrong, str) else json.dumps(wrong)

    def request(self, prompt: str) -> dict[str, Any]:
        """A request and its calls, of the tools in the question. What is asked again is asked for in other words."""
        names = re.findall(r"^(\w+)\(", prompt, re.MULTILINE)
        word = hashlib.sha256(f"{self.begin + len(self.asked)}".encode()).hexdigest()
        names = names[:2] if "Choose two" in prompt else names
        calls: list[dict[str, Any]] = []
        said = []
        for number, name in enumerate(names, 1):
            tool = next(tool for tool in ALL_TOOLS if tool["api_name"] == name)
            (parameter, *_) = tool["required"]
            value = f"{word[number * 6 : number * 6 + 6]}burg"
            link = re.search(rf"(\$var\d\.\w+\$) can be `{parameter}` of {name}", prompt)
            if link is None:
                said.append(value)
            calls.append({"name": name, "label": f"var{number}", "arguments": {parameter: link[1] if link else value}})
        return {"query": f"Tell me {word[:9]} about {' and '.join(said)} now", "calls": calls}

    def reply(self, hold_at: int | None = None) -> Reply:
        """Answers of a server; the one of this number never comes."""

        async def reply(request: web.BaseRequest) -> web.StreamResponse:
            prompt = json.loads(await request.read())["messages"][-1]["content"]
            if hold_at is not None and len(self.asked) + 1 == hold_at:
                return await hangs()(request)
            return await says(self.answer(prompt))(request)

        return reply


@asynccontextmanager
async def playing(player: Player, hold_at: int | None = None) -> AsyncIterator[ChatServer]:
    """A server behind which it plays."""
    async with serve_chat(player.reply(hold_at)) as server:
        yield server
