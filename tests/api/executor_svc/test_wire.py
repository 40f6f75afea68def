"""From an OpenAPI document to the bytes on the wire: every style, every parameter location, every kind of body."""

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
from services.contracts.outcome import Failed, Succeeded
from tests.support.upstream import Seen, Upstream

COLOURS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}
TEXT, ARRAY, OBJECT = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "object"}


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
    assert [one for one in report.warnings if "private address" not in one] == []
    return report.apis[0]


async def sent(adapter: HttpAdapter, upstream: Upstream, api: Api, **arguments: Any) -> Seen:
    deadline = asyncio.get_running_loop().time() + 10
    result = await adapter.call(Call(api, arguments, "run/step", deadline))
    assert isinstance(result.outcome, Succeeded), result.outcome
    return upstream.seen[-1]


async def refused(adapter: HttpAdapter, api: Api, **arguments: Any) -> str:
    result = await adapter.call(Call(api, arguments, "run/step", asyncio.get_running_loop().time() + 10))
    assert isinstance(result.outcome, Failed)
    assert result.outcome.reason == "bad_request"
    return result.outcome.message


def parameter(place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "color", "in": place, "schema": schema, **({"required": True} if place == "path" else {}), **more}


VALUES: tuple[tuple[dict[str, Any], Any], ...] = ((TEXT, ""), (TEXT, "blue"), (ARRAY, COLOURS), (OBJECT, RGB))
"""The columns of the table in OpenAPI 3.1.1, section 4.8.12.6: empty, string, array, object."""


