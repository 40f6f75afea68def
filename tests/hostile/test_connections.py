"""Upstreams that send what nobody asked for, or heads without end: the connection ends, and others do not wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from yarl import URL

from executor_svc.adapters.http.connection import UpstreamConnection
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport, open_transport
from executor_svc.settings import ExecutorSettings
from tests.support.upstream import Script, serve_raw

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
FLOOD = ANSWER * 25_000
"""A megabyte."""


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The status of each head that aiohttp puts into a connection's queue."""
    queued = list[int]()
    put = ResponseHandler.feed_data

    def feed_data(self: ResponseHandler, data: tuple[RawResponseMessage, aiohttp.StreamReader]) -> None:
        queued.append(data[0].code)
        put(self, data)

    monkeypatch.setattr(ResponseHandler, "feed_data", lambda self, data, size=0: feed_data(self, data))
    return queued


@asynccontextmanager
async def transport_to(script: Script) -> AsyncIterator[tuple[Transport, URL]]:
    settings = ExecutorSettings(allowed_private_hosts=("127.0.0.1",))
    async with serve_raw(script) as host, open_transport(settings) as transport:
        yield transport, URL(f"http://{host}/")


async def get(transport: Transport, url: URL, within_s: float = 10.0) -> Reply:
    return await transport.send("GET", url, {}, None, deadline=asyncio.get_running_loop().time() + within_s)


async def pour(writer: asyncio.StreamWriter, data: bytes) -> bool:
    """Send data until the client closes the connection. Whether it did."""
    try:
        for _ in range(16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return True
    return False


async def test_an_idle_connection_ends_with_the_first_byte_that_nobody_asked_for(messages: list[int]) -> None:
    flooded: asyncio.Queue[bool] = asyncio.Queue()
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await go.wait()
        flooded.put_nowait(await pour(writer, FLOOD))

    async with transport_to(script) as (transport, url):
        for _ in range(2):
            go.clear()
            assert (await get(transport, url)).body == b"{}"
            go.set()
            assert await asyncio.wait_for(flooded.get(), 10) is True
    assert messages == [200, 200]


async def test_what_follows_an_answer_is_no_other_requests_answer(messages: list[int]) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(ANSWER)

    async with transport_to(script) as (transport, url):
        for _ in range(3):
            assert (await get(transport, url)).body == b"{}"
            await asyncio.sleep(0.1)
    assert messages == [200, 200, 200]


async def refused(*pieces: bytes) -> str:
    """What a call says of an upstream that sends all this and no more. It closes the connection before the deadline."""
    closed = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            await reader.read()
        closed.set()

    async with transport_to(script) as (transport, url):
        with pytest.raises(SendFailed) as raised:
            await get(transport, url, within_s=3)
        assert (raised.value.reason, raised.value.sent) == ("bad_response", True)
        await asyncio.wait_for(closed.wait(), 10)
    return raised.value.message


@pytest.mark.parametrize("status", [100, 102, 103, 199])
async def test_interim_answers_without_end_end_the_call(status: int) -> None:
    told = await refused(b"HTTP/1.1 %d \n\n" % status * 9)
    assert told == "the answer is too long: more than 8 interim answers (1xx)"


async def test_some_interim_answers_are_fine(messages: list[int]) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 8 + ANSWER)

    async with transport_to(script) as (transport, url):
        for _ in range(2):
            assert (await get(transport, url)).body == b"{}"
    assert messages == [200, 200]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FIELDS = [b"x%d: \xf0\x9f\x98\x80%s\r\n" % (number, b"a" * 8_000) for number in range(100)]
"""800 kB of headers that take 4 MB: a character beyond the first plane makes all of a text's four bytes wide."""
SEVEN = b"".join(FIELDS[:7])


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\n", *FIELDS],
        [b"HTTP/1.1 103 Hints\r\n" + SEVEN + b"\r\n", b"HTTP/1.1 200 OK\r\n", SEVEN],
    ],
    ids=["headers", "of interim answers"],
)
async def test_headers_beyond_the_limit_end_the_call(pieces: list[bytes]) -> None:
    assert await refused(*pieces) == "the answer is too long: more than 64 kB of headers"


