"""Streams of every kind end soon after the key, token or session that opened them; half-sent requests are refused."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from gateway.console.session import LASTS_S
from gateway.issuers import LEEWAY_S
from gateway.tables import KEYS
from services.contracts.access import CreatedKey, KeyRequest, Role
from services.contracts.run import Run, RunStatus
from services.errors import ServiceUnavailable
from services.http import StrictRequest
from services.storage.engine import write
from tests.support.console_pages import log_in, post
from tests.support.gateways import ASK_HOLIDAYS, Gateway, ask, ended, open_gateway, until
from tests.support.issuer import AUDIENCE, serve_issuer

OPERATOR: tuple[dict[str, Any], ...] = ({"name": "operator", "tenant": "default", "token": "operator-token"},)
LIFE_S = 300
"""How long a token of the test's issuer is valid."""
SOLVING: dict[str, Any] = {"json": {"query": ASK_HOLIDAYS}}
OPERATION = {"operationId": "getLate", "summary": "late", "responses": {"200": {"description": "ok"}}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "late", "version": "1"},
    "servers": [{"url": "https://a.example"}],
    "paths": {"/late": {"get": OPERATION}},
}
IMPORTED = {"document": json.dumps(DOCUMENT), "provider": "late"}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.streams.HEARTBEAT_S", 0.01)
    monkeypatch.setattr("gateway.issuer_keys.FETCH_WITHIN_S", 60.0)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=OPERATOR) as running:
        running.fakes.executor.gate = asyncio.Event()
        yield running
        running.fakes.executor.gate.set()


async def new_key(gateway: Gateway) -> CreatedKey:
    asked = KeyRequest(name="app", tenant="red", roles=frozenset(Role))
    return await gateway.as_principal("operator-token").create_key(asked)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def waiting(gateway: Gateway, token: str) -> Run:
    """A run whose first call does not return."""
    return await gateway.as_principal(token).solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))


class Reader:
    """What was read of a stream so far, and the task that reads it."""

    text = ""
    task: asyncio.Task[None]


@asynccontextmanager
async def stays_open(
    gateway: Gateway, method: str, path: str, *, beats: Callable[[str], bool], **request: Any
) -> AsyncIterator[Reader]:
    """A stream that is silent but open. Its reader goes on until it ends."""
    reader = Reader()

    async def read() -> None:
        async with gateway.http.stream(method, path, **request) as response:
            assert response.status_code == 200
            async for part in response.aiter_text():
                reader.text += part

    reader.task = asyncio.create_task(read())
    await until(lambda: reader.task.done() or beats(reader.text))
    assert not reader.task.done()
    yield reader
    reader.task.cancel()


async def ends_early(reader: Reader) -> None:
    """The stream breaks off: its last chunk is missing, so that nobody takes it for complete."""
    with pytest.raises(httpx2.RemoteProtocolError):
        async with asyncio.timeout(20):
            await reader.task


def in_some_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the gateway's check of open streams see a later time."""
    later = time.time() + seconds
    monkeypatch.setattr("gateway.principals.time", SimpleNamespace(time=lambda: later))


def pinged(text: str) -> bool:
    return ": ping" in text


def blank_line(text: str) -> bool:
    return "\n\n" in text


async def revoked(gateway: Gateway, key: CreatedKey) -> None:
    await gateway.as_principal("operator-token").revoke_key(key.id)


async def expired(gateway: Gateway, key: CreatedKey) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with write(gateway.app.state.keys._engine) as connection:
        await connection.execute(KEYS.update().where(KEYS.c.id == key.id).values(expires_at=past))
    gateway.app.state.keys._cache.clear()


async def deleted(gateway: Gateway, key: CreatedKey) -> None:
    await gateway.as_principal("operator-token").delete_tenant(key.tenant)


