"""Somebody writes runs into the executor's database: only what an executor with the proof key admitted is run."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from pydantic import SecretStr

from executor_svc.admission import Sealer
from executor_svc.models import Execution
from executor_svc.service import ExecutorService
from executor_svc.storage import LedgerStore
from executor_svc.tables import EXECUTIONS
from services.contracts.api import SecurityRequirement
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import InDoubt, StepRecord
from services.contracts.planning import CompiledPlan
from services.signing import PlanSigner
from services.storage.engine import write
from services.telemetry import configure_logging
from tests.support.durable import House, asked, booking, finish, sending, two_bookings
from tests.support.executing import api, compiled, step
from tests.support.upstream import Upstream

KEY, OTHER_KEY = SecretStr("k" * 40), SecretStr("o" * 40)
BEARER = SecurityRequirement(scheme="token", kind="bearer", secret="bank.token")


@pytest.fixture
def warnings() -> Iterator[list[Any]]:
    """The warnings that are logged; the tests' own level hides them."""
    configure_logging(level="WARNING", json=False)
    with structlog.testing.capture_logs() as logs:
        yield logs
    configure_logging(level="ERROR", json=False)


def payment(upstream: Upstream, **proof: Any) -> CompiledPlan:
    """A plan that changes something with the operator's token, as nobody proved it."""
    pay = api(upstream.origin, "/pay", method="POST", name="pay", security=((BEARER,),))
    return compiled([pay], step("a", pay), mutating=("a",), approvals=("a",), **proof)


def signed(plan: CompiledPlan) -> CompiledPlan:
    return PlanSigner(KEY).signed(plan, "default")


async def inserted(house: House, request: str, plan_id: str = "p", run_id: str = "run-1", **more: Any) -> None:
    """Write a row as somebody does who has the database's password and no key."""
    row: dict[str, Any] = {"id": run_id, "plan_id": plan_id, "status": "running", "owner": "nobody", "epoch": 1}
    row |= {"takeovers": 0, "cancel_requested": False, "created_at": time.time(), "request": request}
    async with write(house.engine) as connection:
        await connection.execute(EXECUTIONS.insert().values(row | more))


async def opened(house: House, upstream: Upstream, key: SecretStr | None = KEY) -> ExecutorService:
    secrets = {"bank.token": {"value": "operators-bank-token", "hosts": [upstream.host]}}
    return await house.executor(proof_key=key, secrets=SecretStr(json.dumps(secrets)))


async def ended(executor: ExecutorService, run_id: str = "run-1") -> Execution:
    async with asyncio.timeout(20):
        while (run := await executor._store.execution(run_id)) is None or run.result is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return run


def reason(run: Execution) -> str:
    """Why the run failed, as its caller is told."""
    assert run.result is not None
    return run.result.problem or next(
        record.outcome.message for record in run.result.records if record.outcome.kind == "failed"
    )


@pytest.mark.parametrize(
    ("approved", "proved_by", "told"),
    [
        (False, lambda plan: plan, "need an approval"),
        (False, signed, "need an approval"),
        (True, lambda plan: plan, "not admitted with this proof key"),
        (True, signed, "not admitted with this proof key"),  # it waits for the approval that the row claims
        (True, lambda plan: plan.model_copy(update={"apis": {}}), "does not contain the API"),
    ],
)
async def test_a_run_that_was_only_written_into_the_database_is_not_run(
    house: House,
    upstream: Upstream,
    approved: bool,
    proved_by: Callable[[CompiledPlan], CompiledPlan],
    told: str,
    warnings: list[Any],
) -> None:
    plan = proved_by(payment(upstream))
    request = ExecuteRequest(run_id="run-1", compiled=plan, approved=plan.plan.id if approved else None)
    await inserted(house, request.model_dump_json(), plan.plan.id, seal="0" * 64)
    run = await ended(await opened(house, upstream))
    assert (run.status, upstream.seen) == ("failed", [])
    assert told in reason(run)
    assert [told in log["why"] for log in warnings if log.get("run") == "run-1" and "why" in log] == [True]


@pytest.mark.parametrize("changed", [{"tenant": "other"}, {"bound": {}}, {"deadline_ms": 1_000}, {"run_id": "run-2"}])
async def test_an_admitted_run_goes_on_only_as_it_was_admitted(
    house: House, upstream: Upstream, changed: dict[str, Any]
) -> None:
    upstream.replies("/pay", {"id": "p1"})
    plan = signed(payment(upstream))
    request = asked(plan, bound={"a": "f" * 64})
    seal = Sealer(KEY).seal(request.model_dump_json())
    forged = request.model_copy(update=changed)
    await inserted(house, forged.model_dump_json(), plan.plan.id, forged.run_id, seal=seal)
    run = await ended(await opened(house, upstream), forged.run_id)
    assert (run.status, upstream.seen) == ("failed", [])
    assert "not admitted with this proof key" in str(run.result)


