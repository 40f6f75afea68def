"""The answer as text."""

from hypothesis import given
from pydantic import JsonValue

from gateway.rendering import MAX_CHARS, MAX_ITEMS, render
from services.contracts.run import AnswerValue
from tests.unit.codecs.strategies import JSON


def rendered(**values: JsonValue) -> str:
    return render(AnswerValue(name=name, value=value, step="var1") for name, value in values.items())


def test_values_of_every_type() -> None:
    assert rendered(a="text", b=1, c=1.5, d=True, e=False, f=None) == "a: text\nb: 1\nc: 1.5\nd: yes\ne: no\nf: none"
    assert rendered(a=[], b={}) == "a: none\nb: {}"
    assert rendered() == ""


def test_lists_and_objects_are_indented() -> None:
    assert rendered(a=["x", {"y": 1, "empty": None, "z": ["p", "q"]}]) == "a:\n  - x\n  - y: 1, z: p, q"
    assert rendered(a={"b": {"c": [1, 2]}, "d": "e"}) == "a:\n  b:\n    c:\n      - 1\n      - 2\n  d: e"


def test_what_is_cut_says_so() -> None:
    lines = rendered(a=list(range(MAX_ITEMS + 5))).splitlines()
    assert len(lines) == 1 + MAX_ITEMS + 1
    assert lines[-1] == "  … and 5 more"
    assert rendered(a=list(range(MAX_ITEMS))).splitlines()[-1] == f"  - {MAX_ITEMS - 1}"
    assert rendered(a="x" * 1_000).endswith("x…")
    assert len(rendered(a={str(n): "x" * 150 for n in range(100)})) == MAX_CHARS


@given(JSON)
def test_any_value_can_be_rendered_within_bounds(value: JsonValue) -> None:
    text = rendered(answer=value)
    assert text.startswith("answer:")
    assert len(text) <= MAX_CHARS


def test_deep_values_are_rendered() -> None:
    value: JsonValue = 1
    for _ in range(30):
        value = {"a": value}
    assert rendered(answer=value).count("\n") == 30
    for _ in range(100):
        value = [value]
    assert len(rendered(answer=value)) <= MAX_CHARS
