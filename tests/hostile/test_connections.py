"""Upstreams that send what nobody asked for, or heads without end: the connection ends, and others do not wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from executor_svc.adapters.http.connection import UpstreamConnection
from executor_svc.adapters.http.transport import Reply, Transport, open_transport
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

    def feed_data(self: ResponseHandler, data: tuple[aiohttp.http.RawResponseMessage, aiohttp.StreamReader]) -> None:
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
        for _ in range(64):
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


async def test_aiohttp_still_has_what_connections_build_on() -> None:
    async with aiohttp.TCPConnector() as connector:
        assert isinstance(connector._factory(), ResponseHandler)
    connection = UpstreamConnection(asyncio.get_running_loop())
    for name in ("set_response_params", "feed_data", "data_received"):
        assert callable(getattr(ResponseHandler, name))
        assert getattr(connection, name).__func__ is not getattr(ResponseHandler, name)
