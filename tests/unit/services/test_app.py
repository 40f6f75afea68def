"""The chassis answers bad input with problem documents, and tells the truth about itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI

from services.app import create_service, service_router
from services.clients import InProcessTransport
from services.contracts.base import Contract
from services.errors import Conflict, ServiceUnavailable
from services.settings import ServiceSettings


class Thing(Contract):
    name: str
    size: float = 0
    inner: dict[str, object] | None = None


def build(*, broken: bool = False) -> FastAPI:
    router = service_router()

    @router.post("/things")
    async def add(thing: Thing) -> Thing:
        if thing.name == "bug":
            raise RuntimeError("secret detail")
        if thing.name == "taken":
            raise Conflict("There is one already.", taken_by="me")
        if thing.name == "slow":
            await asyncio.sleep(60)
        return thing

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def on_fire() -> None:
            raise ServiceUnavailable("the attic is on fire", service="attic")

        if broken:
            app.state.readiness["attic"] = on_fire
        yield

    return create_service(
        name="test_svc",
        title="Test",
        description="",
        settings=ServiceSettings(),
        routers=[router],
        lifespan=lifespan,
    )


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    app = build()
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://test_svc") as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"name": "a", "size": NaN}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b"[" * 100_000, 400),
        (b'{"name": "a", "inner": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}", 400),
        (b'{"name": 1}', 422),
        (b'{"name": "a", "unknown": 1}', 422),
        (b'{"name": "a", "size": 1e999}', 400),
        (b"[]", 422),
        (b'{"name": "' + b"a" * 1_100_000 + b'"}', 413),
        (b'{"name": "taken"}', 409),
    ],
)
async def test_bad_input_is_a_problem(http: httpx2.AsyncClient, body: bytes, status: int) -> None:
    response = await http.post("/things", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:nestor:problem:")
    assert problem["instance"].endswith(response.headers["x-request-id"])


async def test_a_bug_is_answered_without_its_details(http: httpx2.AsyncClient) -> None:
    response = await http.post("/things", json={"name": "bug"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["type"] == "urn:nestor:problem:internal-error"


async def test_unknown_routes_and_methods_are_problems(http: httpx2.AsyncClient) -> None:
    missing = await http.get("/nowhere")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:nestor:problem:not-found")
    wrong = await http.delete("/things")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"


async def test_request_ids_are_kept_when_sane_and_replaced_when_not(http: httpx2.AsyncClient) -> None:
    kept = await http.get("/healthz", headers={"X-Request-ID": "abc-123"})
    assert kept.headers["x-request-id"] == "abc-123"
    replaced = await http.get("/healthz", headers={"X-Request-ID": "a b\tc" * 50})
    assert len(replaced.headers["x-request-id"]) == 32


async def test_metrics_count_by_route_template(http: httpx2.AsyncClient) -> None:
    await http.get("/nowhere/at/all")
    text = (await http.get("/metrics")).text
    assert 'route="unmatched"' in text
    assert "/nowhere" not in text


async def test_readyz_names_what_is_broken() -> None:
    app = build(broken=True)
    client = httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://test_svc")
    async with app.router.lifespan_context(app), client:
        response = await client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["checks"] == {"attic": "the attic is on fire"}
        assert (await client.get("/healthz")).status_code == 200


async def test_in_process_calls_time_out(http: httpx2.AsyncClient) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        await http.post("/things", json={"name": "slow"}, timeout=0.05)
