"""Which words of a request are left for an argument where others have some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner_svc.reading.profile import Slot

MAX_VALUES: Final = 12
Span = tuple[int, int]
"""The first and the last token of some words."""


def may_share(slot: Slot, other: Slot) -> bool:
    """Whether the same words may say two arguments of a call: they are named alike, or are ends of a period."""
    ends = (slot.temporal and other.temporal) or (slot.role is not None and other.role is not None)
    return ends or not set(slot.words).isdisjoint(other.words)


def overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Whether words share a token with others."""
    return any(first <= span[1] and span[0] <= last for first, last in others)


def says_no_more(query: str, offsets: Sequence[tuple[int, int]], span: Span, other: Span) -> bool:
    """Whether words share a token with others and have no word besides them, as "bus route 10" has besides "bus".

    Args:
        query: the request.
        offsets: start and end characters of each token.
        span: the words.
        other: the others.
    """
    if not overlaps(span, [other]):
        return False
    if not (span[0] <= other[0] and other[1] <= span[1]):
        return True
    more = (offsets[at] for at in range(span[0], span[1] + 1) if not other[0] <= at <= other[1])
    return not any(query[start:end].isalnum() for start, end in more)


def non_overlapping(weighed: Sequence[tuple[Span, float]]) -> list[tuple[int, int, float]]:
    """The words, likeliest first, that share no token with earlier ones."""
    found: list[tuple[int, int, float]] = []
    for span, likely in weighed:
        if not overlaps(span, [one[:2] for one in found]):
            found.append((*span, likely))
    return found[:MAX_VALUES]
