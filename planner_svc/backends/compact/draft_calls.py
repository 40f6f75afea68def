"""Draft calls: the candidate, its arguments and the source of each, in an order that can be run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.profile import Field, Role

MAX_CALLS: Final = 8
"""Most calls of one API, if each uses another call's answer."""
PLACES: Final[Mapping[Role | None, int]] = {"from": 0, None: 1, "to": 2}
"""The order of the ends of a pair."""


@dataclass(frozen=True, slots=True)
class LiteralArgument:
    """A value, the characters of the request that say it (None: no characters do), and its probability."""

    value: JsonValue
    place: tuple[int, int] | None
    sure: float


@dataclass(frozen=True, slots=True)
class ReferenceArgument:
    """A field of another call's answer.

    Attributes:
        end: the words of the parameter's name that the field's name lacks. They tell which of several things it belongs
            to, such as "drop off" for ``drop_off_latitude``.
        role: the end of a pair that the parameter is.
    """

    api: int
    field: Field
    sure: float
    end: tuple[str, ...] = ()
    role: Role | None = None


Argument = LiteralArgument | ReferenceArgument


@dataclass(slots=True)
class DraftCall:
    """A call.

    Attributes:
        api: the candidate.
        sure: its probability.
        arguments: its arguments by name.
        missing: required arguments without a value.
        place: the first character of the request that says an argument.
        named: the first character of the request that names the API, if no other call's API has that word.
    """

    api: int
    sure: float
    arguments: dict[str, Argument] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    place: float = math.inf
    named: float = math.inf

    @property
    def places(self) -> list[tuple[int, int]]:
        """The characters of the request that say its arguments."""
        said = (one.place for one in self.arguments.values() if isinstance(one, LiteralArgument))
        return [place for place in said if place is not None]

    def fed_by(self) -> set[int]:
        """The candidates that feed it."""
        return {argument.api for argument in self.arguments.values() if isinstance(argument, ReferenceArgument)}

    def producer_index(self, name: str) -> int:
        """The index of the call that feeds an argument, among the calls of the feeding API.

        If two arguments get the same field, such as the code of the start and of the destination, it comes from two
        calls. Arguments of the same end, such as its latitude and longitude, come from one call. The start comes first.
        """
        fed = self.arguments[name]
        if not isinstance(fed, ReferenceArgument):
            return 0
        beside = [one for one in self.arguments.values() if isinstance(one, ReferenceArgument) and one.api == fed.api]
        ends = list(dict.fromkeys(one.end for one in sorted(beside, key=lambda one: PLACES[one.role])))
        return ends.index(fed.end) if len(ends) == self.producer_count(fed.api) else self._repeated(name)

    def producer_count(self, api: int) -> int:
        """How many calls of an API feed this call."""
        fed = (name for name, one in self.arguments.items() if isinstance(one, ReferenceArgument) and one.api == api)
        return 1 + max(map(self._repeated, fed), default=0)

    def _repeated(self, name: str) -> int:
        """How many arguments before this one get the same field."""
        fed = self.arguments[name]
        before = list(self.arguments)[: list(self.arguments).index(name)]
        return sum(_from_like(self.arguments[other], fed) for other in before)


def in_running_order(by_candidate: Mapping[int, list[DraftCall]]) -> list[DraftCall]:
    """The calls in an order that can be run, without duplicates. An API that is fed has as many calls as its supplier.

    Args:
        by_candidate: calls by candidate.
    """
    calls: list[DraftCall] = []
    made: dict[int, int] = {}
    for number in _ordered(by_candidate):
        own = by_candidate[number]
        shares = [made[api] // own[0].producer_count(api) for api in own[0].fed_by() if api in made]
        wanted = max(shares, default=1)
        if len(own) == 1 and wanted > 1:
            own = [replace(own[0], arguments=dict(own[0].arguments)) for _ in range(min(wanted, MAX_CALLS))]
        kept: list[DraftCall] = []
        for index, call in enumerate(own):
            if (index < wanted and call.fed_by()) or not any(_same(call, other) for other in kept):
                kept.append(call)
        made[number] = len(kept)
        calls += kept
    return calls


def _from_like(one: Argument, other: Argument) -> bool:
    if not isinstance(one, ReferenceArgument) or not isinstance(other, ReferenceArgument):
        return False
    return (one.api, one.field.path) == (other.api, other.field.path)


def _same(one: DraftCall, other: DraftCall) -> bool:
    def plain(call: DraftCall) -> dict[str, object]:
        return {
            name: repr(value.value) if isinstance(value, LiteralArgument) else (value.api, value.field.path)
            for name, value in call.arguments.items()
        }

    return plain(one) == plain(other)


def _ordered(by_candidate: Mapping[int, list[DraftCall]]) -> list[int]:
    """Each candidate after those it needs, otherwise in the request's order; a cycle is cut at the surest candidate."""

    def place(number: int) -> tuple[float, float, int]:
        said, named = min((call.place, call.named) for call in by_candidate[number])
        return said if math.isfinite(said) else named, named, number

    waiting = sorted(by_candidate, key=place)
    done: list[int] = []
    while waiting:
        ready = next(
            (n for n in waiting if _needs(by_candidate[n]) <= {*done, n} | (_needs(by_candidate[n]) - {*waiting})), None
        )
        if ready is None:
            ready = max(waiting, key=lambda n: min(call.sure for call in by_candidate[n]))
            _drop_references_to(by_candidate[ready], {*waiting} - {ready})
        waiting.remove(ready)
        done.append(ready)
    return done


def _needs(calls: Sequence[DraftCall]) -> set[int]:
    return {number for call in calls for number in call.fed_by()}


def _drop_references_to(calls: Sequence[DraftCall], apis: set[int]) -> None:
    """Drop the arguments that these APIs would feed."""
    for call in calls:
        for name in [
            name for name, one in call.arguments.items() if isinstance(one, ReferenceArgument) and one.api in apis
        ]:
            del call.arguments[name]
            call.missing.append(name)
