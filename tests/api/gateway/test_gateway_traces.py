"""The trace of a run continues in another gateway after a crash, and in the same one after an approval."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gateway.tables import METADATA, RUNS
from services.contracts.run import RunStatus
from services.storage.engine import create_engine
from services.storage.migrate import migrate
from tests.support.gateways import ASK_BUG, ASK_HOLIDAYS, ASK_ROOM, BOOKING, ask, ended, open_gateway, until
from tests.support.migrations import migrate_to
from tests.support.spans import GIVEN, Made, making_spans


@pytest.fixture
def made() -> Iterator[Made]:
    with making_spans() as found:
        yield found


async def test_the_gateway_that_takes_a_run_over_goes_on_with_its_trace(made: Made, tmp_path: Path) -> None:
    async with open_gateway(tmp_path, lease_s=0.5) as one, open_gateway(tmp_path, one.fakes, lease_s=0.5) as two:
        one.fakes.executor.gate = asyncio.Event()
        request = ask(ASK_HOLIDAYS).model_copy(update={"wait": False})
        answer = await one.http.post("/solve", json=request.model_dump(mode="json"), headers={"traceparent": GIVEN})
        run_id = answer.json()["id"]
        await until(lambda: "execute" in one.fakes.executor.calls)
        await one.die()
        one.fakes.executor.gate = None
        assert (await ended(two.client, run_id)).status is RunStatus.SUCCEEDED
        await until(lambda: len(made.of("run")) == 2)
    dead, living = made.of("run")
    assert {dead["nestor.run_id"], living["nestor.run_id"]} == {run_id}
    assert (dead["nestor.takeovers"], living["nestor.takeovers"]) == (0, 1)
    assert "nestor.status" not in dead
    assert living["nestor.status"] == "succeeded"


async def test_a_run_that_is_approved_later_goes_on_in_its_own_trace(made: Made, tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        answer = await gateway.http.post(
            "/solve", json=ask(ASK_ROOM).model_dump(mode="json"), headers={"traceparent": GIVEN}
        )
        done = await gateway.client.approve(answer.json()["id"], BOOKING.id)
        assert done.status is RunStatus.SUCCEEDED
        await until(lambda: len(made.of("run")) == 2)
    assert [one["nestor.status"] for one in made.of("run")] == ["needs_approval", "succeeded"]
    assert not made.of("POST /runs/{run_id}:approve")  # it belongs to the approver's trace


async def test_a_run_that_fails_is_told_by_the_name_of_its_problem(made: Made, tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        gateway.fakes.planner.answers[ASK_BUG] = RuntimeError("secret detail")
        headers = {"traceparent": GIVEN}
        answer = await gateway.http.post("/solve", json=ask(ASK_BUG).model_dump(mode="json"), headers=headers)
        assert answer.status_code == 500
        await gateway.http.get("/healthz", headers=headers)
        await gateway.http.get("/nowhere/secret?q=secret", headers=headers)
        await until(lambda: bool(made.of("GET unmatched")))
    (run,) = made.of("run")
    assert (run["nestor.status"], run["error.type"]) == ("failed", "internal-error")
    (solve,) = made.of("POST /solve")
    assert (solve["http.response.status_code"], solve["error.type"]) == (500, "500")
    assert not made.of("GET /healthz")  # health checks are not traced
    assert "secret" not in "".join(one.to_json() for one in made.all)


@pytest.mark.usefixtures("real_migrations")
async def test_runs_of_before_belong_to_no_trace(database_url: str) -> None:
    engine = create_engine(database_url)
    await migrate_to(engine, "gateway", "0004")
    async with engine.begin() as connection:
        columns = "id, status, query, created_at, total_ms, document, tenant, owner, epoch, takeovers, cancel_requested"
        values = "'run_1', 'failed', 'q', '2026-01-01 00:00:00', 1, '{}', 'red', '', 0, 0, false"
        await connection.exec_driver_sql(f"INSERT INTO runs ({columns}) VALUES ({values})")
    await migrate(engine, "gateway")
    async with engine.begin() as connection:
        assert (await connection.execute(sa.select(RUNS.c.id, RUNS.c.traceparent))).all() == [("run_1", None)]
        assert await connection.run_sync(lambda it: compare_metadata(MigrationContext.configure(it), METADATA)) == []
    await engine.dispose()
