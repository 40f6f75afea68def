"""Dates, times and durations in words, against a fixed clock: Friday 20 November 2026, 9:00 in Berlin."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.reading.dates import DateReader
from planner_svc.reading.moments import Duration, Moment
from planner_svc.reading.readings import whole_moments

NOW = datetime(2026, 11, 20, 9, tzinfo=timezone(timedelta(hours=1)))


def moments(text: str, *, month_first: bool = False) -> list[Moment]:
    """The moments found, sums and their parts included."""
    found = DateReader(NOW, month_first=month_first).find(text)
    return [item.value for item in found if isinstance(item.value, Moment)]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on 2027-05-01", date(2027, 5, 1)),
        ("on 1 May 2027", date(2027, 5, 1)),
        ("on the 1st of May, 2027", date(2027, 5, 1)),
        ("on May 1st, 2027", date(2027, 5, 1)),
        ("on 01.05.2027", date(2027, 5, 1)),
        ("on 31/12/2026", date(2026, 12, 31)),
        ("by 3 March", date(2027, 3, 3)),
        ("on Monday 3 May 2027", date(2027, 5, 3)),
        ("on 2027/05/01", date(2027, 5, 1)),
        ("by 3 December", date(2026, 12, 3)),
        ("today", date(2026, 11, 20)),
        ("the day after tomorrow", date(2026, 11, 22)),
        ("yesterday", date(2026, 11, 19)),
        ("on Monday", date(2026, 11, 23)),
        ("next Friday", date(2026, 11, 27)),
        ("last Friday", date(2026, 11, 13)),
        ("in three weeks", date(2026, 12, 11)),
        ("2 months ago", date(2026, 9, 20)),
        ("later today", date(2026, 11, 20)),
        ("Friday next week", date(2026, 11, 27)),
        ("tuesday next week", date(2026, 11, 24)),
        ("Saturday this week", date(2026, 11, 21)),
        ("the 25th of this month", date(2026, 11, 25)),
        ("3rd of next month", date(2026, 12, 3)),
        ("on the 25th", date(2026, 11, 25)),
        ("the 10th", date(2026, 12, 10)),
        ("on the 31st, please", date(2026, 12, 31)),
        ("since November 1st", date(2026, 11, 1)),
        ("since the 3rd of December", date(2025, 12, 3)),
        ("since 20 November", date(2026, 11, 20)),
        ("since Monday", date(2026, 11, 16)),
        ("how much since October", date(2026, 10, 1)),
        ("what changed since December", date(2025, 12, 1)),
    ],
)
def test_days(text: str, day: date) -> None:
    assert moments(text)[0].day == day


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("bookings that arrived between 1 and 15 November", [date(2026, 11, 1), date(2026, 11, 15)]),
        ("bookings that arrived between 1 November and 15 November", [date(2026, 11, 1), date(2026, 11, 15)]),
        ("Which timesheets were entered in October?", [date(2026, 10, 1)]),
        ("Create an expense of 12 dollars on 12 November", [date(2026, 11, 12)]),
        ("Is there anything new since Monday", [date(2026, 11, 16)]),
        ("invoices issued in October", [date(2026, 10, 1)]),
        ("I need the bookings that I got from Oslo on 3 March", [date(2026, 3, 3)]),
        ("what did we spend on 2 June", [date(2026, 6, 2)]),
        ("who left on Monday?", [date(2026, 11, 16)]),
        ("the guest arrived on the 12th", [date(2026, 11, 12)]),
        ("the hours Anna worked from 2 to 6 November", [date(2026, 11, 2), date(2026, 11, 6)]),
        ("I arrived on 3 December", [date(2025, 12, 3)]),
        ("Refund order 5, delivered on 12 November", [date(2026, 11, 12)]),
        ("Order 5 delivered on 12 November", [date(2026, 11, 12)]),
    ],
)
def test_after_a_verb_in_the_past_a_day_is_over(text: str, days: list[date]) -> None:
    assert [m.day for m in moments(text)] == days


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("I need a room on 12 November", date(2027, 11, 12)),
        ("I want it delivered on 12 November", date(2027, 11, 12)),
        ("I was planning to come on 12 November", date(2027, 11, 12)),
        ("Order a bin for Anna, 120 l, delivered on 12 November", date(2027, 11, 12)),
        ("Book two vans, delivered on 12 November", date(2027, 11, 12)),
        ("the room that I booked for 12 November", date(2027, 11, 12)),
        ("I moved, so find a flat from 12 November", date(2027, 11, 12)),
        ("I forgot to order a cake, book it on 12 November", date(2027, 11, 12)),
        ("Find hotels located in Rome on 12 November", date(2027, 11, 12)),
        ("I was wondering whether you have a room on 12 November", date(2027, 11, 12)),
        ("I forgot to order a cake for Anna on 12 November", date(2027, 11, 12)),
        ("the timesheet is due on 12 November", date(2027, 11, 12)),
        ("log in on Monday", date(2026, 11, 23)),
        ("Which orders are needed before 3 December?", date(2026, 12, 3)),
        ("a guided tour on Monday", date(2026, 11, 23)),
        ("Send it to the guest who called by Monday", date(2026, 11, 23)),
        ("Since 12 November is free, book the room then", date(2027, 11, 12)),
        ("My flight was cancelled please rebook me on Monday", date(2026, 11, 23)),
        ("Pay the expense on Monday", date(2026, 11, 23)),
        ("Schedule the log rotation on Monday", date(2026, 11, 23)),
    ],
)
def test_other_words_leave_a_day_to_come(text: str, day: date) -> None:
    assert moments(text)[0].day == day


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("in May 2027", date(2027, 5, 1), date(2027, 5, 31)),
        ("during 2028", date(2028, 1, 1), date(2028, 12, 31)),
        ("next month", date(2026, 12, 1), date(2026, 12, 31)),
        ("this week", date(2026, 11, 16), date(2026, 11, 22)),
    ],
)
def test_longer_times_have_a_first_and_a_last_day(text: str, first: date, last: date) -> None:
    assert [(m.day, m.last) for m in moments(text)] == [(first, last)]


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("at 18:00 on 10 December 2026", time(18)),
        ("on 10 December 2026 at 6 pm", time(18)),
        ("10 December 2026, 6:30pm", time(18, 30)),
        ("2026-12-10 18:00:05", time(18, 0, 5)),
        ("at noon on 10 December 2026", time(12)),
    ],
)
def test_a_day_and_a_time_are_one_moment(text: str, clock: time) -> None:
    assert [(m.day, m.clock) for m in moments(text)] == [(date(2026, 12, 10), clock)]


def test_both_ends_of_a_span_of_time_belong_to_the_day_named_before() -> None:
    found = moments("on 7 December 2026 from 09:00 to 11:00")
    assert [(m.day, m.clock) for m in found] == [(date(2026, 12, 7), time(9)), (date(2026, 12, 7), time(11))]


def test_an_offset_is_kept_and_its_absence_too() -> None:
    assert moments("2027-01-15T18:00:00Z")[0].zone is not None
    assert moments("2027-01-15T18:00:00")[0].zone is None


def test_a_sum_is_found_with_its_parts() -> None:
    found = DateReader(NOW).find("3 years and 2 months after 15 January 2027")
    values = [item.value for item in found]
    assert Duration(3, "year") in values
    assert Duration(2, "month") in values
    assert [v.day for v in values if isinstance(v, Moment)] == [date(2030, 3, 15), date(2027, 1, 15)]


def test_before_points_back() -> None:
    found = DateReader(NOW).find("10 weeks before 1 March 2027")
    assert [item.value for item in found if isinstance(item.value, Duration)] == [Duration(-10, "week")]
    assert date(2026, 12, 21) in [m.day for m in moments("10 weeks before 1 March 2027")]


def test_the_locale_decides_between_day_and_month() -> None:
    assert moments("03/04/2027")[0].day == date(2027, 4, 3)
    assert moments("03/04/2027", month_first=True)[0].day == date(2027, 3, 4)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("from 28 November until the 2nd", [date(2026, 11, 28), date(2026, 12, 2)]),
        ("on 4 March, and drop it off on the 10th", [date(2027, 3, 4), date(2027, 3, 10)]),
        ("on the 25th, until the 27th", [date(2026, 11, 25), date(2026, 11, 27)]),
        ("the 1st to the 3rd of June", [date(2027, 6, 1), date(2027, 6, 3)]),
    ],
)
def test_a_day_without_a_month_is_the_next_after_the_one_before(text: str, days: list[date]) -> None:
    assert [m.day for m in moments(text)] == days


@pytest.mark.parametrize(
    "text",
    [
        "31 April 2027", "you may march on", "version 2.0.1", "room 2026a", "99:99", "on the 3rd floor",
        "the 2nd of my orders", "I read the 3rd book", "on the 45th", "the 5th element",
    ],
)  # fmt: skip
def test_what_is_no_day(text: str) -> None:
    assert not [m for m in moments(text) if m.grain in ("day", "month")]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    for item in DateReader(NOW).find(text):
        assert 0 <= item.start < item.end <= len(text)


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_every_iso_date_is_read_back(day: date) -> None:
    assert moments(f"on {day.isoformat()}")[0].day == day


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("from 1 to 31 December 2027", [date(2027, 12, 1), date(2027, 12, 31)]),
        ("3-5 May 2027", [date(2027, 5, 3), date(2027, 5, 5)]),
        ("between 3 February and 1 March 2028", [date(2028, 2, 3), date(2028, 3, 1)]),
    ],
)
def test_both_ends_of_a_range_share_month_and_year(text: str, days: list[date]) -> None:
    assert [moment.day for moment in moments(text)] == days


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("nine in the morning", [time(9)]),
        ("half past three in the afternoon", [time(15, 30)]),
        ("at 7.30pm", [time(19, 30)]),
        ("from 9:30-11:00", [time(9, 30), time(11)]),
        ("at 18:00 UTC", [time(18)]),
    ],
)
def test_times_of_day_in_words_and_ranges(text: str, clocks: list[time]) -> None:
    assert [moment.clock for moment in moments(text)] == clocks


def test_a_weekday_inside_a_name_is_no_date() -> None:
    assert not moments("When do we celebrate Carnival Monday?")
    assert moments("See you on Monday")


def test_what_is_added_to_is_a_term_of_the_sum() -> None:
    found = DateReader(NOW).find("what date is it in 45 days")
    assert [(item.part, item.value.day) for item in found if isinstance(item.value, Moment)] == [
        ("sum", date(2027, 1, 4)),
        ("term", date(2026, 11, 20)),
    ]


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("wake me at 11.30 in the morning", time(11, 30)),
        ("at 9.15 in the evening", time(21, 15)),
        ("9 in the evening", time(21)),
        ("in the morning 11:30", time(11, 30)),
        ("afternoon at 3", time(15)),
        ("night 9:15, please", time(21, 15)),
        ('5 o"clock in the afternoon', time(17)),
        ("5 o\u2019clock", time(5)),
    ],
)
def test_clocks_with_the_part_of_the_day(text: str, clock: time) -> None:
    assert [moment.clock for moment in moments(text)] == [clock]


@pytest.mark.parametrize(
    "text",
    ["30 in the morning", "99 in the evening", "25:70 in the afternoon", "this evening 5 people come", "morning 13"],
)
def test_hours_that_are_none(text: str) -> None:
    assert moments(text) == []


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("a room from Thursday to Monday", [date(2026, 11, 26), date(2026, 11, 30)]),
        ("check in on Thursday and check out on Monday", [date(2026, 11, 26), date(2026, 11, 30)]),
        ("arriving Thursday, leaving Monday", [date(2026, 11, 26), date(2026, 11, 30)]),
        ("between Thursday and Monday", [date(2026, 11, 26), date(2026, 11, 30)]),
        ("from 1 November to 5 December", [date(2027, 11, 1), date(2027, 12, 5)]),
        ("from 20 December 2027 to 5 January", [date(2027, 12, 20), date(2028, 1, 5)]),
        ("who arrived from Tuesday until Monday", [date(2026, 11, 10), date(2026, 11, 16)]),
        ("from Thursday 10:00 to Monday 9:00", [date(2026, 11, 26), date(2026, 11, 30)]),
    ],
)
def test_a_range_ends_after_its_start(text: str, days: list[date]) -> None:
    assert [m.day for m in moments(text)] == days


@pytest.mark.parametrize(
    "text",
    [
        "remind me on Thursday and Monday",
        "on Thursday or Monday",
        "move the lesson from Thursday to Monday",
        "shorten my stay from Thursday to Monday",
    ],
)
def test_two_days_of_their_own_may_stand_in_any_order(text: str) -> None:
    assert [m.day for m in moments(text)] == [date(2026, 11, 26), date(2026, 11, 23)]


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("at ten past six", time(6, 10)),
        ("quarter past 2 pm", time(14, 15)),
        ("a quarter past two in the afternoon", time(14, 15)),
        ("twenty past three in the afternoon", time(15, 20)),
        ("at twenty-five past 9 a.m.", time(9, 25)),
        ("at ten to six in the evening", time(17, 50)),
        ("quarter to 12 pm", time(11, 45)),
        ("10 minutes past 7", time(7, 10)),
    ],
)
def test_minutes_past_and_to_the_hour(text: str, clock: time) -> None:
    assert [moment.clock for moment in moments(text)] == [clock]


def test_hours_from_ten_to_six_are_no_minutes() -> None:
    assert moments("open from ten to six") == []


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("on 24/12", [date(2026, 12, 24)]),
        ("from 24/12 to 02/01", [date(2026, 12, 24), date(2027, 1, 2)]),
        ("from 1/11 to 5/12", [date(2027, 11, 1), date(2027, 12, 5)]),
        ("on 12.12.", [date(2026, 12, 12)]),
        ("from 12.12. to 15.12.", [date(2026, 12, 12), date(2026, 12, 15)]),
        ("on 05-12-2026", [date(2026, 12, 5)]),
        ("on 12-25-2026", [date(2026, 12, 25)]),
        ("on Tue", [date(2026, 11, 24)]),
        ("on Tue 24 Nov", [date(2026, 11, 24)]),
        ("from next Thu to Sun", [date(2026, 11, 26), date(2026, 11, 29)]),
        ("who arrived on 3/11", [date(2026, 11, 3)]),
    ],
)
def test_short_dates(text: str, days: list[date]) -> None:
    assert [moment.day for moment in moments(text)] == days


@pytest.mark.parametrize(
    "text",
    [
        "a rate of 4/5",
        "it costs 12.12.",
        "version 2.1.",
        "the Sun",
        "he sat",
        "on 1/2/3",
        "on 3/4 of it",
        "id 12-05-1826-7",
    ],
)
def test_other_short_words_and_numbers_are_no_dates(text: str) -> None:
    assert moments(text) == []


@pytest.mark.parametrize(("text", "day"), [("on 1/12", date(2026, 12, 1)), ("on 12/1", date(2026, 12, 1))])
def test_a_short_date_of_any_order_is_the_nearer_day(text: str, day: date) -> None:
    found = DateReader(datetime(2026, 11, 29, tzinfo=UTC), month_first=None).find(text)
    assert [one.value.day for one in found if isinstance(one.value, Moment)] == [day]


def test_a_short_date_starts_with_the_month_where_the_locale_does() -> None:
    assert [moments("on 5/12", month_first=first)[0].day for first in (False, True)] == [
        date(2026, 12, 5),
        date(2027, 5, 12),
    ]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("from 28/12 to 3/1", [date(2026, 12, 28), date(2027, 1, 3)]),
        ("from 3/1/2027 to 28/1/2027", [date(2027, 1, 3), date(2027, 1, 28)]),
        ("on 3/1 and on 3/20", [date(2027, 3, 1), date(2027, 3, 20)]),
    ],
)
def test_all_short_dates_of_a_request_have_one_order(text: str, days: list[date]) -> None:
    assert [m.day for m in moments(text, month_first=True)] == days


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("on 5 augu\u017ft", "on 5 august"),
        ("on Fr\u0131day", "on Friday"),
        ("next wee\u212a", "next week"),
        ("in 5 \u017feconds", "in 5 seconds"),
    ],
)
def test_letters_that_only_patterns_take_for_others(text: str, plain: str) -> None:
    assert moments(text) == moments(plain) != []


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("List payments between 1 and 10 November", [date(2026, 11, 1), date(2026, 11, 10)]),
        ("Show the entries from 2 through 15 November", [date(2026, 11, 2), date(2026, 11, 15)]),
        ("Which events are on 20 June?", [date(2027, 6, 20)]),  # longer ago
        ("Book a room for 15 November", [date(2027, 11, 15)]),
        ("Delete messages before 5 November", [date(2026, 11, 5)]),
        ("Clear the logs before 5 November", [date(2026, 11, 5)]),
        ("Show the invoices of October", [date(2026, 10, 1)]),
        ("Show the invoices of June", [date(2027, 6, 1)]),
        ("Book a room in October", [date(2027, 10, 1)]),
        ("List what is planned for 3 December", [date(2026, 12, 3)]),
    ],
)
def test_what_is_listed_is_rather_of_the_last_weeks(text: str, days: list[date]) -> None:
    found = whole_moments(text, datetime(2026, 11, 28, 18, tzinfo=UTC))
    assert [one.value.day for one in found if isinstance(one.value, Moment)] == days


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("tonight at 9", time(21)),
        ("this morning at 9", time(9)),
        ("this morning at nine", time(9)),
        ("this afternoon at 3.30", time(15, 30)),
        ("this evening at 8:15 pm", time(20, 15)),
    ],
)
def test_a_part_of_today_with_its_time(text: str, clock: time) -> None:
    assert [(moment.day, moment.clock) for moment in moments(text)] == [(moments("today")[0].day, clock)]
