"""Draft calls: the candidate, its arguments and the source of each, in an order that can be run."""

from __future__ import annotations

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
class Said:
    """A value, the characters of the request that say it (None: no characters do), and its probability."""

    value: JsonValue
    place: tuple[int, int] | None
    sure: float


@dataclass(frozen=True, slots=True)
class Fed:
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


@dataclass(slots=True)
class Drafted:
    """A call: the candidate, its probability and its arguments; ``missing`` are required arguments without a value."""

    api: int
    sure: float
    arguments: dict[str, Said | Fed] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    place: float = 1e9

    @property
    def places(self) -> list[tuple[int, int]]:
        """The characters of the request that say its arguments."""
        said = (one.place for one in self.arguments.values() if isinstance(one, Said))
        return [place for place in said if place is not None]

    def fed_by(self) -> set[int]:
        """The candidates that feed it."""
        return {argument.api for argument in self.arguments.values() if isinstance(argument, Fed)}

    def turn(self, name: str) -> int:
        """The index of the call that feeds an argument, among the calls of the feeding API.

        If two arguments get the same field, such as the code of the start and of the destination, it comes from two
        calls. Arguments of the same end, such as its latitude and longitude, come from one call. The start comes first.
        """
        fed = self.arguments[name]
        if not isinstance(fed, Fed):
            return 0
        beside = [one for one in self.arguments.values() if isinstance(one, Fed) and one.api == fed.api]
        ends = list(dict.fromkeys(one.end for one in sorted(beside, key=lambda one: PLACES[one.role])))
        return ends.index(fed.end) if len(ends) == self.turns(fed.api) else self._repeated(name)

    def turns(self, api: int) -> int:
        """How many calls of an API feed this call."""
        fed = (name for name, one in self.arguments.items() if isinstance(one, Fed) and one.api == api)
        return 1 + max(map(self._repeated, fed), default=0)

    def _repeated(self, name: str) -> int:
        """How many arguments before this one get the same field."""
        fed = self.arguments[name]
        before = list(self.arguments)[: list(self.arguments).index(name)]
        return sum(_from_like(self.arguments[other], fed) for other in before)


def arranged(drafted: Mapping[int, list[Drafted]]) -> list[Drafted]:
    """The calls in an order that can be run, without duplicates. An API that is fed has as many calls as its supplier.

    Args:
        drafted: calls by candidate.
    """
    calls: list[Drafted] = []
    made: dict[int, int] = {}
    for number in _ordered(drafted):
        own = drafted[number]
        shares = [made[api] // own[0].turns(api) for api in own[0].fed_by() if api in made]
        wanted = max(shares, default=1)
        if len(own) == 1 and wanted > 1:
            own = [replace(own[0], arguments=dict(own[0].arguments)) for _ in range(min(wanted, MAX_CALLS))]
        kept: list[Drafted] = []
        for index, call in enumerate(own):
            if (index < wanted and call.fed_by()) or not any(_same(call, other) for other in kept):
                kept.append(call)
        made[number] = len(kept)
        calls += kept
    return calls


def _from_like(one: Said | Fed, other: Said | Fed) -> bool:
    if not isinstance(one, Fed) or not isinstance(other, Fed):
        return False
    return (one.api, one.field.path) == (other.api, other.field.path)


def _same(one: Drafted, other: Drafted) -> bool:
    def plain(call: Drafted) -> dict[str, object]:
        return {
            name: repr(value.value) if isinstance(value, Said) else (value.api, value.field.path)
            for name, value in call.arguments.items()
        }

    return plain(one) == plain(other)


def _ordered(drafted: Mapping[int, list[Drafted]]) -> list[int]:
    """Each candidate after those it needs, otherwise in the request's order; a cycle is cut at the surest candidate."""
    waiting = sorted(drafted, key=lambda number: (min(call.place for call in drafted[number]), number))
    done: list[int] = []
    while waiting:
        free = next((n for n in waiting if _needs(drafted[n]) <= {*done, n} | (_needs(drafted[n]) - {*waiting})), None)
        if free is None:
            free = max(waiting, key=lambda n: min(call.sure for call in drafted[n]))
            _forget(drafted[free], {*waiting} - {free})
        waiting.remove(free)
        done.append(free)
    return done


def _needs(calls: Sequence[Drafted]) -> set[int]:
    return {number for call in calls for number in call.fed_by()}


def _forget(calls: Sequence[Drafted], apis: set[int]) -> None:
    """Drop the arguments that these APIs would feed."""
    for call in calls:
        for name in [name for name, one in call.arguments.items() if isinstance(one, Fed) and one.api in apis]:
            del call.arguments[name]
            call.missing.append(name)
