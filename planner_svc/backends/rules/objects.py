"""Arguments that are objects, or lists of them, put together from single values: "2 pieces of PX-20931", "under 50"."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic import JsonValue

from planner_svc.backends.rules.fit import Fit, Fitter
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.values import Span

ENOUGH = 0.4
MAX_ITEMS = 20


@dataclass(frozen=True, slots=True)
class Built:
    """An object or a list of objects, the values it is made of, and how sure they are."""

    value: JsonValue
    used: tuple[Span, ...]
    score: float


def build(fitter: Fitter, profile: Profile, slot: Slot, free: Sequence[Span]) -> Built | None:
    """The argument's value from what is free, or None where too little is said or its schema refuses it."""
    members = _items(fitter, profile, slot, free) if "array" in slot.kinds else _one(fitter, profile, slot, free)
    objects = [{child.name: fit.value for child, fit in item} for item in members if item]
    if not objects:
        return None
    value: JsonValue = list(objects) if "array" in slot.kinds else objects[0]
    if profile.schemas.problem(slot.node, value) is not None:
        return None
    fits = [fit for item in members for _, fit in item]
    return Built(value, tuple(fit.span for fit in fits), min(fit.score for fit in fits))


def _items(fitter: Fitter, profile: Profile, slot: Slot, free: Sequence[Span]) -> list[list[tuple[Slot, Fit]]]:
    """An item for each value of the most telling member, with the other values that stand next to it."""
    telling = sorted((c for c in slot.children if c.required), key=lambda c: (not c.specific, not c.shapes))
    if not telling:
        return []
    anchors = list(
        _apart(fit for span in free if (fit := fitter.fit(profile, telling[0], span)) and fit.score >= ENOUGH)
    )
    places = [0, *(fit.span.end for fit in anchors[:MAX_ITEMS])]
    following = [*(fit.span.start for fit in anchors[1:]), max((s.end for s in free), default=0)]
    items = []
    for (start, end), anchor, next_start in zip(pairwise(places), anchors, following, strict=False):
        near = [s for s in free if start <= s.start and s.end <= end and not s.overlaps(anchor.span)]
        after = [s for s in free if s.start >= end and s.end <= next_start]
        others = [child for child in slot.children if child is not telling[0]]
        items.append([(telling[0], anchor), *_filled(fitter, profile, others, near[::-1] or after)])
    return items


def _apart(fits: Iterator[Fit]) -> Iterator[Fit]:
    """In order, the best of those that overlap."""
    kept: list[Fit] = []
    for fit in sorted(fits, key=lambda fit: -fit.score):
        if not any(fit.span.overlaps(other.span) for other in kept):
            kept.append(fit)
    yield from sorted(kept, key=lambda fit: fit.span.start)


def _one(fitter: Fitter, profile: Profile, slot: Slot, free: Sequence[Span]) -> list[list[tuple[Slot, Fit]]]:
    """An object whose members are the ends of a range, each said with a word for its end ("at least", "under")."""
    ends = [child for child in slot.children if child.role is not None]
    return [list(_filled(fitter, profile, ends, [span for span in free if span.role is not None]))]


def _filled(
    fitter: Fitter, profile: Profile, slots: Sequence[Slot], spans: Sequence[Span]
) -> Iterator[tuple[Slot, Fit]]:
    taken: list[Span] = []
    for slot in slots:
        fits = [fit for span in spans if (fit := fitter.fit(profile, slot, span)) and fit.score >= ENOUGH]
        fits = [fit for fit in fits if not any(fit.span.overlaps(span) for span in taken)]
        if fits:
            best = max(fits, key=lambda fit: fit.score)
            taken.append(best.span)
            yield slot, best
