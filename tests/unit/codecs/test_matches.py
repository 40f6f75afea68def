"""Which items are meant by words survives NESTful's notation where both sides ask for it, and only there."""

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from services.codecs import CodecError, nestful
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ListValue,
    LiteralValue,
    Match,
    ObjectValue,
    Plan,
    Reference,
    Step,
    When,
)
from tests.unit.codecs.strategies import JSON, plans

CHOSEN = Reference(step="a", path=("items", 0, "code"), match=Match(said=("Portugal",), words=("holidays",)))
OTHER = Reference(step="a", path=("items", 1), match=Match(said=("Spain",)))
PLAIN = Reference(step="a", path=("total",))
PLAN = Plan(
    steps=(
        Step(id="a", api="geo.find"),
        Step(id="b", api="geo.list", arguments={"x": ObjectValue(fields={"y": ListValue(items=(CHOSEN, PLAIN))})}),
        Step(id="c", api="geo.list", foreach=ForEach(items=OTHER), when=When(left=CHOSEN, op="eq")),
        Step(id="d", api="geo.list", when=When(left=LiteralValue(value=1), op="eq", right=OTHER)),
    ),
    answer=(AnswerOutput(name="one", value=CHOSEN), AnswerOutput(name="two", value=PLAIN)),
)


def test_matches_come_back_through_text() -> None:
    calls = nestful.encode(PLAN, matches=True)
    assert nestful.decode(orjson.dumps(calls), matches=True) == PLAN
    assert calls[0] == {"name": "geo.find", "arguments": {}, "label": "a"}


def test_without_being_asked_for_they_are_neither_written_nor_read() -> None:
    plain = nestful.encode(PLAN)
    assert "matches" not in orjson.dumps(plain).decode()
    assert nestful.decode(plain).id != PLAN.id
    with pytest.raises(CodecError, match="unknown member 'matches'"):
        nestful.decode(nestful.encode(PLAN, matches=True))


@given(plans())
def test_plans_without_any_are_written_as_ever(plan: Plan) -> None:
    assert nestful.encode(plan, matches=True) == nestful.encode(plan)


@pytest.mark.parametrize(
    "said",
    [7, {"$a$": {"said": ["x"]}}, {"$a[0]$": {}}, {"$a[0]$": {"said": ["x"], "other": 1}}],
)
def test_what_is_no_match_is_refused(said: JsonValue) -> None:
    arguments: JsonValue = {"x": "$a$", "y": "$a[0]$"}
    calls: list[JsonValue] = [{"name": "s.x", "label": "b", "arguments": arguments, "matches": said}]
    with pytest.raises(CodecError):
        nestful.decode(calls, matches=True)


@given(st.lists(st.fixed_dictionaries({"name": st.text(), "arguments": JSON, "matches": JSON})))
def test_any_json_is_decoded_or_refused(data: list[JsonValue]) -> None:
    with contextlib.suppress(CodecError):
        assert isinstance(nestful.decode(data, matches=True), Plan)
