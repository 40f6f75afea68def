"""The durable lane where runs are over: what is forgotten, and what is not."""

import pytest
import sqlalchemy as sa

from executor_svc.admission import Sealer
from executor_svc.models import Admission, LargeValue, value_id_of
from executor_svc.storage import LedgerStore, _needed
from executor_svc.tables import CALLS, EXECUTIONS, VALUES
from services.contracts.doubt import ResolveRequest
from services.contracts.plan import ForEach
from services.errors import Conflict, NotFound
from services.ownership.ticket import Ticket
from services.storage.engine import read, write
from services.storage.migrate import migrate
from tests.support.durable import House, asked, booking, done, finish, held_bookings, sending, two_bookings
from tests.support.executing import compiled, item, literal, ref, step
from tests.support.upstream import Upstream


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
    with pytest.raises(Conflict, match="has not ended"):
        await executor.forget("run-1")


async def test_what_ended_long_ago_goes_in_batches(house: House, upstream: Upstream) -> None:
    await migrate(house.engine, "executor_svc")
    store = LedgerStore(house.engine, Sealer(None))
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


async def test_what_is_old_is_deleted_in_short_transactions(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred values of ten megabytes would hold up all other writes for minutes."""
    monkeypatch.setattr("executor_svc.storage._FORGETTING_S", 0.0)
    await migrate(house.engine, "executor_svc")
    store = LedgerStore(house.engine, Sealer(None))
    await store.write([LargeValue(value_id_of(text), text) for text in ('"a"', '"b"')])
    async with write(house.engine) as connection:
        await connection.execute(VALUES.update().values(created_at=1_000.0))
    assert [await store.forget(60.0) for _ in range(3)] == [1, 1, 0]
    store.close()


async def test_a_run_that_could_be_asked_for_again_is_not_forgotten(house: House, upstream: Upstream) -> None:
    """Neither because little is to be kept, nor because the database's clock was set forward."""
    held_bookings(upstream).set()
    plan = two_bookings(booking(upstream))
    executor = await house.executor()
    with pytest.raises(NotFound, match="none will be started"):
        await executor.cancel("run-2")
    await finish(executor, plan)
    async with write(house.engine) as connection:
        await connection.execute(EXECUTIONS.update().values(ended_at=1_000.0))
    store = LedgerStore(house.engine, Sealer(None))
    assert await store.forget(0.0) == 0
    sent = upstream.count("/book")
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == sent
    async with house.engine.connect() as connection:
        assert set(await connection.scalars(sa.select(EXECUTIONS.c.id))) == {"run-1", "run-2"}
    store.close()


async def test_a_run_that_was_settled_late_is_as_old_as_its_end(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    async with write(house.engine) as connection:
        await connection.execute(EXECUTIONS.update().values(created_at=1_000.0, ended_at=1_000.0))
    await executor.resolve("run-1", "a", ResolveRequest(outcome="failed", message="it never arrived"))
    ended = await finish(executor, plan)
    store = LedgerStore(house.engine, Sealer(None))
    assert await store.forget(60.0) == 0
    assert await finish(executor, plan) == ended
    store.close()


async def test_a_run_that_goes_on_has_no_end(house: House, upstream: Upstream) -> None:
    held_bookings(upstream)
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    async with house.engine.connect() as connection:
        ((status, ended_at),) = (await connection.execute(sa.select(EXECUTIONS.c.status, EXECUTIONS.c.ended_at))).all()
    assert (status, ended_at) == ("running", None)


async def test_a_value_that_is_stored_again_is_as_old_as_the_last_run_that_has_it(house: House) -> None:
    await migrate(house.engine, "executor_svc")
    store = LedgerStore(house.engine, Sealer(None))
    again, old = (LargeValue(value_id_of(text), text) for text in ('"again"', '"old"'))
    await store.write([old, again, again])
    async with write(house.engine) as connection:
        await connection.execute(VALUES.update().values(created_at=1_000.0))
    await store.write([again])
    assert await store.forget(60.0) == 1
    assert [await store.value(one.id) for one in (again, old)] == ['"again"', None]
    store.close()


@pytest.mark.parametrize("size", [2_000, 20_000])
async def test_large_values_of_a_run_in_doubt_are_not_forgotten(house: House, upstream: Upstream, size: int) -> None:
    """The call that one of them settles would be in doubt again, and so for good."""
    post = booking(upstream)
    loop = step("a", post, {"room": item()}, foreach=ForEach(items=literal(["red", "blue"])))
    plan = compiled([post], loop, step("b", post, {"room": ref("a", 0, "id")}), mutating=("a", "b"))
    await house.left_behind(plan, sending("a/0", room="red"), sending("a/1", room="blue"))
    executor = await house.executor(max_inline_bytes=10_000)
    assert (await finish(executor, plan)).status == "in_doubt"
    large = ResolveRequest(outcome="succeeded", value={"id": "b1", "text": "x" * size}, item=0)
    await executor.resolve("run-1", "a", large)
    store, old = LedgerStore(house.engine, Sealer(None)), LargeValue(value_id_of('"old"'), '"old"')
    await store.write([old])
    async with write(house.engine) as connection:
        await connection.execute(VALUES.update().values(created_at=1_000.0))
    assert [await store.forget(60.0), await store.forget(60.0), await store.value(old.id)] == [2, 0, None]
    upstream.replies("/book", {"id": "b2"})
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}, item=1))
    assert (await finish(executor, plan)).status == "succeeded"
    store.close()


async def test_what_answers_write_like_references_is_not_collected(house: House, upstream: Upstream) -> None:
    """Answers of runs in doubt held millions of ids that no value has: 300 bytes of memory each, in every search."""
    plan = two_bookings(booking(upstream))
    like = [{"stored": {"id": f"{number:064x}"}} for number in range(20_000)]
    await house.left_behind(plan, sending("a", room="blue"), done("a", like))
    store, old = LedgerStore(house.engine, Sealer(None)), LargeValue(value_id_of('"old"'), '"old"')
    await store.write([old])
    async with write(house.engine) as connection:
        await connection.execute(VALUES.update().values(created_at=1_000.0))
    async with read(house.engine) as connection:
        assert await _needed(connection, {old.id}) == set()
        assert await _needed(connection, {old.id, f"{7:064x}"}) == {f"{7:064x}"}
    assert await store.forget(60.0) == 1
    store.close()
