"""The plan as a wire type: round trips, what its id depends on, and what it rejects."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from services.contracts.plan import (
    AnswerOutput,
    LiteralValue,
    Plan,
    Reference,
    Step,
    content_hash,
    content_hash_in_parts,
    dependencies,
    step_references,
)
from services.http import loads_strict
from tests.unit.codecs.strategies import JSON, TEXT, plans

CALL = Step(id="var1", api="shop.find", arguments={"name": LiteralValue(value="a")})


def with_argument(value: JsonValue, name: str = "name") -> Plan:
    return Plan(steps=(CALL.model_copy(update={"arguments": {name: LiteralValue(value=value)}}),))


@given(plans())
def test_a_plan_survives_the_wire(plan: Plan) -> None:
    text = plan.model_dump_json()
    assert Plan.model_validate_json(text) == plan
    assert Plan.model_validate(loads_strict(text.encode(), max_depth=64)) == plan  # as a service reads it
    assert Plan.model_validate(plan.model_dump()) == plan


def test_a_plan_without_a_match_has_the_id_it_always_had() -> None:
    steps = (CALL, Step(id="var2", api="shop.get", arguments={"id": Reference(step="var1", path=("items", 0, "id"))}))
    plan = Plan(steps=steps, answer=(AnswerOutput(name="price", value=Reference(step="var2", path=("price",))),))
    assert plan.id == "8757dfc2da3ef880a01fa557b4d81c7db8ee64fb42a26e7f239af5d9a875147e"
    assert "match" not in plan.model_dump_json()


@given(st.integers())
@example(2**64)
@example(-(10**30))
def test_integers_of_any_size_survive_the_wire(number: int) -> None:
    plan = with_argument(number)
    read = Plan.model_validate(loads_strict(plan.model_dump_json().encode(), max_depth=64))
    assert read == plan
    assert read.steps[0].arguments["name"] == LiteralValue(value=number)


@given(plans(), st.randoms())
def test_the_id_does_not_depend_on_the_order_of_members(plan: Plan, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            names = list(value)
            random.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    content = plan.model_dump(mode="json", exclude={"id"})
    assert Plan.model_validate(shuffled(content)).id == plan.id


@given(JSON, JSON)
@example(1, True)
@example(1, 1.0)
@example(0, None)
@example("", None)
@example("1", 1)
@example([], {})
@example({"a": 1, "b": 2}, {"a": 2, "b": 1})
def test_the_id_changes_with_any_argument(one: JsonValue, other: JsonValue) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (with_argument(one).id == with_argument(other).id) is same


@given(TEXT, TEXT)
def test_the_id_changes_with_the_name_of_an_argument(one: str, other: str) -> None:
    assert (with_argument(1, one).id == with_argument(1, other).id) is (one == other)


CHANGES: list[dict[str, Any]] = [
    {"steps": [{"id": "var2", "api": "shop.find", "arguments": {"name": {"kind": "literal", "value": "a"}}}]},
    {"steps": [{"id": "var1", "api": "shop.buy", "arguments": {"name": {"kind": "literal", "value": "a"}}}]},
    {"steps": [{"id": "var1", "api": "shop.find", "arguments": {}}]},
    {"answer": [{"name": "a", "value": {"kind": "reference", "step": "var1"}}]},
    {"answer": [{"name": "a", "value": {"kind": "reference", "step": "var1", "path": ["0"]}}]},
    {"answer": [{"name": "a", "value": {"kind": "reference", "step": "var1", "path": [0]}}]},
]


def test_the_id_changes_with_everything_else_too() -> None:
    base = Plan(steps=(CALL,)).model_dump(mode="json", exclude={"id"})
    extras = [{"when": {"left": {"kind": "literal", "value": 1}, "op": "exists"}}, {"after": ["var1"]}]
    extras += [{"foreach": {"items": {"kind": "literal", "value": []}, "parallel": n}} for n in (1, 2)]
    changed = [base | change for change in CHANGES] + [base | {"steps": [base["steps"][0] | extra]} for extra in extras]
    ids = {Plan.model_validate(content).id for content in [base, *changed]}
    assert len(ids) == 1 + len(changed)


def test_an_id_that_is_not_the_hash_is_refused() -> None:
    good = Plan(steps=(CALL,)).model_dump(mode="json")
    assert Plan.model_validate(good).id == good["id"] == content_hash({k: v for k, v in good.items() if k != "id"})
    for wrong in ("0" * 64, good["id"].upper(), good["id"][:-1], " "):
        with pytest.raises(ValidationError, match="not the hash"):
            Plan.model_validate(good | {"id": wrong})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_without_a_value_are_refused(number: str) -> None:
    text = Plan(steps=(CALL,)).model_dump_json(exclude={"id"}).replace('"a"', number, 1)
    assert number in text
    with pytest.raises(ValidationError):
        Plan.model_validate_json(text)
    with pytest.raises(ValidationError):
        LiteralValue(value=[{"a": float(number)}])


@pytest.mark.parametrize(
    "broken",
    [
        {"steps": []},
        {"steps": [CALL, CALL]},
        {"steps": [{"id": "1", "api": "a.b"}]},
        {"steps": [{"id": "v" * 65, "api": "a.b"}]},
        {"steps": [{"id": "v", "api": ""}]},
        {"steps": [{"id": "v", "api": "a b"}]},
        {"steps": [{"id": "v", "api": "a.b", "arguments": {"x": 1}}]},
        {"steps": [{"id": "v", "api": "a.b", "arguments": {"x": {"kind": "code", "value": "1+1"}}}]},
        {"steps": [{"id": "v", "api": "a.b", "arguments": {"x": {"kind": "literal", "value": 1, "path": []}}}]},
        {"steps": [{"id": "v", "api": "a.b", "when": {"left": {"kind": "literal", "value": 1}, "op": "=="}}]},
        {"steps": [{"id": "v", "api": "a.b", "retries": 3}]},
        {"steps": [CALL], "answer": [{"name": "", "value": {"kind": "reference", "step": "var1"}}]},
        {"steps": [CALL], "answer": [{"name": "a", "value": {"kind": "literal", "value": 1}}]},
        {"steps": [CALL], "status": "done"},
    ],
)
def test_what_is_not_a_plan_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Plan.model_validate(broken)


def test_a_plan_cannot_be_changed() -> None:
    plan = Plan(steps=(CALL,))
    with pytest.raises(ValidationError, match="frozen"):
        plan.id = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        plan.steps[0].api = "shop.buy"  # type: ignore[misc]


@given(plans())
def test_dependencies_are_what_is_referred_to(plan: Plan) -> None:
    for step in plan.steps:
        text = step.model_dump_json()
        named = {other.id for other in plan.steps if f'"kind":"reference","step":"{other.id}"' in text}
        assert {reference.step for reference in step_references(step)} == named
        assert dependencies(step) == named | set(step.after)


def test_a_plan_finds_its_steps() -> None:
    plan = Plan(steps=(CALL,), answer=(AnswerOutput(name="a", value=Reference(step="var1")),))
    assert (plan.step("var1"), plan.step("var2")) == (CALL, None)


@given(JSON)
@example([])
@example({"b": [[], {}, [1, [2]], "é\ud800"], "a": {"y": True, "x": 1e300}})
@example([*range(25), [[1, 2], *range(25)], {str(n): [n] for n in range(25)}])
def test_a_hash_in_parts_is_the_hash_of_the_whole(content: JsonValue) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.contracts.plan._PART", 3)
        patch.setattr("services.contracts.plan._FEW", 2)
        assert content_hash_in_parts(content) == content_hash(content)


def test_a_hash_in_parts_can_be_ended_at_each_of_them() -> None:
    parts = list[int]()
    content_hash_in_parts({"a": [7] * 50_000, "b": [[[n, n]] for n in range(1_000)]}, lambda: parts.append(1))
    assert len(parts) > 1_000

    def end() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        content_hash_in_parts([7], end)


def test_a_hash_in_parts_writes_few_values_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    written, encoder = list[int](), json.JSONEncoder(sort_keys=True, separators=(",", ":"))

    class Watched:
        def encode(self, value: Any) -> str:
            written.append(len(text := encoder.encode(value)))
            return text

    content: JsonValue = {"a": [7] * 200_000, "b": [[[n, n]] for n in range(20_000)]}
    expected = content_hash(content)
    monkeypatch.setattr("services.contracts.plan._CANONICAL", Watched())
    assert content_hash_in_parts(content) == expected
    assert max(written) <= 100_000
