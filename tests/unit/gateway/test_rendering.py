"""The answer as text."""

import tracemalloc

import pytest
from hypothesis import given
from pydantic import JsonValue

from gateway.rendering import MAX_CHARS, MAX_ITEMS, MAX_SENTENCE_CHARS, fill_sentence, render
from services.contracts.answer import AnswerValue
from services.contracts.outcome import StoredValue
from tests.unit.codecs.strategies import JSON


def rendered(**values: JsonValue) -> str:
    return render(AnswerValue(name=name, value=value, step="var1") for name, value in values.items())


def test_values_of_every_type() -> None:
    assert rendered(a="text", b=1, c=1.5, d=True, e=False, f=None) == "a: text\nb: 1\nc: 1.5\nd: yes\ne: no\nf: none"
    assert rendered(a=[], b={}) == "a: none\nb: {}"
    assert rendered() == ""


def test_what_no_value_tells_comes_first() -> None:
    value = AnswerValue(name="status", value="sent", step="var1")
    assert render([value], "I can find the order.") == "I can find the order.\nstatus: sent"
    assert render([], "I can find the order.") == ""


def test_lists_and_objects_are_indented() -> None:
    assert rendered(a=["x", {"y": 1, "empty": None, "z": ["p", "q"]}]) == "a:\n  - x\n  - y: 1, z: [p, q]"
    assert rendered(a=[{"p": {"q": 1, "r": {}}, "s": [{"t": 2}], "u": 3}]) == "a:\n  - p: (q: 1), s: [(t: 2)], u: 3"
    assert rendered(a={"b": {"c": [1, 2]}, "d": "e"}) == "a:\n  b:\n    c:\n      - 1\n      - 2\n  d: e"


def test_fields_of_every_item_of_one_list_are_shown_side_by_side() -> None:
    names, prices = ["Rex", "Ada", None], [5, 7.5, 9]
    values = [AnswerValue(name="name", value=names, step="a", path=("dogs", "*", "name"))]
    assert render(values) == "name:\n  - Rex\n  - Ada\n  - none"
    values.append(AnswerValue(name="price", value=prices, step="a", path=("dogs", "*", "price")))
    both = "name, price:\n  - name: Rex, price: 5\n  - name: Ada, price: 7.5\n  - price: 9"
    other = AnswerValue(name="price", value=prices, step="a", path=("cats", "*", "price"))
    apart = "\nprice:\n  - 5\n  - 7.5\n  - 9"
    assert render([*values, other]) == both + apart
    assert render([values[1], other]) == apart.strip() + apart


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028"])
def test_a_text_of_an_upstream_does_not_look_like_another_value(end: str) -> None:
    forged = f"fine{end}balance: 1,000,000"
    plain = "fine balance: 1,000,000"
    assert rendered(note=forged) == f"note: {plain}"
    assert rendered(notes=[forged, [forged]]) == f"notes:\n  - {plain}\n  - {plain}"
    assert rendered(a={forged: forged}, b=[{forged: 1}]) == f"a:\n  {plain}: {plain}\nb:\n  - {plain}: 1"


def test_what_is_cut_says_so() -> None:
    lines = rendered(a=list(range(MAX_ITEMS + 5))).splitlines()
    assert len(lines) == 1 + MAX_ITEMS + 1
    assert lines[-1] == "  … and 5 more"
    assert rendered(a=list(range(MAX_ITEMS))).splitlines()[-1] == f"  - {MAX_ITEMS - 1}"
    assert rendered(a="x" * 1_000).endswith("x…")
    assert len(rendered(a={str(n): "x" * 150 for n in range(100)})) == MAX_CHARS


def test_what_is_cut_inside_a_list_says_so() -> None:
    assert rendered(a=[{"n": list(range(15))}]) == "a:\n  - n: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … and 5 more]"
    assert rendered(a=[list(range(12))]) == "a:\n  - 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … and 2 more"
    assert "more" not in rendered(a=[{"n": list(range(10))}])
    assert rendered(a=[["x" * 150] * 12]).endswith("x…")


@pytest.mark.parametrize("value", [[1, 2, 3], {"a": 1}, "text...", "[...]"])
def test_a_preview_of_a_large_value_is_told_as_its_beginning(value: JsonValue) -> None:
    stored = StoredValue(id="0" * 64, bytes=608_891)
    text = render([AnswerValue(name="a", value=value, step="var1", stored=stored)])
    assert text == f"{rendered(a=value)}\n  … this is only the beginning of a value of 608,891 bytes"


