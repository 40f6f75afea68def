"""The tasks of each stage: the question to the model, and what to accept of an answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from services.clients.chat import Message
from training.instruct import prompts
from training.instruct.requests import Kind, check_request, read_request
from training.instruct.tool_sampler import Offer
from training.instruct.tools import Names, check_field, check_tool, read_names, read_tools
from training.shared.leaks import NearDuplicates

_KNOWN: Final = 100
"""How many existing names the prompt lists: the last ones."""
_LIKE: Final = 5
"""How many requests for the same tools the prompt lists."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Asks for fields, each time with two other examples."""

    want: int
    names: Names
    rng: random.Random
    key: str = "fields"

    def prompt(self, found: Sequence[JsonValue], why: str) -> list[Message]:
        """Ask for the missing ones, 20 at a time."""
        count = min(self.want - len(found), 20)
        return prompts.fields_prompt(count, self.rng.sample(prompts.SEEDS, 2), _last(found), why)

    def read(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """Names."""
        return read_names(values)

    def check(self, value: JsonValue) -> JsonValue:
        """A new name."""
        return check_field(value, self.names)


@dataclass(frozen=True, slots=True)
class Subfields:
    """Asks for subfields of a field."""

    want: int
    field: str
    names: Names

    @property
    def key(self) -> str:
        """The key of the field."""
        return f"subfields/{self.field}"

    def prompt(self, found: Sequence[JsonValue], why: str) -> list[Message]:
        """Ask for the missing ones, 20 at a time."""
        return prompts.subfields_prompt(min(self.want - len(found), 20), self.field, _last(found), why)

    def read(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """Names."""
        return read_names(values)

    def check(self, value: JsonValue) -> JsonValue:
        """A new name."""
        return check_field(value, self.names)


@dataclass(frozen=True, slots=True)
class Tools:
    """Asks for tools of a subfield. Names are unique across all subfields."""

    want: int
    field: str
    subfield: str
    names: Names

    @property
    def key(self) -> str:
        """The key of field and subfield."""
        return f"tools/{self.field}/{self.subfield}"

    def prompt(self, found: Sequence[JsonValue], why: str) -> list[Message]:
        """Ask for the missing ones, 5 at a time."""
        known = [one["api_name"] for one in found if isinstance(one, dict)]
        return prompts.tools_prompt(min(self.want - len(found), 5), self.field, self.subfield, _last(known), why)

    def read(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """Tools."""
        return read_tools(values)

    def check(self, value: JsonValue) -> JsonValue:
        """A new tool."""
        return check_tool(value, self.field, self.subfield, self.names)


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for one request with its calls.

    Attributes:
        kind: of request.
        number: among its kind, from 0.
        offer: tools to use.
        asked: all requests.
        like: existing requests for the same tools.
    """

    kind: Kind
    number: int
    offer: Offer
    asked: NearDuplicates
    like: list[str] = field(default_factory=list)
    want: int = 1

    @property
    def key(self) -> str:
        """The key of kind and number."""
        return f"{self.kind}/{self.number}"

    def prompt(self, found: Sequence[JsonValue], why: str) -> list[Message]:
        """Ask for it."""
        tone = prompts.TONES[self.number % len(prompts.TONES)]
        offer = self.offer
        return prompts.request_prompt(self.kind, offer.lines, offer.links, tone, self.like[-_LIKE:], why)

    def read(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """One request."""
        return read_request(values)

    def check(self, value: JsonValue) -> JsonValue:
        """A new request that is solved by its calls."""
        checked = check_request(value, self.kind, self.offer, self.asked)
        self.like.append(str(checked["query"]))
        return checked


def _last(names: Sequence[JsonValue]) -> list[str]:
    return [str(name) for name in names[-_KNOWN:]]
