"""Upstreams on real ports: an HTTP service that follows a script and records requests, and one that sends raw bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from multidict import CIMultiDictProxy


@dataclass(frozen=True, slots=True)
class Seen:
    """A received request. `target` is the request line's target, still encoded."""

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


Answer = Callable[[Seen], Awaitable[web.StreamResponse]]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Upstream:
    """An HTTP service. Paths without a registered answer give `{"path": ..., "query": ...}`."""

    host: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by every request; clear it to wait for the next one."""

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def on(self, path: str) -> Callable[[Answer], Answer]:
        """Decorator that registers the answer for a path."""

        def register(answer: Answer) -> Answer:
            self.answers[path] = answer
            return answer

        return register

    def replies(self, path: str, *replies: web.Response | dict[str, object] | list[object]) -> None:
        """Give these replies in order; repeat the last one."""
        left = list(replies)

        @self.on(path)
        async def answer(_: Seen) -> web.StreamResponse:
            reply = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(reply, web.Response):
                return web.Response(body=reply.body, status=reply.status, headers=reply.headers)
            return web.json_response(reply)

    def count(self, path: str) -> int:
        return sum(seen.path == path for seen in self.seen)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request.method, request.raw_path, request.headers, await request.content.read())
        self.seen.append(seen)
        self.arrived.set()
        answer = self.answers.get(seen.path)
        return await answer(seen) if answer else web.json_response({"path": seen.path, "query": seen.query})


@asynccontextmanager
async def serving(handle: Handler, *, cancel: bool, backlog: int = 128) -> AsyncIterator[str]:
    """Start a server on a free port of the loopback interface; give its `host:port`.

    Args:
        handle: the handler for a request.
        cancel: whether the handler is cancelled when the client disconnects.
        backlog: the number of connections that may wait to be accepted.
    """
    server = web.Server(handle, access_log=None, handler_cancellation=cancel)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=backlog).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_upstream() -> AsyncIterator[Upstream]:
    """Start an upstream on a free port of the loopback interface."""
    upstream = Upstream()
    async with serving(upstream._handle, cancel=True) as upstream.host:
        yield upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """An upstream for one test."""
    async with serve_upstream() as running:
        yield running


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_raw(script: Script) -> AsyncIterator[str]:
    """Start a server that runs `script` for every connection; give its `host:port`."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()


class Broken:
    """A script for `serve_raw`: read a whole request and close the connection, a number of times; then answer."""

    def __init__(self, times: int, status: int = 200) -> None:
        self.left, self.status, self.seen = times, status, list[bytes]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append(await reader.readuntil(b"\r\n\r\n"))
        if self.left:
            self.left -= 1
            return
        head = f"HTTP/1.1 {self.status} So\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n{{}}".encode())
        await writer.drain()
