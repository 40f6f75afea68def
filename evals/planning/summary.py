"""Converts counts to percentages, with intervals and calibration. Every percentage is 0 to 100.

A ratio of nothing to nothing (such as the reference precision of plans without references) is 0. The ``gold`` and
``predicted`` counts beside it distinguish it from a failure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from evals.planning.scoring import Counts, Score

_SEED = 7
_RESAMPLES = 1_000
_BINS = 10
_FLOATS = NDArray[np.float64]


class Ratio(BaseModel):
    """Precision, recall and F1 in percent, over all requests together (micro), and the counts they come from."""

    p: float
    r: float
    f1: float
    right: int
    predicted: int
    gold: int


class Metrics(BaseModel):
    """The metrics over some requests; :mod:`evals.planning.scoring` defines them.

    Attributes:
        n: number of requests.
        format_acc: percent answered in the requested form: a plan, a draft with its questions, or the statement that
            there is no plan. Errors and timeouts do not count.
        pass_rate: percent of the requests that need a call whose plan made the calls of the solution, each after the
            calls it takes values from, and ran without a failed step; None in older reports that did not measure it.
        ran: percent of the requests that need a call whose plan, whatever it calls, ran without a failed step.
    """

    n: int
    format_acc: float
    tool: Ratio
    param: Ratio
    reference: Ratio
    partial_match: float
    full_match: float
    full_match_any_order: float
    pass_rate: float | None = None
    ran: float


class Scores(Metrics):
    """The metrics over a subset. ``runnable`` of its requests need a call."""

    runnable: int


class Published(BaseModel):
    """Tool and parameter as Seal-Tools' own script counts them. A recall may exceed 100 there."""

    tool: Ratio
    param: Ratio


@dataclass(frozen=True, slots=True)
class Judged:
    """One request, judged.

    Attributes:
        score: against the reference solution.
        well_formed: whether there was an answer at all.
        needs_call: whether the reference solution calls anything.
        ran: whether the plan ran to its end.
        confidence: the planner's, 0 to 1; None if it proposed no plan.
        unsure: whether the plan is marked as unsure because of its confidence.
    """

    score: Score
    well_formed: bool
    needs_call: bool
    ran: bool
    confidence: float | None
    unsure: bool = False

    @property
    def sure(self) -> bool:
        """Whether there is a plan that is not marked as unsure."""
        return self.confidence is not None and not self.unsure

    @property
    def passed(self) -> bool:
        """Whether the plan ran to its end and made the wanted calls in a valid order."""
        return self.ran and self.score.made


def summed(judged: Sequence[Judged]) -> Scores:
    """The metrics over these requests; all 0 if there are none."""
    runnable = [one for one in judged if one.needs_call]
    return Scores(
        n=len(judged),
        format_acc=_mean([one.well_formed for one in judged]),
        tool=_ratio([one.score.tool for one in judged]),
        param=_ratio([one.score.param for one in judged]),
        reference=_ratio([one.score.reference for one in judged]),
        partial_match=_mean([one.score.partial for one in judged]),
        full_match=_mean([one.score.full for one in judged]),
        full_match_any_order=_mean([one.score.any_order for one in judged]),
        pass_rate=_mean([one.passed for one in runnable]),
        ran=_mean([one.ran for one in runnable]),
        runnable=len(runnable),
    )


def published(judged: Sequence[Judged]) -> Published:
    """The metrics as Seal-Tools' script counts them."""
    return Published(
        tool=_ratio([one.score.published_tool for one in judged]),
        param=_ratio([one.score.published_param for one in judged]),
    )


