"""What a run stores, and what its loops collect before, is bounded. Large values are written beside the event loop."""

import asyncio
import json
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from pydantic_core import from_json

from executor_svc import values
from executor_svc.graph import Graph
from executor_svc.held import HeldAnswers, NoRoom, Room, memory_of
from executor_svc.ledger import Ledger, LedgerAdapter, with_full_outputs
from executor_svc.live import LiveRun
from executor_svc.main import open_executor
from executor_svc.models import LARGE_BYTES, Call, CallResult, CallState, LargeValue, Limits, RecordedCall
from executor_svc.runner import Run
from executor_svc.settings import ExecutorSettings
from executor_svc.values import ValueStore
from executor_svc.workers import Workers
from services.compute import ComputePool
from services.contracts.api import RequestBody
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, StoredValue, Succeeded
from services.contracts.plan import ForEach, Step
from services.ownership.ticket import Ticket
from tests.support.executing import api, compiled, item, literal, parameter, ref, step
from tests.support.running import GET, POST, Scripted, outcomes
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

LIMITS = Limits(run_s=20, step_s=20, items=100)
BYTES = 5_000


class Answering(Scripted):
    """Answers with so much text, or with none to a call of POST."""

    def __init__(self, size: int = BYTES) -> None:
        async def give(call: Call) -> Any:
            self.given.append({} if call.api is POST else f"{len(self.calls):08d}".ljust(size - 2, "x"))
            return self.given[-1]

        super().__init__(give)
        self.size, self.given = size, list[Any]()

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


class Changing(Answering):
    """Answers with so much text to a call of POST, and with none to others."""

    def __init__(self) -> None:
        async def give(call: Call) -> Any:
            return f"{len(self.calls):08d}".ljust(BYTES - 2, "x") if call.api is POST else {}

        Scripted.__init__(self, give)
        self.size = BYTES

    async def call(self, call: Call) -> CallResult:
        return replace(await Scripted.call(self, call), bytes=BYTES if call.api is POST else 2)


def post_each(count: int) -> Step:
    return step("a", POST, {"x": item()}, foreach=ForEach(items=literal(list(range(count))), parallel=1))


@pytest.mark.parametrize("first", [step("a", POST), post_each(3)], ids=["call", "loop"])
async def test_a_change_that_was_made_is_no_failure_if_its_answer_has_no_room(first: Step) -> None:
    """A rerun of a step that failed sends it again."""
    kept: list[LargeValue] = []
    adapter = Changing()
    finished = await run(
        adapter, ValueStore(kept.append, 1_000, 6_000 if first.foreach else 100), first, step("b", GET, after=("a",))
    )
    assert (finished.status, outcomes(finished)) == ("succeeded", {"a": "succeeded", "b": "succeeded"})
    outcome = finished.records[0].outcome
    assert isinstance(outcome, Succeeded)
    assert (outcome.kept, outcome.stored, len(str(outcome.value)) < 1_000, kept) == (False, None, True, [])
    assert sum(call.api is POST for call in adapter.calls) == (3 if first.foreach else 1)


async def test_a_step_that_needs_an_answer_without_room_says_so() -> None:
    plan = compiled([GET, POST], step("a", POST), step("b", GET, {"x": ref("a")}), answer={"text": ref("a")})
    value_store = ValueStore(lambda _: None, 1_000, 100)
    events = Run(plan, Graph(plan.plan), Changing(), "run-1", LIMITS, value_store).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    needing, lost = finished.records[1].outcome, "a succeeded, but its answer is not kept: the run had no room for it"
    assert isinstance(needing, Failed)
    assert (needing.reason, needing.message, finished.problem) == ("refused", f"b: {lost}", f"answer 'text': {lost}")
    assert finished.answer == ()


