"""The decoder's input: a request with its candidates, and a parameter of one candidate to fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from planner_svc.backends.compact.demo_hints import DemoHints
from planner_svc.backends.compact.items import Encoded, Item, Kind
from planner_svc.backends.compact.reader import Reading
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.reading.code_kinds import CodeKinds
from planner_svc.reading.profile import Profile, Slot

UNLIKELY: Final = 0.02
"""Smallest probability at which a source of a value is considered."""


@dataclass(frozen=True, slots=True)
class FillRequest:
    """A parameter to fill, for a number of calls of its API.

    ``chosen`` are the candidates that are called in any case. ``taken`` are the words (first and last token) that the
    API's other parameters have, each with that parameter. ``segments`` are the tokens of each call, if there are
    several that can be told apart.
    """

    target: ParameterTarget
    profile: Profile
    times: int
    chosen: Sequence[int]
    taken: list[tuple[tuple[int, int], Slot]]
    segments: Sequence[tuple[int, int]] = ()

    @property
    def number(self) -> int:
        """The API's number among the candidates."""
        return self.target.number

    @property
    def place(self) -> int:
        """The parameter's place among the items."""
        return self.target.place

    @property
    def slot(self) -> Slot:
        """The parameter."""
        return self.target.slot

    @property
    def listed(self) -> bool:
        """Whether it takes only a list."""
        return self.slot.kinds == {"array"}

    def allows(self, value: JsonValue) -> bool:
        """Whether the parameter's schema allows the value."""
        return self.profile.schemas.problem(self.slot.node, value) is None


@dataclass(frozen=True)
class Task:
    """The decoder's input: a request with its candidates, as read by the network.

    Attributes:
        query: the request.
        apis: the candidates, in the order in which the network read them.
        reading: the network's outputs.
        now: the request's clock.
        given: values that the application knows, by argument name.
        hints: what demos show of the candidates.
    """

    query: str
    apis: Sequence[Encoded]
    reading: Reading
    now: datetime
    given: Mapping[str, JsonValue]
    hints: DemoHints = field(default_factory=DemoHints)

    @cached_property
    def code_kinds(self) -> CodeKinds:
        """How the ids of each kind of thing begin, as the candidates' examples show."""
        return CodeKinds(one.profile for one in self.apis)

    def items(self, number: int, kind: Kind) -> Iterator[tuple[int, Item]]:
        """The items of one kind of the candidate with this number, with their places in the reading."""
        numbered = enumerate(self.apis[number].items, self.reading.inputs.first[number])
        return ((place, item) for place, item in numbered if item.kind is kind)
