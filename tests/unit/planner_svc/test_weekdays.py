"""Weekdays that a request names go to the argument whose options are weekdays."""

from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.profile import read_profile
from planner_svc.reading.weekdays import named_weekdays
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, TEXT, api, param

DAYS = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
LISTED: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": DAYS}}
ALARM = api(
    "setAlarm",
    "Set a recurring alarm",
    param("time", TEXT, "Time of day, HH:MM", required=True),
    param("weekdays", LISTED, "Days of the week on which it rings"),
    method="POST",
)


def numbers(query: str, *others: Any) -> list[int]:
    profile = read_profile(api("alarm", "Set an alarm", param("weekdays", LISTED), *others))
    return [DAYS.index(str(day)) for day in named_weekdays(profile, profile.slots[0], query)[0]]


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("every Monday and Thursday", [0, 3]),
        ("on Mon, WED & fridays", [0, 2, 4]),
        ("on Friday", [4]),
        ("on weekdays", [0, 1, 2, 3, 4]),
        ("every weekday except Friday", [0, 1, 2, 3]),
        ("at the weekend", [5, 6]),
        ("Monday to Wednesday and Saturday", [0, 1, 2, 5]),
        ("Sat-Mon", [0, 5, 6]),
        ("every day but not on Sundays", [0, 1, 2, 3, 4, 5]),
        ("on Friday instead of Monday", [4]),
        ("no longer on Mondays but on Tuesdays", [1]),
        ("move it from Monday to Friday", [4]),
        ("change it from Mon and Tue to Wed and Thu", [2, 3]),
        ("from Monday to Friday", [0, 1, 2, 3, 4]),
        ("on \u017faturday", [5]),
        ('called "every Monday"', []),
        ("in the sun, we wed", []),
        ("with weekdays MON and THU", [0, 3]),
        ("with weekdays: Saturday", [5]),
    ],
)
def test_weekdays_are_read(query: str, days: list[int]) -> None:
    assert numbers(query) == days


def test_a_single_day_may_be_the_date_of_another_argument() -> None:
    date = param("start_date", DAY)
    assert numbers("every Monday from Tuesday", date) == [0]
    assert numbers("Mondays and Fridays", date) == [0, 4]
    assert numbers("on Monday", date) == []
    assert numbers("from Monday to Friday", date) == []
    assert numbers("on Monday", param("start_time")) == [0]


@pytest.mark.parametrize(
    ("words", "days"),
    [("every Monday and Thursday", ["MON", "THU"]), ("on weekdays", DAYS[:5]), ("on Tuesdays", ["TUE"])],
)
def test_the_planner_sends_the_days_and_keeps_them_out_of_the_time(
    backend: CompactBackend, words: str, days: list[str]
) -> None:
    draft = backend.draft(
        PlanRequest(query=f"Set an alarm at 07:30 {words}", candidates=(Candidate(api=ALARM, score=1),))
    )
    assert draft.plan is not None
    (step,) = draft.plan.steps
    assert step.arguments == {"time": LiteralValue(value="07:30"), "weekdays": LiteralValue(value=days)}


def test_a_time_is_written_as_stated_also_beside_a_day(backend: CompactBackend) -> None:
    visit = api(
        "announceVisitor",
        "Announce a visitor at the front desk",
        param("name", TEXT, "Name of the visitor", required=True),
        param("date", DAY, "Day of the visit", required=True),
        param("time", TEXT, "Time of arrival, HH:MM"),
        method="POST",
    )
    query = "Announce a visitor: Tom Berger on 30 November 2026 at 9:30"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=visit, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["time"] == LiteralValue(value="09:30")
