"""Days and periods that a request counts out."""

from datetime import UTC, date, datetime, time

import pytest

from planner_svc.reading.moments import Moment
from planner_svc.reading.readings import whole_moments

NOW = datetime(2026, 11, 28, 18, tzinfo=UTC)
"""A Saturday."""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("in the last 30 days", date(2026, 10, 29), date(2026, 11, 28)),
        ("the next 7 days", date(2026, 11, 28), date(2026, 12, 5)),
        ("the past six months", date(2026, 5, 28), date(2026, 11, 28)),
        ("the last couple of days", date(2026, 11, 26), date(2026, 11, 28)),
        ("by the end of the month", date(2026, 11, 30), None),
        ("at the end of March", date(2027, 3, 31), None),
        ("since the end of March", date(2026, 3, 31), None),
        ("until the end of 2027", date(2027, 12, 31), None),
        ("from the start of next year", date(2027, 1, 1), None),
        ("until the end of next week", date(2026, 12, 6), None),
        ("the first Monday in January", date(2027, 1, 4), None),
        ("the last Friday of the month", date(2026, 11, 27), None),
        ("the second Monday in May 2027", date(2027, 5, 10), None),
        ("a fortnight from today", date(2026, 12, 12), None),
        ("Tuesday week", date(2026, 12, 8), None),
        ("a week on Tuesday", date(2026, 12, 8), None),
        ("once a week on Tuesday", date(2026, 12, 1), None),
        ("contracts that end in May", date(2027, 5, 1), date(2027, 5, 31)),
        ("on the first Monday in November", date(2027, 11, 1), None),
        ("Show orders since the start of November", date(2026, 11, 1), None),
        ("List orders from the start of November", date(2026, 11, 1), None),
    ],
)
def test_days_and_periods(text: str, first: date, last: date | None) -> None:
    (found,) = (one for one in whole_moments(text, NOW) if not one.part)
    assert isinstance(found.value, Moment)
    assert (found.value.day, found.value.last) == (first, last)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("claims reported in Q3", date(2026, 7, 1), date(2026, 9, 30)),
        ("the third quarter of 2027", date(2027, 7, 1), date(2027, 9, 30)),
        ("the last quarter", date(2026, 7, 1), date(2026, 9, 30)),
        ("the last quarter of last year", date(2025, 10, 1), date(2025, 12, 31)),
        ("until the end of the quarter", date(2026, 12, 31), None),
        ("the first half of 2026", date(2026, 1, 1), date(2026, 6, 30)),
        ("H2 2026", date(2026, 7, 1), date(2026, 12, 31)),
        ("mid-June 2027", date(2027, 6, 11), date(2027, 6, 20)),
        ("claims reported in early November", date(2026, 11, 1), date(2026, 11, 10)),
        ("the first week of December", date(2026, 12, 1), date(2026, 12, 7)),
        ("the last week of December", date(2026, 12, 25), date(2026, 12, 31)),
        ("Sum of payments for the week of 12 November", date(2026, 11, 9), date(2026, 11, 15)),
        ("the week starting 8 December", date(2026, 12, 8), date(2026, 12, 14)),
        ("over Christmas", date(2026, 12, 24), date(2026, 12, 26)),
        ("until Christmas", date(2026, 12, 25), None),
        ("since last Christmas", date(2025, 12, 25), None),
        ("on New Year\u2019s Eve", date(2026, 12, 31), None),
        ("until Easter 2027", date(2027, 3, 28), None),
        ("on Good Friday", date(2027, 3, 26), None),
        ("claims reported since Easter", date(2026, 4, 5), None),
        ("within two weeks", date(2026, 11, 28), date(2026, 12, 12)),
        ("claims older than two weeks", date(2026, 11, 14), None),
        ("errors in the last 24 hours", date(2026, 11, 27), None),
    ],
)
def test_named_periods_and_what_is_counted_from_now(text: str, first: date, last: date | None) -> None:
    test_days_and_periods(text, first, last)


@pytest.mark.parametrize(
    "text", ["flights to Christmas Island", "a Christmas tree", "within 3 days of the order", "older than 30 years"]
)
def test_words_that_only_look_like_periods(text: str) -> None:
    assert whole_moments(text, NOW) == []


@pytest.mark.parametrize("text", ["for the last time", "the end of the road", "the last few days", "the first of many"])
def test_other_words_are_no_days(text: str) -> None:
    assert whole_moments(text, NOW) == []


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("3 December at 8.15, please", time(8, 15)),
        ("14 December 2026 at 17h30", time(17, 30)),
        ("Monday at 9", time(9)),
        ("Monday at 8.15 each", None),
        ("Monday at 9 places", None),
        ("Monday at 6", None),  # in the afternoon, perhaps
    ],
)
def test_a_time_after_a_day(text: str, clock: time | None) -> None:
    found = whole_moments(text, NOW)[0].value
    assert isinstance(found, Moment)
    assert found.clock == clock
