"""Splits a request among several calls of one API: the words of a call are contiguous, and calls follow each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planner_svc.backends.compact.task import UNLIKELY

Span = tuple[int, int, float]
"""First and last token of a possible value, and its probability."""

_MAX_SPANS: Final = 24
"""Spans at which a call may begin: the likeliest ones."""


def segments(parameters: Sequence[Sequence[Span]], times: int) -> list[tuple[int, int]]:
    """The range of tokens of each call, up to the next call's start; empty if the calls cannot be told apart.

    Args:
        parameters: possible values of each parameter, surest parameter first. Within a call, a word says one parameter
            only.
        times: how often the API is called.
    """
    if not any(len(spans) > 1 for spans in parameters):
        return []
    likeliest = sorted((one for spans in parameters for one in spans), key=lambda one: -one[2])[:_MAX_SPANS]
    starts = sorted({first for first, _, _ in likeliest})
    ends = [*starts[1:], math.inf]
    score: dict[tuple[int, int], float] = {}
    for i, start in enumerate(starts):
        for j in range(i, len(starts)):
            score[i, j] = _score(parameters, start, ends[j])
    best: list[dict[int, tuple[float, int]]] = [{-1: (0.0, -1)}]
    for _ in range(times):
        reached: dict[int, tuple[float, int]] = {}
        for last, (so_far, _) in best[-1].items():
            for j in range(last + 1, len(starts)):
                total = so_far + score[last + 1, j]
                if j not in reached or total > reached[j][0]:
                    reached[j] = (total, last)
        best.append(reached)
    at = len(starts) - 1
    if at not in best[-1]:
        return []
    found: list[tuple[int, int]] = []
    for row in reversed(best[1:]):
        before = row[at][1]
        found.append((starts[before + 1], int(ends[at]) if at + 1 < len(starts) else 1_000_000))
        at = before
    return found[::-1]


def _score(parameters: Sequence[Sequence[Span]], start: int, end: float) -> float:
    """Log-probability that these tokens say one call. A parameter without a value here costs the most."""
    total, taken = 0.0, list[Span]()
    for spans in parameters:
        free = [one for one in spans if start <= one[0] < end and not any(_overlap(one, other) for other in taken)]
        best = max(free, key=lambda one: one[2], default=None)
        if best is None or best[2] <= UNLIKELY:
            total += math.log(UNLIKELY)
        else:
            total += math.log(best[2])
            taken.append(best)
    return total


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
