"""A twin as an ASGI app."""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from twin.problems import Refused
from twin.received import Received
from twin.service import Answer, Twin

DOCUMENT_PATH: Final = "/.twin/document"
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
_UNKNOWN: Final = "application/octet-stream"


def create_app(twin: Twin, document: str = "") -> Starlette:
    """The app of a twin.

    Args:
        twin: answers the requests.
        document: the document that it was made from, served at ``/.twin/document``.
    """

    async def show(_request: Request) -> Response:
        return Response(document, media_type="text/plain")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                given = twin.refuse(Refused(413, f"the body has more than {MAX_BODY_BYTES:,} bytes"))
                await _response(given)(scope, receive, send)
                return
        headers = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        given = twin.answer(Received(scope["method"], path, query, headers, body))
        await _response(given)(scope, receive, send)

    return Starlette(routes=[Route(DOCUMENT_PATH, show), Mount("/", app=answer)])


def _response(given: Answer) -> Response:
    response = Response(given.body or None, given.status, dict(given.headers))
    if given.body:
        declared = given.media_type
        response.headers["Content-Type"] = declared if declared.isascii() and declared.isprintable() else _UNKNOWN
    return response
