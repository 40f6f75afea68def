"""Code shared by all typed clients: sending requests, and parsing responses into values and exceptions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import quote

import httpx2
import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from services.contracts.problem import ProblemEvent
from services.errors import (
    DeadlineExceeded,
    InvalidRequest,
    ServiceError,
    ServiceUnavailable,
    Unauthorized,
    from_problem,
)
from services.telemetry import REQUEST_ID_HEADER, request_id
from services.tracing import answered, peer_span

T = TypeVar("T")
DEFAULT_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 2.0
_MOST_PART_BYTES = 128_000_000
"""Longest answer, or line or event of a stream. One may hold the values of a whole run."""
_NUMBER: Final = TypeAdapter(Annotated[int, Field(ge=1, lt=2**63)])
"""The number of a server-sent event."""
Params = Mapping[str, str | int | float | bool | list[str] | None]


def open_http(base_url: str, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """The HTTP client used by a typed client, over sockets or over the given transport.

    It does not follow redirects or use proxies from the environment, because base URLs of services are exact.
    """
    return httpx2.AsyncClient(
        base_url=base_url,
        transport=transport or _Sockets(limits=httpx2.Limits(max_connections=500, max_keepalive_connections=20)),
        timeout=httpx2.Timeout(DEFAULT_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        follow_redirects=False,
        trust_env=False,
    )


class _Sockets(httpx2.AsyncHTTPTransport):
    """The default transport. It also converts an AttributeError to the right exception."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises httpx2.ConnectError if the peer closes the connection as soon as it is open."""
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            # anyio reads the address of a socket that uvloop has already closed, and gets None instead of the socket.
            raise httpx2.ConnectError("the peer closed the connection", request=request) from error


def segment(value: str) -> str:
    """Encode a value as one path segment. ``.`` and ``..`` are escaped, as they would be dot segments."""
    return value.replace(".", "%2E") if value in {".", ".."} else quote(value, safe="")


def search_params(
    query: str | None,
    provider: str | None,
    tags: Sequence[str],
    methods: Sequence[str],
    deprecated: bool,
    limit: int,
    offset: int,
    cursor: str | None,
) -> dict[str, str | int | float | bool | list[str] | None]:
    """The query parameters of ``GET /apis``, which are the same in gateway and retriever."""
    return {
        "query": query,
        "provider": provider,
        "tag": list(tags) or None,
        "method": list(methods) or None,
        "deprecated": None if deprecated else "false",
        "limit": limit,
        "offset": offset or None,
        "cursor": cursor,
    }


Turn = Callable[[int], AbstractAsyncContextManager[Any]]
"""A context in which so many bytes are parsed."""


