"""Each notation as its own publications write it, and what it refuses."""

from typing import Any

import pytest

from services.codecs import CodecError, nestful, openai, seal
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ItemReference,
    ListValue,
    LiteralValue,
    Plan,
    Reference,
    Step,
)

FLIGHTS: list[Any] = [
    {"name": "SearchAirport", "arguments": {"query": "New York"}, "label": "var1"},
    {"name": "SearchAirport", "arguments": {"query": "London"}, "label": "var2"},
    {
        "name": "FlightSearch",
        "arguments": {"origin": "$var1.skyId$", "legs": ["$var2.items[0].sky id$", "2024-08-15"]},
        "label": "var3",
    },
    {"name": "var_result", "arguments": {"flights": "$var3$"}},
]


def test_nestful_as_published() -> None:
    plan = nestful.decode(FLIGHTS)
    assert plan.steps[2].arguments == {
        "origin": Reference(step="var1", path=("skyId",)),
        "legs": ListValue(
            items=(Reference(step="var2", path=("items", 0, "sky id")), LiteralValue(value="2024-08-15")),
        ),
    }
    assert plan.answer == (AnswerOutput(name="flights", value=Reference(step="var3")),)
    assert nestful.encode(plan) == FLIGHTS


def test_nestful_v2_labels_and_missing_labels() -> None:
    plan = nestful.decode(
        [
            {"name": "add", "arguments": {"arg_0": 1}, "label": "$var_1"},
            {"name": "half", "arguments": {"arg_0": "$var_1.result$"}},
            {"name": "half", "arguments": {"arg_0": "$var2.result$"}, "label": "var3"},
        ]
    )
    assert [step.id for step in plan.steps] == ["var_1", "var2", "var3"]


def test_something_of_every_item() -> None:
    calls: list[Any] = [
        {"name": "orders", "arguments": {}, "label": "var1"},
        {"name": "total", "arguments": {"ids": "$var1.orders[*].id$"}, "label": "var2"},
        {"name": "var_result", "arguments": {"skus": "$var1.orders[*].lines[*].sku$"}},
    ]
    plan = nestful.decode(calls)
    assert plan.steps[1].arguments == {"ids": Reference(step="var1", path=("orders", "*", "id"))}
    assert plan.answer[0].value.path == ("orders", "*", "lines", "*", "sku")
    assert nestful.encode(plan) == calls


def test_text_with_a_reference_inside_stays_text() -> None:
    plan = nestful.decode([{"name": "a", "arguments": {"m": "from $100-$200, $var1.x$ each"}, "label": "v"}])
    assert plan.steps[0].arguments["m"] == LiteralValue(value="from $100-$200, $var1.x$ each")


