"""Types of the values that endpoints exchange: codes, dates, times, places.

Codes are intentionally strict: a name in place of a code is refused, so that a caller has to look the code up first.
Dates and times are limited to 1900-2099, which every library behind the sandbox supports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

COUNTRY_PATTERN = r"^[A-Z]{2}$"
CURRENCY_PATTERN = r"^[A-Z]{3}$"
IATA_PATTERN = r"^[A-Z]{3}$"
SUBDIVISION_PATTERN = r"^[A-Z]{2}-[A-Z0-9]{1,3}$"
ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}$"
LOCALE_PATTERN = r"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$"
LANGUAGE_PATTERN = r"^[a-z]{2,3}$"
DAY_PATTERN = r"^(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_TIME = r"T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?"
LOCAL_TIME_PATTERN = DAY_PATTERN[:-1] + _TIME + "$"
INSTANT_PATTERN = DAY_PATTERN[:-1] + _TIME + r"(Z|[+\-](0[0-9]|1[0-3]):[0-5][0-9])$"


class Body(BaseModel):
    """Base of request bodies: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(BaseModel):
    """Base of response bodies."""

    model_config = ConfigDict(frozen=True)


def _parse_day(value: Any) -> date:
    if isinstance(value, datetime) or not isinstance(value, str | date):
        raise ValueError("a date such as 2026-10-03 is expected")
    if isinstance(value, date):
        return value
    if not re.fullmatch(DAY_PATTERN, value, re.ASCII):
        raise ValueError("a date such as 2026-10-03, of the years 1900 to 2099, is expected")
    return date.fromisoformat(value)


def _parse_time(pattern: str, example: str) -> BeforeValidator:
    def parse(value: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"a time such as {example}, of the years 1900 to 2099, is expected")
        return datetime.fromisoformat(value)

    return BeforeValidator(parse)


def split_commas(value: Any) -> Any:
    """Items of a comma-separated query array (`style: form`, `explode: false`)."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [part for item in value for part in str(item).split(",")]
    return value


Day = Annotated[
    date,
    BeforeValidator(_parse_day),
    WithJsonSchema({"type": "string", "format": "date", "pattern": DAY_PATTERN, "examples": ["2026-10-03"]}),
]
LocalTime = Annotated[
    datetime,
    _parse_time(LOCAL_TIME_PATTERN, "2026-10-03T14:30"),
    WithJsonSchema({"type": "string", "pattern": LOCAL_TIME_PATTERN, "examples": ["2026-10-03T14:30"]}),
]
Instant = Annotated[
    datetime,
    _parse_time(INSTANT_PATTERN, "2026-10-03T14:30:00Z"),
    WithJsonSchema(
        {"type": "string", "format": "date-time", "pattern": INSTANT_PATTERN, "examples": ["2026-10-03T14:30:00Z"]}
    ),
]

CountryPath = Annotated[
    str, Path(pattern=COUNTRY_PATTERN, description="ISO 3166-1 alpha-2 country code.", examples=["DE"])
]
CountryQuery = Annotated[
    str, Query(pattern=COUNTRY_PATTERN, description="ISO 3166-1 alpha-2 country code.", examples=["DE"])
]
OptionalCountryQuery = Annotated[
    str | None,
    Query(pattern=COUNTRY_PATTERN, description="Only this ISO 3166-1 alpha-2 country code.", examples=["DE"]),
]
SubdivisionQuery = Annotated[
    str | None,
    Query(
        pattern=SUBDIVISION_PATTERN,
        description="ISO 3166-2 code of a state or province of the country, for its regional holidays as well.",
        examples=["DE-BY"],
    ),
]
LatitudeQuery = Annotated[
    float,
    Query(ge=-90, le=90, allow_inf_nan=False, description="Latitude in degrees, north positive.", examples=[52.52]),
]
LongitudeQuery = Annotated[
    float,
    Query(ge=-180, le=180, allow_inf_nan=False, description="Longitude in degrees, east positive.", examples=[13.405]),
]
ZoneQuery = Annotated[
    str,
    Query(pattern=ZONE_PATTERN, max_length=64, description="IANA time zone name.", examples=["Europe/Berlin"]),
]
LocalePath = Annotated[
    str,
    Path(
        pattern=LOCALE_PATTERN,
        description="BCP 47 locale: a language, optionally a script and a region.",
        examples=["de-DE", "en-US", "pt-BR"],
    ),
]
PageQuery = Annotated[int, Query(ge=1, le=100_000, description="Number of the page, starting at 1.")]
SizeQuery = Annotated[int, Query(ge=1, le=100, description="Number of items a page.")]
LimitQuery = Annotated[int, Query(ge=1, le=100, description="Largest number of items to return.")]
OffsetQuery = Annotated[int, Query(ge=0, le=1_000_000, description="Number of items to skip.")]


class Money(Answer):
    """An amount in a currency."""

    amount: float = Field(description="Amount in units of the currency.", examples=[19.9])
    currency: str = Field(description="ISO 4217 currency code.", examples=["EUR"])
