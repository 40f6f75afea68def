"""The documents that we wrote: requests solved end to end against the twin, and calls with hostile values."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from deploy.sockets import serving
from retriever_svc.importers import import_document
from services.contracts.api import Api
from services.contracts.run import RunStatus
from tests.vendors.operations import TOKEN, try_all
from tests.vendors.proving import Result, ask, bring_in, client_of, failed_step, standing
from tests.vendors.requests import HERE, read_vendors
from twin.main import MAX_BODY_BYTES, create_app
from twin.service import Twin

OWN = [vendor for vendor in read_vendors() if vendor.is_own]
DOCUMENTS = sorted(file.stem for file in (HERE / "documents").glob("*.yaml"))
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def apis_of(name: str) -> tuple[Api, ...]:
    return import_document((HERE / "documents" / f"{name}.yaml").read_text(encoding="utf-8"), name).apis


def test_sentences_run_against_the_twins(tmp_path: Path) -> None:
    async def go(url: str) -> dict[str, Result]:
        async with client_of(url) as gateway:
            found = {}
            for stand in stands:
                await bring_in(gateway, stand)
                for asked in stand.vendor.requests:
                    found[f"{stand.vendor.name}: {asked.ask}"] = await ask(gateway, stand, asked)
            return found

    with standing(OWN, tmp_path) as (url, stands):
        results = asyncio.run(go(url))
    wrong = {
        said: (one.failure, one.detail, one.refused) for said, one in results.items() if not one.planned or one.refused
    }
    assert not wrong
    ended = {
        said: failed_step(one.run)
        for said, one in results.items()
        if one.run and one.run.status is not RunStatus.SUCCEEDED
    }
    assert not ended
    assert all(one.sent == len(one.asked.calls) for one in results.values())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_operation_is_served_as_it_is_declared(name: str) -> None:
    tried = list(try_all(apis_of(name)))
    assert [(one.api.name, one.kind, one.problem) for one in tried if one.kind not in ("accepted", "unknown")] == []
    assert [(one.api.name, one.broken) for one in tried if one.broken] == []
    assert any(one.kind == "accepted" for one in tried)


@pytest.fixture(scope="module")
def library() -> Iterator[httpx2.Client]:
    with (
        serving(create_app(Twin(apis_of("library"), TOKEN), "the document")) as url,
        httpx2.Client(base_url=f"{url}/api/v2", headers=BEARER) as client,
    ):
        yield client


HOSTILE: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/books", {"headers": {"Authorization": ""}}, 401),
    ("GET", "/books", {"headers": {"Authorization": "Bearer wrong"}}, 401),
    ("GET", "/books", {"headers": {"Authorization": f"Basic {TOKEN}"}}, 401),
    ("GET", "/books", {"headers": {"Authorization": f"bearer  {TOKEN}"}}, 200),
    ("GET", "/nothing", {}, 404),
    ("GET", "/books/7/loans/7/x/y", {}, 404),
    ("GET", "/books/99999999999999999999999999", {}, 400),
    ("GET", "/books/%2e%2e", {}, 400),
    ("GET", "/books/%00", {}, 400),
    ("GET", "/books/%FF%FE", {}, 400),
    ("GET", "/books/1e5", {}, 404),
    ("GET", "/books/" + "9" * 18, {}, 404),
    ("GET", "/books/" + "x" * 20_000, {}, 400),
    ("PUT", "/books", {}, 405),
    ("TRACE", "/books", {}, 405),
    ("GET", "/books?genre=cooking", {}, 400),
    ("GET", "/books?limit=1e400", {}, 400),
    ("GET", "/books?" + "&".join(f"q{n}=1" for n in range(5_000)), {}, 200),
    ("POST", "/books", {}, 422),
    ("POST", "/books", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
    ("POST", "/books", {"content": b"{}"}, 415),
    ("POST", "/books", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/books", {"content": b"\xff", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/books", {"content": b'{"title": NaN}', "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/books", {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/books", {"json": []}, 422),
    ("POST", "/books", {"json": {}}, 422),
    ("POST", "/books", {"json": {"title": "x", "author": None}}, 422),
    ("POST", "/books", {"json": {"title": "x", "author": "y", "genre": "cooking"}}, 422),
    ("POST", "/books", {"json": {"title": "x", "author": "y", "shelf": []}}, 422),
    ("PATCH", "/books/99", {"json": {"copies": 2}}, 404),
    ("DELETE", "/books/99", {}, 404),
]


@pytest.mark.parametrize(("method", "path", "sent", "status"), HOSTILE)
def test_hostile_requests_get_clear_answers(
    library: httpx2.Client, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    answer = library.request(method, path, **sent)
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["status"], bool(problem["detail"]), TOKEN in answer.text) == (status, True, False)


def test_a_body_beyond_the_limit_is_refused(library: httpx2.Client) -> None:
    headers = {"Content-Type": "application/json"}
    answer = library.post("/books", content=b" " * (MAX_BODY_BYTES + 1), headers=headers)
    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_clients_get_tokens_and_nobody_else_does() -> None:
    twin = Twin(apis_of("depot"), TOKEN)
    with serving(create_app(twin)) as url, httpx2.Client(base_url=url) as client:
        form = {"grant_type": "client_credentials", "client_id": "twin"}
        assert client.post("/.twin/token", data={**form, "client_secret": "wrong"}).status_code == 401
        assert client.post("/.twin/token", data={"grant_type": "password"}).status_code == 400
        assert client.get("/pallets", headers=BEARER).status_code == 401
        given = client.post("/.twin/token", data={**form, "client_secret": TOKEN}).json()
        headers = {"Authorization": f"Bearer {given['access_token']}"}
        assert client.get("/pallets", headers=headers).status_code == 200
        given = client.post("/token", data={"grant_type": "client_credentials"}, auth=("twin", TOKEN)).json()
        assert client.get("/pallets", headers={"Authorization": f"Bearer {given['access_token']}"}).status_code == 200


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"no parts"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno name\r\n--x--\r\n"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\n1"),
        ("multipart/form-data; boundary=" + "x" * 5_000, b"--x--"),
        ("multipart/mixed; boundary=x", b"--x--"),
    ],
)
def test_broken_forms_are_refused(content_type: str, body: bytes) -> None:
    with serving(create_app(Twin(apis_of("press"), TOKEN))) as url:
        headers = {"X-Press-Key": TOKEN, "Content-Type": content_type}
        answer = httpx2.post(f"{url}/photos", content=body, headers=headers)
    assert answer.status_code in (400, 415, 422), answer.text
    assert json.loads(answer.text)["detail"]


def test_schemas_that_stand_for_billions_are_served_at_once() -> None:
    deep = {
        f"L{n}": {
            "type": "object",
            "properties": {f"p{k}": {"$ref": f"#/components/schemas/L{n + 1}"} for k in range(30)},
        }
        for n in range(9)
    }
    both = {f"A{n}": {"allOf": [{"$ref": f"#/components/schemas/A{n + 1}"}] * 20} for n in range(9)}
    loop = {"Loop": {"anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Loop"}}] * 8}}
    schemas: dict[str, Any] = {**deep, "L9": {"type": "string"}, **both, "A9": {"type": "object"}, **loop}
    paths = {
        f"/{name}": {
            "post": {
                "operationId": name,
                "requestBody": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}},
                "responses": {
                    "200": {
                        "description": "",
                        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}},
                    }
                },
            }
        }
        for name in ("L0", "A0", "Loop")
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Bombs", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    with serving(create_app(Twin(import_document(json.dumps(document)).apis, TOKEN))) as url:
        bodies: dict[str, Any] = {"L0": {"p0": {"p1": {}}}, "A0": {}, "Loop": [[[[[[[[[]]]]]]]]]}
        statuses = {
            name: httpx2.post(f"{url}/{name}", json=body, timeout=60).status_code for name, body in bodies.items()
        }
    assert statuses == {"L0": 200, "A0": 200, "Loop": 200}
