"""The store of runs: one writer wins, former owners are refused, ids sort by time."""

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.listing import Filter
from gateway.live import closing_event
from gateway.storage import MEMBERS, RequestIdentity, RunStore, new_run_id
from gateway.tables import RUN_EVENTS, RUNS, run_row, run_shape
from services.compute import for_tenant
from services.contracts.event import RunEvent, RunFinished, RunPlanned
from services.contracts.feedback import Feedback, Verdict
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.errors import NotFound
from services.ownership.members import Membership
from services.ownership.ticket import Fenced, Ticket
from services.storage.engine import Transactions, create_engine, read, write
from services.storage.migrate import migrate
from tests.fakes import prove
from tests.support.gateways import BOOK, BOOKING
from tests.support.migrations import migrate_to
from tests.unit.gateway.runs import REQUEST, a_run


def compiled_booking() -> CompiledPlan:
    compiled = prove(BOOKING, [BOOK]).compiled
    assert compiled is not None
    return compiled


def finished(run: Run, number: int) -> RunEvent:
    return RunEvent(id=number, event=RunFinished(run=run))


async def test_a_state_is_claimed_once_also_by_several_gateways(stores: list[RunStore]) -> None:
    run = a_run(RunStatus.NEEDS_APPROVAL)
    await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    seen = await stores[1].stored(run.id, "default", compiled=True)
    running, compiled = run.model_copy(update={"status": RunStatus.RUNNING}), compiled_booking()
    claims = await asyncio.gather(
        *(store.replace(seen, running, ticket=Ticket(run.id, "b", 1), compiled=compiled) for store in stores * 3)
    )
    assert sorted(claims) == [False] * 8 + [True]
    stored = await stores[2].stored(run.id, "default", compiled=True)
    assert (stored.run, stored.epoch, stored.compiled) == (running, 1, compiled)
    assert (await stores[2].get(run.id, "default")).status is RunStatus.RUNNING


async def test_of_one_key_there_is_one_run_for_each_tenant(stores: list[RunStore]) -> None:
    async def insert(store: RunStore, tenant: str) -> str:
        run = a_run().model_copy(update={"tenant": tenant})
        there = await store.insert(Ticket(run.id, "a", 0), run, REQUEST, RequestIdentity("key", "print"))
        return there or run.id

    made = await asyncio.gather(*(insert(store, tenant) for store in stores * 3 for tenant in ("t1", "t2")))
    assert len(set(made)) == 2
    assert len(set(made[::2])) == len(set(made[1::2])) == 1
    assert (await stores[0].stored(made[0], "t1")).fingerprint == "print"


async def test_a_former_owner_can_write_nothing_any_more(stores: list[RunStore]) -> None:
    run, compiled = a_run(), compiled_booking()
    former = Ticket(run.id, "dead", 0)
    await stores[0].insert(former, run, REQUEST, None)
    living = Membership(stores[1]._engine, MEMBERS, lease_s=60)
    await living.beat()
    taken = await stores[1].take_over(living, {})
    assert taken is not None
    assert (taken.run, taken.epoch, taken.takeovers, taken.request) == (run, 1, 1, REQUEST)
    with pytest.raises(Fenced):
        await stores[0].begin(former, run, compiled)
    failed = run.model_copy(update={"status": RunStatus.FAILED})
    with pytest.raises(Fenced):
        await stores[0].conclude(former, failed, [finished(failed, 1)])
    await stores[0].append([(former, finished(failed, 1))])
    assert await stores[0].events(run.id, 0) == []
    running = run.model_copy(update={"status": RunStatus.RUNNING})
    now = Ticket(run.id, living.id, 1)
    await stores[1].begin(now, running, compiled)
    assert (await stores[0].stored(run.id, "default", compiled=True)).compiled == compiled
    done = run.model_copy(update={"status": RunStatus.SUCCEEDED})
    await stores[1].conclude(now, done, [finished(done, 1_000_001)])
    stored = await stores[0].stored(run.id, "default")
    assert (stored.run, stored.compiled) == (done, None)
    assert await stores[0].events(run.id, 0) == [finished(done, 1_000_001)]


