"""The clock of a request must be far enough from the calendar's ends to count days and years from it."""

import pytest
from pydantic import ValidationError

from services.contracts.context import Context


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1899-12-31T23:59:59Z"])
def test_a_clock_at_the_ends_of_the_calendar_is_refused(now: str) -> None:
    with pytest.raises(ValidationError, match="between 1900 and 2200"):
        Context.model_validate({"now": now, "timezone": "Pacific/Kiritimati"})


def test_others_are_taken() -> None:
    assert Context.model_validate({"now": "2200-12-31T23:59:59Z"}).now is not None
