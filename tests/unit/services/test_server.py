"""What a connection may take before anybody has authorised it: each bound, over real sockets."""

import asyncio
import contextlib
import json

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from demo_svc.settings import DemoSettings
from executor_svc.settings import ExecutorSettings
from gateway.settings import GatewaySettings
from planner_svc.settings import PlannerSettings
from retriever_svc.settings import RetrieverSettings
from services.server import BoundedConfig, Bounds
from services.settings import ServiceSettings
from services.turns import address_key
from tests.support.edge import GET, POST, app, running


@pytest.mark.parametrize(
    "pieces",
    [
        [GET, b"X: " + b"a" * 1_000_000],
        [GET + b"X: " + b"a" * 100_000 + b"\r\n\r\n"],
        [GET, *[b"X-%d: %s\r\n" % (n, b"a" * 1_000) for n in range(20)]],
        [GET, b"a:\r\n" * 201],
        [b"GET /" + b"a" * 100_000],
        [b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n", b"X: " + b"a" * 1_000_000],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n", b"a:\r\n" * 201],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n", b"2;" + b"a" * 1_000_000],
    ],
    ids=["value", "at once", "many", "small ones", "address", "whole address", "trailer", "many more", "extension"],
)
async def test_headers_are_bounded(pieces: list[bytes]) -> None:
    async with running() as house:
        line = await house.connect()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                await line.send(piece)
        status, body = await line.answer()
        assert (status, json.loads(body)["type"]) == (431, "urn:nestor:problem:headers-too-large")
        assert await line.is_over()
        assert await house.healthy()


async def test_there_may_be_so_many_headers() -> None:
    async with running() as house:
        line = await house.connect(GET + b"a:\r\n" * 199 + b"\r\n")
        assert await line.status() == 200


async def test_a_body_is_not_awaited_where_none_is_taken() -> None:
    """Anybody may send one there, without a token, and it would be held until it is complete."""
    async with running() as house:
        line = await house.connect(GET + b"Content-Type: application/json\r\nContent-Length: 999\r\n\r\n[[[")
        assert await line.status() == 200


async def test_a_header_without_end_takes_no_memory() -> None:
    async with running() as house:
        line = await house.connect(GET + b"X: ")
        fed = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                await line.send(b"a" * 65_536)
                fed = sum(one._unread_bytes for one in house.server.server_state.connections)  # type: ignore[union-attr]
                assert fed <= 8_192 + 2 * 262_144  # what uvloop reads at a time
        assert await line.status() == 431


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([], True),
        ([b"GET /heal"], True),
        ([GET], True),
        ([b"\r\n"], True),
        ([POST + b"Content-Length: 9\r\n\r\n"], True),
        ([POST + b"Content-Length: 9\r\n\r\n", b'{"a"'], True),
        ([POST + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{"], True),
    ],
    ids=["silence", "address", "header", "blank", "body", "half a body", "chunk"],
)
async def test_a_request_has_to_come_in_time(pieces: list[bytes], told: bool) -> None:
    async with running(read_timeout_s=0.2) as house:
        line = await house.connect(*pieces)
        status, body = await line.answer()
        assert (status, json.loads(body)["type"]) == (408, "urn:nestor:problem:request-timeout")
        assert await line.is_over()


async def test_a_trickle_gets_no_more_time() -> None:
    async with running(read_timeout_s=0.3) as house:
        line = await house.connect(GET)
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                await line.send(b"X: y\r\n")
                if line.reader._buffer:  # type: ignore[attr-defined]
                    break
                await asyncio.sleep(0.01)
        assert await line.status() == 408


async def test_a_body_that_comes_fast_enough_may_take_longer() -> None:
    async with running(read_timeout_s=0.2) as house:
        text = b'{"a": "' + b"x" * 200_000 + b'"}'
        line = await house.connect(POST + b"Content-Length: %d\r\n\r\n" % len(text))
        for start in range(0, len(text), 20_000):
            await line.send(text[start : start + 20_000])
            await asyncio.sleep(0.05)
        assert await line.status() == 200


async def test_who_is_answered_is_not_hurried() -> None:
    async with running(read_timeout_s=0.1) as house:
        line = await house.connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET)  # half a request ahead
        assert b"begun" in await line.reader.readuntil(b"begun\n")
        await asyncio.sleep(0.5)
        house.app.state.go_on.set()
        assert b"ended" in await line.reader.readuntil(b"ended\n")


