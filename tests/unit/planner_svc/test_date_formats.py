"""Dates are written in the format that a parameter's description states."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest

from planner_svc.reading.date_formats import date_formats, in_stated_format, is_no_clock
from planner_svc.reading.moments import Moment
from planner_svc.reading.profile import read_profile
from planner_svc.reading.readings import readings
from tests.unit.planner_svc.building import api, param

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
DAY = date(2026, 11, 28)


@pytest.mark.parametrize(
    ("description", "formats"),
    [
        ("Start of the range in local time (YYYY-MM-DDTHH:mm)", ("%Y-%m-%dT%H:%M",)),
        ("YYYY-MM-DD or YYYY-MM-DDTHH:mm. When not given, ...", ("%Y-%m-%d", "%Y-%m-%dT%H:%M")),
        ("format: yyyy-mm-dd hh:mm:ss", ("%Y-%m-%d %H:%M:%S",)),
        ("yyyyMMdd", ("%Y%m%d",)),
        ("DD/MM/YYYY", ("%d/%m/%Y",)),
        ("mm/dd/yyyy", ("%m/%d/%Y",)),
        ("opens at HH:MM.", ("%H:%M",)),
        ("hh:mm AM", ()),
        ("YYYY-MM-DDTHH:mm:ssZ", ()),
        ("YYYY-MM-DDTHH:mm:ss+00:00", ()),
        ("YYYY-MM-DDTHH:mm:ss.SSSZ", ()),
        ("YYYY-MM", ()),
        ("the hmm and the ddd of 5", ()),
        ("", ()),
    ],
)
def test_stated_formats_are_found(description: str, formats: tuple[str, ...]) -> None:
    assert date_formats(description) == formats


@pytest.mark.parametrize(
    ("moment", "formats", "written"),
    [
        (Moment("time", DAY, clock=time(10)), ("%Y-%m-%d", "%Y-%m-%dT%H:%M"), ["2026-11-28T10:00", "2026-11-28"]),
        (Moment("day", DAY), ("%Y-%m-%dT%H:%M", "%d/%m/%Y"), ["28/11/2026", "2026-11-28T00:00"]),
        (Moment("time", clock=time(10, 5)), ("%Y-%m-%d", "%H:%M"), ["10:05"]),
        (Moment("time", DAY, clock=time(10), zone=timezone(timedelta(hours=2))), ("%Y-%m-%dT%H:%M",), []),
    ],
)
def test_a_moment_is_written_in_the_formats_that_say_as_much_first(
    moment: Moment, formats: tuple[str, ...], written: list[str]
) -> None:
    assert in_stated_format(moment, formats) == written


def test_words_are_read_in_the_stated_format_first() -> None:
    search = api(
        "search",
        param("from", about="Start (YYYY-MM-DDTHH:mm)"),
        param("day", about="The day, as DD.MM.YYYY"),
        param("until", about="A date"),
    )
    profile = read_profile(search)
    first = [readings(profile, slot, "2026-11-28 at 10:00", NOW)[0] for slot in profile.slots]
    assert first == ["2026-11-28T10:00", "28.11.2026", "2026-11-28T10:00"]
    assert readings(profile, profile.slots[1], "tomorrow", NOW)[0] == "28.11.2026"


def test_a_long_description_of_separators_takes_no_time() -> None:
    assert date_formats("yyyy-" * 100_000) == ()
    assert date_formats("hh:mm:" * 100_000) == ()


@pytest.mark.parametrize(
    ("text", "refused"),
    [("8 am - 6:30 pm", True), ("0800-1730", True), ("10", True), ("08:15", False), ("noon", False)],
)
def test_what_is_no_time_is_not_sent_as_one(text: str, refused: bool) -> None:
    assert is_no_clock(text, date_formats("24-hour time, HH:MM")) == refused
    assert not is_no_clock(text, date_formats("YYYY-MM-DD"))
    assert not is_no_clock(text, ())


def test_a_day_is_no_time_of_day() -> None:
    assert is_no_clock("Thursday", date_formats("New end, HH:MM"), Moment("day", day=date(2026, 12, 3)))
    assert not is_no_clock("noon", date_formats("New end, HH:MM"), Moment("time", clock=time(12)))
