"""Values that a change is to set: what it is looked up by is what it is now, not what it will be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.items import Encoded

_TO: Final = re.compile(r"\b(?:to|into)\s+(?:the\s+)?[\"'\u201c\u2018]?$", re.IGNORECASE)
_NEAR: Final = 20
"""Characters before a value that are searched for its preposition."""


def look_up_by_old_values(query: str, apis: Sequence[Encoded], calls: Mapping[int, Sequence[DraftCall]]) -> None:
    """Drop new values from the look-ups that feed a change: "change Ada's mail to a@b.example" looks up Ada.

    A look-up that has no other value keeps it.

    Args:
        query: the request.
        apis: the candidates.
        calls: calls by candidate; arguments of look-ups are removed.
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


def _drop(call: DraftCall, new: set[tuple[int, int]]) -> None:
    said = {name: one.place for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}
    if any(place is not None and place not in new for place in said.values()):
        call.arguments = {name: one for name, one in call.arguments.items() if said.get(name) not in new}
