"""The moments that a request says, by the characters that the network marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Literal

from planner_svc.reading.limits import limit_before
from planner_svc.reading.moments import Moment
from planner_svc.reading.profile import Role
from planner_svc.reading.ranges import is_range, open_in
from planner_svc.reading.readings import whole_moments

Place = tuple[int, int]
"""The first character and the one after the last."""


class SaidMoments:
    """The moments of one request.

    Args:
        query: the request.
        now: the clock that relative dates refer to.
    """

    def __init__(self, query: str, now: datetime) -> None:
        self._query, self._now = query, now

    @cached_property
    def _found(self) -> list[tuple[Place, Moment, bool]]:
        """Each moment's place, and whether it is no part of a sum."""
        found = whole_moments(self._query, self._now)
        return [((one.start, one.end), one.value, not one.part) for one in found if isinstance(one.value, Moment)]

    def at(self, start: int, end: int, *, whole: bool = False) -> Moment | None:
        """The moment that the words say, in context: a time of day belongs to the day said before it.

        Words within a day say that day: "2027" in "the end of 2027". What is before a period is before its first day,
        what is after it after its last. ``whole``: a day or a time that is a part of a moment is all of it: "9am" in
        "Monday at 9am".
        """
        best, shared = None, 0.5
        for (first, last), moment, is_whole in self._found:
            if whole and is_whole and moment.clock is not None and first <= start and end <= last:
                return moment
            common = min(end, last) - max(start, first)
            share = common / (max(end, last) - min(start, first))
            if share > shared:
                best, shared = moment, share
        if best is None:
            around = (one for place, one, _ in self._found if place[0] <= start and end <= place[1])
            best = next((one for one in around if one.clock is None), None)
        if best is None or best.last is None or (side := self.side(start)) is None:
            return best
        return replace(best, day=best.day if side == "before" else best.last, last=None)

    def side(self, start: int) -> Literal["before", "after"] | None:
        """Whether the request says what is before or after a moment, which it then leaves out; None if neither."""
        limit = limit_before(self._query, start, moment=True)
        return None if limit is None or not limit.outside else "before" if limit.end == "to" else "after"

    def dated(self) -> list[tuple[Place, Moment]]:
        """The moments with a day, each with its place, in order; none is a part of another."""
        whole = [(place, one) for place, one, _ in self._found if one.day is not None]
        return [
            (place, one)
            for place, one in whole
            if not any(other != place and other[0] <= place[0] and place[1] <= other[1] for other, _ in whole)
        ]

    def touches(self, start: int, end: int) -> bool:
        """Whether one of the characters is a moment's."""
        return any(first < end and start < last for (first, last), _, _ in self._found)

    def is_over(self, moment: Moment) -> bool:
        """Whether a period ended before today."""
        return moment.last is not None and moment.last < self._now.date()

    def has_part(self, start: int, end: int) -> bool:
        """Whether the characters are a part of a moment's, and not all of them."""
        places = (place for place, moment, is_whole in self._found if is_whole and moment.day is not None)
        return any(first <= start and end <= last and (start, end) != (first, last) for first, last in places)

    def over(self, moment: Moment | None, start: int, end: int) -> Moment | None:
        """The moment, a year or a week earlier if the words of its day leave it open and it is then nearer to today."""
        if moment is None or moment.day is None or moment.day <= self._now.date():
            return moment
        today, places = self._now.date(), [place for place, one, _ in self._found if one.day == moment.day]
        here = [place for place in places if place[0] < end and start < place[1]]
        steps = (open_in(self._query, *place) for place in [(start, end), *(here or places)])
        back = next((step for step in steps if step is not None), None)
        if back is None:
            return moment
        earlier = replace(moment, day=moment.day - back, last=moment.last and moment.last - back)
        since = earlier.last_day().day
        return earlier if since is not None and timedelta() <= today - since <= moment.day - today else moment

    def ranges(self) -> Iterator[tuple[Place, Place]]:
        """The first and the last end of each range: "from 2 through 15 November"."""
        whole = [place for place, _, is_whole in self._found if is_whole]
        return ((first, last) for first, last in pairwise(whole) if is_range(self._query, first, last))

    def other_end(self, place: Place, role: Role) -> Place | None:
        """The characters of a range's other end, if the moment at these is one end."""
        for first, last in self.ranges():
            here, there = (first, last) if role == "from" else (last, first)
            if place[0] < here[1] and here[0] < place[1]:
                return there
        return None
