"""The retriever over HTTP: its routes through the typed client, and its responses to invalid input."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI

from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from retriever_svc.storage import CatalogueStorage
from services.clients.base import open_http
from services.clients.retriever import RetrieverClient
from services.clients.transport import InProcessTransport
from services.compute import ComputePool, for_tenant
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.retrieval import MAX_ANSWER_BYTES, LookupRequest, RetrieveRequest
from services.encoder import load_encoder
from services.errors import Conflict, InvalidDocument, NotFound
from services.fair_slots import FairSlots
from tests.unit.retriever_svc.catalogue import api
from tests.unit.retriever_svc.documents import document, operation

ZOO = document(
    {
        "/animals/{id}": {"get": operation(operationId="getAnimal", summary="One animal by its id")},
        "/animals": {"post": operation(operationId="addAnimal", summary="Add an animal to the zoo")},
        "/tickets": {"get": operation(operationId="listTickets", summary="Entrance tickets and what they cost")},
    }
)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[FastAPI]:
    settings = RetrieverSettings(
        database_url=f"sqlite+aiosqlite:///{path}/retriever.db", max_body_bytes=50_000, max_import_bytes=200_000
    )
    app = create_app(settings, encoder=load_encoder())
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    async with running(tmp_path) as app:
        yield app


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of one service that is shared by all tests of refused requests."""
    async with (
        running(tmp_path_factory.mktemp("standing")) as app,
        open_http("http://retriever", InProcessTransport(app)) as client,
    ):
        yield client


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with open_http("http://retriever", InProcessTransport(app)) as client:
        yield client


@pytest.fixture
def client(http: httpx2.AsyncClient) -> RetrieverClient:
    return RetrieverClient(http)


async def imported(client: RetrieverClient, root: Any = ZOO, **options: Any) -> ImportReport:
    request = ImportRequest(document=root if isinstance(root, str) else json.dumps(root), **options)
    events = [event async for event in client.import_document(request)]
    assert [event.kind for event in events] == ["progress"] * (len(events) - 1) + ["report"]
    report = events[-1]
    assert isinstance(report, ImportReport)
    return report


async def test_the_road_of_a_document(client: RetrieverClient) -> None:
    await client.ready()
    report = await imported(client)
    assert (report.provider, report.format, report.added, report.skipped) == ("the-zoo", "openapi-3.1", 3, ())
    answer = await client.retrieve(RetrieveRequest(query="How much is a ticket and then add a new giraffe", k=2))
    assert {c.api.name for c in answer.candidates} == {"listTickets", "addAnimal"}
    assert [clause.text for clause in answer.clauses[:2]] == ["How much is a ticket", "add a new giraffe"]
    assert answer.catalogue_version == report.catalogue_version == 1
    page = await client.search("getAnimal", limit=1)
    assert [(hit.id, hit.score) for hit in page.hits] == [("the-zoo.getAnimal", 1.0)]
    listing = await client.search(provider="the-zoo")
    assert [hit.id for hit in listing.hits] == ["the-zoo.addAnimal", "the-zoo.getAnimal", "the-zoo.listTickets"]
    first = await client.search(provider="the-zoo", limit=2)
    assert (first.hits, first.next, listing.next) == (listing.hits[:2], "the-zoo.getAnimal", None)
    assert (await client.search(provider="the-zoo", limit=2, cursor=first.next)).hits == listing.hits[2:]
    assert (await client.get("the-zoo.getAnimal")).path == "/animals/{id}"
    await client.delete_provider("the-zoo")
    assert (await client.status()).apis == 0