def intervals(judged: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """95 % intervals of the main figures: percentiles over resampled requests (bootstrap), seeded."""
    if not judged:
        return {}
    rng = np.random.default_rng(_SEED)
    weights = rng.multinomial(len(judged), np.full(len(judged), 1 / len(judged)), size=_RESAMPLES).astype(np.float64)
    needed = np.array([one.needs_call for one in judged], np.float64)
    passed = np.array([one.passed and one.needs_call for one in judged], np.float64)
    ran = np.array([one.ran and one.needs_call for one in judged], np.float64)
    found: dict[str, _FLOATS] = {
        f"{name}.f1": _resampled_f1(weights, [counts(one.score) for one in judged]) for name, counts in _COUNTED.items()
    }
    found["partial_match"] = weights @ np.array([one.score.partial for one in judged]) / len(judged)
    found["full_match"] = weights @ np.array([one.score.full for one in judged], np.float64) / len(judged)
    found["full_match_any_order"] = weights @ np.array([one.score.any_order for one in judged], float) / len(judged)
    found["pass_rate"] = _divided(weights @ passed, weights @ needed)
    found["ran"] = _divided(weights @ ran, weights @ needed)
    return {name: _bounds(values) for name, values in found.items()}


def calibration_error(judged: Sequence[Judged]) -> float:
    """Expected calibration error of the confidence against the full match, in percent, over the proposed plans.

    Ten bins of equal width (Guo et al. 2017, section 3): the mean distance between a bin's confidence and its share of
    full matches, weighted by the bin's size. 0 if there is no plan.
    """
    confidence, right = _confidences(judged)
    if not len(confidence):
        return 0.0
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    error = 0.0
    for number in range(_BINS):
        inside = bins == number
        if inside.any():
            error += float(inside.mean()) * abs(float(confidence[inside].mean()) - float(right[inside].mean()))
    return _percent(error)


def confident_half(judged: Sequence[Judged]) -> float:
    """Percent of full matches in the half (rounded up) of the proposed plans with the highest confidence."""
    confidence, right = _confidences(judged)
    surest = np.argsort(-confidence, kind="stable")[: math.ceil(len(confidence) / 2)]
    return _mean(right[surest].tolist())


def wrong_and_sure(judged: Sequence[Judged]) -> float:
    """Percent of all requests whose plan is not marked as unsure and is wrong in any order of its calls."""
    return _mean([one.sure and not one.score.any_order for one in judged])


def right_and_unsure(judged: Sequence[Judged]) -> float | None:
    """Percent of the right plans, in any order of their calls, that are marked as unsure; None if there are none."""
    right = [one for one in judged if one.confidence is not None and one.score.any_order]
    return _mean([one.unsure for one in right]) if right else None


def unfit_and_sure(judged: Sequence[Judged]) -> float | None:
    """Percent of the requests that nothing fits that got calls which are not marked; None if there are none."""
    unfit = [one for one in judged if not one.needs_call]
    return _mean([one.sure for one in unfit]) if unfit else None


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    if not seconds:
        return {"p50": 0.0, "p95": 0.0}
    values = np.percentile(np.array(seconds), [50, 95]) * 1e3
    return {"p50": round(float(values[0]), 2), "p95": round(float(values[1]), 2)}


_COUNTED: dict[str, Callable[[Score], Counts]] = {
    "tool": lambda score: score.tool,
    "param": lambda score: score.param,
    "reference": lambda score: score.reference,
}


def _confidences(judged: Sequence[Judged]) -> tuple[_FLOATS, _FLOATS]:
    pairs = [(one.confidence, one.score.full) for one in judged if one.confidence is not None]
    return np.array([pair[0] for pair in pairs], np.float64), np.array([pair[1] for pair in pairs], np.float64)


def _ratio(counts: Sequence[Counts]) -> Ratio:
    total = sum(counts, Counts())
    p, r = _share(total.right, total.predicted), _share(total.right, total.gold)
    return Ratio(
        p=_percent(p),
        r=_percent(r),
        f1=_percent(_share(2 * p * r, p + r)),
        right=total.right,
        predicted=total.predicted,
        gold=total.gold,
    )


def _resampled_f1(weights: _FLOATS, counts: Sequence[Counts]) -> _FLOATS:
    """(resamples,) F1, as 2 right / (predicted + gold)."""
    table = np.array([[one.right, one.predicted + one.gold] for one in counts], np.float64)
    right, both = (weights @ table).T
    return _divided(2 * right, both)


def _divided(values: _FLOATS, by: _FLOATS) -> _FLOATS:
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def _bounds(values: _FLOATS) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return _percent(low), _percent(high)


def _mean(values: Sequence[float]) -> float:
    return _percent(_share(sum(values), len(values)))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _percent(share: float) -> float:
    return round(100 * float(share), 2)