@pytest.mark.parametrize(("most", "kept"), [(105_000, True), (90_000, False)])
async def test_the_ledger_of_a_loop_of_changes_counts_an_answer_once(
    tmp_path: Path, upstream: Upstream, most: int, kept: bool
) -> None:
    """All are made and none is recorded as failed; the answers have the whole room, and not half of it."""
    settings = ExecutorSettings(
        database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db",
        allowed_private_hosts=("127.0.0.1",),
        max_inline_bytes=1_024,
        max_kept_bytes=most,
    )
    answers: list[dict[str, object]] = [{"x": str(number) * 20_000} for number in range(5)]
    upstream.replies("/cancel", *answers)
    cancel = api(upstream.origin, "/cancel", parameter("order", "body"), method="POST", body=RequestBody())
    loop = step("a", cancel, {"order": item()}, foreach=ForEach(items=literal([*"12345"]), parallel=1))
    plan = compiled([cancel], loop, mutating=("a",))
    async with open_executor(settings, CollectorRegistry()) as (executor, _):
        asked = ExecuteRequest(run_id="run-1", compiled=plan)
        last = [event async for event in executor.execute(asked)][-1]
        again = [event async for event in executor.execute(asked)][-1]
    assert isinstance(last, ExecutionFinished)
    (record,) = last.records
    assert isinstance(record.outcome, Succeeded)
    assert (record.outcome.kept, record.outcome.stored is not None) == (kept, kept)
    assert [one.outcome.kind for one in record.items] == ["succeeded"] * 5
    assert (last, len(upstream.seen)) == (again, 5)


def test_the_ledger_stores_a_value_once_and_records_that_one_had_no_room() -> None:
    kept: list[LargeValue] = []
    value_store = ValueStore(kept.append, 1_000, BYTES)
    made = [CallResult(Succeeded(value=text * (BYTES - 2), status=201), None, 1) for text in "xxy"]
    first, again, other = (value_store.for_ledger(one, changed=False).outcome for one in made)
    changed = value_store.for_ledger(made[2], changed=True).outcome
    assert isinstance(changed, Succeeded)
    assert (changed.status, changed.kept, changed.stored, len(str(changed.value))) == (201, False, None, 203)
    assert isinstance(first, Succeeded)
    assert first == again
    assert first.stored is not None
    assert isinstance(other, Failed)
    assert (other.reason, other.status, len(kept)) == ("refused", 201, 1)


async def test_an_answer_of_a_former_process_counts_as_it_did_there() -> None:
    """Otherwise a loop that had room would have none when another process continues it."""
    value_store = ValueStore(lambda _: None, 1_000, BYTES)
    result = CallResult(Succeeded(value="x" * (BYTES - 2)), None, 1)
    known = {"a": RecordedCall(CallState.DONE, "", result)}
    ledger = MagicMock(spec=Ledger)
    adapter = LedgerAdapter(MagicMock(), ledger, Ticket("run-1", "me", 2), known, value_store, 5.0, MagicMock())
    again = await adapter.call(Call(GET, {}, "run-1/a", float("inf")))
    assert isinstance(again.outcome, Succeeded)
    assert (again.recovered, value_store.has(again.outcome.value)) == (True, True)


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


class Heavy(Scripted):
    """Its answers take so much memory."""

    def __init__(self, memory: int) -> None:
        async def give(_: Call) -> Any:
            return {"x": 1}

        super().__init__(give)
        self.memory = memory

    async def call(self, call: Call) -> CallResult:
        return replace(await super().call(call), memory=self.memory)


def holding(held: HeldAnswers, tenant: str) -> ValueStore:
    return ValueStore(lambda _: None, 1_000, room=Room(held, tenant))


async def test_the_answers_of_all_runs_are_held_within_bounds() -> None:
    """What a run holds counts until it is closed; half of all is left to other tenants."""
    held = HeldAnswers(1_000)
    first, second, other = holding(held, "red"), holding(held, "red"), holding(held, "blue")
    assert (await run(Heavy(400), first, step("a", GET))).status == "succeeded"
    finished = await run(Heavy(200), second, step("a", GET), step("b", POST), step("c", GET, {"x": ref("b", "x")}))
    a, b, c = (record.outcome for record in finished.records)
    assert isinstance(a, Failed)
    assert (a.reason, "try again" in a.message) == ("overloaded", True)
    assert isinstance(b, Succeeded)  # the change was made
    assert not b.kept
    assert isinstance(c, Failed)
    assert (await run(Heavy(400), other, step("a", GET))).status == "succeeded"
    first.close()
    assert (await run(Heavy(200), second, each("a", 2))).status == "succeeded"
    assert (await run(Heavy(200), second, each("a", 2))).status == "failed"
    second.close()
    other.close()
    held.take("red", 500)


