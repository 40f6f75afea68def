"""The words beside a value tell which end of a range it is."""

import pytest

from planner_svc.reading.limits import Limit, end_said, limit_before, limit_named
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.worlds import api, param


@pytest.mark.parametrize(
    ("words", "moment", "limit"),
    [
        ("older than ", True, Limit("to", outside=True)),
        ("older than ", False, Limit("from", outside=True)),
        ("no later than ", True, Limit("to")),
        ("not before the ", True, Limit("from")),
        ("by ", True, Limit("to")),
        ("by ", False, None),
        ("over the ", True, None),
        ("over ₹", False, Limit("from", outside=True)),
        ("starting on ", True, Limit("from", weak=True)),
        ("must not exceed ", False, Limit("to")),
        ("thereafter ", True, None),
    ],
)
def test_words_before_a_value(words: str, moment: bool, limit: Limit | None) -> None:
    assert limit_before(words + "5", len(words), moment=moment) == limit


@pytest.mark.parametrize(
    ("words", "value", "end"),
    [
        ("more than ", "30 days ago", "to"),
        ("no more than ", "30 days ago", "from"),
        ("since ", "30 days ago", "from"),
        ("over ", "a year ago", "to"),
        ("in ", "the last 24 hours", "from"),
        ("in ", "the next 24 hours", "to"),
        ("in ", "the last 24 days", None),
    ],
)
def test_periods_that_end_or_start_now(words: str, value: str, end: str | None) -> None:
    assert end_said(words + value, (len(words), len(words + value)), moment=True) == end


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("older_than_days", "to"),
        ("larger_than_mb", "from"),
        ("minRating", "from"),
        ("before", "to"),
        ("from", None),
        ("notBefore", "from"),
    ],
)
def test_names_tell_the_end(name: str, end: str | None) -> None:
    (slot,) = read_profile(api("list", "List", param(name, {"type": "integer"}))).slots
    assert limit_named(slot) == end


@pytest.mark.parametrize(
    ("query", "end"),
    [("policies that expire by 31/3/2027", "to"), ("rooms from 31/3/2027", None), ("31/3/2027 or later", "from")],
)
def test_words_that_also_tell_a_place_are_no_end(query: str, end: str | None) -> None:
    start = query.index("31")
    assert end_said(query, (start, start + len("31/3/2027")), moment=True) == end
