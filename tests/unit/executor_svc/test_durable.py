"""The durable lane on real databases: what a process left behind is found as it was left, whatever that was."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from executor_svc.adapters.http.adapter import HttpAdapter
from executor_svc.adapters.http.request import idempotency_key
from executor_svc.main import open_executor
from executor_svc.models import Admission, Call, CallResult, CallState, Conclusion, Outcome, Sending, Ticket
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from executor_svc.settling import settled
from executor_svc.storage import CALLS, EXECUTIONS, MEMBERS, LedgerStore
from services.contracts.api import Api, RequestBody
from services.contracts.plan import ForEach, content_hash
from services.contracts.planning import CompiledPlan
from services.contracts.run import (
    ExecuteRequest,
    ExecutionFinished,
    InDoubt,
    ResolveRequest,
    Skipped,
    StepRecord,
    Succeeded,
    doubts_of,
)
from services.errors import Conflict, NotFound, ServiceUnavailable, ValidationFailed
from services.storage.engine import create_engine, write
from services.storage.migrate import migrate
from tests.support.executing import api, compiled, item, literal, parameter, ref, step
from tests.support.upstream import Seen, Upstream

DEAD = Ticket("run-1", "a process that died", 1)


@dataclass
class House:
    """Executors on one database."""

    url: str
    stack: AsyncExitStack
    engine: AsyncEngine

    async def executor(self, **settings: Any) -> ExecutorService:
        """One more process, so to say."""
        return await self.stack.enter_async_context(self.opened(**settings))

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncIterator[ExecutorService]:
        chosen: dict[str, Any] = {"allowed_private_hosts": ("127.0.0.1",), "lease_s": 0.5, "retry_base_s": 0.01}
        given = ExecutorSettings(database_url=self.url, **chosen | settings)
        async with open_executor(given, CollectorRegistry()) as (service, _):
            yield service

    async def left_behind(self, plan: CompiledPlan, *operations: Sending | Outcome) -> None:
        """Write what a process that died has written."""
        await migrate(self.engine, "executor_svc")
        store = LedgerStore(self.engine)
        await store.write([Admission(DEAD, asked(plan)), *operations])
        store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    url = f"sqlite+aiosqlite:///{tmp_path}/executor.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    engine = create_engine(url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        yield House(url, stack, engine)


def booking(upstream: Upstream, path: str = "/book", **more: Any) -> Api:
    return api(upstream.origin, path, parameter("room", "body"), name="book", method="POST", body=RequestBody(), **more)


def two_bookings(post: Api) -> CompiledPlan:
    """The second one books what the first one answers."""
    first, second = step("a", post, {"room": literal("blue")}), step("b", post, {"room": ref("a", "id")})
    return compiled([post], first, second, answer={"id": ref("b", "id")}, mutating=("a", "b"))


def asked(plan: CompiledPlan, **more: Any) -> ExecuteRequest:
    return ExecuteRequest(run_id="run-1", compiled=plan, approved=plan.plan.id, **more)


async def finish(executor: ExecutorService, plan: CompiledPlan) -> ExecutionFinished:
    async with asyncio.timeout(20):
        last = [event async for event in executor.execute(asked(plan))][-1]
    assert isinstance(last, ExecutionFinished)
    return last


def sending(key: str, **arguments: Any) -> Sending:
    return Sending(DEAD, key, content_hash(arguments))


def done(key: str, value: Any) -> Outcome:
    return Outcome(DEAD, key, CallState.DONE, CallResult(Succeeded(value=value, status=201), None, 1), sent=True)


async def test_a_run_is_run_once_however_often_it_is_asked_for(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    one, other = await house.executor(), await house.executor()
    finished = await asyncio.gather(*(finish(executor, plan) for executor in (one, one, other)))
    again = await finish(other, plan)
    assert upstream.count("/book") == 2
    assert {f.status for f in (*finished, again)} == {"succeeded"}
    assert {f.answer[0].value for f in (*finished, again)} == {"b2"}


async def test_hanging_up_stops_nothing(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    executor = await house.executor()
    events = executor.execute(asked(plan))
    await anext(events)
    await events.aclose()
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == 2


async def test_the_same_id_with_another_plan_is_refused(house: House, upstream: Upstream) -> None:
    executor = await house.executor()
    plan = two_bookings(booking(upstream))
    await finish(executor, plan)
    other = compiled([booking(upstream)], step("a", booking(upstream), {"room": literal("red")}), mutating=("a",))
    with pytest.raises(Conflict, match="another plan"):
        await finish(executor, other)


async def test_a_call_in_flight_is_parked_and_listed_and_never_sent_again(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    finished = await finish(await house.executor(), plan)
    assert finished.status == "in_doubt"
    assert isinstance(finished.records[0].outcome, InDoubt)
    assert finished.records[1].outcome == Skipped(because="a")
    (doubt,) = doubts_of(finished.records)
    assert (doubt.step, doubt.item) == ("a", None)
    assert doubt.request is not None
    assert (doubt.request.url, doubt.request.body) == (f"{upstream.origin}/book", {"room": "blue"})
    assert upstream.seen == []


async def test_what_is_done_is_read_and_what_depends_on_it_goes_on(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"), done("a", {"id": "b1"}))
    finished = await finish(await house.executor(), plan)
    assert (finished.status, finished.answer[0].value) == ("succeeded", "b2")
    assert [record.recovered for record in finished.records] == [True, False]
    assert [seen.body for seen in upstream.seen] == [b'{"room":"b1"}']


async def test_an_idempotent_call_in_flight_is_sent_again_under_its_key(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"})
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"))
    assert (await finish(await house.executor(), plan)).status == "succeeded"
    assert upstream.seen[0].headers["Idempotency-Key"] == idempotency_key("run-1/a")


async def test_an_idempotent_call_is_not_repeated_with_other_arguments(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="green"))
    finished = await finish(await house.executor(), plan)
    assert finished.status == "in_doubt"
    (doubt,) = doubts_of(finished.records)
    assert "other arguments" in doubt.message
    assert doubt.request is None
    assert upstream.seen == []


async def test_reads_of_a_former_owner_keep_their_values(house: House, upstream: Upstream) -> None:
    """A later answer may be another one; what was sent with the first must be repeated with the first."""
    upstream.replies("/free", {"room": "red"})
    get, post = api(upstream.origin, "/free", name="free"), booking(upstream)
    plan = compiled([get, post], step("r", get), step("a", post, {"room": ref("r", "room")}), mutating=("a",))
    read = Outcome(DEAD, "r", CallState.DONE, CallResult(Succeeded(value={"room": "blue"}), None, 1), sent=False)
    await house.left_behind(plan, read)
    assert (await finish(await house.executor(), plan)).status == "succeeded"
    assert [seen.body for seen in upstream.seen] == [b'{"room":"blue"}']


async def test_a_process_that_was_only_slow_sends_nothing_more(house: House, upstream: Upstream) -> None:
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": "b1"})

    plan = two_bookings(booking(upstream))
    slow = await house.executor()
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    async with house.engine.begin() as connection:  # another process believes it dead
        taken = EXECUTIONS.update().values(owner="somebody else", epoch=EXECUTIONS.c.epoch + 1)
        await connection.execute(taken)
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


@pytest.mark.parametrize(
    ("said", "status", "bodies"),
    [
        (ResolveRequest(outcome="succeeded", value={"id": "b1"}), "succeeded", [b'{"room":"b1"}']),
        (ResolveRequest(outcome="failed", message="never arrived"), "failed", []),
        (ResolveRequest(outcome="retry"), "succeeded", [b'{"room":"blue"}', b'{"room":"b2"}']),
    ],
)
async def test_a_doubt_is_settled_and_the_run_goes_on(
    house: House, upstream: Upstream, said: ResolveRequest, status: str, bodies: list[bytes]
) -> None:
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    state = await executor.resolve("run-1", "a", said)
    assert (state.status, state.doubts) == ("running", ())
    assert (await finish(executor, plan)).status == status
    assert [seen.body for seen in upstream.seen] == bodies
    with pytest.raises(Conflict, match=status):
        await executor.resolve("run-1", "a", said)


@pytest.mark.parametrize("said", [ResolveRequest(outcome="retry"), ResolveRequest(outcome="succeeded", value={})])
async def test_a_settlement_that_a_crash_cut_short_is_repeated(
    house: House, upstream: Upstream, said: ResolveRequest
) -> None:
    """The process dies between writing what was said and setting the run running again."""
    upstream.replies("/book", {"id": "b2"})
    plan = compiled([booking(upstream)], step("a", booking(upstream), {"room": literal("blue")}), mutating=("a",))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    store = LedgerStore(house.engine)
    execution = await store.execution("run-1")
    assert execution is not None
    assert await store.settle(execution, "a", settled(said))
    store.close()
    assert (await executor.resolve("run-1", "a", said)).status == "running"
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == (said.outcome == "retry")


async def test_a_settlement_that_comes_too_late_is_not_applied_to_a_later_doubt(
    house: House, upstream: Upstream
) -> None:
    """The process that was told stands still; meanwhile the run goes on, and the call is in doubt once more."""
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    store = LedgerStore(house.engine)
    former = await store.execution("run-1")
    assert former is not None
    upstream.replies("/book", web.Response(status=504))
    await executor.resolve("run-1", "a", ResolveRequest(outcome="retry"))
    assert (await finish(executor, plan)).status == "in_doubt"
    assert not await store.settle(former, "a", None)
    assert await store.reopen(former, "somebody") is None
    store.close()
    assert upstream.count("/book") == 1
    state = await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    assert state.status == "running"


async def test_items_of_a_foreach_are_settled_one_by_one(house: House, upstream: Upstream) -> None:
    post = booking(upstream)
    plan = compiled(
        [post],
        step("each", post, {"room": item()}, foreach=ForEach(items=literal(["red", "blue", "green"]), parallel=3)),
        answer={"all": ref("each")},
        mutating=("each",),
    )
    upstream.replies("/book", {"id": "b2"})
    await house.left_behind(
        plan, sending("each/0", room="red"), sending("each/1", room="blue"), done("each/1", {"id": "b1"})
    )
    executor = await house.executor()
    finished = await finish(executor, plan)
    kinds = [record.outcome.kind for record in finished.records[0].items]
    assert (finished.status, kinds[:2]) == ("in_doubt", ["in_doubt", "succeeded"])
    with pytest.raises(ValidationFailed, match="item"):
        await executor.resolve("run-1", "each", ResolveRequest(outcome="retry"))
    with pytest.raises(Conflict):
        await executor.resolve("run-1", "each", ResolveRequest(outcome="retry", item=7))
    await executor.resolve("run-1", "each", ResolveRequest(outcome="succeeded", value={"id": "b0"}, item=0))
    settled = await finish(executor, plan)
    assert settled.answer[0].value == [{"id": "b0"}, {"id": "b1"}, {"id": "b2"}]


async def test_what_does_not_exist_cannot_be_settled_or_cancelled(house: House, upstream: Upstream) -> None:
    executor = await house.executor()
    with pytest.raises(NotFound):
        await executor.resolve("run-1", "a", ResolveRequest(outcome="failed"))
    with pytest.raises(NotFound):
        await executor.cancel("run-2")
    await finish(executor, two_bookings(booking(upstream)))
    with pytest.raises(NotFound, match="no step"):
        await executor.resolve("run-1", "z", ResolveRequest(outcome="failed"))


async def test_what_was_cancelled_before_it_began_does_not_begin(house: House, upstream: Upstream) -> None:
    """A request for it may be held up somewhere between the gateway and the ledger."""
    one, other = await house.executor(), await house.executor()
    for _ in range(2):
        with pytest.raises(NotFound):
            await one.cancel("run-1")
    with pytest.raises(NotFound):
        await finish(other, two_bookings(booking(upstream)))
    assert upstream.seen == []


@pytest.mark.parametrize("asked_of_owner", [True, False])
async def test_a_cancelled_run_starts_no_further_call(house: House, upstream: Upstream, asked_of_owner: bool) -> None:
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": "b1"})

    plan = two_bookings(booking(upstream))
    owner, other = await house.executor(), await house.executor()
    following = asyncio.create_task(finish(owner, plan))
    await upstream.arrived.wait()
    await (owner if asked_of_owner else other).cancel("run-1")
    if not asked_of_owner:
        await asyncio.sleep(0.2)  # the owner looks every lease_s / 10 = 50 ms
    held.set()
    finished = await following
    assert finished.status == "cancelled"
    assert [record.outcome.kind for record in finished.records] == ["succeeded", "skipped"]
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


async def test_large_outputs_are_kept_once_and_previewed_elsewhere(house: House, upstream: Upstream) -> None:
    rows = [{"id": n, "text": "x" * 100} for n in range(1_000)]
    upstream.replies("/rows", rows)  # type: ignore[arg-type]
    upstream.replies("/book", {"id": "b1"})
    get, post = api(upstream.origin, "/rows", name="rows"), booking(upstream)
    plan = compiled(
        [get, post],
        step("r", get),
        step("a", post, {"room": ref("r", 999, "id")}),
        answer={"rows": ref("r")},
        mutating=("a",),
    )
    executor = await house.executor(max_inline_bytes=10_000)
    finished = await finish(executor, plan)
    outcome = finished.records[0].outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.stored is not None
    assert outcome.stored == finished.answer[0].stored
    assert len(finished.model_dump_json()) < 10_000
    assert upstream.seen[-1].body == b'{"room":999}'
    assert await executor.value(outcome.stored.id) == (
        "[" + ",".join(f'{{"id":{n},"text":"{"x" * 100}"}}' for n in range(1_000)) + "]"
    )
    with pytest.raises(NotFound):
        await executor.value("0" * 64)


async def test_a_large_output_is_whole_again_after_a_crash(house: House, upstream: Upstream) -> None:
    """The first process kept a preview in its ledger and the value beside it."""
    rows = [{"id": n, "text": "x" * 100} for n in range(1_000)]
    upstream.replies("/rows", rows)  # type: ignore[arg-type]
    get, post = api(upstream.origin, "/rows", name="rows"), booking(upstream)
    plan = compiled([get, post], step("r", get), step("a", post, {"room": ref("r", 999, "id")}), mutating=("a",))
    booked = asyncio.Event()

    @upstream.on("/book")
    async def never(_: Seen) -> web.Response:
        booked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house.opened(max_inline_bytes=10_000, shutdown_grace_s=0) as first:
        following = asyncio.create_task(finish(first, plan))
        await booked.wait()
    following.cancel()
    second = await house.executor()
    assert (await finish(second, plan)).status == "in_doubt"
    await second.resolve("run-1", "a", ResolveRequest(outcome="retry"))
    upstream.replies("/book", {"id": "b1"})
    assert (await finish(second, plan)).status == "succeeded"
    assert upstream.count("/rows") == 1
    assert upstream.seen[-1].body == b'{"room":999}'


async def test_a_ledger_that_cannot_be_written_sends_nothing(tmp_path: Path, upstream: Upstream) -> None:
    """Another connection holds SQLite's write lock for longer than the run may take."""
    url = f"sqlite+aiosqlite:///{tmp_path}/executor.db"
    engine = create_engine(url)
    settings = ExecutorSettings(database_url=url, allowed_private_hosts=("127.0.0.1",), lease_s=60)
    plan = two_bookings(booking(upstream))
    async with open_executor(settings, CollectorRegistry()) as (executor, _), engine.begin() as connection:
        await connection.execute(sa.text("SELECT 1"))
        with pytest.raises(ServiceUnavailable, match="Nothing was sent"):
            async for _event in executor.execute(asked(plan, deadline_ms=300)):
                pass
    assert upstream.seen == []
    await engine.dispose()


