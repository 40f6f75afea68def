"""Requests that say a body plainly: each value is one that the schemas take, and is looked for where it belongs."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from evals.bodies.measuring import BodyRequest, failure_of, read_folder, sample_requests
from evals.bodies.wording import NotExpressible, StatedValue, arguments_of, request_of, stated_values
from evals.data import DataError
from evals.planning.asking import Answer
from planner_svc.compile import compile_plan
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Decision, Policy
from tests.unit.retriever_svc.documents import document, operation, single


def posting(schema: dict[str, Any], **more: Any) -> Api:
    body = {"content": {"application/json": {"schema": schema}}}
    return single(operation(requestBody=body, summary="Create a thing.", **more), method="post")


def stated_texts(schema: dict[str, Any]) -> list[str]:
    return [one.text for one in stated_values(posting(schema), random.Random(1))]


LINE = {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}, "note": {"type": "string"}}}
SHOP = {
    "type": "object",
    "required": ["title", "price", "lines", "kind"],
    "properties": {
        "title": {"type": "string", "maxLength": 3, "example": "abc"},
        "price": {"type": "number", "minimum": 20},
        "lines": {"type": "array", "items": LINE},
        "kind": {"enum": ["a"]},
        "note": {"type": "string"},
    },
}


def test_all_that_is_required_is_said_and_nothing_else() -> None:
    found = stated_texts(SHOP)
    assert [text.rpartition(" ")[0].partition(' "')[0] for text in found] == ["title", "price", "lines sku", "kind"]
    assert found[0] == 'title "abc"'
    assert found[1] == "price 40"
    assert found[3] == 'kind "a"'


def test_of_alternatives_the_first_is_said_and_of_what_needs_nothing_some() -> None:
    either = {"oneOf": [{"type": "object", "required": [n], "properties": {n: {"type": "integer"}}} for n in "ab"]}
    assert [
        text.split()[0] for text in stated_texts({"type": "object", "required": ["x"], "properties": {"x": either}})
    ] == ["x"]
    assert len(stated_texts({"type": "object", "properties": {name: {"type": "boolean"} for name in "abcde"}})) == 3
    loose = {"type": "object", "properties": {name: {"type": "boolean"} for name in "cd"}}
    needed = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "boolean"}, "b": loose}}
    assert [text.rpartition(" ")[0] for text in stated_texts(needed)] == ["a", "b c"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "required": ["x"], "properties": {"x": {"type": "object"}}},
        {"type": "object", "required": ["x"], "properties": {"x": {}}},
        {"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "pattern": "$x"}}},
        {"type": "object", "required": list("abcdefghijklmnopqrstuvwxyz"),
         "properties": {name: {"type": "integer"} for name in "abcdefghijklmnopqrstuvwxyz"}},
    ],
)  # fmt: skip
def test_what_no_sentence_says_is_counted_apart(schema: dict[str, Any]) -> None:
    with pytest.raises(NotExpressible):
        stated_values(posting(schema), random.Random(1))


def test_the_arguments_of_what_is_told() -> None:
    said = [
        StatedValue(("a",), 1),
        StatedValue(("b", "c"), 2),
        StatedValue(("d", 0, "e"), 3),
        StatedValue(("d", 0, "f"), 4),
    ]
    assert arguments_of(said) == {"a": 1, "b": {"c": 2}, "d": [{"e": 3, "f": 4}]}


def test_a_body_is_right_where_every_value_stands_in_its_place() -> None:
    api = posting(SHOP)
    said = stated_values(api, random.Random(1))
    one = BodyRequest(api, (), request_of(api, said), said)
    assert one.query.startswith("Create a thing: title ")
    right = arguments_of(said)

    def judge(**arguments: Any) -> str:
        values = {name: LiteralValue(value=value) for name, value in arguments.items()}
        answer = AnswerOutput(name="answer", value=Reference(step="a"))
        made = Plan(steps=(Step(id="a", api=api.id, arguments=values),), answer=(answer,))
        proved = compile_plan(made, [api], Policy(mutating=Decision.ALLOW)).compiled
        return failure_of(one, Answer("planned", compiled=proved))[0]

    assert judge(**right) == ""
    assert judge(**right | {"price": 41}) == "a value is wrong"
    assert judge(**right | {"lines": [{"sku": "other"}]}) == "a value is wrong"
    assert failure_of(one, Answer("needs_input", reason="?")) == ("needs input", "?")


def test_a_sample_is_the_same_for_a_seed(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_folder(tmp_path)
    body = {"content": {"application/json": {"schema": SHOP}}}
    paths = {f"/{n}": {"post": operation(operationId=n, requestBody=body), "get": operation()} for n in "abcdef"}
    (tmp_path / "shop.json").write_text(json.dumps(document(paths)))
    (tmp_path / "broken.json").write_text("{")
    apis = read_folder(tmp_path)
    first, second, other = (sample_requests(apis, 3, seed)[0] for seed in (1, 1, 2))
    assert [one.query for one in first] == [one.query for one in second] != [one.query for one in other]
    assert all(one.api.method == "POST" and len(one.siblings) == 11 for one in first)
