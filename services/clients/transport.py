"""A transport that calls an ASGI app in this process as if it were remote.

httpx2's own ``ASGITransport`` enforces no timeouts, buffers whole streams, re-raises the app's errors and shares the
caller's context variables. A remote service does not, and both deployments must behave the same.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.types import ASGIApp, Message

_END = object()


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Runs each request in its own task and context, with httpx2's read timeout between any two messages.

    It does not run the app's lifespan. The code that created the app does.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Call the app.

        Raises:
            httpx2.ReadTimeout: the app did not answer in time; its task is cancelled.
            httpx2.RemoteProtocolError: the app failed before it answered.
        """
        exchange = _Exchange(self._app, request, await request.aread())
        self._running.add(exchange.task)  # the event loop keeps only weak references
        exchange.task.add_done_callback(self._running.discard)
        try:
            start = await exchange.next_message()
        except BaseException:
            await exchange.aclose()
            raise
        return httpx2.Response(start["status"], headers=start["headers"], stream=exchange, request=request)


class _Exchange(httpx2.AsyncByteStream):
    """A request in progress. Connects the app's task with the response's byte stream."""

    def __init__(self, app: ASGIApp, request: httpx2.Request, body: bytes) -> None:
        self._request, self._body, self._sent = request, body, False
        self._timeout_s: float | None = request.extensions.get("timeout", {}).get("read")
        # One message at a time: a slow reader slows the app down (backpressure), as with TCP.
        self._messages: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)
        self._gone = asyncio.Event()
        self._complete = False
        self.task = asyncio.create_task(self._run(app), context=contextvars.Context())

    async def _run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
            await self._pass_on(_END)
        except (Exception, asyncio.CancelledError) as error:  # the caller sees a dropped connection
            if self._gone.is_set() and isinstance(error, asyncio.CancelledError):
                raise
            await self._pass_on(error)

    def _scope(self) -> dict[str, Any]:
        url = self._request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "headers": [(key.lower(), value) for key, value in self._request.headers.raw],
            "server": (url.host, url.port or 80),
            "client": ("in-process", 0),
            "root_path": "",
        }

    async def _receive(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._pass_on(message)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._complete = self._complete or last

    async def _pass_on(self, message: Any) -> None:
        if not self._complete:  # messages after the last byte are dropped
            await self._messages.put(message)

    async def next_message(self) -> Message:
        try:
            async with asyncio.timeout(self._timeout_s):
                message = await self._messages.get()
        except TimeoutError:
            raise httpx2.ReadTimeout("the service did not answer in time", request=self._request) from None
        if message is _END:
            raise httpx2.RemoteProtocolError("the answer ended early", request=self._request)
        if isinstance(message, BaseException):
            raise httpx2.RemoteProtocolError("the service failed", request=self._request) from message
        result: Message = message
        return result

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self.next_message()
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def aclose(self) -> None:
        """Signal the app that the reader is gone, and cancel it unless the response is complete."""
        self._gone.set()
        if not self._complete:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
