"""Limit on the size of request bodies."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware: reading more than `limit` bytes of a body raises HTTPException 413 in the reader.

    The framework's own limit answers in plain text. An exception in the reader becomes a problem document.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting the bytes of its body."""
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise HTTPException(413, f"the body is larger than {self._limit} bytes")
            return message

        await self._app(scope, counted if scope["type"] == "http" else receive, send)