async def test_rows_that_cannot_be_read_keep_no_other_run_waiting(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = two_bookings(booking(upstream))
    request, moved = asked(plan).model_dump_json(), asked(plan).model_copy(update={"run_id": "another"})
    rows = {"0": "", "1": "{", "2": "[]", "3": json.dumps({"run_id": "3"}), "4": request, "5": moved.model_dump_json()}
    for run_id, text in rows.items():
        await inserted(house, text, plan.plan.id, run_id, seal=Sealer(KEY).seal(text))
    await house.left_behind(plan, proof_key=KEY)
    executor = await opened(house, upstream)
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == 2
    async with house.engine.begin() as connection:
        states = (await connection.execute(EXECUTIONS.select().where(EXECUTIONS.c.id != "run-1"))).all()
    assert {(row.id, row.status) for row in states} == {(run_id, "failed") for run_id in rows}
    assert all("cannot be read" in row.result for row in states)
    assert all(row.ended_at is not None for row in states)


async def test_what_was_sent_for_a_run_that_is_not_continued_stays_known(house: House, upstream: Upstream) -> None:
    plan = signed(two_bookings(booking(upstream)))
    unapproved = asked(plan.model_copy(update={"proof": plan.proof.model_copy(update={"approvals": ("a",)})}))
    rows = {"run-1": unapproved.model_copy(update={"approved": None}).model_dump_json(), "run-2": "{"}
    for run_id, text in rows.items():
        await inserted(house, text, plan.plan.id, run_id)
        async with write(house.engine) as connection:
            await connection.exec_driver_sql(
                "INSERT INTO calls (run_id, key, epoch, state, digest, sent_at)"
                f" VALUES ('{run_id}', 'a', 1, 'sent', '', 1)"
            )
    executor = await opened(house, upstream)
    run = await ended(executor)
    assert (run.status, upstream.seen) == ("in_doubt", [])
    async with house.engine.begin() as connection:
        other = (await connection.execute(EXECUTIONS.select().where(EXECUTIONS.c.id == "run-2"))).one()
    assert "1 of its calls had been sent" in other.result
    assert (await executor.cancel("run-2")).status == other.status == "failed"


async def test_settling_a_call_of_a_forged_run_starts_nothing(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    record = StepRecord(
        step="a", api="test.book", outcome=InDoubt(message="?"), started_ms=0, duration_ms=0, attempts=0
    )
    result = ExecutionFinished(status="in_doubt", records=(record,), duration_ms=0).model_dump_json()
    await inserted(house, asked(plan).model_dump_json(), plan.plan.id, status="in_doubt", result=result)
    async with write(house.engine) as connection:
        await connection.exec_driver_sql(
            "INSERT INTO calls (run_id, key, epoch, state, digest, sent_at) VALUES ('run-1', 'a', 1, 'in_doubt', '', 1)"
        )
    executor = await opened(house, upstream)
    state = await executor.resolve("run-1", "a", ResolveRequest(outcome="retry"))
    assert state.status == "running"
    run = await ended(executor)
    assert (run.status, upstream.seen) == ("failed", [])
    assert "not admitted with this proof key" in reason(run)


async def test_with_the_same_key_a_run_outlives_its_process_and_its_signature(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = PlanSigner(KEY, lambda: 0.0).signed(two_bookings(booking(upstream)), "default")  # expired in 1970
    await house.left_behind(plan, proof_key=KEY)
    assert (await finish(await opened(house, upstream), plan)).status == "succeeded"
    assert upstream.count("/book") == 2


async def test_after_a_change_of_the_key_a_run_ends_and_its_call_in_flight_is_in_doubt(
    house: House, upstream: Upstream
) -> None:
    """Also a call that could be sent again: without the key nothing shows that it was ever admitted."""
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"), proof_key=OTHER_KEY)
    executor = await opened(house, upstream)
    run = await ended(executor)
    assert run.status == "in_doubt"
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    run = await ended(executor)
    assert run.status == "failed"
    assert run.result is not None
    assert [record.outcome.kind for record in run.result.records] == ["succeeded", "failed"]
    assert "the key has changed" in reason(run)
    assert upstream.seen == []


async def test_an_executor_seals_what_it_admits_and_without_a_key_nothing(house: House, upstream: Upstream) -> None:
    upstream.replies("/book", {"id": "b1"}, {"id": "b2"})
    plan = signed(two_bookings(booking(upstream)))
    executor = await opened(house, upstream)
    assert (await finish(executor, plan)).status == "succeeded"
    for key, admitted in ((KEY, True), (OTHER_KEY, False), (None, True)):
        store = LedgerStore(house.engine, Sealer(key))
        stored = await store.execution("run-1")
        store.close()
        assert stored is not None
        assert stored.admitted is admitted
