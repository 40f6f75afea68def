"""What starts at a time and lasts as long as the request says has an end."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.lengths import add_ends_by_length
from planner_svc.backends.compact.said_moments import SaidMoments
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.profile import read_profile
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, TEXT, WHOLE, api, param

AT: dict[str, Any] = {"type": "string", "format": "date-time"}
BOOK = api(
    "createBooking",
    "Book a meeting room for a member",
    param("room_id", TEXT, "Id of the room", required=True),
    param("member_id", WHOLE, "Id of the member", required=True),
    param("starts_at", AT, "Start", required=True),
    param("ends_at", AT, "End", required=True),
    method="POST",
)
STAY = api("book", "Book a stay", param("checkin_start", DAY), param("checkin_end", DAY), method="POST")


def said(query: str) -> Any:
    """A filler that knows the moments."""
    return SimpleNamespace(moments=SaidMoments(query, datetime(2026, 11, 28, tzinfo=UTC)))


def end(query: str, starts: str, ends: str | None = None, of: str = "") -> object:
    """The end of a call with this start; ``ends`` is what was read as the end, from the words ``of``."""
    profile = read_profile(STAY if len(starts) == 10 else BOOK)
    first, last = profile.slots[-2:]
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate((first, last))]
    call = DraftCall(0, 0.9)
    call.arguments[first.name] = LiteralArgument(starts, (0, 1), 0.9)
    if ends is None:
        call.missing.append(last.name)
    else:
        call.arguments[last.name] = LiteralArgument(ends, (query.index(of), query.index(of) + len(of)), 0.9)
    add_ends_by_length(said(query), query, call, fills)
    found = call.arguments.get(last.name)
    assert (last.name in call.missing) == (found is None)
    return found.value if isinstance(found, LiteralArgument) else None


@pytest.mark.parametrize(
    ("query", "starts", "ends"),
    [
        ("at 3 pm for two hours", "2026-12-09T15:00:00Z", "2026-12-09T17:00:00Z"),
        ("at 3 pm, 90 minutes", "2026-12-09T15:00:00+00:00", "2026-12-09T16:30:00+00:00"),
        ("at 11 pm for an hour and a half", "2026-12-31T23:00:00Z", "2027-01-01T00:30:00Z"),
        ("from 9 for 2 weeks", "2026-12-09T09:00:00+01:00", "2026-12-23T09:00:00+01:00"),
        ("from 9 for a month", "2026-12-31T09:00:00Z", "2027-01-31T09:00:00Z"),
        ("from 20 December for three nights", "2026-12-20", "2026-12-23"),
        ("from 20 December for two weeks", "2026-12-20", None),
        ("at 3 pm for members, two hours before closing", "2026-12-09T15:00:00Z", None),
        ("at 3 pm for two hours, for 10 minutes", "2026-12-09T15:00:00Z", None),
        ("at 3 pm for two people", "2026-12-09T15:00:00Z", None),
    ],
)
def test_the_length_is_added_to_the_start(query: str, starts: str, ends: str | None) -> None:
    assert end(query, starts) == ends


def test_an_end_of_its_own_stays_and_one_read_from_the_length_does_not() -> None:
    query, start = "at 3 pm for two hours until 18:00", "2026-12-09T15:00:00Z"
    assert end(query, start, "2026-12-09T18:00:00Z", "18:00") == "2026-12-09T18:00:00Z"
    assert end(query, start, "2026-12-09T02:00:00Z", "two") == "2026-12-09T17:00:00Z"


@pytest.mark.parametrize(
    ("query", "ends"),
    [
        ("on 14 December for three days", None),
        ("for two weeks from 14 December", None),
        ("on 14 December for a night", "2026-12-15"),
        ("on 14 December for a day", "2026-12-14"),
        ("on 14 December for two hours", "2026-12-14"),
    ],
)
def test_what_lasts_longer_than_a_day_does_not_end_on_it(query: str, ends: str | None) -> None:
    day = "14 December"
    place = query.index(day), query.index(day) + len(day)
    profile = read_profile(api("close", "Close", param("from", DAY, required=True), param("to", DAY, required=True)))
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9, {name: LiteralArgument("2026-12-14", place, 0.9) for name in ("from", "to")})
    add_ends_by_length(said(query), query, call, fills)
    found = call.arguments.get("to")
    assert (found.value if isinstance(found, LiteralArgument) else None) == ends
    assert call.missing == ([] if ends else ["to"])


@pytest.mark.parametrize(
    ("query", "start", "ends"),
    [
        ("a van from 1 December for 5 days", "1 December", "2026-12-05"),
        ("a van for two weeks from 1 December", "1 December", "2026-12-14"),
        ("a room in December for three nights", "December", None),
    ],
)
def test_a_last_day_is_counted_and_a_period_has_its_own_end(query: str, start: str, ends: str | None) -> None:
    profile = read_profile(api("give", "Give", param("from", DAY, "First day"), param("to", DAY, "Last day")))
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate(profile.slots)]
    place = query.index(start), query.index(start) + len(start)
    call = DraftCall(0, 0.9, {"from": LiteralArgument("2026-12-01", place, 0.9)})
    add_ends_by_length(said(query), query, call, fills)
    found = call.arguments.get("to")
    assert (found.value if isinstance(found, LiteralArgument) else None) == ends


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("on 9 December 2026 at 10:00 for two hours", "2026-12-09T12:00:00Z"),
        ("on 9 December 2026, 9am-10am", "2026-12-09T10:00:00Z"),
        ("on 9 December 2026 at 10:00", None),
    ],
)
def test_nothing_is_booked_that_ends_as_it_starts(backend: CompactBackend, words: str, ends: str | None) -> None:
    query = f"Book R-ATLAS for member 303 {words}"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=BOOK, score=1),)))
    if ends is None:
        assert [one.argument for one in draft.missing] == ["ends_at"]
    else:
        assert draft.plan is not None
        assert draft.plan.steps[0].arguments["ends_at"] == LiteralValue(value=ends)