async def test_the_ledger_keeps_no_answer_that_the_memory_has_no_room_for() -> None:
    """Refused answers stayed in memory until their run ended: 5 GB where a tenant may hold 512 MB."""
    kept: list[LargeValue] = []
    held, made = HeldAnswers(1_000), Answering()
    value_store = ValueStore(kept.append, 1_000, room=Room(held, "red"))
    ledger, asked = MagicMock(spec=Ledger), Call(GET, {}, "run-1/a", float("inf"))
    caller = MagicMock(call=lambda call: sized(made, call, 300))
    adapter = LedgerAdapter(caller, ledger, Ticket("run-1", "me", 1), {}, value_store, 5.0, MagicMock())
    first, refused = await adapter.call(asked), await adapter.call(asked)
    assert isinstance(first.outcome, Succeeded)
    assert isinstance(refused.outcome, Failed)
    assert (refused.outcome.reason, len(kept)) == ("overloaded", 1)
    assert [value_store.has(value) for value in made.given] == [True, False]
    assert [call.args[3].memory for call in ledger.outcome.call_args_list] == [300, 300]
    assert value_store.held(first, changed=False) == first  # it is counted once
    held.take("red", 200)


async def sized(made: Answering, call: Call, memory: int) -> CallResult:
    return replace(await made.call(call), memory=memory)


