"""Whether the answer of a right plan holds the requested outputs, and little else.

The plan makes the right calls, so every requested output exists. The planner chooses which outputs it shows. An output
is covered if it is shown itself, or as part of something larger: the list that contains it, or the whole answer of
its call.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from evals.planning.calls import CallGraph, Link
from evals.planning.matching import Matches, match_calls


class CoverageShares(BaseModel):
    """Measured on plans with the right calls, if the data names the outputs that answer.

    Attributes:
        n: number of such plans.
        all: percent that show all requested outputs.
        only: percent that show all requested outputs and no others, possibly as part of something larger.
        just: percent that show exactly the requested outputs.
    """

    n: int
    all: float
    only: float
    just: float


class AnswerCoverage(BaseModel):
    """The same for one plan; see :class:`CoverageShares`."""

    all: bool
    only: bool
    just: bool


def answer_coverage(
    gold: CallGraph, asked: Sequence[Link], predicted: CallGraph, shown: Sequence[Link]
) -> AnswerCoverage | None:
    """Compare the outputs of a right plan with the requested ones; None if these are not known.

    Args:
        gold: the data's solution.
        asked: its outputs that answer the request.
        predicted: a plan that makes the same calls.
        shown: the plan's outputs.
    """
    if not asked:
        return None
    wanted = {(one.place, one.path) for one in asked}
    matches = match_calls(gold, predicted)
    found = {(_place(one, matches), one.path) for one in shown}
    every = all(any(_holds(one, other) for one in found) for other in wanted)
    beside = any(not any(_holds(one, other) or _holds(other, one) for other in wanted) for one in found)
    return AnswerCoverage(all=every, only=every and not beside, just=found == wanted)


def coverage_shares(judged: Sequence[AnswerCoverage | None]) -> CoverageShares | None:
    """Aggregate; None if nothing is known about any plan."""
    known = [one for one in judged if one is not None]
    if not known:
        return None
    shares = {
        name: round(100 * sum(getattr(one, name) for one in known) / len(known), 2)
        for name in AnswerCoverage.model_fields
    }
    return CoverageShares(n=len(known), **shares)


_Output = tuple[int | None, tuple[str | int, ...]]


def _place(link: Link, matches: Matches) -> int | None:
    """The gold call whose output is meant."""
    return None if link.place is None else matches.get(link.place)


def _holds(one: _Output, other: _Output) -> bool:
    return one[0] is not None and one[0] == other[0] and other[1][: len(one[1])] == one[1]
