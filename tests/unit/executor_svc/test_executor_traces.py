"""Spans of executions and of each request to an API: a trace goes on after a crash, and tells no values."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from prometheus_client import CollectorRegistry

from executor_svc.admission import Sealer
from executor_svc.main import open_executor
from executor_svc.models import Admission
from executor_svc.settings import ExecutorSettings
from executor_svc.storage import LedgerStore
from executor_svc.tables import EXECUTIONS, METADATA
from services.contracts.api import RequestBody
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Succeeded
from services.ownership.ticket import Ticket
from services.storage.engine import create_engine
from services.storage.migrate import migrate
from services.tracing import continued, span
from tests.support.executing import api, compiled, literal, parameter, step
from tests.support.migrations import migrate_to
from tests.support.spans import GIVEN, TRACE, Made, making_spans
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener

DEAD = Ticket("run-1", "a process that died", 1)


@pytest.fixture
def made() -> Iterator[Made]:
    with making_spans() as found:
        yield found


async def test_whoever_takes_an_execution_over_goes_on_with_its_trace(
    made: Made, upstream: Upstream, tmp_path: Path
) -> None:
    post = api(upstream.origin, "/book", parameter("room", "body"), name="book", method="POST", body=RequestBody())
    plan = compiled([post], step("a", post, {"room": literal("secret")}), mutating=("a",))
    request = ExecuteRequest(run_id="run-1", compiled=plan, approved=plan.plan.id)
    url = f"sqlite+aiosqlite:///{tmp_path}/executor.db"
    engine = create_engine(url)
    await migrate(engine, "executor_svc")
    store = LedgerStore(engine, Sealer(None))
    await store.write([Admission(DEAD, request, GIVEN)])
    store.close()
    await engine.dispose()
    settings = ExecutorSettings(database_url=url, allowed_private_hosts=("127.0.0.1",), lease_s=0.5)
    async with open_executor(settings, CollectorRegistry()) as (executor, _), asyncio.timeout(60):
        last = [event async for event in executor.execute(request)][-1]
    assert isinstance(last, ExecutionFinished)
    assert last.status == "succeeded"
    assert made.of("execution") == [{"nestor.run_id": "run-1", "nestor.steps": 1}]
    (told,) = made.of("step")
    assert told == {"nestor.step": "a", "nestor.api": "test.book", "nestor.outcome": "succeeded", "nestor.attempts": 1}
    assert [one["http.request.method"] for one in made.of("POST")] == ["POST"]
    assert "secret" not in "".join(one.to_json() for one in made.all)


async def test_each_attempt_is_a_span_with_its_status(made: Made, upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/flaky/secret", web.Response(status=503, text="secret"), {"found": "secret"})
    get = api(upstream.origin, "/flaky/{name}", parameter("name", "path"))
    call = await opened()
    with continued("executor_svc", GIVEN):
        result = await call(get, name="secret")
    assert isinstance(result.outcome, Succeeded)
    assert [one["http.response.status_code"] for one in made.of("GET")] == [503, 200]
    assert [one.get("error.type") for one in made.of("GET")] == ["503", None]
    assert "secret" not in "".join(one.to_json() for one in made.all)


async def test_what_never_arrives_says_why(made: Made, opened: Opener) -> None:
    call = await opened(allowed_private_hosts=())
    with continued("executor_svc", GIVEN):
        await call(api("http://127.0.0.1:9"))
    assert [one["error.type"] for one in made.of("GET")] == ["refused"]


@pytest.mark.parametrize(
    ("hosts", "told"),
    [((), False), (("*",), True), (("127.0.0.1",), True), (("{host}",), True), (("127.0.0.1:1", "example.com"), False)],
)
async def test_an_api_is_told_of_the_trace_where_a_setting_names_its_host(
    made: Made, upstream: Upstream, opened: Opener, hosts: tuple[str, ...], told: bool
) -> None:
    call = await opened(traceparent_hosts=tuple(host.format(host=upstream.host) for host in hosts))
    with continued("executor_svc", GIVEN):
        await call(api(upstream.origin, "/one"))
    headers = upstream.seen[0].headers
    assert ("traceparent" in headers) is told
    assert not {"tracestate", "baggage"} & {name.lower() for name in headers}
    if told:
        sent = next(one for one in made.all if one.name == "GET").get_span_context()
        assert headers["traceparent"] == f"00-{TRACE}-{sent.span_id:016x}-01"


async def test_an_argument_of_that_name_goes_before(made: Made, upstream: Upstream, opened: Opener) -> None:
    get = api(upstream.origin, "/one", parameter("Traceparent", "header"))
    call = await opened(traceparent_hosts=("*",))
    with continued("executor_svc", GIVEN), span("step"):
        await call(get, Traceparent="mine")
    assert upstream.seen[0].headers.getall("traceparent") == ["mine"]


@pytest.mark.usefixtures("real_migrations")
async def test_executions_of_before_belong_to_no_trace(database_url: str) -> None:
    engine = create_engine(database_url)
    await migrate_to(engine, "executor_svc", "0001")
    async with engine.begin() as connection:
        row: dict[str, Any] = {"id": "run-1", "plan_id": "p", "status": "succeeded", "owner": "", "epoch": 1}
        row |= {"takeovers": 0, "cancel_requested": False, "created_at": 1.0, "request": "{}"}
        await connection.execute(sa.insert(EXECUTIONS).values(row))
    await migrate(engine, "executor_svc")
    async with engine.begin() as connection:
        found = (await connection.execute(sa.select(EXECUTIONS.c.id, EXECUTIONS.c.traceparent))).all()
        assert found == [("run-1", None)]
        assert await connection.run_sync(lambda it: compare_metadata(MigrationContext.configure(it), METADATA)) == []
    await engine.dispose()
