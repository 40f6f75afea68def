"""Which values of a plan the request says, and which it does not."""

import time
from typing import NoReturn

import pytest

from gateway.console.slots import pattern_of
from services.contracts.plan import AnswerOutput, LiteralValue, ObjectValue, Plan, Reference
from tests.support.gateways import BOOK, FIND, HOLIDAYS, call


def _plan(*steps: object) -> Plan:
    return Plan(steps=steps, answer=(AnswerOutput(name="all", value=Reference(step="var1")),))


def test_values_that_the_request_says_are_slots_and_the_others_stay() -> None:
    body = ObjectValue(fields={"days": LiteralValue(value=3), "tags": LiteralValue(value=["Blue", None])})
    plan = _plan(call("var1", BOOK, room="blue room", name="PT", options=body))
    pattern = pattern_of("Book the Blue Room, blue, for 3 days, not 30", plan)
    assert "".join(f"<{one.text}>" if one.is_slot else one.text for one in pattern.request) == (
        "Book the <room>, <tags>, for <days> days, not 30"
    )
    assert pattern.slots == {"room": "blue room", "tags": "Blue", "days": "3"}
    assert pattern.fixed == (("name", "PT"), ("tags", "null"))
    assert pattern.calls[0].arguments["options"] == '{days: "{days}", tags: ["{tags}", null]}'


def test_requests_that_differ_in_values_alone_have_the_same_words() -> None:
    one, other = (
        pattern_of(f"Holidays of {a} and {b}?", _plan(call("var1", FIND, name=a), call("var2", FIND, name=b))).words
        for a, b in (("Portugal", "Spain"), ("Peru", "Chile"))
    )
    assert one == other == "holidays of {} and {}?"
    assert pattern_of("Holidays in Peru?", _plan(call("var1", FIND, name="Peru"))).words != one


def test_two_values_of_one_argument_are_two_slots_and_patterns_of_search_are_text() -> None:
    plan = _plan(call("var1", FIND, name="a.*b"), call("var2", HOLIDAYS, name="(x"), call("var3", FIND, name=" "))
    pattern = pattern_of("Find a.*b and (x, not aXb", plan)
    assert pattern.slots == {"name": "a.*b", "name 2": "(x"}
    assert pattern.fixed == (("name", " "),)


def test_values_longer_than_the_request_are_not_looked_for() -> None:
    """To compile an expression of a megabyte took seconds, on the event loop."""
    body = LiteralValue(value=[f"{number}{'ab-. ' * 1_000}" for number in range(200)])
    began = time.thread_time()
    assert pattern_of("Book a room " * 400, _plan(call("var1", BOOK, options=body))).slots == {}
    assert time.thread_time() - began < 0.5


def test_long_values_that_the_request_nearly_has_are_looked_for_once() -> None:
    plan = _plan(call("var1", FIND, name=LiteralValue(value=["a " * 2_400 + f"b{number}" for number in range(150)])))
    began = time.process_time()
    assert pattern_of("a " * 5_000, plan).slots == {}
    assert time.process_time() - began < 1  # each value at each word took four seconds


def test_no_expression_is_made_of_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compile one of a long value takes a tenth of a second, and a plan may have 200."""

    def refuse(*_args: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr("re._compile", refuse)
    pattern = pattern_of("Go to İstanbul, not STANBUL", _plan(call("var1", FIND, name="stanbul")))
    assert [(one.text, one.is_slot) for one in pattern.request][-2:] == [
        ("Go to İstanbul, not ", False),
        ("name", True),
    ]


def test_a_value_inside_longer_words_is_not_looked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.console.slots._MOST_COMPARED", 10)
    for before, slots in (("aab " * 4, {"name": "aa"}), ("aab " * 5, {})):
        assert pattern_of(f"{before}aa", _plan(call("var1", FIND, name="aa"))).slots == slots
