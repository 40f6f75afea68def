"""The demo service over HTTP: its routes through the typed client, and its responses to invalid input."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from demo_svc.main import create_app
from demo_svc.settings import DemoSettings
from services.clients.base import open_http
from services.clients.demo import DemoClient
from services.clients.transport import InProcessTransport
from services.contracts.demo import (
    ApiDescription,
    Demo,
    DemosOfApisRequest,
    ImportDemosRequest,
    SameDemosRequest,
    SelectDemosRequest,
)
from services.contracts.plan import Plan, Step
from services.encoder import load_encoder
from services.errors import NotFound, ValidationFailed
from services.fair_slots import FairSlots


def demo(query: str, *apis: str, level: str = "task") -> Demo:
    steps = tuple(Step(id=f"var{n}", api=api) for n, api in enumerate(apis, start=1))
    return Demo.model_validate({"level": level, "query": query, "plan": Plan(steps=steps)})


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = DemoSettings(database_url=f"sqlite+aiosqlite:///{path}/demos.db", max_body_bytes=200_000)
    app = create_app(settings, encoder=load_encoder())
    async with app.router.lifespan_context(app), open_http("http://demos", InProcessTransport(app)) as client:
        yield client


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running(tmp_path) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of one service that is shared by all tests of refused requests."""
    async with running(tmp_path_factory.mktemp("standing")) as client:
        yield client


async def test_the_road_of_a_demo(http: httpx2.AsyncClient) -> None:
    client = DemoClient(http)
    await client.ready()
    first = await client.add(demo("Which holidays does Norway have in May?", "s.holidays"))
    report = await client.import_demos(
        ImportDemosRequest(demos=(first, demo("Show when the sun rises", "s.sun", level="api")))
    )
    assert (report.added, report.unchanged) == (1, 1)

    apis = (ApiDescription(id="s.sun"), ApiDescription(id="s.holidays"))
    asked = SelectDemosRequest(query="Which holidays does Norway have in June?", apis=apis)
    chosen = (await client.select(asked)).demos
    assert [(c.demo.query, c.level) for c in chosen] == [
        ("Which holidays does Norway have in May?", "task"),
        ("Show when the sun rises", "api"),
    ]
    assert 0.8 < chosen[0].similarity < 1
    strict = asked.model_copy(update={"threshold": 0.999})
    assert [c.level for c in (await client.select(strict)).demos] == ["api"]

    assert (await client.list(api="s.sun")).total == 1
    assert await client.get(first.id) == first
    await client.delete(first.id)
    with pytest.raises(NotFound):
        await client.get(first.id)
    assert (await client.list()).total == 1
    assert (await client.list(tenant="red", own=True)).total == 0
    mine = demo("Mine alone", "s.rain")
    await client.add(mine, tenant="red")
    assert [one.query for one in (await client.list(tenant="red", own=True)).demos] == [mine.query]
    assert (await client.list(tenant="red")).total == 2
    assert (await client.list(tenant="blue", own=True)).total == 0


