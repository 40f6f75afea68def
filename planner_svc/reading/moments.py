"""Moments and durations that a request says."""

from dataclasses import dataclass, replace
from datetime import date, time, tzinfo
from typing import Literal

Grain = Literal["time", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time or a period: ``day`` is its first day, ``last`` its last day if it has several."""

    grain: Grain
    day: date | None = None
    last: date | None = None
    clock: time | None = None
    zone: tzinfo | None = None
    """Set only if the words name an offset."""

    def last_day(self) -> "Moment":
        """The last day of a period; the moment itself if it is none."""
        return self if self.last is None else replace(self, day=self.last)


@dataclass(frozen=True, slots=True)
class Duration:
    """``amount`` of a unit; negative if the words go back in time."""

    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Found:
    """A moment or duration and its place. ``part`` marks a sum of a date and durations, or the date inside a sum."""

    start: int
    end: int
    value: Moment | Duration
    part: Literal["", "sum", "term"] = ""
