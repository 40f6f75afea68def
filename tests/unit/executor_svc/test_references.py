"""References: native types, clear failures, nothing changed."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_svc.conditions import Incomparable, holds
from executor_svc.equality import equal
from executor_svc.references import Item, Unresolved, resolve, walk
from services.contracts.plan import ItemReference, ListValue, Match, ObjectValue, Reference, Value, When
from services.size_budget import SizeBudget, SizeExceeded
from tests.support.executing import item, literal, ref

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def paths(value: Any) -> list[tuple[str | int, ...]]:
    """Every path there is into a value."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, inner in members for rest in paths(inner))]


def follow(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@given(JSON, st.data())
def test_every_path_that_exists_gives_the_very_value(output: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(paths(output)))
    assert resolve(ref("a", *path), {"a": output}) is follow(output, path)


def test_every_item_of_a_list_must_have_what_an_argument_takes() -> None:
    outputs: dict[str, Any] = {"a": {"items": [{"id": 1}, {"id": 2, "name": "x"}]}}
    budget = SizeBudget(1_000)
    assert resolve(ref("a", "items", "*", "id"), outputs, budget=budget) == [1, 2]
    with pytest.raises(Unresolved, match=r"the output of a has no items\[\*\].name: not every item of items has it"):
        resolve(ref("a", "items", "*", "name"), outputs)
    with pytest.raises(Unresolved, match=r"it is an object, which has no 'item'"):
        resolve(ref("a", "item", "*", "name"), outputs)
    outputs["a"]["items"] *= 60_000
    with pytest.raises(Unresolved, match="items has more than 100000 items"):
        resolve(ref("a", "items", "*", "id"), outputs)


def test_a_list_of_what_every_item_has_is_made_once() -> None:
    outputs: dict[str, Any] = {"a": [{"id": 1}, {"id": 2}]}
    budget = SizeBudget(1_000)
    first, second = (resolve(ref("a", "*", "id"), outputs, budget=budget) for _ in range(2))
    assert first is second
    assert budget.taken == 2 * len("[1,2]")


def test_what_every_entry_of_the_current_item_has_is_made_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[None]()
    monkeypatch.setattr("services.size_budget.checkpoint", lambda: turns.append(None))
    monkeypatch.setattr("services.size_budget.MAX_LOOKED_AT", 5)
    known = SizeBudget(1_000)
    current, value = Item({"x": [{"a": 1}, {"a": 2}, {"a": 3}]}), ListValue(items=(item("x", "*", "a"),) * 50)
    assert resolve(value, {}, current, SizeBudget(1_000, known=known.known)) == [[1, 2, 3]] * 50
    assert len(turns) == 1
    with pytest.raises(SizeExceeded, match="something of more than 5 items of lists"):
        resolve(ref("a", "*", "a"), {"a": [{"a": 1}] * 3}, budget=SizeBudget(1_000, known=known.known))


@given(JSON, JSON, st.data())
def test_resolving_never_changes_anything(output: Any, element: Any, data: st.DataObject) -> None:
    outputs = {"a": output}
    before = copy.deepcopy((outputs, element))
    leaf = st.sampled_from(
        [ref("a", *path) for path in paths(output)[:10] if len(path) <= 32]
        + [ItemReference(path=path) for path in paths(element)[:10] if len(path) <= 32]
    )
    value: Value = data.draw(
        st.recursive(
            leaf,
            lambda inner: (
                st.lists(inner, max_size=3).map(lambda items: ListValue(items=tuple(items)))
                | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(lambda fields: ObjectValue(fields=fields))
            ),
            max_leaves=5,
        )
    )
    resolved = resolve(value, outputs, Item(element))
    if isinstance(resolved, list) and isinstance(value, ListValue):
        resolved.append("changed")  # a built list is the caller's own
    elif isinstance(resolved, dict) and isinstance(value, ObjectValue):
        resolved["changed"] = True
    assert (outputs, element) == before


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("x",), "no x: it is an object"),
        (("list", 2), r"no list\[2\]: list is a list of 2, which has no 2"),
        (("list", -1), "a list of 2"),
        (("list", "0"), "which has no '0'"),
        (("text", 0), "text is a string"),
        (("nothing", "x"), "nothing is null"),
        (("empty", 0, "id"), r"no empty\[0\].id: empty is empty$"),
        ((0,), "an object, which has no 0"),
    ],
)
def test_a_path_to_nowhere_names_step_and_path(path: tuple[str | int, ...], words: str) -> None:
    output: Any = {"list": [1, 2], "text": "abc", "nothing": None, "empty": []}
    with pytest.raises(Unresolved, match=words) as caught:
        resolve(ref("var1", *path), {"var1": output})
    assert "var1" in str(caught.value)


def test_an_output_that_looks_like_a_reference_stays_text() -> None:
    outputs: Any = {"a": "$b.x$", "b": {"x": 1}}
    assert resolve(ListValue(items=(ref("a"), literal("{{b}}"))), outputs) == ["$b.x$", "{{b}}"]


def test_an_item_outside_a_foreach_and_a_step_without_output() -> None:
    with pytest.raises(Unresolved, match="no current item"):
        resolve(item(), {})
    with pytest.raises(Unresolved, match="var9 has no output"):
        resolve(ref("var9"), {})


def when(left: Any, op: Any, right: Any = None) -> When:
    return When(left=literal(left), op=op, right=literal(right))


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        (1, "eq", 1.0, True), (1, "eq", True, False), (0, "ne", False, True), ([1], "eq", [True], False),
        ({"a": 1}, "eq", {"a": 1.0}, True), (1, "lt", 2, True), (2, "le", 2.0, True), ("b", "gt", "a", True),
        ("2027-01-01", "ge", "2026-12-31", True), (1, "in", [1, 2], True), (True, "in", [1], False),
        ("a", "in", "cat", True), ("k", "in", {"k": 1}, True), (0, "exists", None, True), (None, "exists", None, False),
    ],
)  # fmt: skip
def test_conditions(left: Any, op: str, right: Any, expected: bool) -> None:
    assert holds(when(left, op, right), {}) is expected


@pytest.mark.parametrize(("left", "op", "right"), [(1, "lt", "2"), (True, "gt", 0), (None, "le", 1), (1, "in", 5)])
def test_conditions_without_meaning_are_refused(left: Any, op: str, right: Any) -> None:
    with pytest.raises(Incomparable):
        holds(when(left, op, right), {})


def test_exists_asks_for_a_path() -> None:
    assert holds(When(left=ref("a", "next"), op="exists"), {"a": {"next": "x"}})
    assert not holds(When(left=ref("a", "next"), op="exists"), {"a": {}})


@pytest.mark.parametrize(("found", "there"), [(["Ada", "Ada"], True), (["Bob", "Eve"], False)])
def test_of_several_that_match_there_is_one(found: list[str], there: bool) -> None:
    people: dict[str, Any] = {"a": [{"id": number, "name": name} for number, name in enumerate(found)]}
    left = Reference(step="a", path=(0, "id"), match=Match(said=("Ada",)))
    assert holds(When(left=left, op="exists"), people) is there


@given(JSON)
def test_equality_is_reflexive_and_walks_nothing_for_the_empty_path(value: Any) -> None:
    assert equal(value, copy.deepcopy(value))
    assert walk(value, (), "it") is value
