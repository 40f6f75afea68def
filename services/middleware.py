"""Middleware for every request: checks of host and origin, request id, metrics and access log."""

import ipaddress
import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from opentelemetry.trace import INVALID_SPAN, Span
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.errors import Forbidden, InternalError, InvalidRequest, Misdirected, ServiceError
from services.http import KNOWN_METHODS, problem_response
from services.telemetry import REQUEST_ID_HEADER, HttpMetrics, get_logger, new_request_id, request_id
from services.tracing import answered, request_span

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,60}\]|[A-Za-z0-9_.-]{1,253}?)\.?(?::[0-9]{1,5})?")
_POLLED: Final = frozenset({"/healthz", "/readyz", "/metrics", "/status", "/secret-changes"})
"""Routes that monitoring polls. The gateway polls the retriever's `/status` and the executor's `/secret-changes`."""
_log = get_logger(__name__)


class NamesMiddleware:
    """Accepts requests for the service's own host names only, and from its own pages or from programs only.

    Without it, any web page could send requests in the name of its visitor: through a host name that points to this
    address (DNS rebinding), or with requests that need no CORS preflight (cross-site request forgery).
    """

    def __init__(self, app: ASGIApp, *, allowed: Sequence[str]) -> None:
        self.app, self._takes_any = app, "*" in allowed
        self._allowed = [name.lower().rstrip(".") for name in allowed if name != "*"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except ServiceError as error:
                await problem_response(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if not hosts and scope["http_version"] == "1.0":
            hosts = ["localhost"]  # browsers do not use HTTP/1.0
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None:
            raise InvalidRequest("There must be one Host header, with a name and optionally a port.")
        name = match["name"].lower()
        if not (self._takes_any or _is_own(name) or self._is_allowed(name)):
            raise Misdirected(
                "This service does not accept the name in Host; add it to ALLOWED_HOSTS if it is correct."
            )
        for origin in origins:
            asking = origin.lower().partition("://")[2]
            from_name = _HOST.fullmatch(asking)
            if asking != hosts[0].lower() and (from_name is None or not self._is_allowed(from_name["name"])):
                raise Forbidden("The request is from a page of another origin.")

    def _is_allowed(self, name: str) -> bool:
        return any(known == name or (known.startswith("*.") and name.endswith(known[1:])) for known in self._allowed)


def _is_own(name: str) -> bool:
    """Whether public DNS cannot control where this host leads: it is an IP address, or a name without a dot."""
    if "." not in name:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class RequestScopeMiddleware:
    """The outermost middleware: request id, metrics, span, access log, and handling of unexpected exceptions.

    An unexpected exception is logged with its traceback and answered as ``internal-error``. Nothing is re-raised: the
    server would log it a second time, and an in-process caller must see what a remote one sees.
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
        polled = scope["path"] in _POLLED
        try:
            with nullcontext(INVALID_SPAN) if polled else request_span(self.service, scope) as span:
                try:
                    await self._guarded(scope, receive, send_with_id, lambda: status)
                finally:
                    _describe(span, scope, status, current)
                    self._report(scope, status, started)
        finally:
            self.metrics.in_flight.labels(self.service).dec()
            request_id.reset(token)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, status: Callable[[], int]) -> None:
        try:
            await self.app(scope, receive, send)
        except ClientDisconnect:
            _log.info(
                "the caller closed the connection before it had sent its request",
                service=self.service,
                path=scope["path"],
            )
        except Exception as error:  # noqa: BLE001 - handles all unexpected exceptions, see the class docstring
            _log.error("bug", service=self.service, path=scope["path"], exc_info=error)
            if not status():
                await problem_response(InternalError("The request id is in `instance`."))(scope, receive, send)

    def _report(self, scope: Scope, status: int, started: float) -> None:
        method, route = _method_and_route(scope)
        self.metrics.observe(method=method, route=route, status=status, started=started)
        level = _log.debug if route in _POLLED else _log.info
        level(
            "request",
            service=self.service,
            method=method,
            route=route,
            status=status,
            ms=round((time.perf_counter() - started) * 1000, 2),
        )


def _method_and_route(scope: Scope) -> tuple[str, str]:
    """Method and route template. Raw methods and paths are not used, because callers choose them."""
    method = scope["method"] if scope["method"] in KNOWN_METHODS else "OTHER"
    return method, getattr(scope.get("route"), "path", "unmatched")


def _describe(span: Span, scope: Scope, status: int, asked_as: str) -> None:
    if not span.is_recording():
        return
    method, route = _method_and_route(scope)
    span.update_name(f"{method} {route}")
    span.set_attributes({"http.request.method": method, "http.route": route, "nestor.request_id": asked_as})
    if status:
        answered(span, status, bad_from=500)
