"""decode(encode(plan)) is the canonical plan, through real JSON text; nothing hostile gets past CodecError."""

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from services.codecs import CodecError, canonical, nestful, openai, seal
from services.codecs.text import format_reference, parse_reference
from services.contracts.plan import ItemReference, ListValue, LiteralValue, Plan, Reference, Step
from tests.unit.codecs.strategies import JSON, PATHS, plans

OUTPUTS = {"shop.find": ["items", "total"], "shop.buy": ["receipt"], "geo.lookup": []}


@given(plans())
def test_nestful_round_trip(plan: Plan) -> None:
    text = orjson.dumps(nestful.encode(plan))
    assert nestful.decode(text) == canonical(plan)


@given(plans())
def test_openai_round_trip(plan: Plan) -> None:
    names = {"shop.find": "shop_find"}
    text = orjson.dumps(openai.encode(plan, names))
    assert openai.decode(text, names) == canonical(plan)


@given(plans(plain=True))
def test_seal_round_trip_of_what_it_can_say(plan: Plan) -> None:
    try:
        text = orjson.dumps(seal.encode(plan, OUTPUTS))
    except CodecError:
        return  # refusals are tested by themselves
    assert seal.decode(text, OUTPUTS) == canonical(Plan(steps=plan.steps))


@given(st.sampled_from([Reference(step="var_1"), ItemReference()]), PATHS)
def test_reference_text_round_trip(base: Reference | ItemReference, path: tuple[str | int, ...]) -> None:
    reference = base.model_copy(update={"path": path})
    assert parse_reference(format_reference(reference)) == reference


@given(
    JSON
    | st.lists(st.fixed_dictionaries({"name": st.text(), "arguments": JSON}, optional={"label": JSON, "when": JSON}))
)
def test_any_json_is_decoded_or_refused(data: JsonValue) -> None:
    for decode in (nestful.decode, openai.decode, lambda d: seal.decode(d, OUTPUTS)):
        with contextlib.suppress(CodecError):
            assert isinstance(decode(data), Plan)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[NaN]", b"\xff", '"\ud800"', "[" * 5000 + "]" * 5000, "[" * 70 + "]" * 70, "[]", "{}", "null", "[1]"],
)
def test_hostile_text_is_refused(text: str | bytes) -> None:
    for decode in (nestful.decode, openai.decode, lambda d: seal.decode(d, OUTPUTS)):
        with pytest.raises(CodecError):
            decode(text)


def test_canonical_makes_one_literal_of_a_list_of_literals() -> None:
    plan = Plan(steps=(Step(id="a", api="x", arguments={"l": ListValue(items=(LiteralValue(value=1),))}),))
    assert canonical(plan).steps[0].arguments == {"l": LiteralValue(value=[1])}
    assert canonical(plan).id != plan.id
