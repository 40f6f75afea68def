"""An answer of one value does not answer two questions."""

import pytest

from planner_svc.proving.unanswered import unanswered
from services.contracts.api import Location
from tests.unit.planner_svc.building import TEXT, api, param, plan, record, step

SITE = api(
    "getSite",
    param("id", required=True, at=Location.PATH),
    path="/sites/{id}",
    returns=record(name=TEXT, owner=record(name=TEXT)),
)
APIS = {SITE.id: SITE}
NAME = plan(step("a", "getSite", id="s-4"), answer="$a.name$")
WHOLE = plan(step("a", "getSite", id="s-4"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("which site is s-4, and who owns it?", "who owns it"),
        ("What is s-4 called? Who owns it?", "Who owns it"),
        ("which site is s-4?", ""),
        ("what is the name of s-4, which is in Hull?", ""),
        ('which site is "and who owns it"?', ""),
    ],
)
def test_a_second_question_needs_an_answer(query: str, words: str) -> None:
    assert unanswered(query, NAME, APIS) == words


def test_an_object_may_answer_all_questions() -> None:
    assert unanswered("which site is s-4, and who owns it?", WHOLE, APIS) == ""
    owner = plan(step("a", "getSite", id="s-4"), answer="$a.owner$")
    assert unanswered("which site is s-4, and who owns it?", owner, APIS) == ""
