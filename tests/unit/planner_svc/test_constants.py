"""Arguments that have a constant: nobody is asked for them, nothing is looked up for them, who names one is heard."""

from typing import Any

from planner_svc.backends.served.signatures import BRIEF, Wanted, signature
from planner_svc.proving.given_values import with_answers
from planner_svc.proving.unused_values import questions_about
from planner_svc.reading.profile import read_profile
from planner_svc.reading.stated import stated, with_stated, without_constants
from services.contracts.api import Api, Location
from services.contracts.context import Context
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, plan, prove, record, step

VERSION = param("Wiki-Version", required=True, at=Location.HEADER).model_copy(update={"constant": "2022-06-28"})
ACCOUNT = param("account_id", WHOLE, required=True, at=Location.PATH).model_copy(update={"constant": 42})
CREATE = api(
    "createPage",
    ACCOUNT,
    VERSION,
    param("title", required=True, at=Location.BODY),
    param("weight", WHOLE, at=Location.BODY),
    method="POST",
    path="/accounts/{account_id}/pages",
    summary="Create a page",
)
LIST = api("listPages", ACCOUNT, VERSION, path="/accounts/{account_id}/pages", returns=record(title=TEXT))
APIS = {one.id: one for one in (CREATE, LIST)}


def said(query: str, subject: Api = LIST) -> dict[str, Any]:
    return {".".join(map(str, one.path)): one.value for one in stated(query, read_profile(subject))}


def test_a_plan_without_them_is_proved() -> None:
    response = prove(plan(step("a", "listPages")), LIST)
    assert response.compiled is not None
    assert response.questions == ()
    assert response.compiled.plan.steps[0].arguments == {}


def test_nothing_is_called_to_find_them() -> None:
    accounts = api("getAccount", returns=record(account_id=WHOLE))
    response = prove(plan(step("a", "listPages")), LIST, accounts)
    assert response.compiled is not None
    assert response.compiled.proof.inserted == ()


def test_no_backend_has_a_place_for_them_and_who_names_one_is_heard() -> None:
    profile = read_profile(CREATE)
    assert [slot.name for slot in profile.slots] == ["title", "weight"]
    assert [slot.name for slot in profile.constant_slots] == ["account_id", "Wiki-Version"]
    assert said("List the 5 pages") == {}
    assert said("List the pages of account id 7") == {"account_id": 7}
    assert said('List the pages, wiki version "2021-01-01"') == {"Wiki-Version": "2021-01-01"}
    given = with_stated(plan(step("a", "listPages")), "List the pages of account id 7", APIS)
    assert given.steps[0].arguments["account_id"].value == 7  # type: ignore[union-attr]


def test_backends_are_not_told_values_that_they_have_no_place_for() -> None:
    query = 'List the 7 pages of account id 7, wiki version "2021-01-01"'
    left = without_constants(query, [*APIS.values()])
    assert (len(left), left.split()) == (len(query), ["List", "the", "7", "pages", "of", ","])
    other = api("other", param("account_id", WHOLE, required=True))
    assert without_constants(query, [other]) == query
    assert "account id 7" in without_constants(query, [LIST, other])


def test_what_the_application_says_comes_first() -> None:
    given = with_answers(plan(step("a", "listPages")), "", Context(values={"account_id": 7, "other": 1}), APIS)
    values = {name: value.value for name, value in given.steps[0].arguments.items()}  # type: ignore[union-attr]
    assert values == {"account_id": 7}


def test_a_request_that_says_the_constant_leaves_nothing_out() -> None:
    proposed = plan(step("a", "createPage", title="Roses"))
    for number, asked in ((42, 0), (43, 1)):
        query = f'Create a page "Roses" with {number}'
        assert len(questions_about(query, Context(), proposed, APIS)) == asked


def test_a_language_model_is_told_that_they_may_be_left_out() -> None:
    shown = signature(CREATE, "createPage", BRIEF, frozenset(), Wanted())
    assert "title" in shown
    assert "account_id?" in shown
