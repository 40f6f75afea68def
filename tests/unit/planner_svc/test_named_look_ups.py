"""A name is looked up where an id is needed, and amounts are taken by their unit, as documents tell and no network."""

import pytest

from planner_svc.backends.compact import CompactBackend
from services.contracts.api import Api, Location
from services.contracts.context import Context
from services.contracts.plan import LiteralValue, Plan, Reference
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import TEXT, WHOLE, api, listed, param, record
from tests.unit.planner_svc.test_compact_backend import NOW

BIRD_ID = param("birdId", {"type": "string", "examples": ["b-12"]}, required=True, at=Location.PATH)
WEIGH = api(
    "recordWeighing",
    BIRD_ID,
    param("weightG", WHOLE, required=True, at=Location.BODY, about="Weight in grams"),
    method="POST",
    path="/birds/{birdId}/weighings",
    summary="Record a weighing",
    returns=record(id=WHOLE, weightG=WHOLE),
)
FIND = api(
    "searchBirds",
    param("q", required=True, about="Name or ring number of the bird"),
    path="/birds/search",
    method="GET",
    summary="Find birds by name or ring number",
    returns=record(items=listed(record(id=TEXT, name=TEXT))),
)
RENEW = api(
    "renewPermit",
    param("permitNo", {"type": "string", "examples": ["FP-204"]}, required=True, at=Location.PATH),
    param("months", WHOLE, required=True, at=Location.BODY, about="By how many months"),
    method="POST",
    path="/permits/{permitNo}/renew",
    summary="Renew a permit",
    returns=record(permitNo=TEXT, state=TEXT),
)


def drafted(backend: CompactBackend, query: str, *apis: Api) -> Plan:
    candidates = tuple(Candidate(api=one, score=1 - 0.02 * rank) for rank, one in enumerate(apis))
    plan = backend.draft(PlanRequest(query=query, candidates=candidates, context=Context(now=NOW))).plan
    assert plan is not None
    return plan


def test_a_name_is_no_id(backend: CompactBackend) -> None:
    plan = drafted(backend, "Rex weighed 618 g", WEIGH, FIND)
    assert [one.api for one in plan.steps] == ["t.searchBirds", "t.recordWeighing"]
    assert plan.steps[0].arguments == {"q": LiteralValue(value="Rex")}
    assert plan.steps[1].arguments["birdId"] == Reference(step=plan.steps[0].id, path=("items", 0, "id"))
    assert plan.steps[1].arguments["weightG"] == LiteralValue(value=618)


def test_a_name_does_not_begin_with_the_verb(backend: CompactBackend) -> None:
    plan = drafted(backend, "Weigh Rex, 618 g", WEIGH, FIND)
    assert plan.steps[0].arguments == {"q": LiteralValue(value="Rex")}


def test_a_code_is_an_id(backend: CompactBackend) -> None:
    plan = drafted(backend, "b-11 weighed 618 g", WEIGH, FIND)
    assert [one.api for one in plan.steps] == ["t.recordWeighing"]
    assert plan.steps[0].arguments["birdId"] == LiteralValue(value="b-11")


def test_without_a_search_the_user_is_asked(backend: CompactBackend) -> None:
    plan = drafted(backend, "Rex weighed 618 g", WEIGH)
    assert "birdId" not in plan.steps[0].arguments


@pytest.mark.parametrize(
    ("query", "months"),
    [("renew FP-202 for another year", 12), ("renew FP-202 for a year", 12), ("renew FP-202 by two years", 24)],
)
def test_the_only_length_is_the_one_that_is_needed(backend: CompactBackend, query: str, months: int) -> None:
    plan = drafted(backend, query, RENEW)
    assert plan.steps[0].arguments == {"permitNo": LiteralValue(value="FP-202"), "months": LiteralValue(value=months)}


def test_without_a_length_none_is_guessed(backend: CompactBackend) -> None:
    plan = drafted(backend, "renew FP-202", RENEW)
    assert "months" not in plan.steps[0].arguments


@pytest.mark.parametrize("query", ["door code of the office Harbour House", "door code of office Harbour House"])
def test_a_name_has_no_word_for_its_kind(backend: CompactBackend, query: str) -> None:
    search = api(
        "searchOffices",
        param("name"),
        param("city"),
        path="/offices",
        method="GET",
        summary="Search offices",
        returns=listed(record(id=TEXT, name=TEXT, doorCode=TEXT)),
    )
    assert drafted(backend, query, search).steps[0].arguments == {"name": LiteralValue(value="Harbour House")}