class ServiceClient:
    """Calls one service. Subclasses add a method per route.

    Args:
        http: HTTP client for the service.
        token: bearer token, sent with every request.
    """

    service: ClassVar[str]

    def __init__(self, http: httpx2.AsyncClient, token: str | None = None) -> None:
        self._http = http
        if token:
            http.headers["Authorization"] = f"Bearer {token}"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ready(self) -> None:
        """Raise the service's error, or ServiceUnavailable, unless it is ready."""
        await self._send("GET", "/readyz", timeout_s=2.0)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> bytes:
        """Send and read the whole answer.

        Raises:
            ServiceUnavailable: there was no response, or it was not HTTP or too long.
            DeadlineExceeded: there was no complete response within ``timeout_s`` seconds.
            ServiceError: the service responded with a problem document.
        """
        # This timeout covers the whole exchange. httpx2's applies to each read, so a slow stream never exceeds it.
        timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
        request = self._build(method, path, body, params, headers, timeout)
        try:
            with peer_span(self.service, method, request.headers) as span:
                async with asyncio.timeout(timeout_s):
                    response = await self._http.send(request, stream=True)
                    content = await self._whole(response)
                answered(span, response.status_code)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise self._timed_out(error, timeout_s) from error
        except httpx2.HTTPError as error:
            raise self._unavailable() from error
        if response.is_success:
            return content
        raise self._problem(response, content)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[T],
        turn: Turn = nullcontext,
        **options: Any,
    ) -> T:
        """Send, and parse the response as ``answer``, in a ``turn``."""
        content = await self._send(method, path, **options)
        async with turn(len(content)):
            return self._parse(answer, content)

    async def _events(
        self,
        path: str,
        events: TypeAdapter[T],
        body: BaseModel | None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
        params: Params | None = None,
        method: str = "POST",
        event_timeout_s: float | None = None,
        turn: Turn = nullcontext,
    ) -> AsyncGenerator[T, None]:
        """Send, and read the response line by line (``application/x-ndjson``).

        ``timeout_s`` limits each read, heartbeats included; ``event_timeout_s`` limits the wait for each event.
        A problem as the last event is raised. Each line is parsed in a ``turn``.
        """
        chunks = self._stream(method, path, body=body, params=params, headers=headers, timeout_s=timeout_s)
        async with aclosing(chunks):
            lines = self._parts(chunks, b"\n")
            while True:
                try:
                    async with asyncio.timeout(event_timeout_s):
                        line = await anext(lines, None)
                except TimeoutError as error:
                    raise self._timed_out(error, event_timeout_s or timeout_s) from error
                if line is None:
                    return
                async with turn(len(line)):
                    event = self._event(events, line)
                yield event

    async def _server_sent(
        self, path: str, events: TypeAdapter[T], *, params: Params | None = None, timeout_s: float
    ) -> AsyncGenerator[tuple[int, T], None]:
        """Send, and read numbered server-sent events. ``timeout_s`` limits each read; comments count as data."""
        chunks = self._stream("GET", path, params=params, timeout_s=timeout_s)
        async with aclosing(chunks):
            async for block in self._parts(chunks, b"\n\n"):
                fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
                if b"data" in fields:
                    yield self._parse(_NUMBER, fields.get(b"id", b"")), self._parse(events, fields[b"data"])

    async def _stream(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> AsyncGenerator[bytes, None]:
        """Send, and stream the response. ``timeout_s`` limits each read."""
        timeout = httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
        request = self._build(method, path, body, params, headers, timeout)
        try:
            with peer_span(self.service, method, request.headers) as span:
                response = await self._http.send(request, stream=True)
                answered(span, response.status_code)
                try:
                    if not response.is_success:
                        raise self._problem(response, await self._whole(response))
                    async for chunk in response.aiter_bytes():
                        yield chunk
                finally:
                    await response.aclose()
        except httpx2.TimeoutException as error:
            raise self._timed_out(error, timeout_s) from error
        except httpx2.HTTPError as error:
            raise self._unavailable() from error

    async def _whole(self, response: httpx2.Response) -> bytes:
        """The body of a response; it is closed. Raises ServiceUnavailable if it is too long: it may be packed."""
        content = bytearray()
        async with aclosing(response):
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MOST_PART_BYTES:
                    raise self._unavailable(f"{self.service} answered more than {_MOST_PART_BYTES:,} bytes.")
        return bytes(content)

    def _build(
        self,
        method: str,
        path: str,
        body: BaseModel | None,
        params: Params | None,
        own_headers: Mapping[str, str] | None,
        timeout: httpx2.Timeout,
    ) -> httpx2.Request:
        headers = dict(own_headers or {})
        if request_id.get():
            headers[REQUEST_ID_HEADER] = request_id.get()
        content = None
        if body is not None:
            content, headers["Content-Type"] = body.model_dump_json(by_alias=True).encode(), "application/json"
        given = {key: value for key, value in (params or {}).items() if value is not None}
        try:
            return self._http.build_request(
                method, path, content=content, params=given or None, headers=headers, timeout=timeout
            )
        except httpx2.InvalidURL as error:
            raise InvalidRequest(f"This request cannot be sent to {self.service}: {error}.") from error

    def _parse(self, answer: type[T] | TypeAdapter[T], content: bytes) -> T:
        adapter = answer if isinstance(answer, TypeAdapter) else TypeAdapter(answer)
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise ServiceUnavailable(
                f"{self.service} answered something else than {adapter!r}: {error.error_count()} errors.",
                service=self.service,
            ) from error

    def _event(self, events: TypeAdapter[T], line: bytes) -> T:
        try:
            return self._parse(events, line)
        except ServiceUnavailable:
            try:
                problem = ProblemEvent.model_validate_json(line).problem
            except ValidationError:
                pass
            else:
                raise self._raised(from_problem(problem.model_dump(), problem.status)) from None
            raise

    def _problem(self, response: httpx2.Response, content: bytes) -> ServiceError:
        try:
            problem = orjson.loads(content)
        except orjson.JSONDecodeError:
            problem = None
        if not isinstance(problem, dict) or "type" not in problem:
            return self._unavailable(f"{self.service} answered {response.status_code} without a problem document.")
        return self._raised(from_problem(problem, response.status_code))

    def _raised(self, error: ServiceError) -> ServiceError:
        """The error that the caller gets for the service's error.

        A wrong token between services is not the user's fault, so it becomes ServiceUnavailable.
        """
        if isinstance(error, Unauthorized):
            return self._unavailable(f"{self.service} does not accept the token that was sent.")
        return error

    def _timed_out(self, error: Exception, timeout_s: float) -> ServiceError:
        if isinstance(error, httpx2.ConnectTimeout):
            return self._unavailable()
        return DeadlineExceeded(f"{self.service} did not answer within {timeout_s:g} s.", service=self.service)

    def _unavailable(self, detail: str | None = None) -> ServiceUnavailable:
        return ServiceUnavailable(detail or f"{self.service} does not answer.", service=self.service)

    async def _parts(self, chunks: AsyncIterator[bytes], end: bytes) -> AsyncIterator[bytes]:
        """The non-empty parts of a stream, split at ``end``. httpx2 also splits at U+2028, which JSON may contain.

        Raises:
            ServiceUnavailable: a part is too long.
        """
        rest = bytearray()
        async for chunk in chunks:
            searched = max(len(rest) - len(end) + 1, 0)  # the rest has no end, but perhaps the beginning of one
            rest.extend(chunk)
            if rest.find(end, searched) >= 0:
                *parts, rest = rest.split(end)
                for part in parts:
                    if part.strip():
                        yield bytes(part)
            if len(rest) > _MOST_PART_BYTES:
                raise self._unavailable(f"{self.service} sent an event of more than {_MOST_PART_BYTES:,} bytes.")
        if rest.strip():
            yield bytes(rest)