async def test_half_open_requests_make_room() -> None:
    async with running(connections=40, connections_per_address=40) as house:
        busy = await house.connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await busy.reader.readuntil(b"begun\n")
        half = [await house.connect(start) for start in (GET, POST + b"Content-Length: 9\r\n\r\n") * 100]
        assert await house.healthy()
        assert len(house.config.limiter) <= 40
        gone = [line for line in half[:150] if await line.is_over()]
        assert len(gone) == 150
        house.app.state.go_on.set()
        await busy.reader.readuntil(b"ended\n")


async def test_one_address_cannot_take_all() -> None:
    async with running(connections=40, connections_per_address=10) as house:
        half = [await house.connect(GET) for _ in range(60)]
        assert await house.healthy()
        assert len(house.config.limiter) <= 10
        assert len(half) == 60


async def test_where_all_are_served_one_more_is_refused() -> None:
    async with running(connections=3) as house:
        busy = [await house.connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(3)]
        for line in busy:
            await line.reader.readuntil(b"begun\n")
        one_more = await house.connect()
        status, body = await one_more.answer()
        assert (status, json.loads(body)["type"]) == (503, "urn:nestor:problem:overloaded")
        house.app.state.go_on.set()
        for line in busy:
            await line.reader.readuntil(b"ended\n")


async def test_requests_sent_ahead_are_bounded() -> None:
    async with running() as house:
        slow = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line = await house.connect(slow + (GET + b"\r\n") * 5_000)
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                assert b"begun" not in await line.reader.read()


