"""What the app knows that the words do not say: clock, time zone, locale, and values already at hand."""

from typing import Annotated

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints

from services.contracts.base import Contract


class Context(Contract):
    """The situation a request is made in. Every field is optional; unset ones fall back to the server's own."""

    now: AwareDatetime | None = Field(default=None, description="The clock that 'today' and 'next week' refer to.")
    timezone: Annotated[str, StringConstraints(max_length=64)] | None = Field(default=None, examples=["Europe/Lisbon"])
    locale: Annotated[str, StringConstraints(max_length=35)] | None = Field(default=None, examples=["pt-PT"])
    values: dict[str, JsonValue] = Field(
        default_factory=dict,
        max_length=100,
        description="Values for arguments by name, for example an account id the user never says.",
    )