@pytest.mark.parametrize("end", [revoked, expired, deleted])
async def test_events_of_a_run_end_with_the_key(gateway: Gateway, end: Any) -> None:
    key = await new_key(gateway)
    other = await new_key(gateway)
    run = await waiting(gateway, other.key)
    path = f"/runs/{run.id}/events"
    async with (
        stays_open(gateway, "GET", path, beats=pinged, headers=bearer(key.key)) as reading,
        stays_open(gateway, "GET", path, beats=pinged, headers=bearer(other.key)) as unaffected,
    ):
        await end(gateway, key)
        await ends_early(reading)
        again = await gateway.http.get(path, headers=bearer(key.key))
        assert (again.status_code, again.headers["content-type"]) == (401, "application/problem+json")
        if end is not deleted:
            assert not unaffected.task.done()
            assert gateway.fakes.executor.gate is not None
            gateway.fakes.executor.gate.set()
            await unaffected.task
            assert "event: finished" in unaffected.text


def ends_while_a_body_is_sent(monkeypatch: pytest.MonkeyPatch, gateway: Gateway, key: CreatedKey, end: Any) -> None:
    stream = StrictRequest.stream

    async def slow(request: StrictRequest) -> AsyncIterator[bytes]:
        async for chunk in stream(request):
            yield chunk
        if request.url.path != "/console/login":
            await end(gateway, key)

    monkeypatch.setattr(StrictRequest, "stream", slow)


@pytest.mark.parametrize("end", [revoked, expired, deleted])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/keys", {"name": "second", "roles": ["administer"]}), ("/solve", SOLVING["json"]), ("/apis:import", IMPORTED)],
)
async def test_a_request_is_refused_if_its_key_ends_while_its_body_is_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, end: Any, path: str, body: dict[str, Any]
) -> None:
    key = await new_key(gateway)
    ends_while_a_body_is_sent(monkeypatch, gateway, key, end)
    answer = await gateway.http.post(path, headers=bearer(key.key), json=body)
    assert answer.status_code == 401
    keys = await gateway.as_principal("operator-token").keys(tenant="red")
    assert "second" not in {one.name for one in keys.keys}


async def test_a_form_is_refused_if_its_session_ends_while_it_is_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await new_key(gateway)
    cookie, csrf = await log_in(gateway, key.key)
    ends_while_a_body_is_sent(monkeypatch, gateway, key, revoked)
    assert (await post(gateway, "runs/run_1/cancel", cookie, csrf=csrf)).status_code == 401


async def test_events_told_by_another_gateway_end_too(gateway: Gateway, tmp_path: Path) -> None:
    key = await new_key(gateway)
    run = await waiting(gateway, key.key)
    async with open_gateway(tmp_path, gateway.fakes, principals=OPERATOR) as two:
        path = f"/runs/{run.id}/events"
        async with stays_open(two, "GET", path, beats=pinged, headers=bearer(key.key)) as reading:
            await revoked(gateway, key)
            await ends_early(reading)


async def test_a_solve_stream_ends_and_its_run_goes_on(gateway: Gateway) -> None:
    key = await new_key(gateway)
    async with stays_open(
        gateway, "POST", "/solve:stream", beats=blank_line, headers=bearer(key.key), **SOLVING
    ) as reading:
        await revoked(gateway, key)
        await ends_early(reading)
    assert gateway.fakes.executor.gate is not None
    gateway.fakes.executor.gate.set()
    admin = gateway.as_principal((await new_key(gateway)).key)
    (run,) = (await admin.runs()).runs
    assert (await ended(admin, run.id)).status is RunStatus.SUCCEEDED


async def test_what_happens_after_the_end_is_not_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await new_key(gateway)
    run = await waiting(gateway, key.key)
    path = f"/runs/{run.id}/events"
    async with stays_open(gateway, "GET", path, beats=pinged, headers=bearer(key.key)) as reading:
        monkeypatch.setattr("services.streams.HEARTBEAT_S", 60.0)
        await asyncio.sleep(0.1)
        await revoked(gateway, key)
        assert gateway.fakes.executor.gate is not None
        gateway.fakes.executor.gate.set()
        await ends_early(reading)
    assert "step_finished" not in reading.text


