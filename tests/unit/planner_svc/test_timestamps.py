"""Arguments that take a point in time get the whole moment in their notation."""

from datetime import UTC, datetime
from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.profile import read_profile
from planner_svc.reading.timestamps import is_stamp, stamp_of
from services.contracts.context import Context
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, TEXT, WHOLE, api, param

MOMENT = {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    ("schema", "about", "stamp"),
    [
        (WHOLE, "Start, Unix timestamp", "seconds"),
        (WHOLE, "Start in milliseconds since the epoch", "milliseconds"),
        (WHOLE, "Start of the day", None),
        (TEXT, "Start, in RFC 3339 format", "rfc3339"),
        (MOMENT, "Start", "date-time"),
        (DAY, "Day of the epoch, RFC 3339", None),
        (TEXT, "Start", None),
    ],
)
def test_the_notation_is_stated(schema: dict[str, Any], about: str, stamp: str | None) -> None:
    (slot,) = read_profile(api("list", "List", param("start", schema, about))).slots
    assert stamp_of(slot) == stamp


def test_an_hour_is_no_second_of_unix() -> None:
    assert [is_stamp("seconds", value) for value in (10, 1_796_000_000)] == [False, True]
    assert is_stamp("rfc3339", 10)
    assert is_stamp(None, 10)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("before 5 November 2026", "2026-11-05T00:00:00Z"),
        ("older than last month", "2026-10-01T00:00:00Z"),
        ("until 5 November 2026", "2026-11-05T23:59:59Z"),
    ],
)
def test_what_is_before_a_day_leaves_it_out(backend: CompactBackend, said: str, value: str) -> None:
    about = "Only files changed before this time, in RFC 3339"
    purge = api("purgeFiles", "Purge files", param("before", TEXT, about, required=True), method="POST")
    request = PlanRequest(
        query=f"Purge files {said}",
        candidates=(Candidate(api=purge, score=1),),
        context=Context(now=datetime(2026, 11, 28, tzinfo=UTC)),
    )
    draft = backend.draft(request)
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["before"] == LiteralValue(value=value)


@pytest.mark.parametrize(
    ("schema", "about", "value"),
    [
        (TEXT, "Start, in RFC 3339 format", "2026-11-30T09:00:00Z"),
        (WHOLE, "Start, Unix timestamp in seconds", 1_796_029_200),
    ],
)
def test_the_planner_sends_the_whole_moment(
    backend: CompactBackend, schema: dict[str, Any], about: str, value: object
) -> None:
    book = api(
        "createBooking",
        "Create a booking",
        param("start_at", schema, about, required=True),
        param("location_id", required=True),
        method="POST",
    )
    query = "Create a booking at location L1 for Monday 30 November 2026 at 9am"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=book, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["start_at"] == LiteralValue(value=value)


@pytest.mark.parametrize(
    ("words", "value"),
    [("before 10 December 2026", "2026-12-10T00:00:00Z"), ("until 10 December 2026", "2026-12-10T23:59:59Z")],
)
def test_what_is_before_a_day_ends_with_its_beginning(backend: CompactBackend, words: str, value: str) -> None:
    listed = api("listReadings", "List readings", param("end_at", TEXT, "End, in RFC 3339 format"))
    draft = backend.draft(PlanRequest(query=f"List the readings {words}", candidates=(Candidate(api=listed, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments == {"end_at": LiteralValue(value=value)}
