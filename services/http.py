"""The edges of a service: strict reading of requests, and problem documents for everything that goes wrong."""

import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import orjson
from anyio import CancelScope
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.run import RunEvent
from services.errors import (
    InternalError,
    InvalidRequest,
    PayloadTooLarge,
    ServiceError,
    ValidationFailed,
    all_errors,
)
from services.telemetry import REQUEST_ID_HEADER, HttpMetrics, get_logger, new_request_id, request_id

PROBLEM_MEDIA_TYPE = "application/problem+json"
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_MAX_FIELD_CHARS = 200
_log = get_logger(__name__)


def loads_strict(body: bytes, *, max_depth: int) -> Any:
    """Parse JSON as RFC 8259 means it. Integers keep all their digits.

    Raises:
        InvalidRequest: not UTF-8, not JSON, NaN, a number beyond the range of doubles, a lone surrogate, or nested
            deeper than ``max_depth``.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error.msg} at byte {error.pos}.") from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > max_depth:
            raise InvalidRequest(f"The body is nested deeper than {max_depth} levels.")
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
    # orjson makes floats of integers beyond 64 bits; the standard library keeps their digits, and is slower.
    return json.loads(body) if _LONG_NUMBER.search(body) else value


BODY_LIMIT = "x-body-limit-setting"
"""``openapi_extra`` key of a route that takes larger bodies: the name of the setting that holds its limit in bytes."""


class StrictRequest(Request):
    """A request whose body is read within its route's limit, and whose JSON is parsed strictly."""

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            PayloadTooLarge: it is longer than the route accepts; the rest is not read.
        """
        if not hasattr(self, "_body"):
            limit = self._limit()
            declared = self.headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > limit:
                raise _too_large(limit)
            chunks, size = [], 0
            async for chunk in self.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """The parsed body; see :func:`loads_strict`."""
        if not hasattr(self, "_json"):
            self._json = loads_strict(await self.body(), max_depth=self.app.state.settings.max_json_depth)
        return self._json

    def _limit(self) -> int:
        extra = getattr(self.scope.get("route"), "openapi_extra", None) or {}
        limit: int = getattr(self.app.state.settings, extra.get(BODY_LIMIT, "max_body_bytes"))
        return limit


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit} bytes.", limit_bytes=limit)


class StrictRoute(APIRoute):
    """A route that reads its body through :class:`StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            own = StrictRequest(request.scope, request.receive)
            # Read here, not by FastAPI: it would turn our errors into one that says nothing.
            if await own.body() and "json" in own.headers.get("content-type", ""):
                await own.json()
            return await handle(own)

        return strict


class _EventResponse(StreamingResponse):
    """Events as they happen. Their generator is closed when the stream ends, also when its reader leaves."""

    def __init__(self, events: AsyncGenerator[Any, None], status_code: int = 200) -> None:
        self._events = events
        super().__init__(self._encoded(), status_code)

    def _encoded(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def stream_response(self, send: Send) -> None:
        """Send the events. Raises what keeps the first one from coming, which can still be answered as a problem."""
        try:
            encoded = aiter(self.body_iterator)
            self.body_iterator = _again(await anext(encoded, b""), encoded)
            await self._stream(send)
        finally:
            # Waiting to send, the generator is not where a cancellation strikes; left alone, it would live on until
            # the garbage collector finds it, and the run or import inside it too.
            with CancelScope(shield=True):
                await self._events.aclose()

    async def _stream(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except ServiceError as error:
            # The last chunk is missing, by which the reader knows that this was not all.
            _log.warning("stream cut off", why=error.detail)


async def _again(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    yield first
    async for item in rest:
        yield item


class NdjsonResponse(_EventResponse):
    """One JSON event per line.

    The lines are ASCII: some readers take U+2028 and U+0085, which an API's output may hold, for line ends too.
    """

    media_type = "application/x-ndjson"

    def __init__(self, events: AsyncGenerator[BaseModel, None], status_code: int = 200) -> None:
        super().__init__(events, status_code)

    async def _encoded(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield event.model_dump_json(ensure_ascii=True).encode() + b"\n"


class SseResponse(_EventResponse):
    """Server-sent events (WHATWG HTML, section 9.2) of a run; for None a comment, which keeps the connection open."""

    media_type = "text/event-stream"
    _RETRY_MS = 1_000

    def __init__(self, events: AsyncGenerator[RunEvent | None, None], status_code: int = 200) -> None:
        super().__init__(events, status_code)
        # A proxy that collects what it passes on would hold events back.
        self.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def _encoded(self) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=self._RETRY_MS)
        async for numbered in self._events:
            if numbered is None:
                yield KEEPALIVE_COMMENT
                continue
            event = numbered.event
            data = event.model_dump_json(ensure_ascii=True)
            yield format_sse_event(id=str(numbered.id), event=event.kind, data_str=data)


def problem_document(error: ServiceError) -> dict[str, Any]:
    """The members of RFC 9457, then the error's own."""
    document: dict[str, Any] = {
        "type": error.type_uri(),
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": f"urn:nestor:request:{request_id.get()}",
    }
    return document | {key: value for key, value in error.extensions.items() if value is not None}


def problem_response(error: ServiceError) -> Response:
    """Render an error as ``application/problem+json``."""
    headers = {"Cache-Control": "no-store"}
    retry_after = error.extensions.get("retry_after_s")
    if isinstance(retry_after, int | float):
        headers["Retry-After"] = str(max(1, round(retry_after)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110, section 11.6.1: a 401 names the scheme
    body = to_json(problem_document(error), inf_nan_mode="null", fallback=str)
    return Response(body, status_code=error.status, media_type=PROBLEM_MEDIA_TYPE, headers=headers)


def validation_problem(error: RequestValidationError) -> ServiceError:
    """Name each bad field and why, without echoing what was sent (it may be huge, secret or not even JSON)."""
    errors = [
        {"field": _field(item["loc"]), "message": item["msg"], "kind": item["type"]} for item in error.errors()[:50]
    ]
    detail = "; ".join(f"{e['field']}: {e['message']}" for e in errors[:3])
    return ValidationFailed(detail, errors=errors)


def _field(location: tuple[str | int, ...]) -> str:
    path = ".".join(str(part) for part in location)
    return path if len(path) <= _MAX_FIELD_CHARS else path[: _MAX_FIELD_CHARS - 1] + "…"


def http_problem(error: HTTPException) -> ServiceError:
    """The problem for an error raised by the framework itself (unknown route, wrong method)."""
    cls = next((c for c in all_errors() if c.status == error.status_code), None)
    if cls is None:
        cls = InvalidRequest if error.status_code < 500 else InternalError
    return cls(str(error.detail))


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    """The methods this path does have (RFC 9110 wants them named in a 405)."""

    def allowed(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in app.router.routes)

    return sorted(filter(allowed, _KNOWN_METHODS))


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of this app a problem document."""

    async def on_service_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        return problem_response(error)

    async def on_validation(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(validation_problem(error))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = problem_response(http_problem(error))
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(_allowed_methods(app, request))
        return response

    app.add_exception_handler(ServiceError, on_service_error)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)


class RequestScopeMiddleware:
    """Outermost: request id, metrics, access log, and the last resort for bugs.

    A bug is logged with its traceback and answered as ``internal-error``. Nothing is re-raised: the server above would
    only log it a second time, and an in-process caller must see what a remote one sees.
    """

    def __init__(self, app: ASGIApp, *, service: str, metrics: HttpMetrics) -> None:
        self.app, self.service, self.metrics = app, service, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        given = dict(scope["headers"]).get(REQUEST_ID_HEADER.lower().encode(), b"").decode("latin-1")
        current = given if _REQUEST_ID.fullmatch(given) else new_request_id()
        token = request_id.set(current)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", current.encode())]}
            await send(message)

        self.metrics.in_flight.labels(self.service).inc()
        try:
            await self._guarded(scope, receive, send_with_id, lambda: status)
        finally:
            self.metrics.in_flight.labels(self.service).dec()
            self._report(scope, status, started)
            request_id.reset(token)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, status: Callable[[], int]) -> None:
        try:
            await self.app(scope, receive, send)
        except ClientDisconnect:
            _log.info("the caller hung up before it had asked", service=self.service, path=scope["path"])
        except Exception as error:  # noqa: BLE001 - the last resort, see the class docstring
            _log.error("bug", service=self.service, path=scope["path"], exc_info=error)
            if not status():
                await problem_response(InternalError("The request id is in `instance`."))(scope, receive, send)

    def _report(self, scope: Scope, status: int, started: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _KNOWN_METHODS else "OTHER"
        self.metrics.observe(method=method, route=route, status=status, started=started)
        level = _log.debug if route in {"/healthz", "/readyz", "/metrics"} else _log.info
        level(
            "request",
            service=self.service,
            method=method,
            route=route,
            status=status,
            ms=round((time.perf_counter() - started) * 1000, 2),
        )


ReadinessCheck = Callable[[], Awaitable[None]]
"""Raises a :class:`~services.errors.ServiceError` while the service cannot do its work."""
