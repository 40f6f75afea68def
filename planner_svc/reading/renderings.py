"""Moments as text in ISO 8601, the form with exactly the precision of the words first."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, tzinfo

from planner_svc.reading.moments import Moment


def renderings(moment: Moment, zone: tzinfo) -> Iterator[str]:
    """A moment as ISO 8601 text, the form with exactly the precision of the words first."""
    day = moment.day
    if moment.clock is not None and day is not None:
        at = datetime.combine(day, moment.clock)
        zoned = _offset(at.replace(tzinfo=moment.zone or zone))
        local = [at.isoformat(timespec="minutes"), at.isoformat()]
        yield from [zoned, *local] if moment.zone is not None else [*local, zoned]
        yield day.isoformat()
    elif moment.clock is not None:
        yield moment.clock.isoformat(timespec="minutes")
        yield moment.clock.isoformat()
    elif day is not None:
        if moment.grain == "month":
            yield day.strftime("%Y-%m")
        if moment.grain == "year":
            yield str(day.year)
        yield day.isoformat()
        midnight = datetime.combine(day, time(0), tzinfo=zone)
        yield _offset(midnight)
        yield midnight.replace(tzinfo=None).isoformat()


def _offset(moment: datetime) -> str:
    return (
        moment.isoformat().replace("+00:00", "Z") if moment.utcoffset() == UTC.utcoffset(None) else moment.isoformat()
    )
