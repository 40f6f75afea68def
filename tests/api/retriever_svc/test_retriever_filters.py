"""Filters, pins and tenants over HTTP, with cached answers, and with a database of an older version."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from alembic import command
from sqlalchemy import Connection, inspect

from retriever_svc.engine.filters import Filters
from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from services.clients import InProcessTransport, RetrieverClient, open_http
from services.contracts.api import Api
from services.contracts.retrieval import LookupRequest, RetrieveRequest
from services.encoder import Encoder
from services.errors import NotFound
from services.storage.engine import create_engine
from services.storage.migrate import _config
from tests.unit.retriever_svc.catalogue import api, open_service

LIONS = api("feedLions", "Feed the lions", path="/lions", method="POST", tags=("Animals",))
TIGERS = api("feedTigers", "Feed the tigers", path="/tigers", tags=("Animals", "\x00ödd\n"), deprecated=True)
BEARS = api("feedBears", "Feed the bears", path="/bears", tenants=("red", "blue"))


@pytest.fixture
async def http(tmp_path: Path, encoder: Encoder) -> AsyncIterator[httpx2.AsyncClient]:
    settings = RetrieverSettings(database_url=f"sqlite+aiosqlite:///{tmp_path}/retriever.db")
    app = create_app(settings, encoder=encoder)
    async with (
        app.router.lifespan_context(app),
        open_http("http://retriever", InProcessTransport(app)) as client,
    ):
        for one in (LIONS, TIGERS, BEARS):
            await RetrieverClient(client).create(one)
        yield client


@pytest.fixture
def client(http: httpx2.AsyncClient) -> RetrieverClient:
    return RetrieverClient(http)


async def retrieved(client: RetrieverClient, **options: Any) -> list[str]:
    answer = await client.retrieve(RetrieveRequest(query="feed an animal", **options))
    return sorted(candidate.api.id for candidate in answer.candidates)


async def test_filters(client: RetrieverClient) -> None:
    assert await retrieved(client) == ["zoo.feedBears", "zoo.feedLions", "zoo.feedTigers"]
    assert await retrieved(client, tags=("animals",)) == ["zoo.feedLions", "zoo.feedTigers"]
    assert await retrieved(client, tags=("\x00ÖDD",)) == ["zoo.feedTigers"]
    assert await retrieved(client, methods=("post", "put")) == ["zoo.feedLions"]
    assert await retrieved(client, deprecated=False) == ["zoo.feedBears", "zoo.feedLions"]
    assert await retrieved(client, tags=("none",)) == []
    assert await retrieved(client, tags=("none",), pinned=(BEARS.id, "zoo.none")) == [BEARS.id]


async def test_answers_that_are_kept_are_of_one_tenant(client: RetrieverClient) -> None:
    for _ in range(2):
        assert BEARS.id in await retrieved(client, tenant="red")
        assert BEARS.id not in await retrieved(client, tenant="green")
        assert BEARS.id not in await retrieved(client, tenant="green", pinned=(BEARS.id,))
    await client.update(BEARS.model_copy(update={"tenants": ("green",)}))
    assert BEARS.id not in await retrieved(client, tenant="red")
    assert BEARS.id in await retrieved(client, tenant="green")


async def test_whose_an_api_is_comes_back_and_is_no_content(client: RetrieverClient) -> None:
    kept = await client.get(BEARS.id)
    assert kept.tenants == ("red", "blue")
    changed = await client.update(kept.model_copy(update={"tenants": ()}))
    assert (changed.tenants, changed.content_hash) == ((), kept.content_hash)
    assert (await client.get(BEARS.id, tenant="green")).content_hash == kept.content_hash


async def test_looking_up_as_a_tenant(http: httpx2.AsyncClient, client: RetrieverClient) -> None:
    async def looked_up(**more: str) -> list[Api]:
        answer = await http.post("/apis:lookup", json={"ids": [BEARS.id, LIONS.id], **more})
        return [Api.model_validate(one) for one in answer.json()["apis"]]

    assert [(one.id, one.tenants) for one in await looked_up()] == [(BEARS.id, ("red", "blue")), (LIONS.id, ())]
    assert [(one.id, one.tenants) for one in await looked_up(tenant="red")] == [(BEARS.id, ()), (LIONS.id, ())]
    assert [one.id for one in await looked_up(tenant="green")] == [LIONS.id]
    with pytest.raises(NotFound):
        await client.get(BEARS.id, tenant="green")


async def test_looking_up_with_filters(client: RetrieverClient) -> None:
    async def looked_up(**filters: Any) -> list[str]:
        ids = (TIGERS.id, BEARS.id, "zoo.none", LIONS.id)
        return [api.id for api in (await client.lookup(LookupRequest(ids=ids, **filters))).apis]

    assert await looked_up() == await looked_up(providers=("zoo",)) == [TIGERS.id, BEARS.id, LIONS.id]
    assert await looked_up(providers=("farm",)) == await looked_up(tags=("none",)) == []
    assert await looked_up(tags=("animals",)) == [TIGERS.id, LIONS.id]
    assert await looked_up(methods=("post", "put")) == [LIONS.id]
    assert await looked_up(deprecated=False) == [BEARS.id, LIONS.id]
    assert await looked_up(deprecated=False, tenant="green") == [LIONS.id]
    await client.update(LIONS.model_copy(update={"deprecated": True}))
    assert await looked_up(deprecated=False) == [BEARS.id]


async def test_searching_says_what_found_each(client: RetrieverClient) -> None:
    page = await client.search("feedTigers", tags=["animals"])
    assert [(hit.id, hit.found_by, hit.deprecated) for hit in page.hits[:1]] == [(TIGERS.id, "exact_name", True)]
    assert page.hits[1].found_by in ("meaning", "words")
    assert page.total == 2
    listed = await client.search(methods=["POST", "PUT"], tenant="green")
    assert [(hit.id, hit.found_by) for hit in listed.hits] == [(LIONS.id, None)]


@pytest.mark.parametrize(
    "body",
    [
        {"tags": [""]},
        {"tags": ["x"] * 21},
        {"tags": "x"},
        {"methods": ["GET /x"]},
        {"methods": [""]},
        {"deprecated": None},
        {"tenant": ""},
        {"tenant": "a b"},
        {"tenant": "ä"},
        {"pinned": ["a\nb"]},
        {"pinned": ["x" * 401]},
        {"pinned": ["x"] * 101},
    ],
)
async def test_bad_filters_are_refused(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post("/retrieve", json={"query": "feed", **body})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("tenants", [["a b"], [""], "red", ["x"] * 101, [None]])
async def test_tenants_that_cannot_be_are_refused(http: httpx2.AsyncClient, tenants: Any) -> None:
    new = {"id": "zoo.new", "provider": "zoo", "name": "new", "tenants": tenants}
    for answer in (
        await http.post("/apis", json=new),
        await http.put("/apis/zoo.new", json=new),
        await http.post("/imports", json={"document": "{}", "tenants": tenants}),
    ):
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_catalogue_of_before_can_be_filtered(database_url: str, encoder: Encoder) -> None:
    async with open_service(database_url, encoder) as service:
        for one in (LIONS, TIGERS):
            await service.create(one)
    engine = create_engine(database_url)

    def back(connection: Connection) -> None:
        config = _config("retriever_svc")
        config.attributes["connection"] = connection
        command.downgrade(config, "0003")
        assert "tags" not in {column["name"] for column in inspect(connection).get_columns("apis")}

    async with engine.begin() as connection:
        await connection.run_sync(back)
    await engine.dispose()
    async with open_service(database_url, encoder) as service:
        assert await service.get(TIGERS.id) == TIGERS

        async def listed(filters: Filters) -> list[str]:
            return [entry.id for entry in (await service.listing(filters, 10))[2]]

        assert await listed(Filters(tags=("animals",))) == [LIONS.id, TIGERS.id]
        assert await listed(Filters(tags=("\x00ödd",))) == [TIGERS.id]
        assert await listed(Filters(deprecated=False, tenant="red")) == [LIONS.id]
