"""Public holidays and working days."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import holidays as holidays_library
from babel import negotiate_locale
from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import Field

from sandbox.errors import NotFound, Unprocessable, problems
from sandbox.fields import Answer, CountryPath, CountryQuery, Day, SubdivisionQuery
from sandbox.reference import ReferenceData, fold, match_rank
from sandbox.state import State

router = APIRouter()

_FIRST_YEAR, _LAST_YEAR = 1900, 2099
_MAX_SPAN = 3660
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Category = Literal["public", "bank", "school", "government", "optional", "catholic", "half_day", "unofficial"]
YearPath = Annotated[int, Path(ge=_FIRST_YEAR, le=_LAST_YEAR, description="Year.", examples=[2026])]
YearQuery = Annotated[int, Query(ge=_FIRST_YEAR, le=_LAST_YEAR, description="Year.", examples=[2026])]
AcceptLanguage = Annotated[
    str | None,
    Header(
        alias="Accept-Language",
        pattern=r"^[A-Za-z0-9 ,;=.*\-]{1,200}$",
        description="Languages wanted for the names, best first; English or else the country's own by default.",
        examples=["de", "fr-CH, fr;q=0.9, en;q=0.8"],
    ),
]


class Holiday(Answer):
    """A holiday on one day."""

    date: datetime.date = Field(description="Day of the holiday.", examples=["2026-10-03"])
    name: str = Field(description="Name of the holiday.", examples=["German Unity Day"])
    weekday: str = Field(description="English name of the weekday.", examples=["Saturday"])


class HolidayCalendar(Answer):
    """The holidays of a year, in order."""

    country_code: str = Field(description="Alpha-2 code of the country.")
    subdivision_code: str | None = Field(description="ISO 3166-2 code of the region, if one was given.")
    year: int = Field(description="Year.")
    count: int = Field(description="Number of holidays.")
    holidays: list[Holiday] = Field(description="Holidays ordered by date.")


class NextHoliday(Holiday):
    """The next holiday."""

    days_until: int = Field(description="Days from the day asked about until the holiday.")


class DayStatus(Answer):
    """What kind of day a day is."""

    date: datetime.date = Field(description="The day.")
    weekday: str = Field(description="English name of the weekday.")
    is_holiday: bool = Field(description="Whether it is a public holiday.")
    is_weekend: bool = Field(description="Whether it is in the country's weekend.")
    is_working_day: bool = Field(description="Whether people work: no holiday and no weekend.")
    holiday_name: str | None = Field(description="Name of the holiday, if it is one.")


class WorkingDays(Answer):
    """Days between two dates, both included."""

    start_date: datetime.date = Field(description="First day counted.")
    end_date: datetime.date = Field(description="Last day counted.")
    calendar_days: int = Field(description="All days.")
    working_days: int = Field(description="Days that are neither weekend nor holiday.")
    holidays_on_weekdays: int = Field(description="Public holidays outside weekends.")


@dataclass(frozen=True, slots=True)
class Region:
    """A country or one of its subdivisions for which holidays are published."""

    country: str
    subdivision: str | None

    def calendar(
        self, year: int, language: str | None = None, category: str = "public"
    ) -> holidays_library.HolidayBase:
        """Holidays of a year. Raises Unprocessable if the country has no holidays of this category."""
        part = self.subdivision.partition("-")[2] if self.subdivision else None
        try:
            return holidays_library.country_holidays(
                self.country, subdiv=part, years=year, language=language, categories=(category,)
            )
        except NotImplementedError:
            raise NotFound(f"no holidays are published for {self.subdivision or self.country}") from None
        except ValueError:
            raise Unprocessable(f"holidays of category {category} are not published for {self.country}") from None

    def days(self, year: int, accept_language: str | None = None, category: str = "public") -> Iterator[Holiday]:
        """Holidays of a year in order, with names in the language that fits best."""
        known = self.calendar(year, category=category)
        chosen = _choose_language(accept_language, known.supported_languages)
        calendar = self.calendar(year, chosen, category) if chosen else known
        for day, name in sorted(calendar.items()):
            yield Holiday(date=day, name=name, weekday=WEEKDAYS[day.weekday()])


def _choose_language(accept: str | None, supported: tuple[str, ...]) -> str | None:
    """The supported language that fits an Accept-Language header best (order counts, not weights)."""
    wanted = [part.partition(";")[0].strip().replace("-", "_") for part in (accept or "").split(",")]
    by_language = {code.partition("_")[0]: code for code in reversed(supported)}
    for tag in [*wanted, "en_US"]:
        fitting = negotiate_locale([tag], supported) or by_language.get(tag.partition("_")[0].lower())
        if fitting:
            return next(code for code in supported if code.lower() == fitting.lower())
    return None


async def _region(reference: ReferenceData, country_code: str, subdivision: str | None) -> Region:
    reference.country(country_code)
    if subdivision is not None and not subdivision.startswith(f"{country_code}-"):
        raise Unprocessable(f"subdivision {subdivision} is not in country {country_code}")
    return Region(country_code, subdivision)


async def _region_of_path(
    reference: ReferenceData, country_code: CountryPath, subdivision: SubdivisionQuery = None
) -> Region:
    return await _region(reference, country_code, subdivision)


async def _region_of_query(
    reference: ReferenceData, country_code: CountryQuery, subdivision: SubdivisionQuery = None
) -> Region:
    return await _region(reference, country_code, subdivision)


PathRegion = Annotated[Region, Depends(_region_of_path)]
QueryRegion = Annotated[Region, Depends(_region_of_query)]


@router.get("/holidays/{country_code}/{year}", responses=problems(404))
def get_public_holidays(
    region: PathRegion,
    year: YearPath,
    category: Annotated[
        Category, Query(description="Kind of holidays; few countries publish more than public.")
    ] = "public",
    accept_language: AcceptLanguage = None,
) -> HolidayCalendar:
    """List all holidays of a country in a year, in order of date. Give a subdivision for regional holidays too."""
    days = list(region.days(year, accept_language, category))
    return HolidayCalendar(
        country_code=region.country,
        subdivision_code=region.subdivision,
        year=year,
        count=len(days),
        holidays=days,
    )


@router.get("/holidays/find", responses=problems(404))
def find_holiday(
    region: QueryRegion,
    year: YearQuery,
    name: Annotated[
        str, Query(min_length=2, max_length=80, description="English name, or part of it.", examples=["Christmas Day"])
    ],
) -> Holiday:
    """Find the date of one holiday by its name in a country and year, such as when Easter Monday is."""
    query = fold(name)
    ranked = [
        (rank, day.date, day)
        for day in region.days(year)
        if (rank := match_rank(query, *(fold(part) for part in day.name.split(";")))) is not None
    ]
    if not ranked:
        raise NotFound(f"no public holiday of {region.country} in {year} has such a name")
    return min(ranked, key=lambda item: item[:2])[2]


@router.get("/holidays/next", responses=problems(404))
def get_next_holiday(
    region: QueryRegion,
    state: State,
    after: Annotated[Day | None, Query(description="Day to look from, itself excluded; today if left out.")] = None,
) -> NextHoliday:
    """Get the first public holiday after a day, and how many days remain until then."""
    start = after or state.now().date()
    for year in range(start.year, min(start.year + 2, _LAST_YEAR + 1)):
        for day in region.days(year):
            if day.date > start:
                return NextHoliday(**day.model_dump(), days_until=(day.date - start).days)
    raise NotFound(f"no later holiday is published for {region.country}")


@router.get("/working-days/check", responses=problems(404))
def check_working_day(region: QueryRegion, date: Annotated[Day, Query(description="Day to look at.")]) -> DayStatus:
    """Tell whether a day is a public holiday, a weekend day or a working day in a country."""
    holiday = next((day for day in region.days(date.year) if day.date == date), None)
    weekend = date.weekday() in region.calendar(date.year).weekend
    return DayStatus(
        date=date,
        weekday=WEEKDAYS[date.weekday()],
        is_holiday=holiday is not None,
        is_weekend=weekend,
        is_working_day=holiday is None and not weekend,
        holiday_name=holiday.name if holiday else None,
    )


@router.get("/working-days/count", responses=problems(404))
def count_working_days(
    region: QueryRegion,
    start_date: Annotated[Day, Query(description="First day counted.", examples=["2026-12-01"])],
    end_date: Annotated[Day, Query(description="Last day counted, at most ten years later.", examples=["2026-12-31"])],
) -> WorkingDays:
    """Count the working days between two dates in a country, both dates included.

    For plain days between two dates use the date difference instead.
    """
    span = (end_date - start_date).days + 1
    if not 1 <= span <= _MAX_SPAN:
        raise Unprocessable(f"end_date must be on or after start_date and at most {_MAX_SPAN} days in all")
    calendars = {year: region.calendar(year) for year in range(start_date.year, end_date.year + 1)}
    weekdays = free = 0
    for offset in range(span):
        day = start_date + datetime.timedelta(days=offset)
        calendar = calendars[day.year]
        if day.weekday() not in calendar.weekend:
            weekdays += 1
            free += day in calendar
    return WorkingDays(
        start_date=start_date,
        end_date=end_date,
        calendar_days=span,
        working_days=weekdays - free,
        holidays_on_weekdays=free,
    )
