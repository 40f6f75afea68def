"""Somebody writes into the executor's table of calls: what they write feeds no other call and no answer."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from executor_svc.admission import Sealer
from executor_svc.models import CallResult, CallState, Outcome
from executor_svc.service import ExecutorService
from executor_svc.storage import LedgerStore
from executor_svc.tables import CALLS, VALUES
from services.contracts.doubt import ResolveRequest, doubts_of
from services.contracts.outcome import Failed, Succeeded
from services.signing import PlanSigner
from services.storage.engine import write
from tests.support.durable import DEAD, House, booking, done, finish, sending, two_bookings
from tests.support.executing import api, compiled, ref, step
from tests.support.upstream import Upstream

KEY, OTHER_KEY = SecretStr("k" * 40), SecretStr("o" * 40)


async def rewritten(house: House, key: str, **columns: Any) -> None:
    """Change the row of a call as somebody does who has the database's password and no key."""
    async with write(house.engine) as connection:
        await connection.execute(CALLS.update().where(CALLS.c.key == key).values(**columns))


async def row_of(house: House, key: str) -> sa.Row[Any]:
    async with house.engine.begin() as connection:
        return (await connection.execute(sa.select(CALLS).where(CALLS.c.key == key))).one()


async def opened(house: House, **more: Any) -> ExecutorService:
    return await house.executor(proof_key=KEY, **more)


async def test_a_finished_call_that_nobody_changed_feeds_the_next_one(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"), done("a", {"id": "b1"}), proof_key=KEY)
    assert (await finish(await opened(house), plan)).status == "succeeded"
    assert [seen.body for seen in upstream.seen] == [b'{"room":"b1"}']


def other_result(row: sa.Row[Any]) -> dict[str, Any]:
    return {"result": row.result.replace("b1", "evil")}


def other_result_sealed_with_another_key(row: sa.Row[Any]) -> dict[str, Any]:
    result = row.result.replace("b1", "evil")
    return {"result": result, "seal": Sealer(OTHER_KEY).seal_call(row.run_id, row.key, row.state, result)}


def no_seal(_row: sa.Row[Any]) -> dict[str, Any]:
    """As rows of a version that sealed none."""
    return {"seal": None}


def never_sent(_row: sa.Row[Any]) -> dict[str, Any]:
    return {"state": "sent", "result": None}


def no_text(row: sa.Row[Any]) -> dict[str, Any]:
    """SQLite stores what it is given."""
    return {"result": sa.cast(sa.literal(row.result.encode()), sa.LargeBinary)}


def no_such_state(_row: sa.Row[Any]) -> dict[str, Any]:
    return {"state": "won"}


@pytest.mark.parametrize(
    "change", [other_result, other_result_sealed_with_another_key, no_seal, never_sent, no_text, no_such_state]
)
async def test_a_finished_call_that_somebody_changed_feeds_nothing_until_it_is_settled(
    house: House, upstream: Upstream, change: Callable[[sa.Row[Any]], dict[str, Any]]
) -> None:
    """Also a call that could be sent again: its record may say less than what was sent."""
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"), done("a", {"id": "b1"}), proof_key=KEY)
    await rewritten(house, "a", **change(await row_of(house, "a")))
    executor = await opened(house)
    finished = await finish(executor, plan)
    assert (finished.status, upstream.seen) == ("in_doubt", [])
    assert [doubt.step for doubt in doubts_of(finished.records)] == ["a"]
    assert "evil" not in finished.model_dump_json()
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    assert (await finish(executor, plan)).status == "succeeded"
    assert [seen.body for seen in upstream.seen] == [b'{"room":"b1"}']


@pytest.mark.parametrize("moved", [{"key": "b"}, {"run_id": "run-1", "key": "a"}])
async def test_the_row_of_one_call_is_not_that_of_another(
    house: House, upstream: Upstream, moved: dict[str, str]
) -> None:
    """The outcome of another step, or of the same step of another run, with the seal that it had there."""
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"), done("a", {"id": "b1"}), proof_key=KEY)
    row = (await row_of(house, "a"))._asdict()
    if "run_id" in moved:
        row["seal"] = Sealer(KEY).seal_call("run-0", "a", row["state"], row["result"])
    async with write(house.engine) as connection:
        await connection.execute(CALLS.delete().where(CALLS.c.key == moved["key"]))
        await connection.execute(CALLS.insert().values(row | moved))
    finished = await finish(await opened(house), plan)
    assert (finished.status, upstream.seen) == ("in_doubt", [])
    assert [doubt.step for doubt in doubts_of(finished.records)] == [moved["key"]]


@pytest.mark.parametrize("change", [VALUES.update().values(content='{"id":"evil"}'), VALUES.delete()])
async def test_a_large_output_that_was_changed_or_is_gone_feeds_nothing(
    house: House, upstream: Upstream, change: sa.Update | sa.Delete
) -> None:
    value: dict[str, object] = {"id": "b1", "note": "n" * 2_000}
    plan = PlanSigner(KEY).signed(two_bookings(booking(upstream)), "default")
    first = await opened(house, max_inline_bytes=1_024)
    upstream.replies("/book", value, {"id": "b2"})
    assert (await finish(first, plan)).status == "succeeded"
    upstream.seen.clear()
    async with write(house.engine) as connection:  # a crash between the two calls
        await connection.execute(CALLS.delete().where(CALLS.c.key == "b"))
        await connection.exec_driver_sql("UPDATE executions SET status = 'running', result = NULL, owner = 'dead'")
        await connection.execute(change)
    finished = await finish(await opened(house), plan)
    assert (finished.status, upstream.seen) == ("in_doubt", [])
    assert "evil" not in finished.model_dump_json()


async def test_a_read_that_somebody_changed_feeds_nothing_and_is_not_made_again(
    house: House, upstream: Upstream
) -> None:
    """The run is given up as a whole: somebody meddles with it."""
    get, post = api(upstream.origin, "/free", name="free"), booking(upstream)
    plan = compiled([get, post], step("r", get), step("a", post, {"room": ref("r", "room")}), mutating=("a",))
    read = Outcome(DEAD, "r", CallState.DONE, CallResult(Succeeded(value={"room": "b1"}), None, 1), sent=False)
    await house.left_behind(plan, read, proof_key=KEY)
    await rewritten(house, "r", **other_result(await row_of(house, "r")))
    finished = await finish(await opened(house), plan)
    assert (finished.status, upstream.seen) == ("failed", [])
    failure = finished.records[0].outcome
    assert isinstance(failure, Failed)
    assert "the record of call r" in failure.message
    assert "evil" not in finished.model_dump_json()


async def test_an_executor_seals_the_calls_that_it_records(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = PlanSigner(KEY).signed(two_bookings(booking(upstream)), "default")
    executor = await opened(house)
    assert (await finish(executor, plan)).status == "succeeded"
    await executor._lane.ledger.flush()
    for key, states in ((KEY, {CallState.DONE}), (OTHER_KEY, {CallState.IN_DOUBT}), (None, {CallState.DONE})):
        store = LedgerStore(house.engine, Sealer(key))
        calls = await store.calls("run-1")
        store.close()
        assert (len(calls), {call.state for call in calls.values()}) == (2, states)
