"""The durable lane on real databases: a run is run once, and what is known of its calls is used and never repeated."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from aiohttp import web
from prometheus_client import CollectorRegistry

from executor_svc.adapters.http.request import idempotency_key
from executor_svc.ledger import with_full_outputs
from executor_svc.main import open_executor
from executor_svc.models import CallResult, CallState, Outcome, RecordedCall
from executor_svc.settings import ExecutorSettings
from executor_svc.values import ValueStore
from executor_svc.workers import Workers
from services.compute import ComputePool
from services.contracts.doubt import ResolveRequest, doubts_of
from services.contracts.outcome import Failed, InDoubt, Skipped, StoredValue, Succeeded
from services.errors import Conflict, NotFound, ServiceUnavailable
from services.storage.engine import create_engine
from tests.support.durable import DEAD, House, asked, booking, done, finish, held_bookings, sending, two_bookings
from tests.support.executing import api, compiled, literal, ref, step
from tests.support.upstream import Seen, Upstream


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


async def test_another_plan_does_not_get_to_see_a_run_that_was_taken_over_meanwhile(
    house: House, upstream: Upstream
) -> None:
    held = held_bookings(upstream)
    executor = await house.executor()
    following = asyncio.create_task(finish(executor, two_bookings(booking(upstream))))
    await upstream.arrived.wait()
    other = compiled([booking(upstream)], step("a", booking(upstream), {"room": literal("red")}), mutating=("a",))
    with pytest.raises(Conflict, match="another plan"):
        await anext(executor._lane._follow_stored(asked(other)))
    held.set()
    assert (await following).status == "succeeded"


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


async def test_a_call_in_flight_is_in_doubt_and_listed_and_never_sent_again(house: House, upstream: Upstream) -> None:
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


@pytest.mark.parametrize("where", ["call", "answer"])
async def test_a_bug_after_a_change_was_sent_leaves_it_in_doubt_and_never_sends_it_again(
    house: House, upstream: Upstream, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although a `PUT` may be sent again after a crash: the same bug would end it each time."""
    put = booking(upstream).model_copy(update={"method": "PUT"})
    plan = compiled([put], step("a", put, {"room": literal("blue")}), mutating=("a",))
    executor = await house.executor()
    if where == "call":
        monkeypatch.setattr("executor_svc.adapters.http.adapter.decode", lambda *_: [][0])
    else:
        keep = ValueStore.for_ledger
        monkeypatch.setattr(
            ValueStore,
            "for_ledger",
            lambda store, r, **how: [][0] if isinstance(r.outcome, Succeeded) else keep(store, r, **how),
        )
    finished = await finish(executor, plan)
    assert finished.status == "in_doubt"
    (doubt,) = doubts_of(finished.records)
    assert doubt.request is not None
    assert doubt.request.body == {"room": "blue"}
    assert upstream.count("/book") == 1
    monkeypatch.undo()
    assert (await finish(executor, plan)).status == "in_doubt"
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={}))
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == 1


async def test_a_bug_before_a_change_is_sent_fails_it(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = two_bookings(booking(upstream))
    monkeypatch.setattr("executor_svc.ledger.content_hash_in_parts", lambda *_: [][0])
    finished = await finish(await house.executor(), plan)
    assert finished.status == "failed"
    assert isinstance(finished.records[0].outcome, Failed)
    assert finished.records[0].outcome.reason == "internal_error"
    assert finished.records[0].attempts == 0
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


async def test_a_stored_value_with_an_infinite_number_is_not_used() -> None:
    class Store:
        async def value(self, _: str) -> str:
            return '{"n": Infinity}'

    large = Succeeded(value="{...}", stored=StoredValue(id="0" * 64, bytes=15))
    known = {"a": RecordedCall(CallState.DONE, "", CallResult(large, None, 1))}
    pool = ComputePool(1, 1)
    store = ValueStore(lambda _: None, 1_000)
    found = await with_full_outputs(known, Store(), store, Workers(pool), lambda: True)  # type: ignore[arg-type]
    assert not found["a"].intact
    await pool.close()
