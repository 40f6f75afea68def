"""The durable lane where processes die, stop or are slow: who goes on with their runs, and that nobody else does."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from executor_svc.admission import Sealer
from executor_svc.durable import DurableLane
from executor_svc.held import HeldAnswers
from executor_svc.models import Admission, CallResult, CallState, Conclusion, Outcome
from executor_svc.runner import Run
from executor_svc.storage import LedgerStore
from executor_svc.tables import CALLS, EXECUTIONS, MEMBERS
from services.contracts.doubt import ResolveRequest, doubts_of
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import InDoubt, Skipped, StepOutcome, StepRecord, Succeeded
from services.contracts.planning import CompiledPlan
from services.ownership.ticket import Ticket
from services.storage.engine import write
from tests.support.durable import DEAD, House, asked, booking, done, finish, held_bookings, sending, two_bookings
from tests.support.executing import api, compiled, literal, ref, step
from tests.support.upstream import Seen, Upstream


async def test_a_process_that_was_only_slow_sends_nothing_more(house: House, upstream: Upstream) -> None:
    held = held_bookings(upstream)
    plan = two_bookings(booking(upstream))
    slow = await house.executor()
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    await take_away(house)
    other = await house.executor()
    held.set()
    finished = await following
    assert upstream.count("/book") <= 2
    first, second = finished.records
    # Whoever was quicker: either the late answer came in time to be used, or the call is in doubt. Never a second one.
    assert [seen.body for seen in upstream.seen].count(b'{"room":"blue"}') == 1
    assert (finished.status, first.outcome.kind, second.outcome.kind) in {
        ("in_doubt", "in_doubt", "skipped"),
        ("succeeded", "succeeded", "succeeded"),
    }
    assert (await finish(other, plan)) == finished


async def take_away(house: House) -> None:
    """Make another process believe that the owners of all runs are dead."""
    async with house.engine.begin() as connection:
        taken = EXECUTIONS.update().values(owner="somebody else", epoch=EXECUTIONS.c.epoch + 1)
        await connection.execute(taken)


async def test_a_slow_process_does_not_repeat_what_another_has_taken_over(house: House, upstream: Upstream) -> None:
    """It waits as long as the upstream asked it to. By then the run is over, and later changes may have been made."""

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        first = upstream.count("/book") == 1
        return web.json_response({"id": "b1"}, status=503 if first else 200, headers={"Retry-After": "2"})

    put = booking(upstream).model_copy(update={"method": "PUT"})
    plan = compiled([put], step("a", put, {"room": literal("blue")}), answer={"id": ref("a", "id")}, mutating=("a",))
    slow = await house.executor()
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    await take_away(house)
    other = await house.executor()
    assert (await finish(other, plan)).status == "succeeded"
    assert (await following).status == "succeeded"
    await asyncio.sleep(3)
    assert upstream.count("/book") == 2


@pytest.mark.parametrize("paused", [False, True])
async def test_a_slow_process_does_not_send_what_waited_for_its_turn(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    """Nor one whose machine was paused: the monotonic clock stood still, and only the time of day went on."""
    held = held_bookings(upstream)
    post = booking(upstream)
    rooms = [step(name, post, {"room": literal(name)}) for name in ("blue", "red")]
    plan = compiled([post], *rooms, answer={"id": ref("blue", "id")}, mutating=("blue", "red"))
    slow = await house.executor(host_limits={"127.0.0.1": {"concurrency": 1}}, lease_s=60 if paused else 0.5)
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    await take_away(house)
    other = await house.executor()
    doubts = doubts_of((await finish(other, plan)).records)
    assert {doubt.step for doubt in doubts} == {"blue", "red"}
    if paused:
        monkeypatch.setattr("time.time", lambda now=time.time: now() + 60)
    await asyncio.sleep(0.5)  # a lease: sooner no other process takes over in earnest
    held.set()
    await following
    await asyncio.sleep(0.5)
    assert upstream.count("/book") == 1


async def test_a_process_that_stops_leaves_no_doubt_behind(house: House, upstream: Upstream) -> None:
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": f"b{upstream.count('/book')}"})

    plan = two_bookings(booking(upstream))
    async with house.opened() as stopping:
        following = asyncio.create_task(finish(stopping, plan))
        await upstream.arrived.wait()
        asyncio.get_running_loop().call_later(0.1, held.set)
    following.cancel()
    finished = await finish(await house.executor(), plan)
    assert (finished.status, finished.answer[0].value) == ("succeeded", "b2")
    assert upstream.count("/book") == 2


async def test_a_process_that_stops_writes_no_call_down_that_it_does_not_send(house: House, upstream: Upstream) -> None:
    """One call of two in flight ends while the process stops; the next one is not begun, so it is in no doubt later."""
    released = {"1": asyncio.Event(), "2": asyncio.Event(), "3": asyncio.Event()}

    @upstream.on("/book")
    async def answer(seen: Seen) -> web.Response:
        await released[str(json.loads(seen.body)["room"])].wait()
        return web.json_response({"id": "b"})

    book = booking(upstream)
    first, beside = step("a", book, {"room": literal(1)}), step("c", book, {"room": literal(2)})
    plan = compiled(
        [book], first, beside, step("b", book, {"room": literal(3)}, after=("a",)), mutating=("a", "b", "c")
    )
    async with house.opened() as stopping:
        following = asyncio.create_task(finish(stopping, plan))
        while upstream.count("/book") < 2:
            upstream.arrived.clear()
            await upstream.arrived.wait()
        asyncio.get_running_loop().call_later(0.1, released["1"].set)
        asyncio.get_running_loop().call_later(0.3, released["2"].set)
    following.cancel()
    released["3"].set()
    finished = await finish(await house.executor(), plan)
    assert finished.status == "succeeded"
    assert upstream.count("/book") == 3


async def test_no_bug_ends_the_search_for_orphans(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.replies("/book", {"id": "b1"})
    plan, bugs = two_bookings(booking(upstream)), iter([BufferError(), ValueError()])
    await house.left_behind(plan)
    searching = LedgerStore.take_over

    async def stumbling(store: LedgerStore, *arguments: Any) -> Any:
        for bug in bugs:
            raise bug
        return await searching(store, *arguments)

    monkeypatch.setattr(LedgerStore, "take_over", stumbling)
    assert (await finish(await house.executor(), plan)).status == "succeeded"


async def test_runs_are_read_one_by_one_and_not_to_cancel_them(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests of a dead process were in memory at once, and each cancellation read one twice."""
    held_bookings(upstream)
    plan, seen = two_bookings(booking(upstream)), list[str]()
    await house.left_behind(plan)
    store = LedgerStore(house.engine, Sealer(None))
    for name in ("run-2", "run-3"):
        late = asked(plan).model_copy(update={"run_id": name})
        await store.write([Admission(Ticket(name, DEAD.owner, 1), late)])
    reading, launching = LedgerStore._execution, DurableLane._launch

    def read(store: LedgerStore, row: Any) -> Any:
        seen.append(f"read {row.id}")
        return reading(store, row)

    def launch(lane: DurableLane, request: ExecuteRequest, work: Any) -> Any:
        seen.append(f"launch {request.run_id}")
        return launching(lane, request, work)

    monkeypatch.setattr(LedgerStore, "_execution", read)
    monkeypatch.setattr(DurableLane, "_launch", launch)
    executor = await house.executor()
    async with asyncio.timeout(20):
        while executor._lane.active < 3:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
    assert seen == [f"{what} run-{number}" for number in (1, 2, 3) for what in ("read", "launch")]
    other = await house.executor()
    for one in (executor, other):
        await one.cancel("run-2")
    following = asyncio.create_task(finish(other, plan))
    await asyncio.sleep(0.3)
    following.cancel()
    assert sum(one.startswith("read") for one in seen) == 3
    store.close()


