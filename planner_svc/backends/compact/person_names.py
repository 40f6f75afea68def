"""Splits a person's full name between the arguments for the first and for the last name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.reading.profile import Profile, Slot

_FIRST: Final = re.compile(r"(?P<of>.*?)\b(?:first|given|fore) ?name")
_LAST: Final = re.compile(r"(?P<of>.*?)\b(?:last|family|sur) ?name")
_GAP: Final = re.compile(r"\s+")
_TITLE: Final = re.compile(r"(?:mrs?|ms|miss|dr|prof|professor)\b\.?\s+", re.IGNORECASE)
_PARTICLES: Final = re.compile(
    r"\s+(?:(?:van|von|vom|zu|zum|zur|de|del|della|der|den|di|da|dal|das|do|dos|du|la|le|el|al|bin|ibn|ben|ten|ter)\s+)+",
    re.IGNORECASE,
)
_MIDDLE: Final = re.compile(r"(?:\s+[A-Z][\w'\u2019-]*\.?)+\s+")
"""Other names between the first and the last one."""

Place = tuple[int, int]
"""The first character and the one after the last."""


def split_full_name(call: DraftCall, profile: Profile, query: str) -> None:
    """Give each of two arguments its part of a name: the first name its first word, the last name the rest.

    Only arguments count that are required, or that a changing call stores. If both say the same words, they are cut; if
    one says only the beginning or the end of the other's, the other keeps what is left. What is between the two belongs
    to the last name if it is a particle ("van"), otherwise to the first. If there is only one name, the other argument
    is missing: the last name, or after a title ("Dr Wood") the first.

    Args:
        call: the call; its arguments are changed.
        profile: its API.
        query: the request.
    """
    changes = profile.api.mutating
    texts = [
        slot for slot in profile.slots if (slot.required or changes) and "string" in slot.kinds and not slot.choices
    ]
    for first, last in _pairs(texts):
        one, other = call.arguments.get(first.name), call.arguments.get(last.name)
        if not isinstance(one, LiteralArgument) or not isinstance(other, LiteralArgument):
            continue
        if one.place is None or other.place is None:
            continue
        cut = _cut(one.place, other.place, query)
        if cut is None and one.place == other.place:
            nobody = first if _TITLE.match(query, *one.place) else last
            del call.arguments[nobody.name]
            call.missing += [nobody.name] if nobody.required else []
        for slot, place in zip((first, last), cut or (), strict=False):
            value = query[slice(*place)]
            if profile.schemas.problem(slot.node, value) is None:
                call.arguments[slot.name] = LiteralArgument(value, place, min(one.sure, other.sure))


def _pairs(slots: Sequence[Slot]) -> list[tuple[Slot, Slot]]:
    """The arguments for the first and the last name of one person."""
    firsts = [(found["of"], slot) for slot in slots if (found := _FIRST.fullmatch(slot.said.lower()))]
    lasts = {found["of"]: slot for slot in slots if (found := _LAST.fullmatch(slot.said.lower()))}
    return [(slot, lasts[of]) for of, slot in firsts if of in lasts]


def _cut(first: Place, last: Place, query: str) -> tuple[Place, Place] | None:
    """The characters of the first and of the last name; None if the two are not said by one name of several words."""
    start, end = min(first[0], last[0]), max(first[1], last[1])
    title = _TITLE.match(query, start, end)
    begins = title.end() if title is not None else start
    if first == last:
        gap = _GAP.search(query, begins, end)
        return ((begins, gap.start()), (gap.end(), end)) if gap is not None else None
    beside = _GAP.match(query, first[1], end) if first[0] == last[0] else None
    if beside is not None:
        return first, (beside.end(), end)
    between = query[first[1] : last[0]]
    if _PARTICLES.fullmatch(between):
        return first, (first[1] + len(between) - len(between.lstrip()), last[1])
    if _MIDDLE.fullmatch(between):
        return (first[0], first[1] + len(between.rstrip())), last
    if first[1] == last[1] and query[begins : last[0]].strip():
        return (begins, begins + len(query[begins : last[0]].rstrip())), last
    return None
