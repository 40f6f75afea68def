"""HTTP input and output of a service: strict parsing of requests, and problem documents."""

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Match

from services.byte_budget import BudgetTimeout, ByteBudget, Share
from services.errors import (
    InternalError,
    InvalidRequest,
    Overloaded,
    PayloadTooLarge,
    ServiceError,
    ValidationFailed,
    all_errors,
)
from services.fair_slots import FairSlots
from services.streams import EventResponse
from services.telemetry import request_id

PROBLEM_MEDIA_TYPE = "application/problem+json"
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONG_DIGITS: Final = 19
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % _LONG_DIGITS)
_BACKSLASH: Final = ord("\\")
_MAX_FIELD_CHARS = 200
_RETRY_AFTER_S: Final = 2
"""`Retry-After` of a 503 that names no time of its own: about as long as a service takes to come back."""
MAX_VALUES: Final = 1_000_000
_LARGE: Final = 65_536
"""Bodies of more bytes are parsed and validated in a thread. Also the size of the pieces that values are counted in."""
_SMALL: Final = 4_096
"""The same where tenants are known: a thousand that arrive together may each take the event loop for some ten ms."""
_PARSING: Final = 2
"""Large bodies that are parsed at a time, one of a tenant: each thread takes time from the event loop."""
_PARSING_WAIT_S: Final = 30.0
_MAX_HELD_BYTES: Final = 100_000_000
"""Bytes of large bodies that are held at the same time, half of them of one tenant; two whole imports fit in that."""
_READING, _READING_WAIT_S = 4, 20.0
"""Requests that read (GET) which one tenant has answered at once, of each tag: a thousand may arrive together, and each
may take the event loop for some tens of milliseconds. Where another service hangs, those of other tags go on."""
_BULK: Final = 10
"""Routes that take larger bodies take this many times as many values."""
_MAX_PLACE_CHARS: Final = 32 * 1024 * 1024
"""Characters of the places of a body's values, beyond the usual ones. An error holds its place, and each value may have
one: a name of half a megabyte around a hundred thousand values would take 50 GB."""
_USUAL_PLACE_CHARS: Final = 1_000
"""Schemas of APIs, which services send each other, have places of some hundred."""


def loads_strict(body: bytes, *, max_depth: int, max_values: int = MAX_VALUES) -> Any:
    """Parse JSON strictly as RFC 8259. Integers keep all their digits.

    Raises:
        InvalidRequest: the body is not UTF-8 or not JSON; has NaN, a number beyond the range of doubles or a lone
            surrogate; is nested deeper than ``max_depth``; or has more than ``max_values`` values.
    """
    has_long_number = scan_json(body, max_values)
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
    # orjson turns integers beyond 64 bits into floats. The standard library keeps their digits but is slower.
    return json.loads(body) if has_long_number else value


