"""A bar chart of the number of runs over time. Each bar links to its runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.console.pages import with_query
from gateway.console.session import PATH
from gateway.console.status import STATE_STYLES
from services.contracts.run import RunStatus

INTERVALS: Final = 24
HEIGHT: Final = 100
_TONES: Final = ("good", "info", "warn", "mute", "bad")
"""From the bottom of a bar to its top."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The runs of one interval.

    Attributes:
        path: the path of the list of these runs; empty if there are none.
        said: the number of runs of each state, as text.
        parts: from bottom to top: the colour's name, the distance of the upper end from the top of the chart, and the
            height. The chart is `HEIGHT` high.
    """

    begin: datetime
    end: datetime
    path: str
    said: str
    parts: Sequence[tuple[str, float, float]]


def edges(hours: int, now: datetime) -> list[datetime]:
    """The ends of the intervals of the last hours, preceded by the start of the first. The last is in the future."""
    length = timedelta(hours=hours) / INTERVALS
    begun = math.floor(now.timestamp() / length.total_seconds())
    last = datetime.fromtimestamp((begun + 1) * length.total_seconds(), UTC)
    return [last - length * back for back in range(INTERVALS, -1, -1)]


def bars(moments: Sequence[datetime], counted: Sequence[Mapping[RunStatus, int]]) -> list[Bar]:
    """A bar for each interval between two moments. The highest one takes the full height."""
    most = max((sum(one.values()) for one in counted), default=0)
    each = zip(moments[:-1], moments[1:], counted, strict=True)
    return [_bar(begin, end, counts, most) for begin, end, counts in each]


def _bar(begin: datetime, end: datetime, counts: Mapping[RunStatus, int], most: int) -> Bar:
    said = ", ".join(f"{count} {STATE_STYLES[status.value].word}" for status, count in sorted(counts.items()))
    parts, top = [], float(HEIGHT)
    for tone in _TONES:
        if count := sum(count for status, count in counts.items() if STATE_STYLES[status.value].tone == tone):
            height = count / most * HEIGHT
            top -= height
            parts.append((tone, round(top, 2), round(height, 2)))
    path = with_query(f"{PATH}/runs", {"since": begin.isoformat(), "before": end.isoformat()}) if parts else ""
    return Bar(begin, end, path, said, parts)
