"""Moments as text: ISO 8601, the form that says just what was said first."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, tzinfo

from planner_svc.reading import weights
from planner_svc.reading.dates import Moment


def renderings(
    moment: Moment, zone: tzinfo, *, last: bool = False, paired: bool = False
) -> Iterator[tuple[str, float]]:
    """A moment as ISO 8601 text, the form that says just what was said first.

    ``last``: the end of a longer time is wanted; ``paired``: its beginning and its end are.
    """
    day = moment.last if last and moment.last is not None else moment.day
    if moment.clock is not None and day is not None:
        at = datetime.combine(day, moment.clock)
        aware = at.replace(tzinfo=moment.zone or zone)
        zoned = _offset(aware)
        local = [at.isoformat(timespec="minutes"), at.isoformat()]
        first, second = ([zoned], local) if moment.zone is not None else (local, [zoned])
        yield from ((text, weights.EXACT_TIME) for text in first)
        yield from ((text, weights.OTHER_TIME) for text in second)
        yield day.isoformat(), weights.DAY_OF_TIME
    elif moment.clock is not None:
        yield moment.clock.isoformat(timespec="minutes"), weights.TIME_ALONE
        yield moment.clock.isoformat(), weights.TIME_ALONE
    elif day is not None:
        ranged = weights.END_OF_RANGE if moment.last is not None and paired else weights.DAY_OF_RANGE
        yield from _day_texts(day, moment, zone, weights.EXACT_DAY if moment.grain == "day" else ranged)


def _day_texts(day: date, moment: Moment, zone: tzinfo, score: float) -> Iterator[tuple[str, float]]:
    if moment.grain == "month":
        yield day.strftime("%Y-%m"), weights.EXACT_DAY
    if moment.grain == "year":
        yield str(day.year), weights.EXACT_DAY
    yield day.isoformat(), score
    midnight = datetime.combine(day, time(0), tzinfo=zone)
    yield _offset(midnight), score + weights.MIDNIGHT
    yield midnight.replace(tzinfo=None).isoformat(), score + weights.MIDNIGHT


def _offset(moment: datetime) -> str:
    return (
        moment.isoformat().replace("+00:00", "Z") if moment.utcoffset() == UTC.utcoffset(None) else moment.isoformat()
    )