async def test_a_run_that_brings_down_its_process_again_and_again_is_given_up(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    async with house.engine.begin() as connection:
        await connection.execute(EXECUTIONS.update().values(takeovers=5))
    finished = await finish(await house.executor(), plan)
    assert finished.status == "failed"
    assert "given up" in finished.records[0].outcome.message  # type: ignore[union-attr]
    assert upstream.seen == []


async def test_a_call_in_flight_of_a_run_that_is_given_up_is_in_doubt(house: House, upstream: Upstream) -> None:
    """Also one that could have been sent again: it may have taken effect."""
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"))
    async with house.engine.begin() as connection:
        await connection.execute(EXECUTIONS.update().values(takeovers=5))
    finished = await finish(await house.executor(), plan)
    assert finished.status == "in_doubt"
    assert [(doubt.step, doubt.request is not None) for doubt in doubts_of(finished.records)] == [("a", True)]
    assert upstream.seen == []


async def test_a_run_that_a_bug_has_ended_is_not_begun_anew(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for it before this process takes it up again must not make it send again what it has sent."""

    def falls(run: Run, finished: str, outcome: StepOutcome) -> list[str]:
        monkeypatch.undo()
        raise RuntimeError("a bug")

    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    executor = await house.executor(lease_s=5)
    lane = executor._lane
    monkeypatch.setattr(Run, "_release", falls)
    first = asyncio.create_task(finish(executor, plan))
    async with asyncio.timeout(20):
        while not lane._failed:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
    assert [ended.status for ended in (await finish(executor, plan), await first)] == ["succeeded"] * 2
    assert upstream.count("/book") == 2


async def test_a_clock_that_was_set_back_keeps_no_run_of_the_dead(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    async with write(house.engine) as connection:  # its last sign of life is of a time that is yet to come
        await connection.execute(MEMBERS.insert().values(id=DEAD.owner, seen_at=time.time() + 86_400))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == 2


def book_and_read(upstream: Upstream) -> CompiledPlan:
    """The read needs the booking."""
    upstream.replies("/free", {"room": "red"})
    get, post = api(upstream.origin, "/free", name="free"), booking(upstream)
    steps = step("a", post, {"room": literal("blue")}), step("r", get, after=("a",))
    return compiled([get, post], *steps, mutating=("a",))


async def test_who_has_lost_a_run_makes_no_more_of_its_reads(house: House, upstream: Upstream) -> None:
    held, plan = held_bookings(upstream), book_and_read(upstream)
    slow = await house.executor()
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    live = slow._lane._live["run-1"]
    async with house.engine.begin() as connection:
        await connection.execute(MEMBERS.insert().values(id="somebody else", seen_at=4e9))
        await connection.execute(EXECUTIONS.update().values(owner="somebody else", epoch=2))
    async with asyncio.timeout(20):
        while not live.cancelled:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
        held.set()
        while slow._lane.active:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    following.cancel()
    assert upstream.count("/free") == 0


async def test_who_gets_back_a_run_that_he_had_lost_runs_it_once(house: House, upstream: Upstream) -> None:
    """Another process marked its call as in doubt; the run that stood still here must not go on beside the new one."""
    held, plan = held_bookings(upstream), book_and_read(upstream)
    slow = await house.executor(lease_s=60)
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    former, other = slow._lane._live["run-1"], Ticket("run-1", "somebody else", 2)
    async with house.engine.begin() as connection:
        await connection.execute(EXECUTIONS.update().values(owner=other.owner, epoch=other.epoch))
    store, doubt = LedgerStore(house.engine, Sealer(None)), InDoubt(message="?")
    records = tuple(
        StepRecord(step=step, api=f"test.{name}", outcome=outcome, started_ms=0, duration_ms=0, attempts=0)
        for step, name, outcome in (("a", "book", doubt), ("r", "free", Skipped(because="a")))
    )
    ended = ExecutionFinished(status="in_doubt", records=records, duration_ms=0)
    in_doubt = Outcome(other, "a", CallState.IN_DOUBT, CallResult(doubt, None, 1), sent=True)
    await store.write([in_doubt, Conclusion(other, ended)])
    await store.request_cancel("run-1")
    store.close()
    await slow.resolve("run-1", "a", ResolveRequest(outcome="failed"))
    assert former.cancelled
    held.set()
    assert (await following).status in ("failed", "cancelled")
    assert upstream.count("/free") == 0


async def test_a_late_outcome_is_not_that_of_a_call_that_was_sent_again(house: House, upstream: Upstream) -> None:
    """A person had it sent again, as the first owner stood still; then that one tells what its own call brought."""
    plan, again = two_bookings(booking(upstream)), Ticket("run-1", "another", 2)
    await house.left_behind(plan, sending("a", room="blue"))
    async with house.engine.begin() as connection:
        await connection.execute(EXECUTIONS.update().values(owner=again.owner, epoch=again.epoch))
        await connection.execute(CALLS.delete())
    store, late = LedgerStore(house.engine, Sealer(None)), done("a", {"id": "first"})
    await store.write([replace(sending("a", room="blue"), ticket=again)])
    await store.write([late])
    assert (await store.calls("run-1"))["a"].state is CallState.SENT
    await store.write([replace(done("a", {"id": "second"}), ticket=again), late])
    result = (await store.calls("run-1"))["a"].result
    assert result is not None
    assert result.outcome == Succeeded(value={"id": "second"}, status=201)
    store.close()


async def test_a_run_that_waits_for_room_can_be_cancelled(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for as long as another run of its tenant held what it needed."""
    plan, held = two_bookings(booking(upstream)), HeldAnswers(2_000)
    held.take(asked(plan).tenant, 900)
    monkeypatch.setattr("executor_svc.durable.HeldAnswers", lambda _: held)
    first = done("a", {"id": "b1"})
    first = replace(first, result=replace(first.result, memory=500))
    await house.left_behind(plan, sending("a", room="blue"), first)
    executor = await house.executor()
    await asyncio.sleep(1)
    assert upstream.seen == []  # it waits
    assert (await executor.cancel("run-1")).status == "running"
    async with asyncio.timeout(5):
        assert (await finish(executor, plan)).status == "cancelled"
    assert upstream.seen == []
