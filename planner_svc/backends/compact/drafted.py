"""Calls on their way to a plan: which candidate, its arguments and where each is from, in an order that can be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from planner_svc.reading.profile import Field


@dataclass(frozen=True, slots=True)
class Said:
    """A value, the characters of the request that say it (None: none do), and how sure that is."""

    value: JsonValue
    place: tuple[int, int] | None
    sure: float


@dataclass(frozen=True, slots=True)
class Fed:
    """A field of another call's answer."""

    api: int
    field: Field
    sure: float


@dataclass(slots=True)
class Drafted:
    """A call: which candidate, how sure, and its arguments; ``missing`` are required and nobody says them."""

    api: int
    sure: float
    arguments: dict[str, Said | Fed] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    place: float = 1e9

    @property
    def places(self) -> list[tuple[int, int]]:
        """The characters that say its arguments."""
        said = (one.place for one in self.arguments.values() if isinstance(one, Said))
        return [place for place in said if place is not None]

    def fed_by(self) -> set[int]:
        """The candidates whose answers it needs."""
        return {argument.api for argument in self.arguments.values() if isinstance(argument, Fed)}


def distinct(calls: list[Drafted]) -> list[Drafted]:
    """Without those that say the same as one before."""
    kept: list[Drafted] = []
    for call in calls:
        if not any(_same(call, other) for other in kept):
            kept.append(call)
    return kept


def _same(one: Drafted, other: Drafted) -> bool:
    def plain(call: Drafted) -> dict[str, object]:
        return {
            name: repr(value.value) if isinstance(value, Said) else (value.api, value.field.path)
            for name, value in call.arguments.items()
        }

    return plain(one) == plain(other)


def ordered(drafted: dict[int, list[Drafted]]) -> list[Drafted]:
    """Each after those it needs, else in the order of the request; a circle is cut where it is least sure."""
    waiting = sorted(drafted, key=lambda number: (min(call.place for call in drafted[number]), number))
    done: list[int] = []
    while waiting:
        free = next((n for n in waiting if _needs(drafted[n]) <= {*done, n} | (_needs(drafted[n]) - {*waiting})), None)
        if free is None:
            free = max(waiting, key=lambda n: min(call.sure for call in drafted[n]))
            _forget(drafted[free], {*waiting} - {free})
        waiting.remove(free)
        done.append(free)
    return [call for number in done for call in drafted[number]]


def _needs(calls: Sequence[Drafted]) -> set[int]:
    return {number for call in calls for number in call.fed_by()}


def _forget(calls: Sequence[Drafted], apis: set[int]) -> None:
    """Drop the arguments that these would feed."""
    for call in calls:
        for name in [name for name, one in call.arguments.items() if isinstance(one, Fed) and one.api in apis]:
            del call.arguments[name]
            call.missing.append(name)