async def test_a_run_that_a_bug_has_ended_is_not_begun_anew(house: House, upstream: Upstream) -> None:
    """Whoever asks for it before this process takes it up again must not make it send again what it has sent."""

    class Falls:
        preview = HttpAdapter.preview

        async def call(self, call: Call) -> CallResult:
            await real.call(call)
            raise RuntimeError("a bug")

    plan = two_bookings(booking(upstream))
    executor = await house.executor(lease_s=5)
    lane, real = executor._lane, executor._lane._adapter
    lane._adapter = Falls()
    first = asyncio.create_task(finish(executor, plan))
    async with asyncio.timeout(20):
        while not lane._failed:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
    lane._adapter = real
    assert [ended.status for ended in (await finish(executor, plan), await first)] == ["in_doubt"] * 2
    assert upstream.count("/book") == 1


async def test_a_cancellation_between_taking_over_and_going_on_is_heard(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    async with house.engine.begin() as connection:  # so that the run is taken over by this test alone
        await connection.execute(MEMBERS.insert().values(id=DEAD.owner, seen_at=4e9))
    executor = await house.executor()
    taken = await executor._lane._stored("run-1")
    await executor.cancel("run-1")
    executor._lane._launch(taken.request, partial(executor._lane._continue, taken, DEAD))
    assert (await finish(executor, plan)).status == "cancelled"
    assert upstream.seen == []


async def test_another_plan_does_not_get_to_see_a_run_that_was_taken_over_meanwhile(
    house: House, upstream: Upstream
) -> None:
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": "b1"})

    executor = await house.executor()
    following = asyncio.create_task(finish(executor, two_bookings(booking(upstream))))
    await upstream.arrived.wait()
    other = compiled([booking(upstream)], step("a", booking(upstream), {"room": literal("red")}), mutating=("a",))
    with pytest.raises(Conflict, match="another plan"):
        await anext(executor._lane._follow_stored(asked(other)))
    held.set()
    assert (await following).status == "succeeded"


async def test_a_run_that_is_forgotten_leaves_nothing_and_is_not_begun_once_more(
    house: House, upstream: Upstream
) -> None:
    plan = two_bookings(booking(upstream))
    executor = await house.executor()
    await executor.forget("run-1")  # of one that was never begun there is nothing to forget
    await finish(executor, plan)
    await executor.forget("run-1")
    async with house.engine.connect() as connection:
        assert (await connection.execute(sa.select(CALLS))).all() == []
        ((request, result),) = (await connection.execute(sa.select(EXECUTIONS.c.request, EXECUTIONS.c.result))).all()
    assert (request, result) == ("", None)
    sent = upstream.count("/book")
    with pytest.raises(NotFound):
        await finish(executor, plan)
    assert upstream.count("/book") == sent


async def test_a_run_in_doubt_is_not_forgotten(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    with pytest.raises(Conflict, match="not over"):
        await executor.forget("run-1")


async def test_what_ended_long_ago_goes_in_batches(house: House, upstream: Upstream) -> None:
    await migrate(house.engine, "executor_svc")
    store = LedgerStore(house.engine)
    plan = two_bookings(booking(upstream))
    tickets = [Ticket(f"old-{n}", "a process that died", 1) for n in range(5)]
    await store.write(
        [Admission(ticket, asked(plan).model_copy(update={"run_id": ticket.run_id})) for ticket in tickets]
    )
    async with write(house.engine) as connection:
        done = {"status": "succeeded", "created_at": 1_000.0}
        await connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.id != "old-4").values(done))
    assert [await store.forget(60.0, limit=3) for _ in range(3)] == [3, 1, 0]
    async with house.engine.connect() as connection:
        assert list(await connection.scalars(sa.select(EXECUTIONS.c.id))) == ["old-4"]
    store.close()


