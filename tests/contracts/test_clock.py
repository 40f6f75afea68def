"""The clock of a request is within the calendar, far enough from its ends, and its time zone is a known one."""

import pytest
from pydantic import ValidationError

from services.contracts.context import Context


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1899-12-31T23:59:59Z"])
def test_a_clock_at_the_ends_of_the_calendar_is_refused(now: str) -> None:
    with pytest.raises(ValidationError, match="between 1900 and 2200"):
        Context.model_validate({"now": now, "timezone": "Pacific/Kiritimati"})


def test_others_are_taken() -> None:
    assert Context.model_validate({"now": "2200-12-31T23:59:59Z"}).now is not None


@pytest.mark.parametrize(
    "zone",
    ["Mars/Phobos", "", " ", "Europe", "europe/nowhere", "../../etc/passwd", "/etc/localtime", "a\x00b", "é", "+02:00"],
)
def test_a_zone_that_nobody_knows_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Context.model_validate({"timezone": zone})
    assert [error["loc"] for error in caught.value.errors()] == [("timezone",)]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Lisbon", "Asia/Kathmandu", "Etc/GMT+12", "Asia/Calcutta"])
def test_known_zones_are_taken(zone: str | None) -> None:
    assert Context.model_validate({"timezone": zone}).timezone == zone
