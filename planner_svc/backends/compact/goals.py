"""Where a change moves something: "from Doing to Done" is Done for an argument that is not the first end of a pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.ranges import MOVED, MOVED_REACH
from planner_svc.reading.text import MAX_CHARS

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_FROM: Final = re.compile(r"\bfrom\s+(?:the\s+)?$", re.IGNORECASE)
_NEAR: Final = 20
_TO: Final = re.compile(r"\s+(?:to|into)\s+(?:the\s+)?", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Z][\w.-]*\w(?:\s+[A-Z][\w.-]*\w)+")
_WORD: Final = r"[^\s,;!?]*[^\s,;!?.]"


def take_goals(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Replace values of a change that say where something is by those that say where it goes.

    An argument for the old value stays, and so does one of several that the two values are for.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    for fill in fills:
        said = call.arguments.get(fill.slot.name)
        if not fill.profile.api.mutating or not isinstance(said, LiteralArgument) or said.place is None:
            continue
        start, end = said.place
        to = _TO.search(query, start, min(end + _NEAR, MAX_CHARS))
        if to is None or to.start() > end or not _is_moved(query, start, fill):
            continue
        place = to.end(), max(end, _end_of_goal(filler, query, to, len(query[start : to.start()].split())))
        value = filler.meaning(fill, *place) if place[0] < place[1] else None
        others = [one for name, one in call.arguments.items() if name != fill.slot.name]
        if value is not None and not any(_is_said_by(one, value, place) for one in others):
            call.arguments[fill.slot.name] = LiteralArgument(value, place, said.sure)


def _is_moved(query: str, start: int, fill: FillRequest) -> bool:
    """Whether these words say where something is. For an end of a pair, a verb has to say that it is moved."""
    if fill.slot.role is None and not fill.listed:
        return _FROM.search(query, max(start - _NEAR, 0), start) is not None
    moved = MOVED.search(query[max(start - MOVED_REACH, 0) : start]) is not None
    return moved and fill.slot.role != "from" and fill.profile.effect == "change"


def _end_of_goal(filler: Filler, query: str, to: re.Match[str], words: int) -> int:
    """Where the goal ends: it is a day, a name of several words, or has as many words as what is left."""
    day = next((last for (first, last), _ in filler.moments.dated() if first <= to.end() < last), None)
    like = re.compile(rf"{_WORD}(?:\s+{_WORD}){{{words - 1}}}")
    found = _NAME.match(query, to.end(), MAX_CHARS) or like.match(query, to.end(), MAX_CHARS)
    return day if day is not None else found.end() if found is not None else to.end()


def _is_said_by(one: object, value: object, place: tuple[int, int]) -> bool:
    """Whether another argument already has the value, or its words."""
    if not isinstance(one, LiteralArgument):
        return False
    return one.value == value or (one.place is not None and one.place[0] < place[1] and place[0] < one.place[1])