async def test_the_plan_of_a_run_counts_where_it_is_read(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, compiled, read = a_run(), compiled_booking(), list[int]()
    owner = Ticket(run.id, "me", 0)
    await stores[0].insert(owner, run, REQUEST, None)
    monkeypatch.setattr(stores[0], "_on_read", lambda _tenant, size: read.append(size))
    await stores[0].begin(owner, run, compiled)
    assert (await stores[0].stored(run.id, "default")).compiled is None
    assert (await stores[0].stored(run.id, "default", compiled=True)).compiled == compiled
    without, whole = (size for size in read if size)  # 0: whether the tenant may read at all
    assert whole - without == len(compiled.model_dump_json())


async def test_of_several_reapers_one_takes_a_run_over(stores: list[RunStore]) -> None:
    runs = [a_run() for _ in range(20)]
    for run in runs:
        await stores[0].insert(Ticket(run.id, "dead", 0), run, REQUEST, None)
    members = [Membership(store._engine, MEMBERS, lease_s=60) for store in stores]
    for member in members:
        await member.beat()
    found: list[str] = []
    for _ in range(4):
        for taken in await asyncio.gather(
            *(store.take_over(m, {run.id for run in runs}) for store, m in zip(stores, members, strict=True))
        ):
            assert taken is None  # every process is working on them, as far as it knows
    for _ in range(20):
        rounds = (store.take_over(m, found) for store, m in zip(stores, members, strict=True))
        found += [taken.run.id for taken in await asyncio.gather(*rounds) if taken is not None]
    assert sorted(found) == sorted(run.id for run in runs)


async def test_no_run_is_taken_over_of_a_tenant_that_has_as_many_as_it_may(stores: list[RunStore]) -> None:
    first, second = (a_run().model_copy(update={"tenant": tenant}) for tenant in ("many", "few"))
    for run in (first, second):
        await stores[0].insert(Ticket(run.id, "dead", 0), run, REQUEST, None)
    living = Membership(stores[1]._engine, MEMBERS, lease_s=60)
    await living.beat()
    taken = await stores[1].take_over(living, {}, full=["many"])
    assert taken is not None
    assert taken.run == second
    assert await stores[1].take_over(living, {second.id}, full=["many"]) is None


async def test_a_search_for_runs_of_the_dead_locks_nothing_if_there_are_none(stores: list[RunStore]) -> None:
    """On SQLite all heartbeats waited for it, as long as a busy event loop took for its statements."""
    run = a_run()
    living = Membership(stores[1]._engine, MEMBERS, lease_s=60)
    await living.beat()
    await stores[0].insert(Ticket(run.id, living.id, 0), run, REQUEST, None)
    async with write(stores[0]._engine) as connection:
        await connection.execute(RUNS.update().where(RUNS.c.id == run.id).values(verdict=None))
        assert await asyncio.wait_for(stores[1].take_over(living, [run.id]), 10) is None
    assert await stores[1].take_over(living, []) is not None


async def test_who_follows_a_run_does_not_wait_for_all_of_another_tenant(stores: list[RunStore]) -> None:
    runs, answered = [a_run() for _ in range(51)], list[str]()
    for run in runs:
        await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)

    async def look(run: Run, tenant: str) -> None:
        for_tenant.set(tenant)
        await stores[1].status(run.id)
        answered.append(run.id)

    await asyncio.gather(*(look(run, "flood") for run in runs[1:]), look(runs[0], "other"))
    assert answered.index(runs[0].id) < 10


async def test_a_run_that_this_version_cannot_read_keeps_no_other_from_being_taken_over(stores: list[RunStore]) -> None:
    odd, older, good = a_run(), a_run(), a_run()
    for run in (odd, older, good):
        await stores[0].insert(Ticket(run.id, "dead", 0), run, REQUEST, None)
    async with write(stores[0]._engine) as connection:
        await connection.execute(RUNS.update().where(RUNS.c.id == odd.id).values(document='{"id": 1}'))
        await connection.execute(RUNS.update().where(RUNS.c.id == older.id).values(request='{"words": "x"}'))
    living = Membership(stores[1]._engine, MEMBERS, lease_s=60)
    await living.beat()
    taken = dict[str, SolveRequest | None]()
    while (stored := await stores[1].take_over(living, taken)) is not None:
        taken[stored.run.id] = stored.request
    assert taken == {older.id: None, good.id: REQUEST}


async def test_events_are_kept_once_and_come_in_order(stores: list[RunStore]) -> None:
    run, other = a_run(), a_run()
    mine, another = Ticket(run.id, "a", 0), Ticket(other.id, "b", 3)
    for ticket, one in ((mine, run), (another, other)):
        await stores[0].insert(ticket, one, REQUEST, None)
    events = [RunEvent(id=n, event=RunPlanned(run=run)) for n in (1, 2, 3, 1_000_001)]
    await asyncio.gather(*(store.append([(mine, event) for event in events[:3]]) for store in stores))
    await stores[0].append([(mine, events[3]), (another, events[0])])
    assert await stores[1].events(other.id, 0) == events[:1]
    assert await stores[1].events(run.id, 0) == events
    assert await stores[1].events(run.id, 1, upto=3) == events[1:3]
    assert await stores[1].events(run.id, 1, limit=1) == events[1:2]
    assert await stores[1].events(run.id, 1_000_001) == []
    assert closing_event(1, run).id > 1_000_001


