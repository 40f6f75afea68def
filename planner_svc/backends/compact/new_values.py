"""Values that a change is to set: what a thing is looked up by is what it is now, not what it will be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.items import Encoded
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.profile import Profile
from planner_svc.reading.ranges import MOVED, MOVED_REACH
from planner_svc.reading.text import MAX_CHARS, split_name, stem
from services.contracts.api import Location

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_TO: Final = re.compile(r"\b(?:to|into)\s+(?:the\s+)?[\"'\u201c\u2018]?$", re.IGNORECASE)
_NEAR: Final = 20
"""Characters before a value that are searched for its preposition."""
_MOVED_TO: Final = re.compile(r"\s+(?:to|into)\s+(?:the\s+)?", re.IGNORECASE)
_NAMED: Final = re.compile(r"[A-Z][\w.-]*\w(?:\s+[A-Z][\w.-]*\w)*|[^\s,;.!?]+")
"""A name of one or more words, or one word."""
_NEW: Final = re.compile(
    r"\b(?:to|as|into)\s+(?:be\s+)?(?:(?:an?|the)\s+)?(?P<new>(?-i:[a-z])[\w-]*)(?=\s*(?:$|[.,;!?)]|and\b|please\b))",
    re.IGNORECASE,
)
"""What something is to become: "as done", "to urgent"."""


def take_new_values(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Set what is moved from one value to another to the other: "move task 5 from Doing to Done" sets the list Done.

    An argument for the old value stays, and so does one of several that the two values are for.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    for fill in fills if fills and fills[0].profile.effect == "change" else ():
        old = call.arguments.get(fill.slot.name)
        if fill.slot.role == "from" or not isinstance(old, LiteralArgument) or old.place is None:
            continue
        start, end = old.place
        to = _MOVED_TO.search(query, start, min(end + _NEAR, MAX_CHARS))
        if to is None or to.start() > end or MOVED.search(query[max(start - MOVED_REACH, 0) : start]) is None:
            continue
        days = (day[1] for day, _ in filler.moments.dated() if day[0] <= to.end() < day[1])
        named = _NAMED.match(query, to.end(), MAX_CHARS)
        place = to.end(), max(end, next(days, named.end() if named is not None else end))
        value = filler.meaning(fill, *place) if place[0] < place[1] else None
        has = (one.value for one in call.arguments.values() if isinstance(one, LiteralArgument))
        if value is not None and value not in has:
            call.arguments[fill.slot.name] = LiteralArgument(value, place, old.sure)


def drop_other_options(query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Drop options that the request does not name from a change for which it says another new value.

    "Set truck 5 to broken" sets none of the states "available" and "on tour"; which one is meant, the user is asked.

    Args:
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    if not fills or fills[0].profile.effect != "change":
        return
    known = fills[0].profile.title.union(*(fill.slot.words for fill in fills))
    said = [one for one in _NEW.finditer(query[:MAX_CHARS]) if stem(one["new"]) not in known]
    new = {stem(one["new"]) for one in said if not any(one.start("new") < b and a < one.end() for a, b in call.places)}
    for fill in fills if new else ():
        chosen = call.arguments.get(fill.slot.name)
        if not fill.slot.choices or not isinstance(chosen, LiteralArgument) or chosen.place is not None:
            continue
        if new.isdisjoint(map(stem, split_name(str(chosen.value)))):
            del call.arguments[fill.slot.name]
            call.missing += [fill.slot.name] if fill.slot.required else []


def tell_old_from_new_values(query: str, apis: Sequence[Encoded], calls: Mapping[int, Sequence[DraftCall]]) -> None:
    """Drop new values from the look-ups that feed a change, and from the change what its thing is looked up by.

    "Change Ada's mail to a@b.example" looks up Ada; a look-up that has no other value keeps it. "Close the free berths"
    sets no berth's status to free.

    Args:
        query: the request.
        apis: the candidates.
        calls: calls by candidate; arguments are removed.
    """
    for number, own in calls.items():
        if not apis[number].profile.api.mutating:
            continue
        for supplier in {need for call in own for need in call.fed_by()}:
            if apis[supplier].profile.api.mutating:
                continue
            new = {place for call in own for place in call.places if _TO.search(query[: place[0]][-_NEAR:])}
            for look_up in calls.get(supplier, ()):
                _drop(look_up, new)
                for call in own:
                    _drop_old(call, apis[number].profile, look_up)


def _drop(call: DraftCall, new: set[tuple[int, int]]) -> None:
    said = {name: one.place for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}
    if any(place is not None and place not in new for place in said.values()):
        call.arguments = {name: one for name, one in call.arguments.items() if said.get(name) not in new}


def _drop_old(call: DraftCall, profile: Profile, look_up: DraftCall) -> None:
    """Drop what has the same name and value in the look-up of what a change's path names: it is so already."""
    slots = {slot.name: slot for slot in profile.slots}
    fed = (slots[name] for name, one in call.arguments.items() if isinstance(one, ReferenceArgument))
    if not any(slot.parameter.location is Location.PATH for slot in fed):
        return
    for name, one in list(call.arguments.items()):
        known = look_up.arguments.get(name)
        if not isinstance(one, LiteralArgument) or not isinstance(known, LiteralArgument):
            continue
        if one.value == known.value and slots[name].parameter.location is Location.BODY:
            del call.arguments[name]
            if slots[name].required:
                call.missing.append(name)
