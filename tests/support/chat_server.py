"""A chat completions server on a real port. It follows a script of replies, including faulty ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.upstream import serving

PATH = "/v1/chat/completions"
Reply = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class ChatServer:
    """The server. It records requests and gives its replies in order; it repeats the last one."""

    url: str
    replies: list[Reply] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed the connection during a reply."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def has_been_asked(self, times: int) -> None:
        """Wait for that number of requests. Raises TimeoutError after 30 seconds."""
        async with asyncio.timeout(30):
            while len(self.asked) < times:
                self._arrived.clear()
                await self._arrived.wait()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.path != PATH:
            return web.Response(status=404)
        self.asked.append(json.loads(await request.read()))
        self._arrived.set()
        self.keys.append(request.headers.get("Authorization", ""))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        try:
            return await reply(request)
        except (ConnectionError, asyncio.CancelledError):
            self.gone.set()
            raise


@asynccontextmanager
async def serve_chat(*replies: Reply) -> AsyncIterator[ChatServer]:
    """Start a server on a free port of the loopback interface."""
    chat = ChatServer("", list(replies))
    async with serving(chat.handle, cancel=True) as host:
        chat.url = f"http://{host}"
        yield chat


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """A chunk of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


async def opened(request: web.BaseRequest, content_type: str = "text/event-stream") -> web.StreamResponse:
    """Send a response's headers and return the response."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    return response


def says(*texts: str, finish: str = "stop", logprobs: Sequence[float] = (), reasoning: str = "") -> Reply:
    """Stream these pieces, then the finish reason and the token usage."""

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        response = await opened(request)
        if reasoning:
            await response.write(event({"reasoning_content": reasoning}))
        for number, text in enumerate(texts):
            scores: dict[str, Any] = (
                {"logprobs": {"content": [{"logprob": logprobs[number]}]}} if number < len(logprobs) else {}
            )
            await response.write(event({"content": text}, **scores))
        await response.write(event({}, finish))
        usage = {"prompt_tokens": 120, "completion_tokens": len(texts)}
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
        return response

    return reply


def calls(*listed: dict[str, Any], **more: Any) -> Reply:
    """Answer with a plan of these calls."""
    return says(json.dumps({"calls": list(listed), **more}))


def streams(pieces: Callable[[], AsyncIterator[bytes]], content_type: str = "text/event-stream") -> Reply:
    """Answer 200 and write these pieces."""

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        response = await opened(request, content_type)
        async for piece in pieces():
            await response.write(piece)
        return response

    return reply


def sends(
    *pieces: bytes, content_type: str = "text/event-stream", then: Iterable[bytes] = (), pause_s: float = 0.01
) -> Reply:
    """Write ``pieces``, then ``then`` with pauses. An endless ``then`` ends when the client closes the connection."""

    async def written() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        for piece in then:
            await asyncio.sleep(pause_s)
            yield piece

    return streams(written, content_type)


def hangs(*pieces: bytes) -> Reply:
    """Answer 200, write these pieces, then send nothing more and keep the connection open."""

    async def written() -> AsyncIterator[bytes]:
        yield b": here\n\n"
        for piece in pieces:
            yield piece
        await asyncio.Event().wait()

    return streams(written)


def answers(status: int, text: str = "", **headers: str) -> Reply:
    """Answer with a status, a text and headers."""

    async def reply(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(
            status=status, text=text, headers={name.replace("_", "-"): h for name, h in headers.items()}
        )

    return reply
