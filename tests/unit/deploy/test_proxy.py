"""The proxy between two networks, with servers on real sockets on both sides of it."""

import asyncio

import httpx2
import pytest

from deploy.proxy import proxy
from deploy.sockets import listen
from tests.support.upstream import serve_raw, serve_upstream


async def test_requests_and_answers_pass() -> None:
    async with serve_upstream() as upstream:
        host, _, port = upstream.host.partition(":")
        async with proxy("127.0.0.1", 0, host, int(port)) as own, httpx2.AsyncClient() as http:
            body = b"x" * 300_000
            answers = [await http.post(f"http://127.0.0.1:{own}/there", content=body) for _ in range(2)]
            assert [answer.json()["path"] for answer in answers] == ["/there", "/there"]
            assert [seen.body for seen in upstream.seen] == [body, body]


async def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    async def last_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        everything = await reader.read()
        writer.write(b"heard " + everything)
        await writer.drain()

    async with serve_raw(last_word) as there:
        host, _, port = there.partition(":")
        async with proxy("127.0.0.1", 0, host, int(port)) as own:
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            writer.write(b"all of it")
            writer.write_eof()
            assert await reader.read() == b"heard all of it"
            writer.close()


@pytest.mark.parametrize("drop", ["caller", "server"])
async def test_a_side_that_breaks_off_ends_both(drop: str) -> None:
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        if drop == "server":
            writer.transport.abort()
            return
        writer.write(b"go")
        while await reader.read(10):
            pass
        ended.set()

    async with serve_raw(talk) as there:
        host, _, port = there.partition(":")
        async with proxy("127.0.0.1", 0, host, int(port)) as own:
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            writer.write(b"hi")
            if drop == "server":
                assert await reader.read() == b""
            else:
                assert await reader.readexactly(2) == b"go"
                writer.transport.abort()
                await ended.wait()
            writer.close()


async def test_where_nobody_answers_the_connection_is_closed() -> None:
    with listen("127.0.0.1", 0) as silent:  # bound, and not listening: connections are refused
        async with proxy("127.0.0.1", 0, "127.0.0.1", silent.getsockname()[1]) as own:
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            assert await reader.read() == b""
            writer.close()
