"""Several calls of one API from one part of a request: "350 GBP in EUR and 420 CHF in EUR", "codes of A, B and C"."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner_svc.reading.values import HARD, Span

MAX_CALLS = 6
MAX_KINDS = 3

Rows = list[list[Span]]
"""The values of each call."""


def spread(spans: Sequence[Span], used: Sequence[Span]) -> Iterator[Rows]:
    """Ways to share values out between calls of one API, where a single call leaves some of them unused.

    A kind of value that is left over recurs. Each of its values begins a row, or ends one, and what is before the
    first row, or after the last, belongs to all of them; or each is a row and everything else belongs to all.
    """
    hard = [span for span in spans if span.kind in HARD]
    left = [s for s in hard if s.kind != "list" and (s.group or not any(s.overlaps(other) for other in used))]
    for kind in list(dict.fromkeys(_kind(span) for span in left))[:MAX_KINDS]:
        anchors = _apart([span for span in hard if _kind(span) == kind])
        if {anchor.role for anchor in anchors} == {"from", "to"} and len(anchors) == 2:
            continue  # the ends of one pair
        taken = max(len([a for a in anchors if any(a.overlaps(other) for other in used)]), 1)
        yield from _rows(spans, anchors, taken)
    lists = _apart([span for span in hard if span.kind == "list"])
    if any(not any(span.overlaps(other) for other in used) for span in lists):
        yield from _rows(spans, lists, 1)


def _rows(spans: Sequence[Span], anchors: Sequence[Span], each: int) -> Iterator[Rows]:
    """Rows of so many anchors ``each``, as a single call takes."""
    if len(anchors) % each or not 2 <= len(anchors) // each <= MAX_CALLS:
        return
    if each == 1:
        yield _each(spans, anchors)
    yield _begun(spans, anchors[::each])
    yield _ended(spans, anchors[each - 1 :: each])


def _kind(span: Span) -> str:
    """A span's kind; a duration such as "90 minutes" counts as a number."""
    return "number" if span.kind == "duration" else span.kind


def _apart(spans: Sequence[Span]) -> list[Span]:
    """Those that overlap nothing longer."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start - s.end, s.start)):
        if not any(span.overlaps(other) for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def _each(spans: Sequence[Span], anchors: Sequence[Span]) -> Rows:
    rest = [span for span in spans if not any(span.overlaps(anchor) for anchor in anchors)]
    return [[*rest, *_within(spans, anchor.start, anchor.end)] for anchor in anchors]


def _begun(spans: Sequence[Span], anchors: Sequence[Span]) -> Rows:
    starts = [anchor.start for anchor in anchors]
    shared = [span for span in spans if span.end <= starts[0]]
    ends = [*starts[1:], max(span.end for span in spans)]
    return [[*shared, *_within(spans, start, end)] for start, end in zip(starts, ends, strict=True)]


def _ended(spans: Sequence[Span], anchors: Sequence[Span]) -> Rows:
    ends = [anchor.end for anchor in anchors]
    shared = [span for span in spans if span.start >= ends[-1]]
    starts = [min(span.start for span in spans), *ends[:-1]]
    return [[*_within(spans, start, end), *shared] for start, end in zip(starts, ends, strict=True)]


def _within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans between two places; which end of a pair they are is to be read anew."""
    inside = [span for span in spans if start <= span.start and span.end <= end]
    return [replace(span, weak_role=None) for span in inside]