def test_values_of_lists_that_go_on_are_named_first() -> None:
    values = [AnswerValue(name=f"v{n}", value=[n], step="var1", partial=n != 1) for n in range(8)]
    lines = render(values, "I am not sure.").splitlines()
    said = "Not complete, since a list goes on after the part that was read: "
    assert lines[:3] == ["I am not sure.", f"{said}“v0”, “v2”, “v3”, “v4”, “v5” and 2 more.", "v0:"]
    assert render(values[:1]).splitlines()[0] == f"{said}“v0”."
    assert said not in render(values[1:2])
    forged = AnswerValue(name="a\nbalance: 1", value=[1], step="var1", partial=True)
    assert render([forged]).splitlines()[0] == f"{said}“a balance: 1”."


@given(JSON)
def test_any_value_can_be_rendered_within_bounds(value: JsonValue) -> None:
    text = rendered(answer=value)
    assert text.startswith("answer:")
    assert len(text) <= MAX_CHARS


WIDE: dict[str, JsonValue] = {str(number): {"a": number} for number in range(50_000)}


@pytest.mark.parametrize("value", [WIDE, [WIDE], {"a": WIDE}, [[WIDE] * 10], list(WIDE.values())])
def test_what_is_not_shown_of_a_large_value_is_not_written(value: JsonValue) -> None:
    one = AnswerValue(name="a", value=value, step="var1")
    tracemalloc.start()
    try:
        text = render([one])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text.startswith("a:")
    assert text.endswith(("…", "more"))
    assert peak < 200_000  # bytes; all of its lines would take megabytes


def test_deep_values_are_rendered() -> None:
    value: JsonValue = 1
    for _ in range(30):
        value = {"a": value}
    assert rendered(answer=value).count("\n") == 30
    for _ in range(100):
        value = [value]
    assert len(rendered(answer=value)) <= MAX_CHARS


def sentence(*values: JsonValue, pieces: tuple[str | int, ...] = ("It is ", 0, ".")) -> str | None:
    return fill_sentence(
        pieces, [AnswerValue(name=f"v{n}", value=value, step="var1") for n, value in enumerate(values)]
    )


def test_a_sentence_holds_values_of_every_type() -> None:
    assert sentence(90) == "It is 90."
    assert sentence(1.5) == "It is 1.5."
    assert sentence(True) == "It is yes."
    assert sentence(" New Delhi ") == "It is New Delhi."
    assert sentence(["a", 2, False]) == "It is a, 2, no."
    assert sentence("a", 2, pieces=("From ", 1, " to ", 0, ".")) == "From 2 to a."


def test_a_sentence_cuts_lists_and_texts_and_says_so() -> None:
    assert sentence(list(range(MAX_ITEMS + 5))) == "It is 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … and 5 more."
    long = sentence("x" * 1_000)
    assert long is not None
    assert long.startswith("It is “xxx")
    assert long.endswith("x…”.")
    assert len(long) < 250
    assert sentence(["x" * 1_000] * 10) is None


def test_text_that_could_be_read_as_the_sentence_is_quoted() -> None:
    assert sentence("90. Call 555") == "It is “90. Call 555”."
    assert sentence("St. Louis") == "It is “St. Louis”."
    assert sentence("3.5") == "It is 3.5."
    assert sentence('so” he "said') == "It is “so' he 'said”."
    assert sentence("{0}") == "It is “{0}”."
    assert sentence("Smith, John") == "It is Smith, John."
    assert sentence(["Smith, John", "Ada"]) == "It is “Smith, John”, Ada."


def test_what_is_no_value_for_a_sentence() -> None:
    values: list[JsonValue] = [
        None,
        "",
        " ",
        [],
        {},
        {"a": 1},
        [None],
        [[1]],
        [{"a": 1}],
        "a\nb",
        "a\u202eb",
        "a\u2028b",
        "\x00",
    ]
    for value in values:
        assert sentence(value) is None
    assert sentence() is None
    assert sentence("a", pieces=("It is ", -1, ".")) is None
    preview = AnswerValue(name="v", value="x", step="var1", stored=StoredValue(id="0" * 64, bytes=10))
    assert fill_sentence(("It is ", 0, "."), [preview]) is None


@given(JSON, JSON)
def test_any_values_leave_the_words_as_they_are(one: JsonValue, two: JsonValue) -> None:
    text = sentence(one, two, pieces=("From ", 0, " to ", 1, "."))
    if text is None:
        return
    assert text.startswith("From ")
    assert text.endswith(".")
    assert len(text) <= MAX_SENTENCE_CHARS
    assert text == f"From {alone(one)} to {alone(two)}."


def alone(value: JsonValue) -> str | None:
    return sentence(value, pieces=(0,))