async def test_an_export_ends_with_the_key(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await new_key(gateway)

    async def silent(**_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(gateway.fakes.demos, "list", silent)
    path, told = "/tenants/red/export", '"kind":"key"'
    async with stays_open(gateway, "GET", path, beats=lambda text: told in text, headers=bearer(key.key)) as reading:
        await revoked(gateway, key)
        await ends_early(reading)


async def test_an_import_is_abandoned_with_the_key(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await new_key(gateway)
    fake = gateway.fakes.retriever.import_document

    async def silent(*args: Any, **options: Any) -> Any:
        async for event in fake(*args, **options):
            yield event
            await asyncio.Event().wait()

    monkeypatch.setattr(gateway.fakes.retriever, "import_document", silent)
    async with stays_open(
        gateway,
        "POST",
        "/apis:import",
        beats=lambda text: "\n" in text,
        headers=bearer(key.key),
        json=IMPORTED,
    ) as reading:
        await revoked(gateway, key)
        await ends_early(reading)


async def test_a_stream_that_has_not_begun_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await new_key(gateway)
    fake, asked, go_on = gateway.fakes.retriever.import_document, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **options: Any) -> Any:
        asked.set()
        await go_on.wait()
        async for event in fake(*args, **options):
            yield event

    monkeypatch.setattr(gateway.fakes.retriever, "import_document", slow)
    answer = asyncio.create_task(gateway.http.post("/apis:import", headers=bearer(key.key), json=IMPORTED))
    await asked.wait()
    await revoked(gateway, key)
    go_on.set()
    assert (await answer).status_code == 401


async def test_a_stream_ends_with_a_token_of_an_issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_issuer() as issuer:
        corp = {"name": "corp", "issuer": issuer.url, "audience": [AUDIENCE], "tenant": "red"}
        async with open_gateway(tmp_path, principals=OPERATOR, issuers=[corp]) as gateway:
            gateway.fakes.executor.gate = asyncio.Event()
            token = issuer.token()
            run = await waiting(gateway, token)
            path = f"/runs/{run.id}/events"
            async with stays_open(gateway, "GET", path, beats=pinged, headers=bearer(token)) as reading:
                in_some_time(monkeypatch, LIFE_S + LEEWAY_S - 60)
                await until(lambda: reading.text.count(": ping") > 20)
                in_some_time(monkeypatch, LIFE_S + LEEWAY_S)
                await ends_early(reading)
            gateway.fakes.executor.gate.set()


@pytest.mark.parametrize("how", ["key", "session"])
async def test_the_console_s_stream_ends_with_the_session(
    gateway: Gateway, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await new_key(gateway)
    run = await waiting(gateway, key.key)
    cookie, _ = await log_in(gateway, key.key)
    gateway.http.cookies.clear()
    path, headers = f"/console/runs/{run.id}/events", {"Cookie": cookie}
    async with stays_open(gateway, "GET", path, beats=pinged, headers=headers) as reading:
        if how == "key":
            await revoked(gateway, key)
        else:
            in_some_time(monkeypatch, LASTS_S)
        await ends_early(reading)


async def test_a_stream_outlives_an_outage_of_the_keys(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await new_key(gateway)
    run = await waiting(gateway, key.key)
    asked = 0

    async def away(_: str) -> None:
        nonlocal asked
        asked += 1
        raise ServiceUnavailable("The database (sqlite) cannot be reached.", service="sqlite")

    path = f"/runs/{run.id}/events"
    async with stays_open(gateway, "GET", path, beats=pinged, headers=bearer(key.key)) as reading:
        monkeypatch.setattr(gateway.app.state.keys, "find_by_id", away)
        await until(lambda: asked > 2)
        assert gateway.fakes.executor.gate is not None
        gateway.fakes.executor.gate.set()
        await reading.task
        assert "event: finished" in reading.text