def test_literal_that_looks_like_a_reference_is_escaped() -> None:
    plan = Plan(steps=(Step(id="a", api="x", arguments={"t": LiteralValue(value="$b.c$")}),))
    assert nestful.encode(plan) == [{"name": "x", "arguments": {"t": "\\$b.c$"}, "label": "a"}]


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([{"arguments": {}}], "no 'name'"),
        ([{"name": 3}], "must be text"),
        ([{"name": "a", "label": "1x"}], "pattern"),
        ([{"name": "a", "label": "v"}, {"name": "a", "label": "v"}], "unique"),
        ([{"name": "a", "arguments": []}], "must be an object"),
        ([{"name": "a", "argument": {}}], "unknown member 'argument'"),
        ([{"name": "var_result", "arguments": {}}, {"name": "a"}], "last call"),
        ([{"name": "a", "label": "v"}, {"name": "var_result", "arguments": {"x": 1}}], "must be a reference"),
        ([{"name": "a", "arguments": {"x": "$v" + ".a" * 40 + "$"}}], "not valid"),
        ([{"name": "a", "foreach": {}}], "no 'items'"),
        ([{"name": "a", "foreach": {"items": [], "parallel": 1000}}], "parallel"),
        ([{"name": "a", "when": {"left": 1, "op": "matches"}}], "op"),
        ([{"name": "a", "arguments": {"x": '$v["\\q"]$'}}], "JSON string"),
    ],
)
def test_nestful_refusals_say_what_is_wrong(calls: list[Any], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        nestful.decode(calls)


def test_answers_that_cannot_be_told_apart_are_refused() -> None:
    twice = (AnswerOutput(name="n", value=Reference(step="a")), AnswerOutput(name="n", value=Reference(step="a")))
    for plan in (Plan(steps=(Step(id="a", api="x"),), answer=twice), Plan(steps=(Step(id="a", api="var_result"),))):
        with pytest.raises(CodecError):
            nestful.encode(plan)
        with pytest.raises(CodecError):
            openai.encode(plan)


def test_openai_as_models_answer() -> None:
    calls: list[Any] = [
        {"id": "call_aB3", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}},
        {"id": "chatcmpl-tool-9", "type": "function", "function": {"name": "buy", "arguments": '{"id": "$var1.id$"}'}},
        {"id": "c", "type": "function", "function": {"name": "var_result", "arguments": '{"r": "$var2.receipt$"}'}},
    ]
    plan = openai.decode(calls)
    assert [step.id for step in plan.steps] == ["call_aB3", "var2"]
    assert plan.steps[1].arguments == {"id": Reference(step="call_aB3", path=("id",))}
    assert plan.answer == (AnswerOutput(name="r", value=Reference(step="var2", path=("receipt",))),)


@pytest.mark.parametrize(
    "call",
    [
        {"id": "a"},
        {"id": "a", "function": {"name": "x"}},
        {"id": "a", "function": {"name": "x", "arguments": "{"}},
        {"id": "a", "function": {"name": "x", "arguments": "[]"}},
        {"id": "a", "function": {"name": "has space", "arguments": "{}"}},
    ],
)
def test_openai_refusals(call: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        openai.decode([call])


SEAL: list[Any] = [
    {"api": "searchCrop", "parameters": {"crop": "Tomatoes"}, "responses": ["API_call_0", "API_call_1"]},
    {"api": "getResources", "parameters": {"at": "API_call_1", "n": "API_call_x"}, "responses": ["API_call_2"]},
]
CROPS = {"searchCrop": ["info", "area"], "getResources": ["resources"]}


def test_seal_counts_over_response_slots() -> None:
    plan = seal.decode(SEAL, CROPS)
    assert plan.steps[1].arguments["at"] == Reference(step="var1", path=("area",))
    assert plan.steps[1].arguments["n"] == LiteralValue(value="API_call_x")
    assert seal.encode(plan, CROPS) == SEAL


def test_seal_call_without_known_fields_has_one_slot() -> None:
    plan = seal.decode([{"api": "a"}, {"api": "b", "parameters": {"x": "API_call_0"}}], {})
    assert plan.steps[1].arguments == {"x": Reference(step="var1")}


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([{"api": "a", "parameters": {"x": "API_call_7"}}], "no earlier call"),
        ([{"api": "a", "parameters": []}], "object"),
        ([{"api": "a", "responses": ["x"]}], "slots such as"),
        ([{"api": "a", "responses": ["API_call_0"]}, {"api": "b", "responses": ["API_call_0"]}], "taken"),
    ],
)
def test_seal_refusals(calls: list[Any], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        seal.decode(calls, {})


@pytest.mark.parametrize(
    "step",
    [
        Step(id="b", api="y", foreach=ForEach(items=LiteralValue(value=[1])), arguments={"x": ItemReference()}),
        Step(id="b", api="y", after=("a",)),
        Step(id="b", api="y", arguments={"x": Reference(step="a", path=("f", "g"))}),
        Step(id="b", api="y", arguments={"x": Reference(step="a")}),
    ],
)
def test_seal_says_what_it_cannot_say(step: Step) -> None:
    with pytest.raises(CodecError):
        seal.encode(Plan(steps=(Step(id="a", api="x"), step)), {"x": ["f"]})
