"""Where a change moves something: "from A1 to B7" is B7 for an argument that is no end of a pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.task import FillRequest

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_FROM: Final = re.compile(r"\bfrom\s+(?:the\s+)?$", re.IGNORECASE)
_NEAR: Final = 20
_WORD: Final = r"[^\s,;!?]*[^\s,;!?.]"


def take_goals(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Replace values of a change that say where something is by those that say where it goes.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    for fill in fills:
        said = call.arguments.get(fill.slot.name)
        if not fill.profile.api.mutating or fill.slot.role is not None or fill.listed:
            continue
        if not isinstance(said, LiteralArgument) or said.place is None:
            continue
        start, end = said.place
        words = len(query[start:end].split())
        goal = re.compile(rf"\s+(?:to|into)\s+(?:the\s+)?(?P<goal>{_WORD}(?:\s+{_WORD}){{{words - 1}}})").match(
            query, end
        )
        if goal is None or not _FROM.search(query, max(start - _NEAR, 0), start):
            continue
        place = goal.span("goal")
        value = filler.meaning(fill, *place)
        if value is not None and not any(first < place[1] and place[0] < last for first, last in call.places):
            call.arguments[fill.slot.name] = LiteralArgument(value, place, said.sure)