async def test_adding_answers_201_then_200(http: httpx2.AsyncClient) -> None:
    body = demo("Is it raining?", "s.rain").model_dump(mode="json")
    first, second = await http.post("/demos", json=body), await http.post("/demos", json=body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json()["id"]


async def test_a_demo_survives_a_restart(tmp_path: Path) -> None:
    settings = DemoSettings(database_url=f"sqlite+aiosqlite:///{tmp_path}/demos.db")
    encoder = load_encoder()
    for expected in (0, 1):
        app = create_app(settings, encoder=encoder)
        async with app.router.lifespan_context(app), open_http("http://d", InProcessTransport(app)) as http:
            assert (await DemoClient(http).list()).total == expected
            await DemoClient(http).add(demo("Is it raining?", "s.rain"))


async def test_an_invalid_demo_is_explained(http: httpx2.AsyncClient) -> None:
    client = DemoClient(http)
    with pytest.raises(ValidationFailed) as caught:
        await client.import_demos(
            ImportDemosRequest(demos=(demo("fine", "s.a"), demo("calls two", "s.a", "s.b", level="api")))
        )
    assert caught.value.extensions["errors"][0]["field"] == "body.demos.1.plan"
    assert (await client.list()).total == 0


DEMO = demo("Is it raining?", "s.rain").model_dump(mode="json")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/select", b"", 422),
        ("/select", b"{", 400),
        ("/select", b'{"query": "x", "threshold": NaN}', 400),
        ("/select", b'{"query": "\xff"}', 400),
        ("/select", b'{"query": "\\ud800"}', 400),
        ("/select", b'{"query": " "}', 422),
        ("/select", b'{"query": "x", "k": 21}', 422),
        ("/select", b'{"query": "x", "threshold": 1.5}', 422),
        ("/select", b'{"query": "x", "why": 1}', 422),
        ("/select", b'{"query": "x", "apis": [{"id": "a b"}]}', 422),
        ("/select", b'{"query": ' + b"[" * 500 + b"]" * 500 + b"}", 400),
        ("/select", json.dumps({"query": "x" * 10_001}).encode(), 422),
        ("/select", json.dumps({"query": "x" * 300_000}).encode(), 413),
        ("/demos", json.dumps(DEMO | {"level": "both"}).encode(), 422),
        ("/demos", json.dumps(DEMO | {"id": "0" * 64}).encode(), 422),
        ("/demos", json.dumps(DEMO | {"plan": {**DEMO["plan"], "id": "0" * 64}}).encode(), 422),
        ("/demos:import", b'{"demos": []}', 422),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_input_is_a_clear_problem(standing: httpx2.AsyncClient, path: str, body: bytes, status: int) -> None:
    response = await standing.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert response.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/demos/nonsense",
        "/demos/%00",
        "/demos?limit=0",
        "/demos?api=%00",
        "/demos?offset=20",
        "/demos?offset=0&offset=20",
        "/demos?cursor=-1",
        "/demos?cursor=1e99",
        f"/demos?cursor={'9' * 30}",
        "/demos?cursor=%00",
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_addresses_are_clear_problems(standing: httpx2.AsyncClient, path: str) -> None:
    response = await standing.get(path)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


async def test_a_query_of_odd_characters_is_just_a_query(http: httpx2.AsyncClient) -> None:
    await http.post("/demos", json=DEMO)
    for query in ("\x00", "\U0001f600" * 3_000, "a" * 10_000, "\ufeff%s{}--", "؀" * 100):
        response = await http.post("/select", json={"query": query})
        assert response.status_code == 200, query


async def test_health_readiness_and_metrics(http: httpx2.AsyncClient) -> None:
    await http.post("/demos", json=DEMO)
    assert (await http.get("/healthz")).status_code == 200
    assert set((await http.get("/readyz")).json()["checks"]) == {"database", "snapshot"}
    assert "nestor_demos 1.0" in (await http.get("/metrics")).text


async def test_a_database_that_is_gone_is_a_503_that_names_it(tmp_path: Path, postgres_server: Any) -> None:
    postgres_server.psql("CREATE DATABASE gone;")
    url = postgres_server.get_uri(database="gone").replace("postgresql://", "postgresql+asyncpg://", 1)
    app = create_app(DemoSettings(database_url=url), encoder=load_encoder())
    async with app.router.lifespan_context(app), open_http("http://d", InProcessTransport(app)) as http:
        assert (await http.get("/readyz")).status_code == 200
        postgres_server.psql("DROP DATABASE gone WITH (FORCE);")
        for response in (await http.get("/readyz"), await http.post("/select", json={"query": "x"})):
            assert response.status_code == 503
            assert "postgresql" in response.text


async def test_reads_stand_in_the_line_of_their_tenant(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood, slot = list[str](), FairSlots.slot

    def noting(slots: FairSlots, tenant: str, wait_s: float) -> AbstractAsyncContextManager[None]:
        stood.append(tenant)
        return slot(slots, tenant, wait_s)

    client = DemoClient(http)
    made = await client.add(demo("Which holidays?", "s.holidays"), tenant="red")
    monkeypatch.setattr(FairSlots, "slot", noting)
    asked: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: client.get(made.id, tenant="red"),
        lambda: client.list(tenant="red"),
        lambda: client.of_apis(DemosOfApisRequest(apis=("s.holidays",), tenant="red")),
        lambda: client.same(SameDemosRequest(query="Which holidays?", tenant="red")),
    )
    for ask in asked:
        stood.clear()
        await ask()
        assert "red" in stood