async def test_an_import_counts_as_its_tenants_work(client: RetrieverClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole import counts, from reading to storing, although it is streamed after the handler has returned."""
    worked_for, run = list[str](), ComputePool.run

    async def noting(pool: ComputePool, *arguments: Any, **options: Any) -> Any:
        worked_for.append(for_tenant.get())
        return await run(pool, *arguments, **options)

    monkeypatch.setattr(ComputePool, "run", noting)
    request = ImportRequest(document=json.dumps(ZOO))
    events = [event async for event in client.import_document(request, tenant="red")]
    assert isinstance(events[-1], ImportReport)
    assert len(worked_for) >= 3
    assert set(worked_for) == {"red"}


async def test_reads_stand_in_the_line_of_their_tenant(
    client: RetrieverClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood, slot = list[str](), FairSlots.slot

    def noting(slots: FairSlots, tenant: str, wait_s: float) -> AbstractAsyncContextManager[None]:
        stood.append(tenant)
        return slot(slots, tenant, wait_s)

    await imported(client)
    monkeypatch.setattr(FairSlots, "slot", noting)
    asked: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: client.get("the-zoo.getAnimal", tenant="red"),
        lambda: client.lookup(LookupRequest(ids=("the-zoo.getAnimal",), tenant="red")),
        lambda: client.documents(tenant="red"),
    )
    for ask in asked:
        stood.clear()
        await ask()
        assert "red" in stood


async def test_one_api_by_hand(client: RetrieverClient) -> None:
    made = await client.create(api("a/b c".replace(" ", "_"), "Feed the lions"))
    assert await client.get(made.id) == made
    with pytest.raises(Conflict):
        await client.create(made)
    changed = await client.update(made.model_copy(update={"summary": "Feed the tigers"}))
    assert changed.content_hash != made.content_hash
    assert (await client.search("tigers")).hits[0].id == made.id
    await client.delete(made.id)
    for gone in (client.get(made.id), client.delete(made.id), client.update(made), client.delete_provider("nobody")):
        with pytest.raises(NotFound):
            await gone


async def test_lookup(client: RetrieverClient, http: httpx2.AsyncClient) -> None:
    await imported(client)
    answer = await http.post("/apis:lookup", json={"ids": ["the-zoo.listTickets", "nope", "the-zoo.addAnimal"]})
    assert [found["name"] for found in answer.json()["apis"]] == ["listTickets", "addAnimal"]


@pytest.mark.parametrize("text", ["{", "- a", "openapi: 3.1.0", "a: &a [*a]", '{"openapi": "9", "paths": {}}'])
async def test_a_bad_document_is_refused_before_anything_is_streamed(client: RetrieverClient, text: str) -> None:
    await imported(client)
    with pytest.raises(InvalidDocument):
        await imported(client, text, provider="the-zoo")
    assert (await client.status()).apis == 3


async def test_what_is_not_the_change_that_was_looked_at_is_refused_before_anything_is_streamed(
    client: RetrieverClient,
) -> None:
    with pytest.raises(Conflict):
        await imported(client, expected_change="0" * 64)
    assert (await client.status()).apis == 0
    assert (await client.documents()).total == 0
    await imported(client)
    (pin,) = (await client.documents()).documents
    assert (pin.provider, pin.version, pin.current) == ("the-zoo", "1", True)


async def test_an_import_that_is_refused_after_it_began_says_why(
    client: RetrieverClient, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CatalogueStorage.replace_provider

    async def beaten(self: CatalogueStorage, *args: Any) -> Any:
        """Another import of the provider is stored first."""
        monkeypatch.setattr(CatalogueStorage, "replace_provider", store)
        await imported(client, document({"/news": {"get": operation(operationId=f"news{len(answers)}")}}), provider="z")
        return await store(self, *args)

    answers = list[str]()
    monkeypatch.setattr(CatalogueStorage, "replace_provider", beaten)
    answer = await http.post("/imports", json={"document": json.dumps(ZOO), "provider": "z"})
    answers += answer.text.splitlines()
    last = json.loads(answers[-1])
    assert (answer.status_code, last["kind"], last["problem"]["status"]) == (200, "problem", 409)
    assert last["problem"]["detail"].startswith("The document or the catalogue differs")
    monkeypatch.setattr(CatalogueStorage, "replace_provider", beaten)
    with pytest.raises(Conflict, match="The document or the catalogue differs"):
        await imported(client, provider="z")
    assert [one.id for one in (await client.search(provider="z")).hits] == [f"z.news{len(answers)}"]


async def test_limits(http: httpx2.AsyncClient) -> None:
    big = json.dumps({"document": "x" * 100_000})
    assert (await http.post("/imports", content=big, headers={"Content-Type": "application/json"})).status_code == 422
    big = json.dumps({"document": "x" * 300_000})
    answer = await http.post("/imports", content=big, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["limit_bytes"]) == (413, 200_000)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/retrieve", {"query": ""}),
        ("POST", "/retrieve", {"query": "x" * 10_001}),
        ("POST", "/retrieve", {"query": "x", "k": 0}),
        ("POST", "/retrieve", {"query": "x", "surprise": 1}),
        ("GET", "/apis?limit=0", None),
        ("GET", "/apis?provider=%00", None),
        ("GET", "/apis/%00", None),
        ("GET", "/apis/a%20b", None),
        ("DELETE", "/providers/NOT%20ONE", None),
        ("POST", "/apis", {"id": "a"}),
        ("POST", "/apis:lookup", {"ids": ["a b"]}),
        ("POST", "/imports", {"document": "x", "provider": "../../etc"}),
        ("POST", "/imports", {"document": "x", "server": "file:///etc"}),
        ("POST", "/imports", {"document": "x", "server": "https://zoo.example/\x00"}),
        ("POST", "/imports", {"document": "x", "expected_change": "0" * 63}),
        ("POST", "/imports", {"document": "x", "dry_run": "perhaps"}),
        ("GET", "/documents?limit=0", None),
        ("GET", "/documents?offset=100", None),
        ("GET", "/documents?cursor=NOT%20ONE", None),
        ("GET", "/documents?cursor=%00", None),
        ("GET", "/apis?offset=20", None),
        ("GET", "/apis?cursor=%00", None),
        ("GET", "/apis?query=zoo&cursor=zoo.op", None),
        ("GET", "/apis?query=zoo&offset=1001", None),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_input_is_a_problem(standing: httpx2.AsyncClient, method: str, path: str, body: Any) -> None:
    answer = await standing.request(method, path, json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_readiness_tells_the_truth(app: FastAPI, http: httpx2.AsyncClient) -> None:
    assert (await http.get("/readyz")).json()["checks"] == {"catalogue": "ok", "database": "ok"}
    assert b"nestor_catalogue_apis 0.0" in (await http.get("/metrics")).content


async def test_a_search_leaves_out_the_last_of_large_apis(client: RetrieverClient) -> None:
    await imported(client)
    asked = RetrieveRequest(query="list the animals and tickets of the zoo", pinned=("the-zoo.getAnimal",))
    every = await client.retrieve(asked)
    sizes = [len(candidate.api.model_dump_json(exclude={"tenants"})) for candidate in every.candidates]
    assert every.candidates[0].api.id == "the-zoo.getAnimal"
    assert len(sizes) > 1
    few = await client.retrieve(asked.model_copy(update={"most_bytes": every.size - 1}))
    assert (few.candidates, few.size) == (every.candidates[:-1], every.size)
    none = await client.retrieve(asked.model_copy(update={"most_bytes": 10}))
    assert (none.candidates, none.size) == ((), every.size)


async def test_no_search_passes_on_more_than_a_planner_reads(client: RetrieverClient) -> None:
    wide = {"type": "object", "properties": {f"a{n}": {} for n in range(12_000)}}
    answers = {"R": {"description": "fine", "content": {"application/json": {"schema": wide}}}}
    shared = {"200": {"$ref": "#/components/responses/R"}}
    paths = {f"/things{n}": {"get": operation(operationId=f"list{n}", responses=shared)} for n in range(40)}
    await imported(client, document(paths, components={"responses": answers}))
    found = await client.retrieve(RetrieveRequest(query="list", k=100))
    assert found.size > MAX_ANSWER_BYTES > sum(len(one.api.model_dump_json()) for one in found.candidates) > 3_000_000


async def test_a_lookup_leaves_out_the_last_of_large_apis(client: RetrieverClient) -> None:
    await imported(client)
    ids = ("the-zoo.getAnimal", "the-zoo.addAnimal", "the-zoo.listTickets")
    every = (await client.lookup(LookupRequest(ids=ids))).apis
    most = sum(len(api.model_dump_json()) for api in every[:2])
    assert (await client.lookup(LookupRequest(ids=ids, most_bytes=most))).apis == every[:2]
