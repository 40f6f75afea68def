"""Sun and moon, calculated by astral."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

from astral import Observer, moon, sun
from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import problems
from sandbox.fields import Answer, Day, LatitudeQuery, LongitudeQuery, ZoneQuery
from sandbox.reference import ReferenceData
from sandbox.state import State
from sandbox.zones import find_zone

router = APIRouter()

OptionalDay = Annotated[Day | None, Query(description="Day; today if left out.")]
MoonPhaseName = Literal[
    "new moon",
    "waxing crescent",
    "first quarter",
    "waxing gibbous",
    "full moon",
    "waning gibbous",
    "last quarter",
    "waning crescent",
]
_PHASES: tuple[MoonPhaseName, ...] = get_args(MoonPhaseName)
_DAYS_A_PHASE = 28 / len(_PHASES)  # astral counts a lunation as 28 days


class SunTimes(Answer):
    """The sun on one day at one place. A time is null where the event does not happen (polar day or night)."""

    date: datetime.date = Field(description="Day.")
    timezone: str = Field(description="IANA time zone of the times.")
    dawn: datetime.datetime | None = Field(description="Start of civil twilight.")
    sunrise: datetime.datetime | None = Field(description="Sunrise.")
    solar_noon: datetime.datetime = Field(description="Moment the sun is highest.")
    sunset: datetime.datetime | None = Field(description="Sunset.")
    dusk: datetime.datetime | None = Field(description="End of civil twilight.")
    day_length_minutes: int | None = Field(description="Minutes from sunrise to sunset.")


class MoonPhase(Answer):
    """Phase of the moon on a day."""

    date: datetime.date = Field(description="Day.")
    age_days: float = Field(description="Phase from 0 (new moon) over 14 (full moon) up to 28.")
    phase: MoonPhaseName = Field(description="Name of the nearest of eight phases.")


def _event(calculate: Callable[..., datetime.datetime | None], *arguments: object) -> datetime.datetime | None:
    """The time of an event to the second; None if it does not happen (ValueError in astral)."""
    try:
        moment = calculate(*arguments)
    except ValueError:
        return None
    return moment.replace(microsecond=0) if moment else None


@router.get("/astronomy/sun-times", responses=problems(404))
def get_sun_times(
    reference: ReferenceData,
    state: State,
    latitude: LatitudeQuery,
    longitude: LongitudeQuery,
    date: OptionalDay = None,
    timezone: ZoneQuery = "UTC",
) -> SunTimes:
    """Get dawn, sunrise, solar noon, sunset, dusk and day length for coordinates on a day.

    Give the place's time zone to get local times; they are in UTC otherwise.
    """
    zone = find_zone(reference, timezone)
    day = date or state.now().astimezone(zone).date()
    here = Observer(latitude, longitude)
    sunrise, sunset = (_event(event, here, day, zone) for event in (_sunrise, _sunset))
    length = None
    if sunrise and sunset:
        length = round((sunset - sunrise).total_seconds() / 60) % (24 * 60)
    return SunTimes(
        date=day,
        timezone=timezone,
        dawn=_event(_dawn, here, day, zone),
        sunrise=sunrise,
        solar_noon=sun.noon(here, day, zone).replace(microsecond=0),
        sunset=sunset,
        dusk=_event(_dusk, here, day, zone),
        day_length_minutes=length,
    )


def _dawn(here: Observer, day: datetime.date, zone: ZoneInfo) -> datetime.datetime:
    return sun.dawn(here, day, tzinfo=zone)


def _sunrise(here: Observer, day: datetime.date, zone: ZoneInfo) -> datetime.datetime:
    return sun.sunrise(here, day, zone)


def _sunset(here: Observer, day: datetime.date, zone: ZoneInfo) -> datetime.datetime:
    return sun.sunset(here, day, zone)


def _dusk(here: Observer, day: datetime.date, zone: ZoneInfo) -> datetime.datetime:
    return sun.dusk(here, day, tzinfo=zone)


@router.get("/astronomy/moon-phase")
def get_moon_phase(state: State, date: OptionalDay = None) -> MoonPhase:
    """Get the phase of the moon on a day; it is the same everywhere on earth."""
    day = date or state.now().date()
    age = round(moon.phase(day), 2)
    return MoonPhase(date=day, age_days=age, phase=_PHASES[round(age / _DAYS_A_PHASE) % len(_PHASES)])
