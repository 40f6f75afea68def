"""Ranges of times of day, against a fixed clock: Friday 20 November 2026, 9:00 UTC."""

from datetime import UTC, date, datetime, time

import pytest

from planner_svc.reading.dates import DateReader
from planner_svc.reading.moments import Moment

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
DAY = date(2026, 12, 4)


def moments(text: str) -> list[Moment]:
    """The moments found in a text."""
    return [one.value for one in DateReader(NOW).find(text) if isinstance(one.value, Moment)]


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("on 4 December from 2 to 4 pm", [time(14), time(16)]),
        ("on 4 December from 11 to 1 pm", [time(11), time(13)]),
        ("on 4 December, 9am-10am", [time(9), time(10)]),
        ("on 4 December 9am - 5", [time(9), time(17)]),
        ("on 4 December 10-12", [time(10), time(12)]),
        ("on 4 December 10-11:30", [time(10), time(11, 30)]),
        ("on 4 December between 10 and 12", [time(10), time(12)]),
        ("from 10 to 12 on 4 December", [time(10), time(12)]),
        ("from 9.30 to 11.00 on 4 December", [time(9, 30), time(11)]),
        ("on 4 December from 10pm to 2am", [time(22), time(2)]),
    ],
)
def test_both_ends_are_times_of_one_day(text: str, clocks: list[time]) -> None:
    assert [(one.day, one.clock) for one in moments(text)] == [(DAY, clock) for clock in clocks]


@pytest.mark.parametrize(
    "text",
    [
        "raise it on 4 December from 10 % to 12 %",
        "change it from 10 to 12 on 4 December",
        "on 4 December 10-12 people",
        "prices between 10 and 20 on 4 December",
        "version 2.10 to 2.12 on 4 December",
        "rooms 10-12 on 4 December",
    ],
)
def test_other_numbers_are_no_times(text: str) -> None:
    assert [one.clock for one in moments(text)] == [None]


def test_a_number_that_is_no_part_of_a_range_stays_one() -> None:
    assert [one.clock for one in moments("move booking 12 to 4 pm")] == [time(16)]
