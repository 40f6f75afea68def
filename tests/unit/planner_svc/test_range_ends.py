"""A value is sent as the end of a range that the request means."""

from datetime import UTC, datetime

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.periods import add_other_ends
from planner_svc.backends.compact.range_ends import set_right_ends
from planner_svc.backends.compact.said_moments import SaidMoments
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.profile import read_profile
from planner_svc.reading.readings import number_in
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, NUMBER, api, param

LIST = api("list", "List invoices", param("minAmount", NUMBER), param("maxAmount", NUMBER))
DAYS = api("listAppointments", "List appointments", param("from", DAY, "First day"), param("to", DAY, "Last day"))


class Numbers:
    """Reads numbers."""

    def __init__(self, query: str) -> None:
        self.query = query

    def meaning(self, fill: FillRequest, start: int, end: int) -> int | float | None:
        """The number at these characters."""
        return number_in(self.query[start:end])


class Days:
    """Reads days."""

    def __init__(self, query: str) -> None:
        self.moments = SaidMoments(query, datetime(2026, 11, 28, tzinfo=UTC))

    def meaning(self, fill: FillRequest, start: int, end: int) -> str:
        """The day at these characters."""
        moment = self.moments.at(start, end)
        assert moment is not None
        return str(moment.last_day().day if fill.slot.role == "to" else moment.day)


def moved(query: str, **said: str) -> dict[str, object]:
    """The arguments, for which these words were marked."""
    profile = read_profile(LIST)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9)
    for name, words in said.items():
        place = query.index(words), query.index(words) + len(words)
        call.arguments[name] = LiteralArgument(number_in(words), place, 0.9)
    set_right_ends(Numbers(query), query, call, fills)  # type: ignore[arg-type]
    return {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        ("less than £", None, 40),
        ("under ", None, 40),
        ("no more than ", None, 40),
        ("at most ", None, 40),
        ("more than ", 40, None),
        ("not less than $", 40, None),
        ("at least ", 40, None),
        ("over ", 40, None),
        ("not over ", None, 40),
        ("not exceeding €", None, 40),
        ("that don't exceed ", None, 40),
        ("not under ", 40, None),
        ("not before ", 40, None),
        (">= ", 40, None),
        ("<", None, 40),
    ],
)
@pytest.mark.parametrize("name", ["minAmount", "maxAmount"])
def test_the_words_before_a_number_tell_the_end(words: str, least: int | None, most: int | None, name: str) -> None:
    found = moved(f"Show invoices of {words}40", **{name: "40"})
    assert found == {end: value for end, value in (("minAmount", least), ("maxAmount", most)) if value is not None}


def test_a_range_that_ends_before_it_starts_is_turned_round() -> None:
    assert moved("Show invoices between 50 and 100", minAmount="100", maxAmount="50") == {
        "minAmount": 50,
        "maxAmount": 100,
    }


def test_other_words_leave_the_ends() -> None:
    assert moved("Show invoices of 40", maxAmount="40") == {"maxAmount": 40}
    assert moved("over 50 but under 200", minAmount="50", maxAmount="200") == {"minAmount": 50, "maxAmount": 200}


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("Which appointments do we have before 4 December 2026?", {"to": "2026-12-04"}),
        ("List the appointments on 4 December 2026", {"from": "2026-12-04", "to": "2026-12-04"}),
        ("List appointments since 4 December 2026", {"from": "2026-12-04"}),
        ("List appointments from 2 December 2026 to 4 December 2026", {"from": "2026-12-02", "to": "2026-12-04"}),
    ],
)
def test_the_planner_sends_days_as_the_right_ends(backend: CompactBackend, query: str, days: dict[str, str]) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=DAYS, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments == {name: LiteralValue(value=day) for name, day in days.items()}


@pytest.mark.parametrize(
    ("words", "role", "names"),
    [("from last week", "to", {"from", "to"}), ("from last week", "from", {"from"}), ("until last week", "to", {"to"})],
)
def test_what_is_from_a_period_ends_with_it(words: str, role: str, names: set[str]) -> None:
    query, profile = f"List appointments {words}", read_profile(DAYS)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9, {role: LiteralArgument("2026-11-16", (query.index("last"), len(query)), 0.9)})
    add_other_ends(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert call.arguments.keys() == names


def test_the_last_word_tells_the_end_of_a_start_or_an_end() -> None:
    names = ("StartDateFrom", "StartDateTo", "EndDateFrom", "EndDateTo", "created_gt", "start", "endDate", "not_before")
    slots = read_profile(api("list", "List", *(param(name, DAY) for name in names))).slots
    assert [slot.role for slot in slots] == ["from", "to", "from", "to", "from", "from", "to", "from"]
    assert slots[0].paired == slots[1].paired == {"start", "date"}
    assert slots[2].paired == {"end", "date"}
    assert slots[6].paired == {"date"}
