"""What a run stores, and what its loops collect before, is bounded. Large values are written beside the event loop."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from executor_svc import values
from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, LargeValue, Limits
from executor_svc.runner import Run
from executor_svc.values import ValueStore
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import ForEach, Step
from tests.support.executing import api, compiled, item, literal, ref, step
from tests.support.running import GET, POST, Scripted, outcomes
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

LIMITS = Limits(run_s=20, step_s=20, items=100)
BYTES = 5_000


class Answering(Scripted):
    """Answers with so much text, or with none to a call of POST."""

    def __init__(self, size: int = BYTES) -> None:
        async def give(call: Call) -> Any:
            return {} if call.api is POST else f"{len(self.calls):08d}".ljust(size - 2, "x")

        super().__init__(give)
        self.size = size

    async def call(self, call: Call) -> CallResult:
        return replace(await super().call(call), bytes=2 if call.api is POST else self.size)


async def run(adapter: Scripted, value_store: ValueStore, *steps: Step) -> ExecutionFinished:
    plan = compiled([GET, POST], *steps)
    events = Run(plan, Graph(plan.plan), adapter, "run-1", LIMITS, value_store).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    return finished


def each(name: str, count: int, **more: Any) -> Step:
    return step(name, GET, {"x": item()}, foreach=ForEach(items=literal(list(range(count))), parallel=1), **more)


async def test_a_loop_ends_once_its_answers_have_no_room() -> None:
    """Sixty answers of 5 MB were 1.7 GB of memory, and 300 MB of disk."""
    kept: list[LargeValue] = []
    adapter = Answering()
    then = step("b", POST, {"x": ref("a")}), step("c", GET, after=("a",)), step("d", POST)
    finished = await run(adapter, ValueStore(kept.append, 1_000, 4 * BYTES), each("a", 60), *then)
    assert outcomes(finished) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "succeeded"}
    refused = finished.records[0].outcome
    assert isinstance(refused, Failed)
    assert (refused.reason, refused.status, refused.message) == (
        "refused",
        200,
        "item 4: the call succeeded, but its answer is not kept: a run keeps 20000 bytes of large values at most",
    )
    assert sum(call.api is GET for call in adapter.calls) == 5
    assert not kept


async def test_all_steps_of_a_run_share_the_room() -> None:
    kept: list[LargeValue] = []
    steps = (each("a", 2), *(step(name, GET, after=(before,)) for before, name in ("ab", "bc", "cd")))
    finished = await run(Answering(), ValueStore(kept.append, 1_000, 4 * BYTES + 100), *steps)
    assert outcomes(finished) == {"a": "succeeded", "b": "succeeded", "c": "succeeded", "d": "failed"}
    assert [len(one.content) for one in kept] == [2 * BYTES + 3, BYTES, BYTES]
    alone = await run(Answering(), ValueStore(kept.append, 1_000, 4 * BYTES), step("a", GET))
    assert outcomes(alone) == {"a": "succeeded"}


def test_the_ledger_stores_a_value_once_and_records_that_one_had_no_room() -> None:
    kept: list[LargeValue] = []
    value_store = ValueStore(kept.append, 1_000, BYTES)
    made = [CallResult(Succeeded(value=text * (BYTES - 2), status=201), None, 1) for text in "xxy"]
    first, again, other = (value_store.for_ledger(one).outcome for one in made)
    assert isinstance(first, Succeeded)
    assert first == again
    assert first.stored is not None
    assert isinstance(other, Failed)
    assert (other.reason, other.status, len(kept)) == ("refused", 201, 1)


@pytest.mark.parametrize(("size", "beside"), [(60_000, False), (70_000, True)])
async def test_large_values_are_written_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, beside: bool
) -> None:
    """The 300 MB of a loop took more than a second."""
    seen: list[bool] = []
    written = values._written

    def noting(*args: Any) -> Any:
        seen.append(threading.current_thread() is not threading.main_thread())
        return written(*args)

    monkeypatch.setattr(values, "_written", noting)
    kept: list[LargeValue] = []
    finished = await run(Answering(size), ValueStore(kept.append, 1_000), step("a", GET))
    assert outcomes(finished) == {"a": "succeeded"}
    assert (seen, len(kept)) == ([beside], 1)


async def test_a_result_tells_how_much_was_read(upstream: Upstream, opened: Opener) -> None:
    @upstream.on("/text")
    async def text(_: Seen) -> web.StreamResponse:
        return web.json_response("x" * 998)

    call = await opened()
    assert (await call(api(upstream.origin, "/text"))).bytes == 1_000
