"""Context of a request that its text does not contain: clock, time zone, locale, and known values."""

from datetime import datetime
from typing import Annotated

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


class Context(Contract):
    """The context of a request. Every field is optional; unset fields default to the server's values."""

    now: Clock | None = Field(default=None, description="The clock that 'today' and 'next week' refer to.")
    timezone: Annotated[str, StringConstraints(max_length=64)] | None = Field(default=None, examples=["Europe/Lisbon"])
    locale: Annotated[str, StringConstraints(max_length=35)] | None = Field(default=None, examples=["pt-PT"])
    values: dict[str, JsonValue] = Field(
        default_factory=dict,
        max_length=100,
        description="Values of arguments by name, for example an account id that the user does not enter.",
    )