@pytest.mark.parametrize(
    ("style", "explode", "written"),
    [
        ("simple", False, (None, "blue", "blue,black,brown", "R,100,G,200,B,150")),
        ("simple", True, (None, "blue", "blue,black,brown", "R=100,G=200,B=150")),
        ("label", False, (None, ".blue", ".blue,black,brown", ".R,100,G,200,B,150")),
        ("label", True, (None, ".blue", ".blue.black.brown", ".R=100.G=200.B=150")),
        ("matrix", False, (None, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150")),
        ("matrix", True, (None, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150")),
    ],
)
async def test_paths(
    adapter: HttpAdapter, upstream: Upstream, style: str, explode: bool, written: tuple[str | None, ...]
) -> None:
    """An empty value is refused in every style: `/c/`, `/c/.` and `/c/;color` may be another resource."""
    for (schema, value), text in zip(VALUES, written, strict=True):
        declared = parameter("path", schema, style=style, explode=explode)
        api = imported(upstream, "/c/{color}", {"parameters": [declared]})
        if text is None:
            assert "must not be empty" in await refused(adapter, api, color=value)
        else:
            assert (await sent(adapter, upstream, api, color=value)).target == f"/c/{text}"


DELIMITED = ("color=", "color=blue")
"""The table does not define a single value in a style for several values; it is written as in `form`."""


@pytest.mark.parametrize(
    ("style", "explode", "written"),
    [
        ("form", False, ("color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150")),
        ("form", True, ("color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150")),
        ("spaceDelimited", False, (*DELIMITED, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150")),
        ("pipeDelimited", False, (*DELIMITED, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150")),
        ("spaceDelimited", True, (*DELIMITED, "color=blue&color=black&color=brown", "R=100&G=200&B=150")),
        ("pipeDelimited", True, (*DELIMITED, "color=blue&color=black&color=brown", "R=100&G=200&B=150")),
        (
            "deepObject",
            True,
            (
                *DELIMITED,
                "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown",
                "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
            ),
        ),
    ],
)
async def test_queries(
    adapter: HttpAdapter, upstream: Upstream, style: str, explode: bool, written: tuple[str, ...]
) -> None:
    for (schema, value), query in zip(VALUES, written, strict=True):
        declared = parameter("query", schema, style=style, explode=explode)
        api = imported(upstream, "/c", {"parameters": [declared]})
        assert (await sent(adapter, upstream, api, color=value)).target == f"/c?{query}"


@pytest.mark.parametrize(
    ("explode", "written"),
    [
        (False, ("", "blue", "blue,black,brown", "R,100,G,200,B,150")),
        (True, ("", "blue", "blue,black,brown", "R=100,G=200,B=150")),
    ],
)
async def test_headers(adapter: HttpAdapter, upstream: Upstream, explode: bool, written: tuple[str, ...]) -> None:
    for (schema, value), header in zip(VALUES, written, strict=True):
        api = imported(upstream, "/c", {"parameters": [parameter("header", schema, explode=explode)]})
        assert (await sent(adapter, upstream, api, color=value)).headers["color"] == header


@pytest.mark.parametrize(
    ("explode", "written"),
    [
        (False, ("color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150")),
        (True, ("color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150")),
    ],
)
async def test_cookies(adapter: HttpAdapter, upstream: Upstream, explode: bool, written: tuple[str, ...]) -> None:
    for (schema, value), cookies in zip(VALUES, written, strict=True):
        api = imported(upstream, "/c", {"parameters": [parameter("cookie", schema, explode=explode)]})
        assert (await sent(adapter, upstream, api, color=value)).headers["Cookie"] == cookies


@pytest.mark.parametrize("place", ["path", "query", "header", "cookie"])
async def test_what_is_not_said_has_the_default_of_its_place(
    adapter: HttpAdapter, upstream: Upstream, place: str
) -> None:
    api = imported(upstream, "/c/{color}" if place == "path" else "/c", {"parameters": [parameter(place, ARRAY)]})
    seen = await sent(adapter, upstream, api, color=COLOURS)
    found = {"path": seen.target, "query": seen.target, "header": seen.headers.get("color")}.get(place)
    assert (found or seen.headers["Cookie"]) == {
        "path": "/c/blue,black,brown",
        "query": "/c?color=blue&color=black&color=brown",
        "header": "blue,black,brown",
        "cookie": "color=blue; color=black; color=brown",
    }[place]


async def test_reserved_characters_are_encoded_though_they_need_not_be(
    adapter: HttpAdapter, upstream: Upstream
) -> None:
    """`allowReserved` permits raw ones. Encoded ones mean the same (RFC 3986, section 2.4), but separate nothing."""
    api = imported(upstream, "/c", {"parameters": [parameter("query", TEXT, allowReserved=True)]})
    assert (await sent(adapter, upstream, api, color="a/b?c&d=e")).query == "color=a%2Fb%3Fc%26d%3De"


@pytest.mark.parametrize("place", ["query", "path", "header", "cookie"])
async def test_parameters_that_are_documents(adapter: HttpAdapter, upstream: Upstream, place: str) -> None:
    """OpenAPI 3.1, section 4.8.12.2.3: the parameter's value is a JSON text."""
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
    encoding = {
        "p": {"style": "pipeDelimited", "explode": False},
        "d": {"style": "deepObject", "explode": True},
        "e": {"explode": False},
        "j": {"contentType": "application/json; charset=utf-8"},
        "s": {"style": "form", "contentType": "application/json"},
    }
    properties = {"p": ARRAY, "d": OBJECT, "e": ARRAY, "j": ARRAY, "s": ARRAY}
    form = body("application/x-www-form-urlencoded", properties, encoding)
    api = imported(upstream, "/c", form, "post")
    seen = await sent(adapter, upstream, api, p=COLOURS, d=RGB, e=COLOURS, j=COLOURS, s=COLOURS)
    assert seen.body.decode().split("&") == [
        "p=blue%7Cblack%7Cbrown",
        *("d%5BR%5D=100", "d%5BG%5D=200", "d%5BB%5D=150"),
        "e=blue,black,brown",
        "j=%5B%22blue%22%2C%22black%22%2C%22brown%22%5D",
        *("s=blue", "s=black", "s=brown"),  # a style takes precedence over a media type: section 4.8.15.1
    ]


async def test_form_bodies_without_an_encoding(adapter: HttpAdapter, upstream: Upstream) -> None:
    """The example of section 4.8.15.3: an object is written as JSON, a list as a field for each element."""
    form = body("application/x-www-form-urlencoded", {"id": TEXT, "address": OBJECT, "tags": ARRAY})
    api = imported(upstream, "/c", form, "post")
    seen = await sent(adapter, upstream, api, id="a b&c", address={"zip": "8000"}, tags=COLOURS)
    assert seen.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert seen.body.decode() == "id=a%20b%26c&address=%7B%22zip%22%3A%228000%22%7D&tags=blue&tags=black&tags=brown"


async def test_multipart_bodies_with_their_encoding(adapter: HttpAdapter, upstream: Upstream) -> None:
    encoding = {"meta": {"contentType": "application/vnd.x+json"}, "note": {"contentType": "text/markdown, text/plain"}}
    properties = {"meta": ARRAY, "note": {"type": "string"}, "file": {}, "tags": ARRAY, "at": OBJECT}
    form = body("multipart/form-data", properties, encoding)
    api = imported(upstream, "/c", form, "post")
    png = {"media_type": "image/png", "base64": "iVBORw=="}
    seen = await sent(adapter, upstream, api, meta=COLOURS, note="# hi", file=png, tags=COLOURS, at={"zip": "8000"})
    boundary = seen.headers["Content-Type"].partition("boundary=")[2].encode()
    parts = [part.strip(b"\r\n").partition(b"\r\n\r\n") for part in seen.body.split(b"--" + boundary)[1:-1]]
    assert [(head.partition(b"name=")[2].replace(b"\r\n", b" "), content) for head, _, content in parts] == [
        (b'"meta" Content-Type: application/vnd.x+json', b'["blue","black","brown"]'),
        (b'"note" Content-Type: text/markdown', b"# hi"),
        (b'"file"; filename="file" Content-Type: image/png', b"\x89PNG"),
        *((b'"tags" Content-Type: text/plain; charset=utf-8', colour.encode()) for colour in COLOURS),
        (b'"at" Content-Type: application/json', b'{"zip":"8000"}'),
    ]
