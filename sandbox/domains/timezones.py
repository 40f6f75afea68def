"""Time zones of the tz database."""

from __future__ import annotations

import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import problems
from sandbox.fields import (
    ZONE_PATTERN,
    Answer,
    Instant,
    LocalTime,
    ZoneQuery,
)
from sandbox.reference import ReferenceData
from sandbox.state import State
from sandbox.zones import find_zone

router = APIRouter()


class TimeZone(Answer):
    """A time zone at one moment."""

    timezone: str = Field(description="IANA name.", examples=["Europe/Berlin"])
    local_time: datetime.datetime = Field(description="Local time with its offset.")
    utc_offset: str = Field(description="Offset from UTC.", examples=["+01:00"])
    utc_offset_minutes: int = Field(description="Offset from UTC in minutes, east positive.", examples=[60])
    abbreviation: str = Field(description="Abbreviation in use.", examples=["CET"])
    is_dst: bool = Field(description="Whether daylight saving time is in force.")


class ConvertedTime(Answer):
    """One moment in two time zones."""

    from_time: datetime.datetime = Field(description="The time given, with its offset.")
    from_timezone: str = Field(description="Time zone of the time given.")
    to_time: datetime.datetime = Field(description="The same moment in the other time zone.")
    to_timezone: str = Field(description="Time zone of the result.")
    difference_minutes: int = Field(description="How far the second zone is ahead of the first, in minutes.")


@router.get("/timezones/current", responses=problems(404))
def get_local_time(
    reference: ReferenceData,
    state: State,
    timezone: ZoneQuery,
    at: Annotated[Instant | None, Query(description="Moment, with its offset from UTC; now if left out.")] = None,
) -> TimeZone:
    """Get the local time, UTC offset and daylight saving state of a time zone, now or at another moment."""
    zone = find_zone(reference, timezone)
    local = (at or state.now()).astimezone(zone).replace(microsecond=0)
    offset = local.utcoffset() or datetime.timedelta()
    return TimeZone(
        timezone=timezone,
        local_time=local,
        utc_offset=local.isoformat()[19:25],
        utc_offset_minutes=int(offset.total_seconds() // 60),
        abbreviation=local.tzname() or "",
        is_dst=bool(local.dst()),
    )


@router.get("/timezones/convert", responses=problems(404))
def convert_time(
    reference: ReferenceData,
    time: Annotated[LocalTime, Query(description="Local date and time in the first time zone, without offset.")],
    from_timezone: Annotated[
        str,
        Query(
            pattern=ZONE_PATTERN,
            max_length=64,
            description="IANA time zone of the time given.",
            examples=["Asia/Tokyo"],
        ),
    ],
    to_timezone: Annotated[
        str, Query(pattern=ZONE_PATTERN, max_length=64, description="IANA time zone wanted.", examples=["Europe/Paris"])
    ],
) -> ConvertedTime:
    """Convert a local date and time from one time zone into another."""
    start = time.replace(tzinfo=find_zone(reference, from_timezone))
    end = start.astimezone(find_zone(reference, to_timezone))
    before, after = start.utcoffset() or datetime.timedelta(), end.utcoffset() or datetime.timedelta()
    return ConvertedTime(
        from_time=start,
        from_timezone=from_timezone,
        to_time=end,
        to_timezone=to_timezone,
        difference_minutes=int((after - before).total_seconds() // 60),
    )
