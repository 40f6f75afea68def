"""The forms in which values are written."""

from datetime import UTC, date, datetime

import pytest

from planner_svc.backends.compact.forms import Form, form_of, number_form_of, number_written, written
from planner_svc.backends.compact.said_moments import SaidMoments
from planner_svc.reading.tense import tells_of_past

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("sore throat", "sore throat", Form.COPY),
        ("sore throat", "Sore throat", Form.CAPITAL),
        ("new york city", "New York City", Form.TITLE),
        ("Aspirin", "aspirin", Form.LOWER),
        ("usd", "USD", Form.UPPER),
        ("big dogs", "big dog", Form.SINGULAR),
        ("houses", "House", Form.CAPITAL_SINGULAR),
        ("fever, cough, and sore throat", "fever, cough, sore throat", Form.LISTED),
        ("fever and sore throat", "Fever, Sore throat", Form.CAPITAL_LISTED),
        ("two hundred", "200", Form.NUMBER),
        ("April 10, 2022", "2022-04-10", Form.DAY),
        ("8:00 PM", "20:00", Form.CLOCK),
        ("8 pm", "20:00:00", Form.CLOCK_SECONDS),
        ("June 3rd 2026 at 8 pm", "2026-06-03 20:00:00", Form.MOMENT_SECONDS),
        ("the lead engineer", "lead engineer", Form.WITHOUT_ARTICLE),
        ("tomorrow", "2026-11-21", Form.DAY),
        ("sore throat", "pain", None),
    ],
)
def test_forms(text: str, value: str, form: Form | None) -> None:
    assert form_of(text, value, NOW) is form
    if form is not None:
        assert written(form, text, NOW) == value


@pytest.mark.parametrize("text", ["", " ", "30 in the morning", "\ud800", "9" * 5_000, "the ", "and, or, and"])
def test_no_words_break_it(text: str) -> None:
    for form in Form:
        made = written(form, text, NOW)
        assert made is None or isinstance(made, str)


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("300", 300, Form.COPY),
        ("300", 300.0, Form.DECIMAL),
        ("$1,000", 1000.0, Form.DECIMAL),
        ("2.5", 2.5, Form.COPY),
        ("5%", 0.05, Form.SHARE),
        ("seven", 7, Form.COPY),
        ("300", 301, None),
        ("many", 300, None),
    ],
)
def test_forms_of_numbers(text: str, value: float, form: Form | None) -> None:
    assert number_form_of(text, value) is form


def test_numbers_are_written() -> None:
    assert str(number_written(Form.DECIMAL, 300)) == "300.0"
    assert number_written(Form.SHARE, 5) == 0.05
    assert str(number_written(Form.TITLE, 300)) == "300"


def test_the_end_of_a_pair_is_the_last_day_of_a_period() -> None:
    now = datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert [written(Form.DAY, "last week", now, last=last) for last in (False, True)] == ["2026-11-09", "2026-11-15"]


def test_what_is_after_a_period_is_after_its_last_day() -> None:
    now, query = datetime(2026, 11, 28, tzinfo=UTC), "Delete logs after last month"
    said = SaidMoments(query, now).at(query.index("last"), len(query))
    assert said is not None
    assert (said.day, said.last) == (date(2026, 10, 31), None)


def test_what_is_before_a_period_is_before_its_first_day() -> None:
    now = datetime(2026, 11, 20, 9, tzinfo=UTC)
    words = ("bookings before", "older than", "prior to the", "in")
    said = [SaidMoments(f"{before} next week", now).at(len(before) + 1, len(before) + 10) for before in words]
    assert [one and one.last for one in said] == [None, None, None, date(2026, 11, 29)]


def test_words_within_a_day_say_it() -> None:
    query = "valid until the end of 2027"
    said = SaidMoments(query, datetime(2026, 11, 28, 9, tzinfo=UTC)).at(query.index("2027"), len(query))
    assert said is not None
    assert said.day == date(2027, 12, 31)


def test_a_day_of_what_was_is_the_nearest_one() -> None:
    now = datetime(2026, 11, 28, 9, tzinfo=UTC)
    query = "Add 3 hours on 24/11, on 24 November 2027, on 3 March, on 1 August, those of July"
    moments = SaidMoments(query, now)
    places = [
        (query.index(said), query.index(said) + len(said))
        for said in ("24/11", "24 November 2027", "3 March", "1 August", "July")
    ]
    said = [moments.over(moments.at(*place), *place) for place in places]
    days = [date(2026, 11, 24), date(2027, 11, 24), date(2027, 3, 3), date(2026, 8, 1), date(2026, 7, 1)]
    assert [one and one.day for one in said] == days
    assert [one and one.last for one in said[-1:]] == [date(2026, 7, 31)]
    assert tells_of_past("Date the expense occurred")
    assert tells_of_past("Only those issued on or after")
    assert not tells_of_past("Date of delivery")
    assert not tells_of_past("Only those scheduled before")
    assert not tells_of_past("Needed before this day")
