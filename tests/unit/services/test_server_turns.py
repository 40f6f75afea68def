"""Requests that wait for their turn, over real sockets: what they hold, and what makes room for others."""

import asyncio
import contextlib

import pytest

from services.turns import MOST
from tests.support.edge import GET, POST, running, until


async def test_who_leaves_before_its_turn_is_not_served() -> None:
    async with running() as house:
        stuck = [await house.connect(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(MOST)]
        await until(lambda: house.app.state.stuck == MOST)
        gone = [await house.connect(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(20)]
        await until(lambda: len(house.config.limiter) == MOST + 20)
        for line in gone:
            line.writer.transport.abort()
        await until(lambda: len(house.config.limiter) == MOST)
        house.app.state.go_on.set()
        for line in stuck:
            assert await line.status() == 200
        assert await house.healthy()
        assert house.app.state.stuck == MOST


async def test_while_it_waits_for_its_turn_its_body_is_not_read() -> None:
    async with running() as house:
        for _ in range(MOST):
            await house.connect(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: house.app.state.stuck == MOST)
        line = await house.connect(POST + b"Content-Length: 100000000\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while True:
                    await line.send(b"x" * 65_536)
        cycles = [getattr(one, "cycle", None) for one in house.server.server_state.connections]
        held = sum(len(one.body) for one in cycles if one is not None)
        assert held <= 65_536 + 262_144
        house.app.state.go_on.set()


@pytest.mark.parametrize("bound", ["connections", "connections_per_address"])
async def test_requests_that_wait_for_a_turn_make_room(bound: str) -> None:
    own = b"GET /own HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer own\r\nConnection: close\r\n\r\n"
    async with running(**{bound: MOST + 8}) as house:
        assert await (await house.connect(own)).status() == 200
        stuck = [await house.connect(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(MOST)]
        await until(lambda: house.app.state.stuck == MOST)
        waiting = [await house.connect(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3) for _ in range(8)]
        await until(lambda: len(house.config.limiter) == MOST + 8)
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert await (await house.connect(own)).status() == 200
        newcomer = await house.connect(GET + b"\r\n")
        assert await waiting[0].is_over()
        house.app.state.go_on.set()
        for line in stuck:
            assert await line.status() == 200
        assert await newcomer.status() == 200
        assert house.app.state.stuck <= MOST + 7 * 3


async def test_a_stream_ends_with_its_connection_though_a_request_follows_it() -> None:
    async with running() as house:
        line = await house.connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET + b"\r\n")
        await line.reader.readuntil(b"begun\n")
        assert house.app.state.slow == 1
        line.writer.transport.abort()
        await until(lambda: house.app.state.slow == 0)
