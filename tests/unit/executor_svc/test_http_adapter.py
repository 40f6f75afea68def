"""The HTTP adapter against real upstreams on real sockets."""

import asyncio
import gzip
import io
import json
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from python_multipart import parse_form

from services.contracts.api import RequestBody
from services.contracts.outcome import Failed, InDoubt, Succeeded
from tests.support.examples import examples
from tests.support.executing import api, failed, parameter, value
from tests.support.upstream import Broken, Seen, Upstream, serve_raw
from tests.unit.executor_svc.conftest import Opener

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


async def test_whatever_an_argument_holds_it_arrives_as_it_was(upstream: Upstream, opened: Opener) -> None:
    call = await opened()
    operation = api(
        upstream.origin,
        "/items/{id}/x",
        parameter("id", "path"),
        parameter("q"),
        parameter("l"),
        parameter("c", "cookie"),
        parameter("b", "body"),
        method="POST",
        body=RequestBody(),
        idempotency_header="Idempotency-Key",
    )
    loop = asyncio.get_running_loop()

    @settings(examples(0.6), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(TEXT.filter(bool), TEXT, st.lists(TEXT, max_size=3), TEXT, st.dictionaries(TEXT, TEXT, max_size=3))
    def round_trip(id_: str, q: str, several: list[str], cookie: str, body: dict[str, str]) -> None:
        arguments = {"id": id_, "q": q, "l": several, "c": cookie, "b": body}
        result = asyncio.run_coroutine_threadsafe(call(operation, **arguments), loop).result(20)
        if {".", ".."} & set(id_.replace("\\", "/").split("/")):
            failed(result, "bad_request")
            return
        seen = upstream.seen[-1]
        assert isinstance(result.outcome, Succeeded)
        assert [unquote(part) for part in seen.path.split("/")] == ["", "items", id_, "x"]
        pairs = [tuple(map(unquote, pair.split("=", 1))) for pair in seen.query.split("&")]
        assert pairs == [("q", q), *(("l", element) for element in several)]
        assert unquote(seen.headers["Cookie"]) == f"c={cookie}"
        assert json.loads(seen.body) == {"b": body}

    await asyncio.to_thread(round_trip)


async def test_multipart_is_read_by_another_parser(upstream: Upstream, opened: Opener) -> None:
    parts = [parameter(name, "body") for name in ("note", "tags", "meta", 'odd"\r\nname', "file")]
    operation = api(upstream.origin, "/up", *parts, method="POST", body=RequestBody(media_type="multipart/form-data"))
    call = await opened()
    arguments = {
        "note": "grüß\r\n--", "tags": ["a", 2], "meta": {"k": [1]}, 'odd"\r\nname': "x",
        "file": {"media_type": "image/png", "base64": "AAEC"},
    }  # fmt: skip
    value(await call(operation, **arguments))
    fields, files = parsed(upstream.seen[0])
    assert fields == [
        (b"note", "grüß\r\n--".encode()),
        (b"tags", b"a"),
        (b"tags", b"2"),
        (b"meta", b'{"k":[1]}'),
        (b"odd%22%0D%0Aname", b"x"),
    ]
    assert files == [(b"file", b"file", b"\0\1\2")]


async def test_a_text_for_a_file_is_sent_as_a_file(upstream: Upstream, opened: Opener) -> None:
    binary: dict[str, Any] = {"type": "string", "format": "binary"}
    schemas = {
        "old": binary,
        "many": {"type": "array", "items": binary},
        "maybe": {"anyOf": [binary, {"type": "null"}]},
        "new": {"type": "string", "contentMediaType": "text/csv"},
        "coded": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        "text": {"type": "string"},
    }
    parts = [parameter(name, "body").model_copy(update={"json_schema": schema}) for name, schema in schemas.items()]
    operation = api(upstream.origin, "/up", *parts, method="POST", body=RequestBody(media_type="multipart/form-data"))
    call = await opened()
    value(await call(operation, old="a", many=["b", "c"], maybe="d", new="e", coded="AAEC", text="f"))
    fields, files = parsed(upstream.seen[0])
    assert fields == [(b"coded", b"AAEC"), (b"text", b"f")]
    assert files == [
        (b"old", b"old", b"a"),
        (b"many", b"many", b"b"),
        (b"many", b"many", b"c"),
        (b"maybe", b"maybe", b"d"),
        (b"new", b"new", b"e"),
    ]


def parsed(
    seen: Seen,
) -> tuple[list[tuple[bytes | None, bytes | None]], list[tuple[bytes | None, bytes | None, bytes]]]:
    """The fields and the files of a multipart request, as another parser reads them."""
    fields: list[tuple[bytes | None, bytes | None]] = []
    files: list[tuple[bytes | None, bytes | None, bytes]] = []

    def on_file(file: Any) -> None:
        file.file_object.seek(0)
        files.append((file.field_name, file.file_name, file.file_object.read()))

    headers = {"Content-Type": seen.headers["Content-Type"].encode(), "Content-Length": str(len(seen.body)).encode()}
    parse_form(headers, io.BytesIO(seen.body), lambda f: fields.append((f.field_name, f.value)), on_file)
    return fields, files


async def test_the_record_says_what_went_out(upstream: Upstream, opened: Opener) -> None:
    call = await opened()
    operation = api(
        upstream.origin, "/a", parameter("q"), parameter("X-H", "header"), parameter("b", "body"),
        method="PUT", body=RequestBody(), idempotency_header="Idempotency-Key",
    )  # fmt: skip
    result = await call(operation, q="1 2", b=[1], **{"X-H": "h"})
    assert value(result) == {"path": "/a", "query": "q=1%202"}
    record, seen = result.request, upstream.seen[0]
    assert record is not None
    assert (record.method, record.url, record.body) == ("PUT", f"{upstream.origin}/a?q=1%202", {"b": [1]})
    assert record.headers.items() <= dict(seen.headers).items()
    assert seen.headers["Idempotency-Key"] == record.headers["Idempotency-Key"]
    assert seen.headers["User-Agent"] == "nestor"


async def test_no_cookies_are_kept_between_calls(upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/login", web.json_response({}, headers={"Set-Cookie": "session=1; Path=/"}))
    call = await opened()
    value(await call(api(upstream.origin, "/login")))
    value(await call(api(upstream.origin, "/next")))
    assert "Cookie" not in upstream.seen[1].headers


@pytest.mark.parametrize("status", [400, 404, 409, 418, 422, 429, 500, 501])
async def test_error_answers_are_kept(upstream: Upstream, opened: Opener, status: int) -> None:
    upstream.replies("/e", web.json_response({"detail": "why"}, status=status, content_type="application/problem+json"))
    error = failed(await (await opened())(api(upstream.origin, "/e")), "upstream_error")
    assert (error.status, error.detail) == (status, {"detail": "why"})
    assert upstream.count("/e") == 1


async def test_long_error_answers_are_cut(upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/e", web.Response(text="x" * 5_000_000, status=500))
    error = failed(await (await opened(max_error_bytes=100))(api(upstream.origin, "/e")), "upstream_error")
    assert error.detail == "x" * 100 + " [...]"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_failures_that_say_so(upstream: Upstream, opened: Opener, status: int) -> None:
    location = f"{upstream.origin}/stolen?key=1"
    upstream.replies("/r", web.Response(status=status, headers={"Location": location}))
    error = failed(await (await opened())(api(upstream.origin, "/r")), "upstream_error")
    assert error.message == f"the upstream answered {status}, a redirect to 127.0.0.1; redirects are not followed"
    assert upstream.count("/stolen") == 0


@pytest.mark.parametrize(
    "location", ["http://[::1]@/x", "http://[::1]@#", "http://[:99999]", "http://[", "http://h:x/"]
)
async def test_a_redirect_to_no_url_names_no_host(upstream: Upstream, opened: Opener, location: str) -> None:
    upstream.replies("/r", web.Response(status=302, headers={"Location": location}))
    error = failed(await (await opened())(api(upstream.origin, "/r")), "upstream_error")
    assert error.message == "the upstream answered 302, a redirect; redirects are not followed"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_answers(upstream: Upstream, opened: Opener, encoding: str) -> None:
    packed = (gzip if encoding == "gzip" else zlib).compress(b'{"a": 1}')
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    upstream.replies("/z", web.Response(body=packed, headers=headers))
    assert value(await (await opened())(api(upstream.origin, "/z"))) == {"a": 1}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_what_counts_is_the_decompressed_size(upstream: Upstream, opened: Opener, encoding: str) -> None:
    plain = b'"' + b"a" * 3_000_000 + b'"'
    packers: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}
    packed = packers[encoding](plain)
    assert encoding == "identity" or len(packed) < 10_000
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    upstream.replies("/z", web.Response(body=packed, headers=headers))
    small, large = await opened(max_response_bytes=1_000_000), await opened(max_response_bytes=3_000_002)
    error = failed(await small(api(upstream.origin, "/z")), "bad_response")
    assert error.message == "answered 200, but the answer is larger than 1000000 bytes"
    assert len(value(await large(api(upstream.origin, "/z")))) == 3_000_000


async def test_an_endless_answer_ends(upstream: Upstream, opened: Opener) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            await writer.drain()

    async with serve_raw(endless) as host:
        failed(await (await opened(max_response_bytes=100_000))(api(f"http://{host}", "/")), "bad_response")


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\nNaN",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    ],
    ids=["no http", "bad length", "bad chunk", "cut off", "not gzip", "huge header", "nan", "html"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_answers_that_are_broken(opened: Opener, answer: bytes, method: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serve_raw(script) as host:
        result = await (await opened(max_attempts=1))(api(f"http://{host}", "/", method=method))
    if method == "POST" and isinstance(result.outcome, InDoubt):
        assert "the request was sent" in result.outcome.message
    else:
        failed(result, "bad_response")


async def test_a_kept_connection_that_died_does_not_put_a_mutating_call_in_doubt(opened: Opener) -> None:
    """The server closes every connection right after its first answer, without saying so."""
    heads: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()

    async with serve_raw(script) as host:
        call = await opened()
        for method in ("GET", "POST", "GET", "POST", "POST"):
            assert value(await call(api(f"http://{host}", "/", method=method))) == {}
    assert len(heads) == 5


async def test_a_name_that_does_not_exist(opened: Opener) -> None:
    result = await (await opened(max_attempts=1))(api("http://does-not-exist.invalid", "/", method="POST"))
    assert failed(result, "connection").message == "the name of does-not-exist.invalid:80 cannot be resolved"


@pytest.mark.parametrize(("method", "doubt"), [("GET", False), ("POST", True)])
async def test_deadlines(upstream: Upstream, opened: Opener, method: str, doubt: bool) -> None:
    cancelled = asyncio.Event()

    @upstream.on("/slow")
    async def slow(_: Seen) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    result = await (await opened())(api(upstream.origin, "/slow", method=method), within_s=0.2)
    assert isinstance(result.outcome, InDoubt if doubt else Failed)
    if not doubt:
        failed(result, "timeout")
    await asyncio.wait_for(cancelled.wait(), 10)  # the connection is closed, and the upstream sees it


async def test_a_deadline_before_anything_was_sent_leaves_no_doubt(upstream: Upstream, opened: Opener) -> None:
    result = await (await opened())(api(upstream.origin, "/x", method="POST"), within_s=-1)
    failed(result, "timeout")
    assert upstream.seen == []


async def test_a_slow_drip_meets_the_deadline(opened: Opener) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serve_raw(drip) as host:
        failed(await (await opened())(api(f"http://{host}", "/"), within_s=0.3), "timeout")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]",
                                  "[::ffff:127.0.0.1]", "169.254.169.254"])  # fmt: skip
async def test_private_addresses_are_refused_before_anything_is_sent(
    upstream: Upstream, opened: Opener, host: str
) -> None:
    port = upstream.host.split(":")[1]
    call = await opened(allowed_private_hosts=("127.0.0.1:1",))
    result = await call(api(f"http://{host}:{port}", "/x", method="POST"))
    failed(result, "refused")
    assert (result.attempts, upstream.seen) == (1, [])


async def test_an_allowed_host_is_allowed_on_its_port_only(upstream: Upstream, opened: Opener) -> None:
    call = await opened(allowed_private_hosts=(upstream.host,))
    value(await call(api(upstream.origin, "/x")))
    async with serve_raw(Broken(0)) as other:
        failed(await call(api(f"http://{other}", "/x")), "refused")


async def test_the_environments_proxy_is_not_used(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    value(await (await opened())(api(upstream.origin, "/x")))


async def test_a_large_body_is_sent_whole(upstream: Upstream, opened: Opener) -> None:
    operation = api(upstream.origin, "/x", parameter("b", "body"), method="POST", body=RequestBody())
    value(await (await opened())(operation, b="x" * 3_000_000))
    assert len(upstream.seen[0].body) == 3_000_008


@pytest.mark.parametrize(("ranged", "status", "more"), [(False, 206, True), (True, 206, False), (False, 200, False)])
async def test_a_part_that_nobody_asked_for_is_told(
    upstream: Upstream, opened: Opener, ranged: bool, status: int, more: bool
) -> None:
    upstream.replies("/l", web.json_response([1, 2], status=status))
    arguments = {"Range": "items=0-1"} if ranged else {}
    result = await (await opened())(api(upstream.origin, "/l", parameter("Range", "header")), **arguments)
    assert isinstance(result.outcome, Succeeded)
    assert (result.outcome.value, result.more) == ([1, 2], more)
