"""Context of a request that its text does not contain: clock, time zone, locale, and known values."""

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue, StringConstraints

from services.contracts.base import Contract

FIRST_YEAR = 1900
LAST_YEAR = 2200


def _within_calendar(now: datetime) -> datetime:
    if not FIRST_YEAR <= now.year <= LAST_YEAR:
        raise ValueError(f"the year of `now` must be between {FIRST_YEAR} and {LAST_YEAR}")
    return now


Clock = Annotated[AwareDatetime, AfterValidator(_within_calendar)]
"""A time with a zone, within years that date arithmetic can handle."""


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # unknown, not a name, or a folder
        raise ValueError("not the name of a time zone, such as Europe/Lisbon") from None
    return name


TimeZone = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_known_zone)]
"""The name of a time zone in the IANA database."""


class Context(Contract):
    """The context of a request. Every field is optional; unset fields default to the server's values."""

    now: Clock | None = Field(default=None, description="The clock that 'today' and 'next week' refer to.")
    timezone: TimeZone | None = Field(
        default=None, description="The zone of dates and times in the request.", examples=["Europe/Lisbon"]
    )
    locale: Annotated[str, StringConstraints(max_length=35)] | None = Field(default=None, examples=["pt-PT"])
    values: dict[str, JsonValue] = Field(
        default_factory=dict,
        max_length=100,
        description="Values of arguments by name, for example an account id that the user does not enter.",
    )