async def test_the_rest_of_a_refused_body_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.server._DRAIN_S", 0.2)
    async with running() as house:
        line = await house.connect(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await line.status() == 404

        async def go_on() -> None:
            for _ in range(100_000):
                await line.send(b"10000\r\n" + b"a" * 65_536 + b"\r\n")

        with pytest.raises(ConnectionError):
            await go_on()


@pytest.mark.parametrize("wish", [b"", b"Connection: close\r\n"], ids=["stays", "closes"])
async def test_a_refusal_arrives_though_the_body_does_not(wish: bytes) -> None:
    async with running() as house:
        head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + wish + b"Content-Length: 10000000\r\n\r\n"
        line = await house.connect(head)
        await asyncio.sleep(0)
        for _ in range(100):
            await line.send(b"a" * 100_000)
        assert await line.status() == 404
        if wish:
            assert await line.is_over()


@pytest.mark.parametrize("head", [POST, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n"], ids=["read", "unread"])
async def test_a_body_in_tiny_pieces_is_refused(head: bytes) -> None:
    """Each piece is a call, which cost anybody six bytes."""
    async with running() as house:
        line = await house.connect(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 5_000)
        status, body = await line.answer()
        assert (status, json.loads(body)["type"]) == (400, "urn:nestor:problem:invalid-request")
        assert await line.is_over()


async def test_a_discarded_body_in_pieces_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    monkeypatch.setattr(HttpToolsProtocol, "on_body", lambda _, body: pieces.append(len(body)))
    async with running() as house:
        line = await house.connect(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await line.status() == 404
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                await line.send((b"40\r\n" + b"a" * 64 + b"\r\n") * 1_000)
        assert await line.is_over()
        assert len(pieces) <= 1_020


async def test_trailers_are_no_headers() -> None:
    """A proxy that passes them on has checked `X-Forwarded-For` in the head only."""
    async with running(trusted_proxies=("127.0.0.1",)) as house:
        head = b"GET /from HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.7\r\n"
        trailers = b"X-Forwarded-For: 192.0.2.1\r\nAuthorization: Bearer b\r\n"
        line = await house.connect(head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + trailers + b"\r\n")
        status, body = await line.answer()
        assert (status, json.loads(body)) == (
            200,
            {"client": "203.0.113.7", "headers": ["host", "transfer-encoding", "x-forwarded-for"]},
        )
        await line.send(head + b"\r\n")  # the connection goes on
        assert await line.status() == 200


async def test_small_pieces_among_others_are_taken() -> None:
    async with running() as house:
        item = b"50\r\n" + b'"' + b"a" * 78 + b'"' + b"\r\n1\r\n,\r\n"
        body = b'6\r\n{"a":[\r\n' + item * 3_000 + b"3\r\n1]}\r\n0\r\n\r\n"
        line = await house.connect(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        assert await line.status() == 200
        text = b'{"a": "' + b"x" * 2_000 + b'"}'
        await line.send(POST + b"Content-Length: %d\r\n\r\n" % len(text))
        for one in text:
            await line.send(bytes([one]))
            await asyncio.sleep(0)
        assert await line.status() == 200


async def test_who_wants_to_close_is_closed() -> None:
    async with running() as house:
        line = await house.connect(POST + b"Connection: close\r\nContent-Length: 8\r\n\r\n" + b'{"a": 1}')
        assert await line.answer() == (200, b'{"a":1}')
        assert await line.is_over()


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.server._WRITE_TIMEOUT_S", 0.2)
    async with running() as house:
        line = await house.connect(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line.writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(20):
            while len(house.config.limiter):  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)


async def test_what_is_no_http_is_a_problem() -> None:
    async with running() as house:
        line = await house.connect(b"hello\r\n\r\n")
        status, body = await line.answer()
        assert (status, json.loads(body)["type"]) == (400, "urn:nestor:problem:invalid-request")


@pytest.mark.parametrize(
    "head",
    [
        b"POST /echo HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n",
        b"POST /echo HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n",
        b"CONNECT /echo HTTP/1.1\r\nContent-Length: %d\r\n",
        b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
        b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
    ],
    ids=["upgrade", "chunked upgrade", "CONNECT", "HTTP/1.0", "HTTP/1.0 keep-alive"],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_body_that_may_be_taken_for_a_request_is_refused(head: bytes, at_once: bool) -> None:
    inside = GET + b"\r\n"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inside), inside) if b"chunked" in head else inside
    start = (head % len(inside) if b"%d" in head else head) + b"Host: localhost\r\n\r\n"
    async with running() as house:
        line = await house.connect(*([start + body] if at_once else [start]))
        status, told = await line.answer()
        assert (status, json.loads(told)["type"]) == (400, "urn:nestor:problem:invalid-request")
        if not at_once:
            await line.send(body)
        assert await line.is_over()


@pytest.mark.parametrize(
    ("wish", "status"),
    [(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200), (b"CONNECT /echo HTTP/1.1\r\nHost: a\r\n\r\n", 405)],
    ids=["upgrade", "CONNECT"],
)
async def test_a_wish_for_another_protocol_is_the_last_of_a_connection(wish: bytes, status: int) -> None:
    async with running() as house:
        for following in (b"", GET + b"\r\n"):
            line = await house.connect(wish + following)
            assert await line.status() == status
            with contextlib.suppress(ConnectionError):
                await line.send(GET + b"\r\n")
            assert await line.is_over()
        line = await house.connect((GET + b"\r\n") * 3 + wish + GET + b"\r\n")
        assert [await line.status() for _ in range(4)] == [200, 200, 200, status]
        assert await line.is_over()


async def test_ordinary_requests_follow_each_other() -> None:
    async with running(read_timeout_s=5) as house:
        line = await house.connect()
        for _ in range(3):
            await line.send(GET + b"\r\n")
            assert await line.status() == 200
            await line.send(POST + b"Content-Length: 8\r\n\r\n" + b'{"a": 1}')
            assert await line.answer() == (200, b'{"a":1}')
        await line.send((GET + b"\r\n") * 5)
        assert [await line.status() for _ in range(5)] == [200] * 5


def test_connections_leave_files_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    bounds = Bounds.of(ServiceSettings(max_connections=5_000, max_connections_per_address=5_000))
    assert (bounds.connections, bounds.connections_per_address) == (128, 64)


@pytest.mark.parametrize(
    "settings", [DemoSettings, ExecutorSettings, GatewaySettings, PlannerSettings, RetrieverSettings]
)
def test_all_services_take_the_same_connections(settings: type[ServiceSettings]) -> None:
    assert Bounds.of(settings()) == Bounds.of(ServiceSettings())


def test_what_counts_as_one_address() -> None:
    assert address_key("192.0.2.1") == "192.0.2.1"
    assert address_key("::ffff:192.0.2.1") == "192.0.2.1"
    assert address_key("2001:db8::1") == address_key("2001:db8::2:3") != address_key("2001:db8:0:1::1")
    assert address_key("in-process") == "in-process"


def test_only_a_trusted_proxy_is_believed() -> None:
    open_to_none = BoundedConfig(app())
    open_to_none.load()
    assert open_to_none.proxy_headers is False
    bounds = Bounds.of(ServiceSettings(trusted_proxies=("192.0.2.7",)))
    believed = BoundedConfig(app(), bounds=bounds)
    believed.load()
    assert type(believed.loaded_app).__name__ == "ProxyHeadersMiddleware"
