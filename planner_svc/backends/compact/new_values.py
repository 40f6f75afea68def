"""Values that a change is to set: what a thing is looked up by is what it is now, not what it will be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.items import Encoded
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.profile import Profile
from planner_svc.reading.text import MAX_CHARS, split_name, stem
from services.contracts.api import Location

_TO: Final = re.compile(r"\b(?:to|into)\s+(?:the\s+)?(?:\w{1,20}\s+)?[\"'\u201c\u2018]?$", re.IGNORECASE)
"""What stands before a value that is to be set, which a word for its kind may precede: "to fridge F2"."""
_NEAR: Final = 40
"""Characters before a value that are searched for it."""
_NEW: Final = re.compile(
    r"\b(?:to|as|into)\s+(?:be\s+)?(?:(?:an?|the)\s+)?(?P<new>(?-i:[a-z])[\w-]*)(?=\s*(?:$|[.,;!?)]|and\b|please\b))",
    re.IGNORECASE,
)
"""What something is to become: "as done", "to urgent"."""


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
