"""The application's context of a request: its clock, and known values."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from services.contracts.context import Context


def read_clock(context: Context) -> datetime:
    """The request's clock in its time zone; the server's clock in UTC if the request has none."""
    now = context.now or datetime.now(UTC)
    return now if context.timezone is None else now.astimezone(ZoneInfo(context.timezone))


def given_values(context: Context) -> dict[str, JsonValue]:
    """The application's values by name, including the user's time zone and locale."""
    own = {"timezone": context.timezone, "locale": context.locale}
    return {name: value for name, value in own.items() if value} | dict(context.values)