def scan_json(body: bytes, max_values: int) -> bool:
    """Whether the body has a long number. Counts the values before the body is parsed.

    A parsed value takes up to forty times its bytes. Every value but the first follows one of ``[{,`` outside of
    strings. Working in pieces limits memory and lets other threads run in between. For invalid JSON the count may be
    too low, but only after the position where the parser stops.

    Raises:
        InvalidRequest: there are more than ``max_values`` values.
    """
    values, start, inside, has_long_number, before = 1, 0, False, False, b""
    while start < len(body):
        end = start + _LARGE
        while end < len(body) and _ends_in_escape(body, start, end):
            end += 1
        parts = body[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        plain = b'"'.join(parts[inside::2])  # the quote separates what stands before and after a string
        values += plain.count(b",") + plain.count(b"[") + plain.count(b"{")
        if values > max_values:
            raise InvalidRequest(f"The body has more than {max_values} values.")
        plain = before + plain
        has_long_number = has_long_number or _LONG_NUMBER.search(plain) is not None
        inside ^= len(parts) % 2 == 0
        start, before = end, b"" if inside else plain[-_LONG_DIGITS:]
    return has_long_number


def _ends_in_escape(body: bytes, start: int, end: int) -> bool:
    """Whether the piece ends with an odd number of backslashes, so that the last one escapes the next character."""
    if body[end - 1] != _BACKSLASH:
        return False
    piece = body[start:end]
    return (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1


def parsing_slots() -> FairSlots:
    """The turns in which an app parses large bodies; its ``app.state.parsing``."""
    return FairSlots(_PARSING, each=1, what="large bodies")


def reading_slots() -> FairSlots:
    """The turns in which an app answers what a tenant reads; its ``app.state.reading``."""
    return FairSlots(each=_READING)


def body_budget() -> ByteBudget:
    """The memory for large bodies of an app; its ``app.state.bodies``."""
    return ByteBudget(_MAX_HELD_BYTES, _PARSING_WAIT_S)


BODY_LIMIT = "x-body-limit-setting"
"""``openapi_extra`` key of a route that takes larger bodies: the name of the setting that holds its limit in bytes.

Such a route also takes ten times as many JSON values as ``max_json_values``. A number is the limit of a smaller form.
"""


class StrictRequest(Request):
    """A request whose body is limited to the route's maximum, and whose JSON is parsed strictly.

    Attributes:
        tenant: whose turns it takes where large bodies are parsed; empty if that is not known.
        room: holds the bytes of a large body; None where tenants are not known.
        check: called once a body is read, for which its client may have taken minutes; may raise a ServiceError.
    """

    tenant = ""
    room: Share | None = None
    check: Callable[[], Awaitable[None]] | None = None

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            PayloadTooLarge: the body is longer than the route accepts. The rest is not read.
            Overloaded: other bodies use all memory, half-sent ones included.
            ServiceError: as ``check``.
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
                await self._take(min(len(chunk), size - _LARGE))
                chunks.append(chunk)
            if size and self.check is not None:
                await self.check()
            self._body = b"".join(chunks)
        return self._body

    async def _take(self, size: int) -> None:
        """Wait for memory for ``size`` more bytes of a large body. What is not read, the client cannot send."""
        if self.room is None or size <= 0:
            return
        try:
            await self.room.take(size, asyncio.get_running_loop().time() + _PARSING_WAIT_S)
        except BudgetTimeout:
            raise Overloaded("Other requests' bodies use all memory.", retry_after_s=1) from None

    def release(self) -> None:
        """Count the body no longer: it was parsed, and limits on runs and imports bound what is made of it."""
        if self.room is not None:
            self.room.give_back(self.room.held)

    async def json(self) -> Any:
        """The parsed body; see :func:`loads_strict`."""
        if not hasattr(self, "_json"):
            self._json = await self._beside(self._parsed)
        return self._json

    async def validate(self, model: TypeAdapter[Any]) -> None:
        """Replace the parsed body by its model. FastAPI accepts that as it is, so it validates nothing again.

        Raises:
            InvalidRequest: as :func:`loads_strict`.
            RequestValidationError: the body is not valid.
        """
        self._json = await self._beside(lambda body: _validated(model, self._parsed(body)))  # in one turn

    def _parsed(self, body: bytes) -> Any:
        settings, bulk = self.app.state.settings, BODY_LIMIT in self._extra()
        values = settings.max_json_values * (_BULK if bulk else 1)
        return loads_strict(body, max_depth=settings.max_json_depth, max_values=values)

    async def _beside(self, work: Callable[[bytes], Any]) -> Any:
        """Work on the body: if it is not small, in a thread, when its tenant has a turn. Raises Overloaded."""
        body = await self.body()
        if len(body) <= (_SMALL if self.tenant else _LARGE):
            return work(body)
        async with self.app.state.parsing.slot(self.tenant, _PARSING_WAIT_S):
            return await asyncio.to_thread(work, body)

    def _extra(self) -> dict[str, Any]:
        return getattr(self.scope.get("route"), "openapi_extra", None) or {}

    def _limit(self) -> int:
        limit: int | str = self._extra().get(BODY_LIMIT, "max_body_bytes")
        return limit if isinstance(limit, int) else int(getattr(self.app.state.settings, limit))


def _validated(model: TypeAdapter[Any], value: Any) -> Any:
    """The value as the model. Raises RequestValidationError."""
    _check_places(value)
    try:
        return model.validate_python(value)
    except ValidationError as error:
        raise RequestValidationError(_listed(error)) from None


def _listed(error: ValidationError) -> list[Any]:
    listed = error.errors(include_url=False, include_context=False, include_input=False)
    return [{**one, "loc": ("body", *one["loc"])} for one in listed]


def _check_places(value: Any) -> None:
    """Raise InvalidRequest if the names around the values are too long for their number."""
    chars, waiting = 0, [(value, 0)]
    while waiting:
        one, place = waiting.pop()
        if isinstance(one, dict):
            inner = [(member, place + len(name)) for name, member in one.items()]
            chars += sum(length - _USUAL_PLACE_CHARS for _, length in inner if length > _USUAL_PLACE_CHARS)
        else:
            inner = [(item, place) for item in one if isinstance(item, dict | list)] if isinstance(one, list) else []
            chars += len(one) * max(0, place - _USUAL_PLACE_CHARS) if isinstance(one, list) else 0
        if chars > _MAX_PLACE_CHARS:
            raise InvalidRequest("The names of the body's members are too long for the number of values inside them.")
        waiting += inner


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit} bytes.", limit_bytes=limit)


async def refuse_offset(request: Request) -> None:
    """A dependency of lists with a cursor: refuse the `offset` of earlier versions (ValidationFailed), except 0.

    If it were ignored, a client that pages by it would read the first page for ever.
    """
    if any(offset != "0" for offset in request.query_params.getlist("offset")):
        raise ValidationFailed(
            "query.offset: this list has no offset; send the `next` of the page before as `cursor`.",
            errors=[{"field": "query.offset", "message": "use `cursor`", "kind": "value_error"}],
        )


class StrictRoute(APIRoute):
    """A route that admits a request first, and then reads its body, if it takes one, through :class:`StrictRequest`.

    It takes at most one body parameter. If the body is not valid, only its errors are reported, without those of
    other parameters.
    """

    async def admit(self, request: Request) -> None:
        """Raise a :class:`~services.errors.ServiceError` to refuse the request. Called before the body is read."""

    async def readmit(self, request: Request) -> None:
        """Raise a :class:`~services.errors.ServiceError` to refuse the request after all, or to end its stream.

        Called when its body is read, and before each event.
        """

    def tenant_of(self, request: Request) -> str:
        """Whose turns an admitted request takes to be answered, or parsed. No service but the gateway knows."""
        return ""

    def charge(self, request: Request, size: int) -> None:
        """Charge the caller for a body of ``size`` bytes that was read. No service but the gateway does.

        0: nothing yet, it is about to be answered.

        Raises:
            ServiceError: the caller has sent or read too much, so the body is not parsed.
        """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        model = TypeAdapter[Any](self.body_field.field_info.annotation or Any) if self.body_field else None
        bulk = BODY_LIMIT in (self.openapi_extra or {})

        async def strict(request: Request) -> Response:
            await self.admit(request)
            own = StrictRequest(request.scope, request.receive)
            own.tenant = self.tenant_of(request)
            if not own.tenant:
                return await answered(own)
            own.check = partial(self.readmit, own)
            if request.method == "GET":
                async with request.app.state.reading.slot(f"{own.tenant} {self.tags}", _READING_WAIT_S):
                    self.charge(own, 0)  # what others read meanwhile may be too much
                    return await answered(own)
            with request.app.state.bodies.share(str(id(own)), own.tenant) as own.room:
                return await answered(own)

        async def answered(own: StrictRequest) -> Response:
            # Read here, because FastAPI would replace our errors by one without details, build all errors of the body
            # and validate on the event loop. Other bodies are not read: anybody may send one to a route without token.
            if model and (body := await own.body()):
                is_json = "json" in own.headers.get("content-type", "").lower()
                if not (bulk and is_json):  # what it takes, such as an import, has limits of its own
                    self.charge(own, len(body))
                if is_json:
                    try:
                        await own.validate(model)
                    except (InvalidRequest, RequestValidationError):
                        if bulk:
                            self.charge(own, len(body))
                        raise
                    own.release()
            response = await handle(own)
            if isinstance(response, EventResponse):
                response.check = partial(self.readmit, own)
            return response

        return strict


def problem_document(error: ServiceError) -> dict[str, Any]:
    """The members that RFC 9457 defines, then the error's extensions."""
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
    retry_after = error.extensions.get("retry_after_s", _RETRY_AFTER_S if error.status == 503 else None)
    if isinstance(retry_after, int | float):
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    headers |= error.headers
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110, section 11.6.1: a 401 names the scheme
    body = to_json(problem_document(error), inf_nan_mode="null", fallback=str)
    return Response(body, status_code=error.status, media_type=PROBLEM_MEDIA_TYPE, headers=headers)


def validation_problem(error: RequestValidationError) -> ServiceError:
    """Name each invalid field and the reason, without echoing its value (it may be huge, secret or not even JSON)."""
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
    """The methods that this path supports (RFC 9110 requires them in a 405)."""

    def allowed(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in app.router.routes)

    return sorted(filter(allowed, KNOWN_METHODS))


def install_error_handlers(app: FastAPI) -> None:
    """Render every error of this app as a problem document."""

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


def bearer_token(headers: Headers) -> bytes:
    """The bearer token of the `Authorization` header (RFC 6750, section 2.1); empty if there is none.

    Raises:
        InvalidRequest: there are two such headers, and different readers would use different ones.
    """
    given = headers.getlist("authorization")
    if len(given) > 1:
        raise InvalidRequest("There is more than one Authorization header.")
    scheme, _, token = "".join(given).partition(" ")
    return token.encode("latin-1") if scheme.lower() == "bearer" else b""
