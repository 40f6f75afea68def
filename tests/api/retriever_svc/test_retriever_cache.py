"""Cached answers of ``/retrieve``: shared through a real Redis, never from another catalogue, and optional."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from services.clients.base import open_http
from services.clients.transport import InProcessTransport
from tests.support.redis import RedisServer
from tests.unit.retriever_svc.catalogue import api
from tests.unit.retriever_svc.test_catalogue import CountingEncoder

LIONS = api("feedLions", "Feed the lions")
TICKETS = api("listTickets", "Entrance tickets and what they cost")
REQUEST = {"query": "what does a ticket cost", "k": 5}


@asynccontextmanager
async def replica(
    database: Path, encoder: CountingEncoder, redis_url: str | None, **more: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """A retriever on this database that checks for other replicas' changes at every request."""
    settings = RetrieverSettings(
        database_url=f"sqlite+aiosqlite:///{database}", redis_url=redis_url, version_check_s=0, **more
    )
    app = create_app(settings, encoder=encoder)
    async with app.router.lifespan_context(app), open_http("http://retriever", InProcessTransport(app)) as client:
        yield client


async def add(client: httpx2.AsyncClient, new: Any) -> None:
    answer = await client.post("/apis", content=new.model_dump_json(), headers={"content-type": "application/json"})
    assert answer.status_code == 201


async def retrieved(client: httpx2.AsyncClient) -> tuple[int, set[str]]:
    """Retrieve, and return the catalogue version and the found APIs."""
    answer = await client.post("/retrieve", json=REQUEST)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found = answer.json()
    return found["catalogue_version"], {candidate["api"]["id"] for candidate in found["candidates"]}


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


async def test_the_same_request_is_answered_once(tmp_path: Path, encoder: CountingEncoder) -> None:
    async with replica(tmp_path / "a.db", encoder, None) as client:
        await add(client, TICKETS)
        first = await client.post("/retrieve", json=REQUEST)
        encoded = encoder.texts
        again = await client.post("/retrieve", json={"k": 5, **REQUEST})
        assert (again.content, again.headers["content-type"]) == (first.content, first.headers["content-type"])
        assert encoder.texts == encoded
        await client.post("/retrieve", json=REQUEST | {"k": 4})
        assert encoder.texts > encoded
        assert (await client.get("/readyz")).json()["checks"] == {"catalogue": "ok", "database": "ok"}


async def test_no_time_to_live_no_cache(tmp_path: Path, encoder: CountingEncoder) -> None:
    async with replica(tmp_path / "a.db", encoder, None, answer_ttl_s=0) as client:
        await add(client, TICKETS)
        await retrieved(client)
        encoded = encoder.texts
        await retrieved(client)
        assert encoder.texts > encoded


async def test_replicas_share_answers_and_see_each_others_changes(
    tmp_path: Path, encoder: CountingEncoder, redis_server: RedisServer
) -> None:
    database, other_encoder = tmp_path / "a.db", CountingEncoder()
    async with (
        replica(database, encoder, redis_server.url) as one,
        replica(database, other_encoder, redis_server.url) as other,
    ):
        await add(one, TICKETS)
        assert await retrieved(one) == (1, {TICKETS.id})
        assert await retrieved(other) == (1, {TICKETS.id})
        assert other_encoder.texts == 0
        await add(other, LIONS)
        assert await retrieved(one) == await retrieved(other) == (2, {TICKETS.id, LIONS.id})
        await other.delete(f"/apis/{TICKETS.id}")
        assert await retrieved(one) == (3, {LIONS.id})


async def test_two_catalogues_at_the_same_version_do_not_mix(
    tmp_path: Path, encoder: CountingEncoder, redis_server: RedisServer
) -> None:
    async with (
        replica(tmp_path / "a.db", encoder, redis_server.url) as one,
        replica(tmp_path / "b.db", encoder, redis_server.url) as other,
    ):
        await add(one, TICKETS)
        await add(other, LIONS)
        assert await retrieved(one) == (1, {TICKETS.id})
        assert await retrieved(other) == (1, {LIONS.id})


async def test_redis_goes_and_comes_back(tmp_path: Path, encoder: CountingEncoder, redis_server: RedisServer) -> None:
    async with replica(tmp_path / "a.db", encoder, redis_server.url) as client:
        await add(client, TICKETS)
        assert (await client.get("/readyz")).json()["checks"] == {"catalogue": "ok", "database": "ok", "redis": "ok"}
        await retrieved(client)
        redis_server.stop()
        assert await retrieved(client) == (1, {TICKETS.id})
        without = await client.get("/readyz")
        assert without.status_code == 200, "answers do not need the cache, so replicas must not be dropped for it"
        assert without.json()["checks"] == {"catalogue": "ok", "database": "ok", "redis": "Redis cannot be reached."}
        assert "secret" not in json.dumps(without.json())
        redis_server.start()
        assert (await client.get("/readyz")).status_code == 200
        await retrieved(client)
        encoded = encoder.texts
        await retrieved(client)
        assert encoder.texts == encoded
