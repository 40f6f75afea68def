"""Whether the answer of a right plan tells what was asked: all of it, and little else.

The plan's calls are the wanted ones, so each output that is asked for is there; which of them are shown is what the
planner chose. An output is told where it is shown itself, or where something that holds it is: the list that it is in,
the whole answer of its call.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from evals.planning.calls import CallGraph, Link
from evals.planning.matching import Matches, match_calls


class Telling(BaseModel):
    """Of the plans whose calls are right, where the data says which outputs answer.

    Attributes:
        n: such plans.
        all: percent that tell all that is asked.
        only: percent that tell all that is asked and nothing beside it, be it as a part of something that holds it.
        just: percent that tell just the outputs that are asked for.
    """

    n: int
    all: float
    only: float
    just: float


class Told(BaseModel):
    """Of one plan; :class:`Telling` says what each is."""

    all: bool
    only: bool
    just: bool


def told(gold: CallGraph, asked: Sequence[Link], predicted: CallGraph, shown: Sequence[Link]) -> Told | None:
    """Compare what a right plan answers with what was asked for; None where that is not known.

    Args:
        gold: the data's solution.
        asked: its outputs that answer.
        predicted: a plan that makes the same calls.
        shown: its outputs.
    """
    if not asked:
        return None
    wanted = {(one.place, one.path) for one in asked}
    matches = match_calls(gold, predicted)
    found = {(_place(one, matches), one.path) for one in shown}
    every = all(any(_holds(one, other) for one in found) for other in wanted)
    beside = any(not any(_holds(one, other) or _holds(other, one) for other in wanted) for one in found)
    return Told(all=every, only=every and not beside, just=found == wanted)


def telling(judged: Sequence[Told | None]) -> Telling | None:
    """Sum up; None where it is known of no plan."""
    known = [one for one in judged if one is not None]
    if not known:
        return None
    shares = {name: round(100 * sum(getattr(one, name) for one in known) / len(known), 2) for name in Told.model_fields}
    return Telling(n=len(known), **shares)


_Output = tuple[int | None, tuple[str | int, ...]]


def _place(link: Link, matches: Matches) -> int | None:
    """The gold call whose output is meant."""
    return None if link.place is None else matches.get(link.place)


def _holds(one: _Output, other: _Output) -> bool:
    return one[0] is not None and one[0] == other[0] and other[1][: len(one[1])] == one[1]
