"""From an OpenAPI document to the bytes on the wire: every style, every place, every form of body."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from executor_svc.adapters.http import HttpAdapter, open_http_adapter
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from retriever_svc.importers import import_document
from services.contracts.api import Api
from services.contracts.run import Succeeded
from tests.support.upstream import Seen, Upstream

COLOURS = ["blue", "black"]
RGB = {"R": 100, "G": 200}
ARRAY, OBJECT = {"type": "array", "items": {"type": "string"}}, {"type": "object"}


@pytest.fixture
async def adapter() -> AsyncIterator[HttpAdapter]:
    settings = ExecutorSettings(allowed_private_hosts=("127.0.0.1",))
    async with open_http_adapter(settings, SecretStore.load(None, None)) as opened:
        yield opened


def imported(upstream: Upstream, path: str, operation: dict[str, Any], method: str = "get") -> Api:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Wire", "version": "1"},
        "servers": [{"url": upstream.origin}],
        "paths": {path: {method: {"operationId": "op", "responses": {"200": {"description": "ok"}}, **operation}}},
    }
    report = import_document(json.dumps(document), provider="wire")
    assert not report.skipped
    assert not report.warnings
    return report.apis[0]


async def sent(adapter: HttpAdapter, upstream: Upstream, api: Api, **arguments: Any) -> Seen:
    deadline = asyncio.get_running_loop().time() + 10
    result = await adapter.call(Call(api, arguments, "run/step", deadline))
    assert isinstance(result.outcome, Succeeded), result.outcome
    return upstream.seen[-1]


def parameter(place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "color", "in": place, "schema": schema, **({"required": True} if place == "path" else {}), **more}


@pytest.mark.parametrize(
    ("style", "explode", "array", "object_"),
    [
        ("simple", False, "/c/blue,black", "/c/R,100,G,200"),
        ("simple", True, "/c/blue,black", "/c/R=100,G=200"),
        ("label", False, "/c/.blue,black", "/c/.R,100,G,200"),
        ("label", True, "/c/.blue.black", "/c/.R=100.G=200"),
        ("matrix", False, "/c/;color=blue,black", "/c/;color=R,100,G,200"),
        ("matrix", True, "/c/;color=blue;color=black", "/c/;R=100;G=200"),
    ],
)
async def test_paths(
    adapter: HttpAdapter, upstream: Upstream, style: str, explode: bool, array: str, object_: str
) -> None:
    for schema, value, target in ((ARRAY, COLOURS, array), (OBJECT, RGB, object_)):
        declared = parameter("path", schema, style=style, explode=explode)
        api = imported(upstream, "/c/{color}", {"parameters": [declared]})
        assert (await sent(adapter, upstream, api, color=value)).target == target


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, COLOURS, "color=blue&color=black"),
        ("form", False, COLOURS, "color=blue,black"),
        ("form", True, RGB, "R=100&G=200"),
        ("form", False, RGB, "color=R,100,G,200"),
        ("spaceDelimited", False, COLOURS, "color=blue%20black"),
        ("pipeDelimited", False, COLOURS, "color=blue%7Cblack"),
        ("deepObject", True, RGB, "color%5BR%5D=100&color%5BG%5D=200"),
    ],
)
async def test_queries(
    adapter: HttpAdapter, upstream: Upstream, style: str, explode: bool, value: Any, query: str
) -> None:
    schema = ARRAY if isinstance(value, list) else OBJECT
    api = imported(upstream, "/c", {"parameters": [parameter("query", schema, style=style, explode=explode)]})
    assert (await sent(adapter, upstream, api, color=value)).query == query


@pytest.mark.parametrize(("explode", "header"), [(False, "R,100,G,200"), (True, "R=100,G=200")])
async def test_headers(adapter: HttpAdapter, upstream: Upstream, explode: bool, header: str) -> None:
    api = imported(upstream, "/c", {"parameters": [parameter("header", OBJECT, explode=explode)]})
    assert (await sent(adapter, upstream, api, color=RGB)).headers["color"] == header


async def test_cookies(adapter: HttpAdapter, upstream: Upstream) -> None:
    api = imported(upstream, "/c", {"parameters": [parameter("cookie", ARRAY, explode=False)]})
    assert (await sent(adapter, upstream, api, color=COLOURS)).headers["Cookie"] == "color=blue,black"


@pytest.mark.parametrize("place", ["query", "path", "header", "cookie"])
async def test_parameters_that_are_documents(adapter: HttpAdapter, upstream: Upstream, place: str) -> None:
    """OpenAPI 3.1, section 4.8.12.2.3: the value is a JSON text in the place of the parameter."""
    declared = {"name": "f", "in": place, "required": True, "content": {"application/json": {"schema": OBJECT}}}
    api = imported(upstream, "/c/{f}" if place == "path" else "/c", {"parameters": [declared]})
    assert api.parameters[0].json_schema["type"] == "object"
    seen = await sent(adapter, upstream, api, f={"a": [1, "x y"]})
    encoded = "%7B%22a%22%3A%5B1%2C%22x%20y%22%5D%7D"
    where = {"query": seen.target, "path": seen.target}.get(place) or seen.headers[
        "f" if place == "header" else "Cookie"
    ]
    assert (
        where
        == {
            "query": f"/c?f={encoded}",
            "path": f"/c/{encoded}",
            "header": '{"a":[1,"x y"]}',
            "cookie": f"f={encoded}",
        }[place]
    )


def body(media_type: str, properties: dict[str, Any], encoding: dict[str, Any] | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"type": "object", "properties": properties}}
    return {"requestBody": {"required": True, "content": {media_type: content | {"encoding": encoding or {}}}}}


async def test_json_bodies(adapter: HttpAdapter, upstream: Upstream) -> None:
    api = imported(upstream, "/c", body("application/json", {"a": ARRAY, "o": OBJECT}), "post")
    seen = await sent(adapter, upstream, api, a=COLOURS, o=RGB)
    assert (seen.headers["Content-Type"], json.loads(seen.body)) == ("application/json", {"a": COLOURS, "o": RGB})


async def test_form_bodies_with_their_encoding(adapter: HttpAdapter, upstream: Upstream) -> None:
    encoding = {"p": {"style": "pipeDelimited", "explode": False}, "j": {"contentType": "application/json"}}
    form = body("application/x-www-form-urlencoded", {"a": ARRAY, "p": ARRAY, "j": OBJECT, "t": {}}, encoding)
    seen = await sent(adapter, upstream, imported(upstream, "/c", form, "post"), a=COLOURS, p=COLOURS, j=RGB, t="a b&c")
    pairs = seen.body.decode().split("&")
    assert pairs[:3] == ["a=blue", "a=black", "p=blue%7Cblack"]
    assert pairs[3:] == ["j=%7B%22R%22%3A100%2C%22G%22%3A200%7D", "t=a%20b%26c"]


async def test_multipart_bodies_with_their_encoding(adapter: HttpAdapter, upstream: Upstream) -> None:
    encoding = {"meta": {"contentType": "application/vnd.x+json"}, "note": {"contentType": "text/markdown, text/plain"}}
    form = body("multipart/form-data", {"meta": ARRAY, "note": {"type": "string"}, "file": {}, "tags": ARRAY}, encoding)
    api = imported(upstream, "/c", form, "post")
    png = {"media_type": "image/png", "base64": "iVBORw=="}
    seen = await sent(adapter, upstream, api, meta=COLOURS, note="# hi", file=png, tags=COLOURS)
    boundary = seen.headers["Content-Type"].partition("boundary=")[2].encode()
    parts = [part.strip(b"\r\n").partition(b"\r\n\r\n") for part in seen.body.split(b"--" + boundary)[1:-1]]
    assert [(head.partition(b"name=")[2].replace(b"\r\n", b" "), content) for head, _, content in parts] == [
        (b'"meta" Content-Type: application/vnd.x+json', b'["blue","black"]'),
        (b'"note" Content-Type: text/markdown', b"# hi"),
        (b'"file"; filename="file" Content-Type: image/png', b"\x89PNG"),
        (b'"tags" Content-Type: text/plain; charset=utf-8', b"blue"),
        (b'"tags" Content-Type: text/plain; charset=utf-8', b"black"),
    ]
