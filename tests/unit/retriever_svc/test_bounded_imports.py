"""What a hostile document can make the catalogue keep and pass on: bytes and rows are bounded."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event

from retriever_svc import importing, secrets
from retriever_svc.importers.limits import MAX_NOTES, MAX_SUMMARY
from retriever_svc.models import Entry
from retriever_svc.opening import MAX_API_BYTES, opened
from retriever_svc.secrets import SecretsReader
from retriever_svc.service import CatalogueService, _Documents
from retriever_svc.whole_reads import WholeReads
from services.contracts.api import Api, ImportReport, ImportRequest, NeededSecret
from services.contracts.constants import ConstantsRequest
from services.errors import InvalidDocument, Overloaded, ValidationFailed
from tests.unit.retriever_svc.catalogue import open_service
from tests.unit.retriever_svc.documents import document, imported, json_body, operation, single
from tests.unit.retriever_svc.test_catalogue import CountingEncoder

SMILE = "\U0001f600"


def answering(properties: int, **members: Any) -> dict[str, Any]:
    """An operation whose response has many inline properties."""
    schema = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(properties)}}
    responses = {"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}}
    return operation(responses=responses, **members)


def size(api: Api) -> int:
    return len(api.model_dump_json(ensure_ascii=True))


def going_in_circles(paths: int) -> dict[str, Any]:
    circle = {"$ref": f"#/{SMILE * 1_900}"}
    broken = {f"/{n}": {"$ref": "#/x"} for n in range(paths)}
    return document({"/ok": {"get": operation()}} | broken, x=circle, **{SMILE * 1_900: circle})


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[CatalogueService]:
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        yield service


async def send(service: CatalogueService, text: dict[str, Any], **options: Any) -> ImportReport:
    request = ImportRequest(document=json.dumps(text), **options)
    report = [event async for event in await service.documents.open(request)][-1]
    assert isinstance(report, ImportReport)
    return report


def test_skipped_operations_are_counted_and_the_first_kept() -> None:
    result = imported(going_in_circles(MAX_NOTES + 7))
    assert (len(result.apis), len(result.skipped), result.skipped_total) == (1, MAX_NOTES, MAX_NOTES + 7)
    assert max(len(one.reason) for one in result.skipped) <= MAX_SUMMARY
    assert result.skipped[0].reason.endswith("refers to itself")
    long = imported(document({"/ok": {"get": operation()}, "/" + SMILE * 2_000: {"get": 1}}))
    assert [len(one.operation) for one in long.skipped] == [MAX_SUMMARY]


async def test_a_document_of_skipped_operations_is_refused_with_their_number(service: CatalogueService) -> None:
    root = going_in_circles(MAX_NOTES + 7)
    del root["paths"]["/ok"]
    with pytest.raises(InvalidDocument, match=f"of the document's {MAX_NOTES + 7} operations .*, of the first 500:"):
        await send(service, root)


async def test_pages_of_documents_read_no_notes(service: CatalogueService) -> None:
    first = await send(service, going_in_circles(MAX_NOTES + 7))
    again = await send(service, going_in_circles(MAX_NOTES + 7))
    assert (first.skipped_total, again.skipped_total) == (MAX_NOTES + 7,) * 2
    assert again.skipped == first.skipped
    asked = list[str]()
    event.listen(service._storage._engine.sync_engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    (shown,) = (await service.documents.documents(10)).documents
    assert (shown.skipped, shown.skipped_total) == (first.skipped[: importing._SKIPPED], MAX_NOTES + 7)
    assert asked
    assert not [statement for statement in asked if "notes" in statement]


async def test_the_bytes_of_a_page_of_documents_are_bounded(
    service: CatalogueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await send(service, going_in_circles(20), provider=name)
    monkeypatch.setattr("retriever_svc.document_records._PAGE_BYTES", 100_000)
    pages, after = list[list[str]](), ""
    while after is not None and len(pages) < 9:
        page = await service.documents.documents(10, after)
        pages.append([one.provider for one in page.documents])
        after = page.next  # type: ignore[assignment]
    assert pages == [["a", "b"], ["c"]]


def test_a_large_operation_has_open_schemas() -> None:
    api = single(answering(20_000))
    assert api.response.json_schema == {}
    assert size(api) <= MAX_API_BYTES
    (warning,) = imported(document({"/things": {"get": answering(20_000)}})).warnings
    assert (
        warning == f"GET /things: left open, because the operation has more than {MAX_API_BYTES:,} bytes: the response"
    )
    members = {f"f{n}": {"type": "string", "enum": [f"{n}" * 100]} for n in range(1_000)}
    body = json_body({"type": "object", "properties": members, "required": ["f1"]})
    sent = single(operation(requestBody=body), method="post")
    assert len(sent.parameters) == 1_000
    assert {json.dumps(one.json_schema) for one in sent.parameters} == {"{}"}
    assert size(sent) <= MAX_API_BYTES + 100  # its hash


def test_definitions_that_only_an_open_part_refers_to_go_with_it() -> None:
    used, unused = {"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["b"]}
    operation = answering(
        20_000, parameters=[{"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/Q"}}]
    )
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    schema["properties"]["r"] = {"$ref": "#/components/schemas/R"}
    api = single(operation, components={"schemas": {"Q": used, "R": unused}})
    assert api.definitions == {"Q": used}


def test_an_operation_without_end_is_skipped() -> None:
    parameters = [{"name": f"{SMILE * 150}{n}", "in": "query"} for n in range(400)]
    result = imported(document({"/things": {"get": operation(parameters=parameters)}, "/ok": {"get": operation()}}))
    assert len(result.apis) == 1
    assert [one.reason for one in result.skipped] == [f"it has more than {MAX_API_BYTES:,} bytes, even without schemas"]


async def test_what_was_stored_before_is_passed_on_open(service: CatalogueService) -> None:
    properties = {f"f{n}": {"type": "string"} for n in range(20_000)}
    api = single(operation(operationId="listThings", summary="List the shiny things"))
    response = api.response.model_copy(update={"json_schema": {"type": "object", "properties": properties}})
    large = await service.create(api.model_copy(update={"response": response}))
    for _ in range(2):  # then from memory
        ((_, found),) = (await service.find("List the shiny things", 1)).hits
        assert found.response.json_schema == {}
        assert found.content_hash == large.content_hash
    assert [one.response.json_schema for one in await service.lookup([api.id])] == [{}]
    assert (await service.get(api.id)).response.json_schema == response.json_schema


def test_what_is_small_is_passed_on_as_it_is() -> None:
    small = single(answering(10)).model_dump_json().encode()
    assert opened(small) == (small, ())


def asking(number: int, schemes: int) -> str:
    api = {
        "id": f"p.o{number}",
        "method": "GET",
        "server": f"https://h{number}.example",
        "security": [[{"secret": f"p.k{n}", "scheme": f"k{n}", "kind": "api_key"}] for n in range(schemes)],
    }
    return orjson.dumps(api).decode()


def test_needed_credentials_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[object]()

    class Counted(NeededSecret):
        def model_copy(self, **options: Any) -> "Counted":
            made.append(options)
            return super().model_copy(**options)

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> "Counted":
            made.append(obj)
            return super().model_validate(obj, **options)

    monkeypatch.setattr(secrets, "NeededSecret", Counted)
    reader = SecretsReader()
    for start in (0, 100, 200):
        reader.read([asking(n, 3) for n in range(start, start + 100)])
    found = reader.needed
    assert len(made) == len(found) == 3
    assert [(one.operations, len(one.hosts), one.probe) for one in found] == [
        (300, 200, "p.o0"),
        (300, 200, None),
        (300, 200, None),
    ]


def test_needed_credentials_name_so_many_hosts_together() -> None:
    reader = SecretsReader()
    reader.read([asking(n, 1_100) for n in range(30)])
    found = reader.needed
    assert len(found) == 1_000
    assert sum(len(one.hosts) for one in found) == 20_000


async def test_whole_providers_are_read_by_one_request_of_a_tenant_at_a_time() -> None:
    whole, order = WholeReads(), list[str]()

    async def read(tenant: str | None) -> None:
        async with whole.turn(tenant):
            order.append(f"{tenant} begins")
            await asyncio.sleep(0)
            order.append(f"{tenant} ends")

    await asyncio.gather(*(read(tenant) for tenant in ("red", "red", "red", "blue", None)))
    assert order[:4] == ["red begins", "blue begins", "red ends", "blue ends"]
    assert [one for one in order if one.startswith("red")] == ["red begins", "red ends"] * 3
    async with whole.turn("red"):
        waiting = [asyncio.create_task(read("red")) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="of this tenant"):
            await read("red")
        await read("blue")
    await asyncio.gather(*waiting)


async def test_reading_credentials_and_constants_takes_turns(service: CatalogueService) -> None:
    await send(service, document({"/things": {"get": operation()}}), provider="p")
    async with service._whole.turn("red"):
        credentials = asyncio.create_task(service.secrets("p", "red"))
        constants = asyncio.create_task(service.constants.change("p", ConstantsRequest(constants={"a": "b"}), None))
        await asyncio.wait([constants])
        assert not credentials.done()
    assert (await credentials).secrets == ()
    assert isinstance(constants.exception(), ValidationFailed)
    async with service._whole.turn(None):
        again = asyncio.create_task(service.constants.change("p", ConstantsRequest(constants={"a": "b"}), None))
        assert (await asyncio.wait([again], timeout=0.3))[0] == set()
    with pytest.raises(ValidationFailed):
        await again


def test_cached_apis_are_bounded_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever_svc.service._CACHED_BYTES", 100)
    cached = _Documents(10)
    entries = [Entry(n, f"p.{n}", "p", "n", "GET", "/", "", "c", "t", "") for n in range(4)]
    for entry in entries:
        cached.keep(entry, b"x" * 40)
        cached.keep(entry, b"x" * 40)
    assert [cached.get(entry) is not None for entry in entries] == [False, False, True, True]


async def test_a_page_of_documents_counts_constants_and_reads_no_places(
    service: CatalogueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = operation(parameters=[{"name": "account", "in": "query", "required": True, "schema": {"type": "string"}}])
    for name in ("a", "b", "c"):
        await send(service, document({"/things": {"get": asking}}), provider=name)
        await service.constants.change(name, ConstantsRequest(constants={"account": "x" * 900}))
    monkeypatch.setattr("retriever_svc.document_records._PAGE_BYTES", 2_000)
    asked = list[str]()
    event.listen(service._storage._engine.sync_engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    page = await service.documents.documents(10)
    assert [one.provider for one in page.documents] == ["a", "b"]
    assert {len(one.constants["account"]) for one in page.documents} == {900}
    assert asked
    assert not [statement for statement in asked if "places" in statement]