async def test_outputs_of_an_earlier_owner_are_loaded_beside_the_loop_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All at once and uncounted they took 3 GB, and others waited."""
    threads, asked, kept = list[str](), list[str](), list[LargeValue]()
    content = json.dumps(["x" * LARGE_BYTES])

    class Store:
        async def value(self, value_id: str) -> str:
            asked.append(value_id)
            return content

    def parsed(*args: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return from_json(*args, **more)

    monkeypatch.setattr("executor_svc.ledger.from_json", parsed)
    large = Succeeded(value=[], stored=StoredValue(id="0" * 64, bytes=100))
    made = (large, 200), (large, 150), (Succeeded(value="y"), 50), (Succeeded(value=[], kept=False), 400)
    known = {
        str(number): RecordedCall(CallState.DONE, "", CallResult(outcome, None, 1, memory=memory))
        for number, (outcome, memory) in enumerate(made)
    } | {"4": RecordedCall(CallState.SENT, "x", None)}
    held, pool = HeldAnswers(1_000), ComputePool(1, 1, "answers")
    other, value_store = holding(held, "red"), ValueStore(kept.append, 50, room=Room(held, "red"))
    assert other.held(CallResult(Succeeded(value=1), None, 1, memory=101), changed=False).outcome == Succeeded(value=1)
    outputs = with_full_outputs(known, Store(), value_store, Workers(pool), lambda: True)  # type: ignore[arg-type]
    loading = asyncio.create_task(outputs)
    await asyncio.sleep(0.3)
    assert asked == []
    other.close()
    loaded = await loading
    assert (len(asked), threads, len(kept)) == (2, ["answers"] * 2, 1)
    again = LedgerAdapter(
        MagicMock(), MagicMock(spec=Ledger), Ticket("run-1", "me", 2), loaded, value_store, 5.0, Workers(pool)
    )
    result = value_store.held(await again.call(Call(GET, {}, "run-1/0", float("inf"))), changed=False)
    assert isinstance(result.outcome, Succeeded)
    assert (result.outcome.value, value_store.kept, len(kept)) == (from_json(content), 1, 1)
    held.take("red", 100)  # they count once
    with pytest.raises(NoRoom):
        held.take("red", 1)
    await pool.close()


async def test_outputs_that_are_more_than_a_tenant_may_hold_now_are_loaded_alone() -> None:
    """The limit may have been lowered. What such a run has begun must be told all the same."""
    held = HeldAnswers(1_000)
    room = Room(held, "red")
    async with asyncio.timeout(5):
        await room.take_in_turn(5_000, lambda: True)
    with pytest.raises(NoRoom):
        held.take("red", 1)
    held.take("blue", 500)


async def test_a_run_that_goes_on_waits_for_room_no_longer_than_its_deadline() -> None:
    """Others took what was free again and again, and the run never went on."""
    held = HeldAnswers(1_000)
    held.take("red", 100)
    request = ExecuteRequest(run_id="run-1", compiled=compiled([GET], step("a", GET)), deadline_ms=300)
    room, clock = Room(held, "red"), asyncio.get_running_loop().time
    began = clock()
    async with asyncio.timeout(5):
        await room.take_in_turn(450, LiveRun(request).may_wait())
    assert clock() - began >= 0.3
    held.give_back("red", 100)
    with pytest.raises(NoRoom):  # it counts all the same
        held.take("red", 51)
    room.close()
    held.take("red", 500)


async def test_one_run_of_a_tenant_at_a_time_goes_on_without_room() -> None:
    """Six that were settled and cancelled together loaded 370 MB each, beyond what their tenant may have."""
    held = HeldAnswers(1_000)
    held.take("red", 400)
    rooms = [Room(held, "red") for _ in range(3)]
    async with asyncio.timeout(20):
        waiting = [asyncio.create_task(room.take_in_turn(450, lambda: False)) for room in rooms]
        await asyncio.sleep(0.5)
        assert sum(task.done() for task in waiting) == 1
        held.take("blue", 100)
        await Room(held, "blue").take_in_turn(450, lambda: False)  # each tenant has its own turn
        for room, task in zip(rooms, waiting, strict=True):
            await task
            room.close()
            room.close()
    held.give_back("red", 400)
    held.give_back("blue", 550)
    held.take("red", 500)


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(['{"":1}'] * 20_000) + "]",
        "[" + ",".join(f'{{"a{n}":{{}}}}' for n in range(20_000)) + "]",
        "[" + ",".join(["[]"] * 20_000) + "]",
        "[" + ",".join(str(n) for n in range(1_000, 30_000)) + "]",
        "[" + ",".join(f'"{n}"' for n in range(20_000)) + "]",
        "{" + ",".join(f'"{n}":{n}.5' for n in range(20_000)) + "}",
        '["' + "x" * 300_000 + '\\ud83d\\ude00"]',
        '"' + "x" * 300_000 + "\U0001f600" + '"',
    ],
)
def test_the_memory_of_an_answer_is_estimated_from_its_text(text: str) -> None:
    body = text.encode()
    tracemalloc.start()
    value = from_json(body)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value
    assert taken / 1.4 < memory_of(body) < 4 * taken


def test_a_byte_order_mark_hides_no_values() -> None:
    text = b"[" + b",".join([b'{"":1}'] * 1_000) + b"]"
    assert memory_of(b"\xef\xbb\xbf" + text) >= memory_of(text)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_run_gives_back_what_it_held(upstream: Upstream, tmp_path: Path, method: Any) -> None:
    body = b'{"x": "y"}'
    settings = ExecutorSettings(
        database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db",
        allowed_private_hosts=("127.0.0.1",),
        max_held_bytes=3 * memory_of(body),
    )
    upstream.replies("/p", *(web.Response(body=body, content_type="application/json") for _ in range(3)))
    operation = api(upstream.origin, "/p", method=method)
    plan = compiled([operation], step("a", operation), mutating=("a",) if method == "POST" else ())
    async with open_executor(settings, CollectorRegistry()) as (executor, _):
        for number in range(3):
            asked = ExecuteRequest(run_id=f"run-{number}", compiled=plan, tenant="red")
            finished = [event async for event in executor.execute(asked)][-1]
            assert isinstance(finished, ExecutionFinished)
            (record,) = finished.records
            assert isinstance(record.outcome, Succeeded)
            assert record.outcome.kept
