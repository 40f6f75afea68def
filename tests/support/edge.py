"""A service behind its own protocol, over real sockets, and clients that write bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from deploy.sockets import listen
from services.app import create_service, service_router
from services.server import BoundedConfig, Bounds
from services.settings import ServiceSettings
from services.turns import accept

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def app() -> FastAPI:
    router = service_router()

    @router.post("/echo")
    async def echo(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @router.get("/slow")
    async def slow(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            request.app.state.slow += 1
            try:
                yield b"begun\n"
                await request.app.state.go_on.wait()
                yield b"ended\n"
            finally:
                request.app.state.slow -= 1

        return StreamingResponse(pieces())

    @router.get("/stuck")
    async def stuck(request: Request) -> dict[str, str]:
        request.app.state.stuck += 1
        await request.app.state.go_on.wait()
        return {}

    @router.get("/own")
    async def own(request: Request) -> dict[str, str]:
        accept(request.scope, "owner")
        return {}

    @router.get("/from")
    async def from_whom(request: Request) -> dict[str, Any]:
        return {"client": request.client and request.client.host, "headers": sorted(request.headers)}

    @router.get("/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.go_on, app.state.stuck, app.state.slow = asyncio.Event(), 0, 0
        yield

    return create_service(
        name="test_svc",
        title="Test",
        description="",
        settings=ServiceSettings(max_body_bytes=200_000_000),
        routers=[router],
        lifespan=lifespan,
    )


class Running:
    """A server in this loop."""

    def __init__(self, app: FastAPI, server: uvicorn.Server, config: BoundedConfig, address: tuple[str, int]) -> None:
        self.app, self.server, self.config, self.address = app, server, config, address

    async def connect(self, *pieces: bytes) -> "Line":
        reader, writer = await asyncio.open_connection(*self.address)
        line = Line(reader, writer)
        for piece in pieces:
            await line.send(piece)
        return line

    async def healthy(self) -> bool:
        line = await self.connect(GET + b"Connection: close\r\n\r\n")
        return await line.status() == 200


class Line:
    """A connection to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:"))
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def status(self) -> int:
        return (await self.answer())[0]

    async def is_over(self) -> bool:
        """Whether the server ends the connection, having said nothing more."""
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read() == b""
            return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(**bounds: Any) -> AsyncIterator[Running]:
    given = {"header_bytes": 8_192, "read_timeout_s": 60.0, "connections": 100, "connections_per_address": 100}
    own = app()
    config = BoundedConfig(own, bounds=Bounds(**given | bounds), timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    bound = listen("127.0.0.1", 0)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[bound])
    ticking = asyncio.create_task(server.main_loop())
    try:
        yield Running(own, server, config, bound.getsockname())
    finally:
        server.should_exit = True
        await ticking
        await server.shutdown(sockets=[bound])
