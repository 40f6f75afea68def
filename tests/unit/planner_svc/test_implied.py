"""A request implies today where it counts from now, and the only code that is left, for calls that read."""

from datetime import UTC, datetime

import pytest

from planner_svc.reading.implied import with_implied
from services.contracts.api import Api
from services.contracts.context import Context
from services.contracts.plan import Plan
from services.contracts.planning import PlanRequest, Question
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import TEXT, api, param, plan, step

DAY = {"type": "string", "format": "date"}
ADD = api("add", param("date", DAY, required=True), param("days", {"type": "integer"}))
SINCE = api("difference", param("start", DAY, required=True), param("end", DAY, required=True))
BOOK = api("book", param("date", DAY, required=True), method="POST")
FIND = api("find", param("name", TEXT, required=True))
CONVERT = api("convert", param("source", about="ISO 4217 code"), param("target", about="ISO 4217 code"))
NOTHING = plan(step("a", "find", name="x"))
NOW = datetime(2026, 11, 28, 15, tzinfo=UTC)


def known(query: str, called: Api, *arguments: str, so_far: Plan = NOTHING) -> dict[str, object]:
    request = PlanRequest(query=query, candidates=(Candidate(api=called, score=1),), context=Context(now=NOW))
    asked = [Question(step="a", api=called.id, argument=name, text="?") for name in arguments]
    found = with_implied(request, asked, so_far)
    assert (found is request) == (not found.context.values)
    return dict(found.context.values)


@pytest.mark.parametrize(
    "query",
    [
        "which day of the week is it five days from now?",
        "what date will it be in 45 days?",
        "three weeks ago was what date",
        "what quarter are we in?",
    ],
)
def test_what_counts_from_now_is_of_today(query: str) -> None:
    assert known(query, ADD, "date") == {"date": "2026-11-28"}


def test_only_the_end_that_is_not_said_is_today() -> None:
    assert known("how many days until 24 December 2026?", SINCE, "start") == {"start": "2026-11-28"}
    assert known("how long is it since 1 May 2026", SINCE, "end") == {"end": "2026-11-28"}


def test_nothing_else_is_guessed() -> None:
    assert known("which day of the week is it then?", ADD, "date") == {}
    assert known("book a table in five days", BOOK, "date") == {}
    assert known("who is here today", FIND, "name") == {}
    assert known('which date says "five days from now"?', ADD, "date") == {}


def test_the_only_code_that_no_argument_has_is_meant() -> None:
    assert known("what is the notebook in USD", CONVERT, "target") == {"target": "USD"}
    from_eur = plan(step("a", "convert", source="EUR"))
    assert known("what are 20 EUR in USD", CONVERT, "target", so_far=from_eur) == {"target": "USD"}
    assert known("what are 20 EUR in USD", CONVERT, "target") == {}
    assert known("what is it in USD", CONVERT, "source", "target") == {}
