"""Arithmetic on dates, and other calendars."""

from __future__ import annotations

import calendar
import datetime
from types import ModuleType
from typing import Annotated, Literal

import convertdate
from dateutil.relativedelta import relativedelta
from fastapi import APIRouter, Path, Query
from pydantic import Field

from sandbox.errors import Unprocessable
from sandbox.fields import Answer, Day

router = APIRouter()

CalendarName = Literal["coptic", "hebrew", "indian_civil", "islamic", "julian", "persian"]
_CALENDARS: dict[CalendarName, ModuleType] = {
    "coptic": convertdate.coptic,
    "hebrew": convertdate.hebrew,
    "indian_civil": convertdate.indian_civil,
    "islamic": convertdate.islamic,
    "julian": convertdate.julian,
    "persian": convertdate.persian,
}


class DateInfo(Answer):
    """Facts about a date."""

    date: datetime.date = Field(description="The date.")
    weekday: str = Field(description="English name of the weekday.", examples=["Saturday"])
    iso_year: int = Field(description="Year of the ISO week.")
    iso_week: int = Field(description="Number of the ISO week.")
    day_of_year: int = Field(description="Day of the year, from 1.")
    quarter: int = Field(description="Quarter of the year.")
    days_in_month: int = Field(description="Number of days of its month.")
    is_leap_year: bool = Field(description="Whether its year is a leap year.")


class DateDifference(Answer):
    """Time between two dates. Negative where the end lies before the start."""

    start_date: datetime.date = Field(description="First date.")
    end_date: datetime.date = Field(description="Second date.")
    total_days: int = Field(description="Whole difference in days.")
    years: int = Field(description="Full years; with months and days the same difference in parts.")
    months: int = Field(description="Full months beyond the years.")
    days: int = Field(description="Days beyond the months.")


class ShiftedDate(Answer):
    """A date moved."""

    date: datetime.date = Field(description="The resulting date.")
    weekday: str = Field(description="English name of its weekday.")


class CalendarDate(Answer):
    """A date in another calendar."""

    date: datetime.date = Field(description="The date in the Gregorian calendar.")
    calendar: CalendarName = Field(description="The other calendar.")
    year: int = Field(description="Year in that calendar.")
    month: int = Field(description="Month in that calendar, from 1.")
    day: int = Field(description="Day in that calendar.")


@router.get("/dates/difference")
async def get_date_difference(
    start_date: Annotated[Day, Query(description="First date.", examples=["2026-10-03"])],
    end_date: Annotated[Day, Query(description="Second date.", examples=["2026-12-25"])],
) -> DateDifference:
    """Count the days between two dates, also in years, months and days.

    For an age, give the birthday and the day of interest. Working days have an endpoint of their own.
    """
    parts = relativedelta(end_date, start_date)
    return DateDifference(
        start_date=start_date,
        end_date=end_date,
        total_days=(end_date - start_date).days,
        years=parts.years,
        months=parts.months,
        days=parts.days,
    )


@router.get("/dates/add")
async def add_to_date(
    date: Annotated[Day, Query(description="Date to start from.")],
    years: Annotated[int, Query(ge=-200, le=200, description="Years to add; negative to go back.")] = 0,
    months: Annotated[int, Query(ge=-2400, le=2400, description="Months to add; negative to go back.")] = 0,
    weeks: Annotated[int, Query(ge=-10_000, le=10_000, description="Weeks to add; negative to go back.")] = 0,
    days: Annotated[int, Query(ge=-73_000, le=73_000, description="Days to add; negative to go back.")] = 0,
) -> ShiftedDate:
    """Add years, months, weeks and days to a date, or subtract them, and get the resulting date and weekday.

    A day beyond the end of the month becomes its last day.
    """
    try:
        moved = date + relativedelta(years=years, months=months, weeks=weeks, days=days)
    except (ValueError, OverflowError):
        raise Unprocessable("the result lies outside the years 1 to 9999") from None
    return ShiftedDate(date=moved, weekday=calendar.day_name[moved.weekday()])


@router.get("/dates/{date}")
async def get_date_info(date: Annotated[Day, Path(description="The date.", examples=["2026-10-03"])]) -> DateInfo:
    """Get the weekday, ISO week, day of the year and quarter of a date."""
    iso = date.isocalendar()
    return DateInfo(
        date=date,
        weekday=calendar.day_name[date.weekday()],
        iso_year=iso.year,
        iso_week=iso.week,
        day_of_year=date.timetuple().tm_yday,
        quarter=(date.month + 2) // 3,
        days_in_month=calendar.monthrange(date.year, date.month)[1],
        is_leap_year=calendar.isleap(date.year),
    )


@router.get("/calendars/{calendar}/dates/{date}")
async def convert_calendar_date(
    calendar: Annotated[CalendarName, Path(description="Calendar to convert into.", examples=["hebrew"])],
    date: Annotated[Day, Path(description="Gregorian date.", examples=["2026-10-03"])],
) -> CalendarDate:
    """Convert a Gregorian date into another calendar, such as the Hebrew or the Islamic (tabular) one."""
    year, month, day = _CALENDARS[calendar].from_gregorian(date.year, date.month, date.day)
    return CalendarDate(date=date, calendar=calendar, year=year, month=month, day=day)
