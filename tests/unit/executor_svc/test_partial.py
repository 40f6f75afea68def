"""Which answer values come from a list that was not read to its end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import JsonValue

from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult
from executor_svc.runner import Run
from services.contracts.execution import ExecutionEvent, ExecutionFinished
from services.contracts.outcome import Succeeded
from services.contracts.plan import ForEach, ListValue, LiteralValue, Reference, When
from services.partial import PartialValues
from tests.support.executing import compiled, item, literal, ref, step
from tests.support.running import GET, LIMITS, no_value_store

LISTED = {
    "items": [{"id": 1, "tags": ["x"]}, {"id": 2, "tags": []}],
    "meta": {"total": 500},
    "total": 500,
    "deep": {"a": {"b": {"c": [1]}}},
    "wide": {str(number): number for number in range(101)} | {"ids": [1]},
}


class Cut:
    """An adapter that answers ``list`` and ``lists`` with a list that goes on, and other steps with a whole one."""

    async def call(self, call: Call) -> CallResult:
        listing = call.key.split("/")[1] in ("list", "lists")
        value: Any = LISTED if listing else {"price": 9, "parts": [1]}
        return CallResult(Succeeded(value=value, status=200), None, 1, more=listing)


async def partial(reference: Reference) -> bool:
    """Whether the value at ``reference`` is partial, in a run of steps that use the list in all ways."""
    whole, first = ref("list", "items"), ref("list", "items", 0, "id")
    plan = compiled(
        [GET],
        step("list", GET),
        step("free", GET),
        step("first", GET, {"x": first}),
        step("total", GET, {"x": ref("list", "total")}),
        step("all", GET, {"x": ListValue(items=(literal(1), whole))}),
        step("far", GET, {"x": ref("all", "price")}),
        step("when", GET, when=When(left=literal(1), op="ne", right=whole)),
        step("each", GET, {"x": item("id")}, foreach=ForEach(items=whole)),
        step("lists", GET, {"x": item()}, foreach=ForEach(items=literal([1, 2]))),
        step("reused", GET, {"x": ListValue(items=(LiteralValue(value=[1], partial=True),))}),
        step("loop", GET, {"x": item()}, foreach=ForEach(items=LiteralValue(value=[1, 2], partial=True))),
        answer={"a": reference},
    )
    events: AsyncGenerator[ExecutionEvent, None] = Run(
        plan, Graph(plan.plan), Cut(), "run-1", LIMITS, no_value_store()
    ).events()
    async with aclosing(events):
        finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    assert finished.status == "succeeded"
    return finished.answer[0].partial


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (ref("list"), True),
        (ref("list", "items"), True),
        (ref("all"), True),
        (ref("all", "price"), True),
        (ref("far", "price"), True),
        (ref("when", "price"), True),
        (ref("each"), True),
        (ref("lists"), True),
        (ref("lists", 1), True),
        (ref("lists", 1, "items"), True),
        (ref("list", "deep"), True),
        (ref("list", "wide"), True),
        (ref("reused", "price"), True),
        (ref("loop"), True),
        (ref("list", "items", "*", "id"), True),
        (ref("list", "items", "*", "tags", 0), True),
        (ref("each", "*", "price"), True),
        (ref("free", "parts", "*"), False),
        (ref("loop", 0, "parts"), False),
        (ref("list", "total"), False),
        (ref("list", "meta"), False),
        (ref("list", "items", 0), False),
        (ref("list", "items", 0, "tags"), False),
        (ref("first", "parts"), False),
        (ref("total", "parts"), False),
        (ref("free", "parts"), False),
        (ref("each", 0, "parts"), False),
        (ref("lists", 1, "items", 0, "tags"), False),
        (ref("lists", 1, "total"), False),
    ],
)
async def test_a_value_is_partial_if_a_list_that_goes_on_is_in_it(reference: Reference, expected: bool) -> None:
    assert await partial(reference) is expected


def test_a_whole_answer_whose_list_goes_on_holds_it_wherever_it_is() -> None:
    deep: JsonValue = {"a": {"b": {"c": {"d": [1]}}}}
    far: JsonValue = {str(number): number for number in range(200)} | {"ids": [1]}
    for output in (deep, far):
        found = PartialValues([step("list", GET)], {"list": output}, {"list"})
        assert found.holds("list", ())


def test_of_a_beginning_only_what_cannot_be_a_list_is_whole() -> None:
    output: JsonValue = {"total": 500, "items": "[...]", "meta": {"page": 1}}
    found = PartialValues([step("list", GET)], {"list": output}, {"list"}, {"list"})
    told = {name: found.holds("list", (name,)) for name in ("total", "items", "meta", "further")}
    assert told == {"total": False, "items": True, "meta": True, "further": True}
