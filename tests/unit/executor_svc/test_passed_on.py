"""What a run passes on is bounded by the time that it takes, not only by its bytes."""

import asyncio
from typing import Any

import pytest

from executor_svc.adapters.http.response import decode_error
from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, LargeValue
from executor_svc.preview import previews
from executor_svc.runner import Run
from executor_svc.values import ValueStore
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Succeeded
from services.contracts.plan import ForEach
from tests.support.executing import compiled, item, literal, step
from tests.support.running import GET, LIMITS, POST, finish, no_value_store

DENSE: list[Any] = [[]] * 1_000
"""3 kB of JSON, which take as long as 25 kB of usual data."""
SAID = "x" * 15_000


async def test_a_value_of_many_lists_is_passed_on_as_its_beginning() -> None:
    kept = list[LargeValue]()
    store = ValueStore(kept.append, max_inline=10_000)
    shown = await store.for_caller(Succeeded(value=DENSE), 3_000, changed=False)
    assert isinstance(shown, Succeeded)
    assert shown.stored is not None
    assert shown.stored.bytes == len(kept[0].content)
    usual = [{"id": 7, "name": "a usual row", "tags": ["one", "two"]}] * 150
    full = await store.for_caller(Succeeded(value=usual), 9_000, changed=False)
    assert full == Succeeded(value=usual)


def test_an_error_of_many_values_is_text() -> None:
    body = b"[" + b",".join([b"[]"] * 2_000) + b"]"
    assert decode_error("application/json", body, truncated=False) == body.decode()
    assert decode_error("application/json", b'{"error": ["a", "b"]}', truncated=False) == {"error": ["a", "b"]}


async def test_of_many_failures_only_the_first_ones_say_what_the_upstream_said() -> None:
    async def refuse(_: Call) -> Failed:
        return Failed(reason="upstream_error", message="the upstream answered 404", status=404, detail=SAID)

    ended = await finish(compiled([GET], *(step(f"s{n}", GET, {"x": literal(n)}) for n in range(200))), refuse)
    said = [one.outcome.detail for one in ended.records if isinstance(one.outcome, Failed)]
    assert len(said) == 200
    assert said[0] == SAID
    assert sum(len(str(detail)) for detail in said) < 1_200_000


class Posting:
    """An adapter whose calls have large bodies, and end like this."""

    def __init__(self, outcome: Failed | InDoubt) -> None:
        self.outcome = outcome

    async def call(self, call: Call) -> CallResult:
        await asyncio.sleep(0.05)  # until the others have begun
        return CallResult(self.outcome, RequestRecord(method="POST", url="http://x/", body="y" * 60_000), 1)

    def preview(self, call: Call) -> RequestRecord:
        return RequestRecord(method="POST", url="http://x/", body=call.arguments["x"])


@pytest.mark.parametrize("outcome", [Failed(reason="timeout", message=""), InDoubt(message="")])
async def test_requests_of_items_are_bounded_with_those_of_steps(outcome: Failed | InDoubt) -> None:
    loop = ForEach(items=literal(list(range(64))), parallel=64)
    plan = compiled([POST], *(step(f"s{n}", POST, {"x": item()}, foreach=loop) for n in range(3)))
    run = Run(plan, Graph(plan.plan), Posting(outcome), "run-1", LIMITS, no_value_store())
    ended = [event async for event in run.events()][-1]
    assert isinstance(ended, ExecutionFinished)
    bodies = [one.request.body for record in ended.records for one in record.items if one.request is not None]
    assert len(bodies) == 3 * 64
    assert sum(len(str(body)) for body in bodies) < 4_300_000


def test_a_request_of_many_lists_is_too_large_to_be_shown() -> None:
    plan = compiled([POST], step("a", POST, {"x": literal(DENSE * 200)}), mutating=("a",))
    (shown,) = previews(plan, Posting(InDoubt(message=""))).requests
    assert "too large" in shown.problem