@pytest.mark.parametrize(
    "pieces",
    [
        [CHUNKED + b"1\r\na\r\n0\r\n", *FIELDS],
        [CHUNKED + b"1;x=", b"a" * 200_000],
        [CHUNKED + b"1;x=%s\r\na\r\n" % (b"a" * 100) * 2_000],
        [CHUNKED + b"1\r\na\r\n" * 20_000],
    ],
    ids=["trailers", "a chunk's extension", "extensions of many chunks", "tiny chunks"],
)
async def test_what_is_no_body_is_bounded(pieces: list[bytes]) -> None:
    told = await refused(*pieces)
    assert told == "the answer is too long: more than 16 kB beside its body, such as sizes of tiny chunks"


@pytest.mark.parametrize(("size", "count"), [(1, 3_000), (60, 20_000)])
async def test_small_chunks_are_fine(size: int, count: int) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(CHUNKED + b"%x\r\n%s\r\n" % (size, b"a" * size) * count + b"0\r\n\r\n")

    async with transport_to(script) as (transport, url):
        with transport.budget.share("", "") as share:
            soon = asyncio.get_running_loop().time() + 10
            reply = await transport.send("GET", url, {}, None, deadline=soon, share=share)
    assert len(reply.body) == size * count


@pytest.mark.parametrize("coding", [b"Content-Length: 2\r\n\r\n{}", CHUNKED[17:] + b"2\r\n{}\r\n0\r\n\r\n"])
async def test_large_headers_are_fine_up_to_the_limit(coding: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\n" + SEVEN + coding)

    async with transport_to(script) as (transport, url):
        for _ in range(2):
            reply = await get(transport, url)
            assert (reply.body, reply.headers["x6"][-8_000:]) == (b"{}", "a" * 8_000)


class Wire(asyncio.Transport):
    """A transport that a test drives by hand."""

    aborted = paused = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Counted(UpstreamConnection):
    """Counts the heads that aiohttp has parsed."""

    parsed = 0

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        self.parsed += 1
        super().feed_data(data, size)


def connected() -> tuple[Counted, Wire]:
    """A connection that awaits an answer."""
    connection, wire = Counted(asyncio.get_running_loop()), Wire()
    connection.connection_made(wire)
    connection.set_response_params(read_until_eof=True, auto_decompress=False)
    return connection, wire


UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 100\n\n" * 20_000],
        [FLOOD],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", b"}" + FLOOD],
        [CHUNKED + b"64\r\n%s\r\n" % (b"a" * 100) * 2_000 + b"0\r\n\r\n" + FLOOD],
    ],
    ids=["interim", "answers", "after a body", "after a pause"],
)
async def test_a_flood_ends_before_it_is_parsed(pieces: list[bytes]) -> None:
    connection, wire = connected()
    for piece in pieces:
        connection.data_received(piece)
    if wire.paused:
        _, body = await connection.read()
        while wire.paused:
            await body.readany()
    assert wire.aborted
    assert connection.parsed < 400


@pytest.mark.parametrize("head", [CHUNKED, UNTIL_CLOSED], ids=["chunked", "until closed"])
async def test_a_body_that_outruns_its_reader_arrives_whole(head: bytes) -> None:
    sent = bytes(range(256)) * 10_000
    connection, wire = connected()
    if head is CHUNKED:
        pieces = [sent[at : at + 100] for at in range(0, len(sent), 100)]
        coded = head + b"".join(b"64\r\n" + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
        for at in range(0, len(coded), 300_000):
            connection.data_received(coded[at : at + 300_000])
    else:
        connection.data_received(head + sent)
        connection.connection_lost(None)
    _, body = await connection.read()
    received = bytearray()
    while piece := await body.readany():
        received += piece
    assert bytes(received) == sent
    assert not wire.aborted


async def test_few_connections_stay_open_that_nobody_uses() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)

    settings = ExecutorSettings(allowed_private_hosts=("127.0.0.1",), max_upstream_connections=2)
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(serve_raw(script)) for _ in range(5)]
        transport = await stack.enter_async_context(open_transport(settings))
        for host in hosts:
            await get(transport, URL(f"http://{host}/"))
        pool = transport._pooled.connector
        assert isinstance(pool, aiohttp.TCPConnector)
        assert sum(map(len, pool._conns.values())) == 2


async def test_aiohttp_still_has_what_connections_build_on() -> None:
    async with aiohttp.TCPConnector() as connector:
        assert isinstance(connector._factory(), ResponseHandler)
        assert callable(connector._release)
    connection = UpstreamConnection(asyncio.get_running_loop())
    assert connection._reading_paused is False
    for name in ("set_response_params", "feed_data", "data_received"):
        assert callable(getattr(ResponseHandler, name))
        assert getattr(connection, name).__func__ is not getattr(ResponseHandler, name)