async def test_only_the_owner_of_a_run_adds_events_to_it(stores: list[RunStore]) -> None:
    run, deleted = a_run(), a_run(RunStatus.SUCCEEDED)
    for one in (run, deleted):
        await stores[0].insert(Ticket(one.id, "a", 1), one, REQUEST, None)
    assert await stores[1].delete(deleted.id, "default")
    others = (Ticket(run.id, "b", 1), Ticket(run.id, "a", 0), Ticket(run.id, "a", 2), Ticket(deleted.id, "a", 1))
    await stores[0].append([(ticket, finished(run, 1)) for ticket in others])
    await stores[0].append([(others[0], finished(run, 1)), (Ticket(run.id, "a", 1), finished(run, 2))])
    assert await stores[0].events(run.id, 0) == [finished(run, 2)]
    assert await stores[0].events(deleted.id, 0) == []


async def test_a_key_whose_run_is_deleted_while_it_is_looked_up_is_free(stores: list[RunStore]) -> None:
    first, second = a_run(RunStatus.SUCCEEDED), a_run()
    identity = RequestIdentity("key", "print")
    await stores[0].insert(Ticket(first.id, "a", 0), first, REQUEST, identity)
    url, looked_up = str(stores[0]._engine.url), list[str]()
    engine = stores[0]._transactions._sync if url.startswith("sqlite") else stores[0]._engine.sync_engine

    def delete(connection: sa.Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT runs.id") and not looked_up:
            looked_up.append(statement)
            connection.execute(RUNS.delete().where(RUNS.c.id == first.id))

    sa.event.listen(engine, "before_cursor_execute", delete)
    assert await stores[0].insert(Ticket(second.id, "a", 0), second, REQUEST, identity) is None
    assert looked_up
    assert (await stores[1].get(second.id, "default")) == second


async def test_a_deletion_waits_for_who_holds_the_run(stores: list[RunStore]) -> None:
    run = a_run(RunStatus.SUCCEEDED)
    await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    async with write(stores[1]._engine) as connection:
        await connection.execute(RUNS.update().where(RUNS.c.id == run.id).values(verdict=None))
        deleting = asyncio.create_task(stores[0].delete(run.id, "default"))
        await asyncio.wait({deleting}, timeout=0.2)
        assert not deleting.done()
    assert await deleting


async def test_the_events_of_old_runs_are_forgotten_unless_they_go_on(stores: list[RunStore]) -> None:
    new, old, older = a_run(RunStatus.SUCCEEDED), a_run(RunStatus.SUCCEEDED), a_run(RunStatus.RUNNING)
    long_ago = f"run_{int((time.time() - 100) * 1000):012x}"
    old, older = (run.model_copy(update={"id": long_ago + run.id[16:]}) for run in (old, older))
    for run in (new, old, older):
        await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
        await stores[0].append([(Ticket(run.id, "a", 0), finished(run, 1))])
    await stores[1].forget_events(older_than_s=50)
    assert [len(await stores[0].events(run.id, 0)) for run in (new, old, older)] == [1, 0, 1]
    assert await stores[0].get(old.id, "default") == old


@pytest.mark.parametrize("what", ["forget_events", "forget_runs"])
async def test_what_is_old_is_deleted_in_short_transactions(
    stores: list[RunStore], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred runs of five megabytes held up all other writes for half a minute."""
    monkeypatch.setattr("gateway.storage._FORGETTING_S", 0.0)
    long_ago, old = f"run_{int((time.time() - 100) * 1000):012x}", [a_run(RunStatus.SUCCEEDED) for _ in range(3)]
    for run in (one.model_copy(update={"id": long_ago + one.id[16:]}) for one in old):
        await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
        await stores[0].append([(Ticket(run.id, "a", 0), finished(run, number)) for number in (1, 2)])
    assert [await getattr(stores[1], what)(50) for _ in range(4)] == [1, 1, 1, 0]
    async with read(stores[0]._engine) as connection:
        assert await connection.scalar(sa.select(sa.func.count()).select_from(RUN_EVENTS)) == 0


async def test_what_is_said_of_a_run_outlives_what_is_written_of_it(stores: list[RunStore]) -> None:
    run = a_run(RunStatus.NEEDS_INPUT)
    await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    seen = await stores[1].stored(run.id, "default", compiled=True)
    said = Feedback(verdict=Verdict.REJECTED, reason="a\x00b", principal="desk", at=datetime.now(UTC))
    await stores[0].judge(run.id, said)
    cancelled = seen.run.model_copy(update={"status": RunStatus.CANCELLED})
    assert await stores[1].replace(seen, cancelled, events=[closing_event(0, cancelled)])
    judged = cancelled.model_copy(update={"feedback": said})
    assert await stores[2].get(run.id, "default") == judged
    assert (await stores[2].stored(run.id, "default")).run == judged


async def test_what_this_version_cannot_read_of_a_verdict_is_left_out(stores: list[RunStore]) -> None:
    run = a_run(RunStatus.SUCCEEDED)
    await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    async with write(stores[0]._engine) as connection:
        await connection.execute(RUNS.update().where(RUNS.c.id == run.id).values(feedback='{"stars": 5}'))
    assert await stores[1].get(run.id, "default") == run


async def test_a_run_of_the_version_before_can_be_read(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite+aiosqlite:///{tmp_path}/old.db", postgres_url):
        engine = create_engine(url)

        await migrate_to(engine, "gateway", "0001")
        old = a_run(RunStatus.SUCCEEDED)
        async with engine.begin() as connection:
            columns = "id, status, query, created_at, total_ms, document"
            await connection.execute(
                sa.text(f"INSERT INTO runs ({columns}) VALUES (:id, 'succeeded', 'q', :at, 1, :document)").bindparams(
                    sa.bindparam("at", type_=sa.DateTime(timezone=True))
                ),
                {"id": old.id, "at": old.created_at, "document": old.model_dump_json(exclude={"tenant"})},
            )
        await migrate(engine, "gateway")
        store = RunStore(Transactions(engine))
        stored = await store.stored(old.id, "default")
        assert (stored.run, stored.epoch, stored.request) == (old, 0, None)
        (line,) = (await store.listing.page(Filter("default"), limit=5, cursor=None)).runs
        assert (line.id, line.trouble) == (old.id, "")
        store.close()
        await engine.dispose()


def test_run_ids_are_unique_and_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({new_run_id() for _ in range(1_000)}) == 1_000
    ids = []
    for ms in (1, 255, 256, 10**12, 10**13):
        monkeypatch.setattr("time.time_ns", lambda ms=ms: ms * 1_000_000)
        ids.append(new_run_id())
    assert ids == sorted(ids)
    assert {len(run_id) for run_id in ids} == {36}


async def test_a_run_is_shown_as_it_was_written_and_one_of_another_version_as_this_one_writes(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that this version wrote is passed on; another one is read, and gets the fields that it lacks."""
    store, run = stores[0], a_run(RunStatus.SUCCEEDED)
    await store.insert(Ticket(run.id, "me", 0), run, REQUEST, None)
    assert json.loads(await store.json(run.id, run.tenant)) == run.model_dump(mode="json")
    said = Feedback(verdict=Verdict.REJECTED, reason='a "quote"', principal="desk", at=datetime.now(UTC))
    await store.judge(run.id, said)
    judged = await store.get(run.id, run.tenant)
    assert judged.feedback is not None
    with monkeypatch.context() as patch:
        patch.delattr("gateway.tables.run_of")  # it is not parsed
        assert json.loads(await store.json(run.id, run.tenant)) == judged.model_dump(mode="json")
    async with write(store._engine) as connection:
        short = {"document": run.model_dump_json(exclude={"feedback", "untold"})}
        await connection.execute(RUNS.update().values(short))
    assert json.loads(await store.json(run.id, run.tenant)) == judged.model_dump(mode="json")
    with pytest.raises(NotFound):
        await store.json(run.id, "another tenant")


async def test_a_run_of_a_process_without_the_column_is_shown_and_taken_further(stores: list[RunStore]) -> None:
    """While processes are replaced, one of the version before writes runs without `shape`."""
    store, run = stores[0], a_run(RunStatus.NEEDS_APPROVAL)
    old = {**run_row(run), "tenant": run.tenant, "owner": "old", "epoch": 0, "takeovers": 0, "cancel_requested": False}
    del old["shape"]
    async with write(store._engine) as connection:
        await connection.execute(RUNS.insert(), old)
    assert json.loads(await store.json(run.id, run.tenant)) == run.model_dump(mode="json")
    assert [one.id for one in (await store.listing.page(Filter(run.tenant), limit=5, cursor=None)).runs] == [run.id]
    stored = await store.stored(run.id, run.tenant)
    assert stored.run == run
    assert await store.replace(stored, run.model_copy(update={"status": RunStatus.CANCELLED}))
    async with read(store._engine) as connection:
        row = (await connection.execute(sa.select(RUNS.c.document, RUNS.c.shape))).one()
    assert row.shape == run_shape(row.document)
