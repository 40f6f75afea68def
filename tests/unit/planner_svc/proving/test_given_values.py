"""Values that an application gives, such as answers to questions, go where they fit."""

from typing import Any

import pytest

from planner_svc.proving.given_values import with_answers, with_refused
from services.contracts.api import Location
from services.contracts.context import Context
from services.contracts.plan import LiteralValue
from services.contracts.planning import Question
from tests.unit.planner_svc.building import TEXT, api, param, plan, step

KINDS = ["engine", "rigging", "electrics"]
OPEN = api(
    "open_job",
    param("boat", TEXT, required=True, at=Location.BODY),
    param("hours", {"type": "number"}, required=True, at=Location.BODY),
    param("urgent", {"type": "boolean"}, required=True, at=Location.BODY),
    param("kind", {"type": "string", "enum": KINDS}, required=True, at=Location.BODY),
    method="POST",
    path="/jobs",
)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("hours", "6", 6),
        ("hours", "2.5", 2.5),
        ("hours", 6, 6),
        ("hours", "lots", None),
        ("urgent", "true", True),
        ("boat", 7, "7"),
        ("boat", "7", "7"),
    ],
)
def test_a_value_given_as_text_is_what_the_argument_takes(name: str, given: Any, value: Any) -> None:
    mended = with_answers(plan(step("a", "open_job")), "Open a job", Context(values={name: given}), {OPEN.id: OPEN})
    assert mended.steps[0].arguments.get(name) == (None if value is None else LiteralValue(value=value))


@pytest.mark.parametrize(("query", "kind"), [("Open a job", "engine"), ("Open a rigging job", "rigging")])
def test_a_given_option_replaces_one_that_the_request_does_not_name(query: str, kind: str) -> None:
    made = plan(step("a", "open_job", kind="rigging"))
    mended = with_answers(made, query, Context(values={"kind": "engine"}), {OPEN.id: OPEN})
    assert mended.steps[0].arguments["kind"] == LiteralValue(value=kind)


def test_a_question_says_that_the_given_value_does_not_fit() -> None:
    asked = Question(step="a", api="open_job", argument="hours", text="How long?", json_schema={"type": "number"})
    (again,) = with_refused([asked], Context(values={"hours": "lots"}))
    assert again.text == "“lots” does not fit (number). How long?"
    assert with_refused([asked], Context()) == (asked,)