async def test_a_clock_that_was_set_back_keeps_no_run_of_the_dead(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    async with write(house.engine) as connection:  # its last sign of life is of a time that is yet to come
        await connection.execute(MEMBERS.insert().values(id=DEAD.owner, seen_at=time.time() + 86_400))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == 2


def held_bookings(upstream: Upstream) -> asyncio.Event:
    """No booking is answered before this is set."""
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": "b1"})

    return held


def two_items(post: Api) -> CompiledPlan:
    rooms = ForEach(items=literal(["red", "blue"]), parallel=1)
    return compiled([post], step("each", post, {"room": item()}, foreach=rooms), mutating=("each",))


def book_and_read(upstream: Upstream) -> CompiledPlan:
    """The read needs the booking."""
    upstream.replies("/free", {"room": "red"})
    get, post = api(upstream.origin, "/free", name="free"), booking(upstream)
    steps = step("a", post, {"room": literal("blue")}), step("r", get, after=("a",))
    return compiled([get, post], *steps, mutating=("a",))


@pytest.mark.parametrize(("plan_of", "kinds"), [(two_bookings, ["succeeded", "skipped"]), (two_items, ["skipped"])])
async def test_no_change_begins_after_a_cancellation_of_which_the_owner_has_not_heard(
    house: House, upstream: Upstream, plan_of: Callable[[Api], CompiledPlan], kinds: list[str]
) -> None:
    held, plan = held_bookings(upstream), plan_of(booking(upstream))
    owner = await house.executor(lease_s=60)  # it looks every six seconds
    following = asyncio.create_task(finish(owner, plan))
    await upstream.arrived.wait()
    elsewhere = LedgerStore(house.engine)
    await elsewhere.request_cancel("run-1")
    elsewhere.close()
    held.set()
    finished = await following
    assert (finished.status, [record.outcome.kind for record in finished.records]) == ("cancelled", kinds)
    assert upstream.count("/book") == 1
    assert list(await owner._store.calls("run-1")) == ["a" if plan_of is two_bookings else "each/0"]


async def test_a_call_begun_before_the_cancellation_is_sent_again_where_its_answer_is_lost(
    house: House, upstream: Upstream
) -> None:
    upstream.replies("/book", {"id": "b1"})
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"))
    store = LedgerStore(house.engine)
    await store.request_cancel("run-1")
    store.close()
    finished = await finish(await house.executor(), plan)
    assert (finished.status, upstream.count("/book")) == ("cancelled", 1)


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
    """Another process parked its call meanwhile; the run that stood still here must not read on beside the new one."""
    held, plan = held_bookings(upstream), book_and_read(upstream)
    slow = await house.executor(lease_s=60)
    following = asyncio.create_task(finish(slow, plan))
    await upstream.arrived.wait()
    former, other = slow._lane._live["run-1"], Ticket("run-1", "somebody else", 2)
    async with house.engine.begin() as connection:
        await connection.execute(EXECUTIONS.update().values(owner=other.owner, epoch=other.epoch))
    store, doubt = LedgerStore(house.engine), InDoubt(message="?")
    records = tuple(
        StepRecord(step=step, api=f"test.{name}", outcome=outcome, started_ms=0, duration_ms=0, attempts=0)
        for step, name, outcome in (("a", "book", doubt), ("r", "free", Skipped(because="a")))
    )
    ended = ExecutionFinished(status="in_doubt", records=records, duration_ms=0)
    parked = Outcome(other, "a", CallState.IN_DOUBT, CallResult(doubt, None, 1), sent=True)
    await store.write([parked, Conclusion(other, ended)])
    await store.request_cancel("run-1")
    store.close()
    await slow.resolve("run-1", "a", ResolveRequest(outcome="failed"))
    assert former.cancelled
    held.set()
    assert (await following).status in ("failed", "cancelled")
    assert upstream.count("/free") == 0


async def test_a_run_set_running_again_is_not_taken_over_by_its_own_process(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphans are looked for just when it is this process's own and not live yet."""
    plan, reopening = two_bookings(booking(upstream)), LedgerStore.reopen
    upstream.replies("/book", {"id": "b2"})
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    looking = list[asyncio.Task[None]]()

    async def slowly(store: LedgerStore, *arguments: Any) -> Any:
        ticket = await reopening(store, *arguments)
        looking.append(asyncio.create_task(executor._lane._take_over()))
        await asyncio.wait(looking, timeout=0.5)
        return ticket

    monkeypatch.setattr(LedgerStore, "reopen", slowly)
    before = await executor._lane._stored("run-1")
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    await asyncio.gather(*looking)
    assert (await finish(executor, plan)).status == "succeeded"
    assert (await executor._lane._stored("run-1")).epoch == before.epoch + 1
