"""What the application says of a request: its clock, and the values it knows."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import JsonValue

from services.contracts.context import Context


def read_clock(context: Context) -> datetime:
    """The request's clock in its time zone; the server's clock in UTC where it has none."""
    now = context.now or datetime.now(UTC)
    if context.timezone:
        try:
            return now.astimezone(ZoneInfo(context.timezone))
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a name that is no zone: the clock's own offset counts
            return now
    return now


def given_values(context: Context) -> dict[str, JsonValue]:
    """What the application knows, by name: its values, and where the user is."""
    own = {"timezone": context.timezone, "locale": context.locale}
    return {name: value for name, value in own.items() if value} | dict(context.values)
