"""Upstreams that violate HTTP or are slow: every call ends by its deadline, with an outcome that can be serialized."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from executor_svc.adapters.http import HttpAdapter, open_http_adapter
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api
from services.contracts.outcome import Failed, StepOutcome, Succeeded
from tests.support.executing import api
from tests.support.upstream import serve_raw

OUTCOME: TypeAdapter[StepOutcome] = TypeAdapter(StepOutcome)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SHORT_S = 0.4


@pytest.fixture
async def adapter() -> AsyncIterator[HttpAdapter]:
    given = ExecutorSettings(allowed_private_hosts=("127.0.0.1",), max_attempts=1, circuit_failures=1_000_000)
    async with open_http_adapter(given, SecretStore.load(None, None)) as opened:
        yield opened


async def outcome_of(adapter: HttpAdapter, called: Api, within_s: float = 5.0) -> StepOutcome:
    """Make the call and return its outcome after serialization, as a stream's reader gets it."""
    async with asyncio.timeout(within_s + 5):  # a hang fails the test
        deadline = asyncio.get_running_loop().time() + within_s
        result = await adapter.call(Call(called, {}, "run/step", deadline))
    return OUTCOME.validate_json(OUTCOME.dump_json(result.outcome))


Slow = Callable[[asyncio.StreamWriter], Awaitable[None]]


def drip(first: bytes, then: bytes) -> Slow:
    """Send all of ``first``, then ``then`` byte by byte, endlessly."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        for byte in itertools.cycle(then):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)

    return script


@pytest.mark.parametrize(
    "slow",
    [
        drip(b"", b"HTTP/1.1 200 OK"),
        drip(OK, b"X-A: b\r\n"),
        drip(OK + b"Content-Length: 10000\r\n\r\n", b" "),
        drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        drip(OK + b"Connection: close\r\n\r\n", b" "),
        drip(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n", b" "),
        drip(OK + b"Content-Length: 2\r\n\r\n{", b""),
        drip(b"", b""),
    ],
    ids=["status", "headers", "body", "chunks", "until closed", "error", "stops", "silence"],
)
async def test_the_deadline_ends_what_does_not_end(adapter: HttpAdapter, slow: Slow) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await slow(writer)

    async with serve_raw(script) as host:
        outcome = await outcome_of(adapter, api(f"http://{host}"), SHORT_S)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "timeout"


async def test_nor_does_it_wait_for_a_connection_that_nobody_takes(adapter: HttpAdapter) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serve_raw(script) as host:
        outcome = await outcome_of(adapter, api(f"https://{host}"), SHORT_S)  # the handshake is never answered
    assert isinstance(outcome, Failed)
    assert outcome.reason in ("timeout", "connection")


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"<html>no head</html>",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 9999 OK\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: a\r\n" * 1_000 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 " + b"a" * 20_000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-Null: a\x00b\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x05hello",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://xn--a/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://\xff\xfe/\xff\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: \xff\xfe/\xff\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 400 Bad\r\nContent-Type: text/\xff\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"HTTP/1.1 503 Busy\r\nRetry-After: \xff, 99 Foo 99999 99:99:99\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_what_is_no_good_answer_is_a_failed_step(adapter: HttpAdapter, answer: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serve_raw(script) as host:
        outcome = await outcome_of(adapter, api(f"http://{host}"))
    assert isinstance(outcome, Failed)
    assert outcome.reason in ("bad_response", "upstream_error", "connection")


@pytest.mark.parametrize(
    "headers",
    [
        b"Set-Cookie: " + b"a=b; " * 1_000 + b"\r\n",
        (b"Set-Cookie: a" + b"=" * 4_000 + b"\r\n") * 15,
        b"X-Folded: a\r\n  b\r\n",
        b"Content-Encoding: identity\r\n",
        b"Content-Encoding: \r\n",
    ],
    ids=["long cookie", "many cookies", "folded", "identity", "no coding"],
)
async def test_what_is_only_odd_is_read(adapter: HttpAdapter, headers: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + headers + b"Content-Length: 9\r\n\r\n" + b'{"a": 1} ')
        await writer.drain()

    async with serve_raw(script) as host:
        outcome = await outcome_of(adapter, api(f"http://{host}"))
    assert outcome == Succeeded(value={"a": 1}, status=200)


async def test_an_answer_nobody_asked_for_is_not_taken_for_the_next_one(adapter: HttpAdapter) -> None:
    """A second response on a kept-alive connection must not become the next call's response."""

    def said(value: int) -> bytes:
        return OK + b"Content-Length: %d\r\n\r\n%d" % (len(str(value)), value)

    number = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        while True:
            await reader.readuntil(b"\r\n\r\n")
            number += 1
            writer.write(said(number))
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(said(666))

    async with serve_raw(script) as host:
        for expected in range(1, 6):
            assert await outcome_of(adapter, api(f"http://{host}")) == Succeeded(value=expected, status=200)
            await asyncio.sleep(0.1)


STATUS = st.sampled_from(
    [b"200 OK", b"201", b"204 None", b"206 P", b"302 Found", b"400 Bad", b"401 No", b"500 x", b"103 y"]
)
VALUE = st.binary(max_size=40).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b""))
NAME = st.sampled_from(
    b"Content-Type Content-Encoding Content-Length Content-Range Transfer-Encoding Connection Trailer Link Location "
    b"Retry-After Set-Cookie WWW-Authenticate X-\xff".split()
)
KIND = st.sampled_from([b"application/json", b"text/plain; charset=utf-16", b"text/html", b"application/octet-stream"])
BODY = st.one_of(st.binary(max_size=60), st.sampled_from([b"{}", b"[1, 2]", b'{"next": "\\ud800"}', b"1e999", b"null"]))


async def test_whatever_bytes_come_back_there_is_an_outcome(adapter: HttpAdapter) -> None:
    answer = b""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serve_raw(script) as host:
        loop = asyncio.get_running_loop()

        @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(
            STATUS, KIND, st.lists(st.tuples(NAME, VALUE), max_size=4), BODY, st.sampled_from(["GET", "POST", "HEAD"])
        )
        def ask(status: bytes, kind: bytes, more: list[tuple[bytes, bytes]], body: bytes, method: str) -> None:
            nonlocal answer
            lines = [b"HTTP/1.1 " + status, b"Content-Type: " + kind, *(name + b": " + value for name, value in more)]
            answer = b"\r\n".join(lines) + b"\r\n\r\n" + body
            called = api(f"http://{host}", method=method, answers=None)
            asyncio.run_coroutine_threadsafe(outcome_of(adapter, called), loop).result(20)

        await asyncio.to_thread(ask)
