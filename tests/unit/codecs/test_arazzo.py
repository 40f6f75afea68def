"""The exported document has the structure of the Arazzo Specification 1.0.1, and every expression in it resolves."""

import re
from typing import Any

import pytest
from hypothesis import assume, given

from services.codecs import CodecError, arazzo
from services.contracts.api import Api, ApiResponse, Location, Parameter, RequestBody
from services.contracts.base import EVERY
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    When,
    step_references,
)
from tests.unit.codecs.strategies import plans

FIND = Api(
    id="geo.find",
    provider="geo data",
    name="find",
    server="https://geo.example/v1/",
    path="/find/{kind}",
    parameters=(
        Parameter(name="kind", wire_name="kind", location=Location.PATH, required=True),
        Parameter(name="q", wire_name="$q", location=Location.QUERY),
    ),
    response=ApiResponse(json_schema={"type": "object"}),
)
BOOK = Api(
    id="shop.book",
    provider="shop",
    name="book",
    method="POST",
    server="https://shop.example",
    path="/bookings",
    parameters=(
        Parameter(name="place", wire_name="place", location=Location.BODY, required=True),
        Parameter(name="guests", wire_name="guests", location=Location.BODY),
    ),
    body=RequestBody(),
)
APIS = {api.id: api for api in (FIND, BOOK)}
PLAN = Plan(
    steps=(
        Step(id="a", api="geo.find", arguments={"kind": LiteralValue(value="city"), "q": LiteralValue(value="Faro")}),
        Step(
            id="b",
            api="shop.book",
            arguments={
                "place": ObjectValue(
                    fields={
                        "id": Reference(step="a", path=("items", 0, "id")),
                        "odd": Reference(step="a", path=("items/0", "i~d")),
                    }
                ),
                "guests": ListValue(items=(LiteralValue(value=2),)),
            },
        ),
    ),
    answer=(AnswerOutput(name="the booking", value=Reference(step="b")),),
)


def check(document: Any) -> None:
    """The rules of the specification that a reader would stumble over."""
    assert re.fullmatch(r"1\.0\.\d+", document["arazzo"])
    assert document["info"].keys() >= {"title", "version"}
    sources = {source["name"] for source in document["sourceDescriptions"]}
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in sources)
    (workflow,) = document["workflows"]
    assert re.fullmatch(r"[A-Za-z0-9_-]+", workflow["workflowId"])
    published: set[str] = set()
    for step in workflow["steps"]:
        match = re.fullmatch(r"\$sourceDescriptions\.([A-Za-z0-9_-]+)\..+", step["operationId"])
        assert match is not None
        assert match[1] in sources
        for expression in expressions([step.get("parameters"), step.get("requestBody")]):
            assert expression in published
        for parameter in step.get("parameters", []):
            assert parameter.keys() == {"name", "in", "value"}
            assert parameter["in"] in {"path", "query", "header", "cookie"}
        for key, expression in step.get("outputs", {}).items():
            assert re.fullmatch(r"[A-Za-z0-9._-]+", key)
            assert re.fullmatch(r"\$response\.body(#(/.*)?)?", expression, re.DOTALL)
            published.add(f"$steps.{step['stepId']}.outputs.{key}")
    assert set(workflow.get("outputs", {}).values()) <= published


def expressions(data: Any) -> list[str]:
    """Every runtime expression in a JSON value."""
    if isinstance(data, str):
        return [data] if data.startswith("$steps.") else []
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [expression for child in children for expression in expressions(child)]


def test_document() -> None:
    document: Any = arazzo.export(PLAN, APIS, {"shop": "https://shop.example/spec.yaml"}, title="Book a room")
    check(document)
    assert document["sourceDescriptions"] == [
        {"name": "geo_data", "url": "https://geo.example/v1/openapi.json", "type": "openapi"},
        {"name": "shop", "url": "https://shop.example/spec.yaml", "type": "openapi"},
    ]
    (workflow,) = document["workflows"]
    first, second = workflow["steps"]
    assert first["parameters"][1] == {"name": "$q", "in": "query", "value": "Faro"}
    assert first["outputs"] == {
        "items_0_id": "$response.body#/items/0/id",
        "items_0_i_d": "$response.body#/items~10/i~0d",
    }
    assert second["requestBody"] == {
        "contentType": "application/json",
        "payload": {
            "place": {"id": "$steps.a.outputs.items_0_id", "odd": "$steps.a.outputs.items_0_i_d"},
            "guests": [2],
        },
    }
    assert workflow["outputs"] == {"the_booking": "$steps.b.outputs.body"}


@given(plans(plain=True))
def test_any_plain_plan_is_exported_or_refused(plan: Plan) -> None:
    names = {name for step in plan.steps for name in step.arguments}
    read = [*(one for step in plan.steps for one in step_references(step)), *(one.value for one in plan.answer)]
    assume(all(names) and not any(EVERY in one.path for one in read))
    parameters = tuple(Parameter(name=n, wire_name=n, location=Location.BODY) for n in names)
    apis = {s.api: Api(id=s.api, provider=s.api.split(".")[0], name="op", parameters=parameters) for s in plan.steps}
    check(arazzo.export(plan, apis))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Step(id="a", api="nope"),), "not given"),
        ((Step(id="a", api="geo.find", arguments={"x": LiteralValue(value=1)}),), "no parameter"),
        ((Step(id="a", api="geo.find", foreach=ForEach(items=LiteralValue(value=[]))),), "neither loops"),
        ((Step(id="a", api="geo.find", when=When(left=LiteralValue(value=1), op="eq")),), "neither loops"),
        ((Step(id="a", api="geo.find", after=("b",)), Step(id="b", api="geo.find")), "listed later"),
        (
            (Step(id="a", api="geo.find", arguments={"q": Reference(step="b")}), Step(id="b", api="geo.find")),
            "before it is listed",
        ),
        (
            (
                Step(id="a", api="geo.find"),
                Step(id="b", api="geo.find", arguments={"q": Reference(step="a", path=("*",))}),
            ),
            "something of every item",
        ),
        ((Step(id="a", api="geo.find", arguments={"q": LiteralValue(value="$inputs.x")}),), "evaluate the text"),
        ((Step(id="a", api="shop.book", arguments={"place": LiteralValue(value=["{$url}"])}),), "evaluate the text"),
    ],
)
def test_refusals(steps: tuple[Step, ...], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        arazzo.export(Plan(steps=steps), APIS)
