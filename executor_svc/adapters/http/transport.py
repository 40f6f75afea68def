"""Sends one request and reads one answer, within a deadline and a size. Handles no APIs, credentials or retries."""

import asyncio
import contextvars
import io
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDictProxy
from opentelemetry.trace import SpanKind
from yarl import URL

from executor_svc.adapters.http.coding import ACCEPTED, Decoder, Undecodable
from executor_svc.adapters.http.connection import Overlong, UpstreamConnector
from executor_svc.adapters.http.guard import AddressGuard, AddressRefused
from executor_svc.models import Confirm
from executor_svc.settings import ExecutorSettings
from services.byte_budget import FREE_BYTES, BudgetTimeout, ByteBudget, Share
from services.tracing import TRACEPARENT, Attributes, answered, inject, span

USER_AGENT: Final = "nestor"
_STREAMED_FROM: Final = 1024 * 1024
_READ_BYTES: Final = 16 * 1024
"""Twice as much of each answer is parsed at a time: 128 in small chunks, with aiohttp's 256 kB, took 2 s in one go."""
_NO_ROOM: Final = "other calls use all memory for answers; try again"


class SendFailed(Exception):
    """There is no complete answer.

    Attributes:
        reason: `refused` by the guard; `connection`; `timeout`; `bad_response` if the answer is not HTTP or too large;
            `overloaded` if the answers of other calls leave no memory for it.
        sent: whether the upstream may have seen the request.
        status: the answer's status, if it arrived.
    """

    def __init__(
        self,
        reason: Literal["refused", "connection", "timeout", "bad_response", "overloaded"],
        message: str,
        *,
        sent: bool,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.sent, self.status = reason, message, sent, status

    @property
    def error_type(self) -> str:
        """The error type in spans."""
        return self.reason


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``truncated``: whether an error's body was longer than the part that is kept."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    truncated: bool

    @property
    def content_type(self) -> str:
        """The Content-Type header, or an empty text. Invalid UTF-8 is replaced, since it could not be sent on."""
        return _text(self.headers.get("Content-Type", ""))


@dataclass(slots=True)
class _Exchange:
    """The progress of a request, the share that holds its answer, its size limit, and how long it may wait for room.

    ``confirm`` is asked once there is a connection, just before the request is sent.
    """

    share: Share
    max_bytes: int
    patient_until: float
    confirm: Confirm | None
    sent: bool = False
    status: int | None = None


_CURRENT: contextvars.ContextVar[_Exchange] = contextvars.ContextVar("exchange")


def _address(method: str, url: URL) -> Attributes:
    """The span attributes of a request. The path and the query are left out, since they hold arguments."""
    return {"http.request.method": method, "server.address": url.raw_host or "", "server.port": url.port or 0}


class Transport:
    """aiohttp behind the address guard: no redirects, no stored cookies, no proxies or logins from the environment."""

    def __init__(
        self,
        pooled: aiohttp.ClientSession,
        fresh: aiohttp.ClientSession,
        guard: AddressGuard,
        settings: ExecutorSettings,
    ) -> None:
        self._pooled, self._fresh, self._guard = pooled, fresh, guard
        self.budget = ByteBudget(settings.max_answers_bytes, settings.answers_wait_s)
        self._max_bytes, self._max_error_bytes = settings.max_response_bytes, settings.max_error_bytes
        self._traced_hosts = frozenset(host.lower() for host in settings.traceparent_hosts)

    async def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        deadline: float,
        once: bool = False,
        tls: ssl.SSLContext | None = None,
        share: Share | None = None,
        confirm: Confirm | None = None,
    ) -> Reply:
        """Send a request and read the answer.

        Args:
            method: the request's method.
            url: the URL, exactly as it is sent.
            headers: the request's headers.
            body: the request's body; None if there is none.
            deadline: a reading of the loop's clock.
            once: use a new connection. If the upstream closes a reused connection at the same time, it is unknown
                whether it has seen the request.
            tls: a certificate to connect with.
            share: holds the answer beyond its first 64 kB. Without a share the answer may not be larger.
            confirm: called once there is a connection; nothing is sent if it raises. Its errors are passed on.

        Raises:
            SendFailed: there is no complete answer. It says whether the upstream may have seen the request.
        """
        # A request that may have had an effect is not repeated, so waiting for its answer is worth the whole deadline.
        patient_until = deadline if once else asyncio.get_running_loop().time() + self.budget.patience_s
        most = min(self._max_bytes, FREE_BYTES) if share is None else self._max_bytes
        exchange = _Exchange(share or self.budget.share("", ""), most, patient_until, confirm)
        held = exchange.share.held
        with span(method, _address(method, url), kind=SpanKind.CLIENT) as current:
            try:
                self._guard.check_url(url)
                async with asyncio.timeout_at(deadline):
                    return await self._exchange(method, url, self._traced(url, headers), body, once, exchange, tls)
            except (aiohttp.ClientError, OSError, SendFailed) as error:
                exchange.share.give_back(exchange.share.held - held)
                raise error if isinstance(error, SendFailed) else _failure(error, exchange) from error
            finally:
                if exchange.status is not None:
                    answered(current, exchange.status)

    def _traced(self, url: URL, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers, with `traceparent` if the host gets it. An argument of that name takes precedence."""
        hosts = self._traced_hosts
        if not hosts or hosts.isdisjoint(("*", url.raw_host, f"{url.raw_host}:{url.port}")):
            return headers
        if any(name.lower() == TRACEPARENT for name in headers):
            return headers
        traced = dict(headers)
        inject(traced)
        return traced

    async def _exchange(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        once: bool,
        exchange: _Exchange,
        tls: ssl.SSLContext | None,
    ) -> Reply:
        session = self._fresh if once else self._pooled
        data = io.BytesIO(body) if body is not None and len(body) > _STREAMED_FROM else body
        _CURRENT.set(exchange)
        async with session.request(
            method,
            url,
            headers=headers,
            data=data,
            allow_redirects=False,
            ssl=True if tls is None else tls,
        ) as response:
            exchange.status = response.status
            try:
                return await self._reply(response, exchange)
            except Undecodable as error:
                response.close()
                raise SendFailed("bad_response", str(error), sent=True, status=response.status) from None
            except BudgetTimeout:
                response.close()
                raise SendFailed("overloaded", _NO_ROOM, sent=True, status=response.status) from None

    async def _reply(self, response: aiohttp.ClientResponse, exchange: _Exchange) -> Reply:
        """Read the answer. The body of an error is read as far as possible, since the status already tells the result.

        Raises:
            Undecodable: a success is too large, or not in the coding it claims.
            BudgetTimeout: other answers leave no memory for it.
        """
        succeeded = 200 <= response.status < 300
        limit = exchange.max_bytes if succeeded else min(self._max_error_bytes, exchange.max_bytes)
        content = bytearray()
        try:
            await self._decode(response, content, limit, exchange)
        except Undecodable:
            if succeeded:
                raise
            response.close()
            return Reply(response.status, response.headers, bytes(content[:limit]), truncated=True)
        return Reply(response.status, response.headers, bytes(content), truncated=False)

    async def _decode(
        self, response: aiohttp.ClientResponse, content: bytearray, limit: int, exchange: _Exchange
    ) -> None:
        """Read into ``content``, at most a little more than ``limit`` bytes. Other calls get turns between its pieces.

        Raises:
            Undecodable: see :class:`Decoder`; or the answer is too large.
            BudgetTimeout: other answers leave no memory for it.
        """
        decoder, covered = None, FREE_BYTES
        async for chunk in response.content.iter_any():
            decoder = decoder or Decoder(_text(", ".join(response.headers.getall("Content-Encoding", ()))))
            for piece in decoder.feed(chunk):
                _add(piece, content, limit)
                if len(content) > covered:
                    await exchange.share.take(len(content) - covered, exchange.patient_until)
                    covered = len(content)
                await asyncio.sleep(0)
        if decoder is not None:
            _add(decoder.end(), content, limit)


def _add(piece: bytes, content: bytearray, limit: int) -> None:
    content += piece
    if len(content) > limit:
        raise Undecodable(f"the answer is larger than {limit} bytes")


def _text(header: str) -> str:
    return header.encode("utf-8", "replace").decode("utf-8")


def _failure(error: aiohttp.ClientError | OSError, exchange: _Exchange) -> SendFailed:
    """The failure, by type of exception. aiohttp's texts are not passed on: they quote URLs, which may hold secrets."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, AddressRefused):
        return SendFailed("refused", str(cause), sent=False)
    if isinstance(error, aiohttp.InvalidURL):
        return SendFailed("refused", "the URL is not valid", sent=False)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return SendFailed("connection", "no connection was established in time", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendFailed("connection", _connecting(error), sent=False)
    if isinstance(error, TimeoutError):
        return SendFailed(
            "timeout", "no complete answer before the deadline", sent=exchange.sent, status=exchange.status
        )
    if isinstance(error, (aiohttp.ClientResponseError, aiohttp.ClientPayloadError)):
        return SendFailed("bad_response", _malformed(error), sent=True, status=exchange.status)
    if isinstance(error, Overlong):
        return SendFailed("bad_response", f"the answer is too long: {error}", sent=True, status=exchange.status)
    return SendFailed("connection", "the connection was lost", sent=exchange.sent, status=exchange.status)


def _connecting(error: aiohttp.ClientConnectorError) -> str:
    where = f"{error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name of {where} cannot be resolved"
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        return f"no secure connection to {where}: {type(error.os_error).__name__}"
    return f"no connection to {where}: {error.os_error.strerror or type(error.os_error).__name__}"


def _malformed(error: aiohttp.ClientResponseError | aiohttp.ClientPayloadError) -> str:
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the answer's body is broken or incomplete: {type(error.__cause__ or error).__name__}"
    return "the answer is not valid HTTP"


@asynccontextmanager
async def open_transport(settings: ExecutorSettings) -> AsyncIterator[Transport]:
    """A transport with its connection pools, closed at the end."""
    guard = AddressGuard(settings.allowed_private_hosts)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(guard.close)
        pooled = await stack.enter_async_context(_session(settings, guard, fresh=False))
        fresh = await stack.enter_async_context(_session(settings, guard, fresh=True))
        yield Transport(pooled, fresh, guard, settings)


def _session(settings: ExecutorSettings, guard: AddressGuard, *, fresh: bool) -> aiohttp.ClientSession:
    connector = _Connector(
        resolver=guard,
        use_dns_cache=False,  # the guard has one; in aiohttp's, a tenant waits for what another one has begun
        socket_factory=guard.open_socket,
        limit=settings.max_upstream_connections,
        limit_per_host=settings.max_connections_per_host,
        force_close=fresh,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=_NoCookies(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s),
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": ACCEPTED},
        skip_auto_headers=("Content-Type",),
        middlewares=(_never_resend,),
        trust_env=False,
        auto_decompress=False,
        read_bufsize=_READ_BYTES,
    )


class _Connector(UpstreamConnector):
    """Asks whether a request may be sent as late as possible, and keeps track of whether it may have been."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own parameter
    ) -> Connection:
        """A connection for a request that is sent next. Raises what the request's ``confirm`` raises."""
        connection = await super().connect(req, traces, timeout)
        exchange = _CURRENT.get()
        try:
            if exchange.confirm is not None:
                await exchange.confirm()
        except BaseException:
            connection.close()
            raise
        exchange.sent = True
        return connection


class _NoCookies(aiohttp.DummyCookieJar):
    """Stores no cookies and parses none: aiohttp would log the content of those that it cannot parse."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: URL) -> None:
        """Do nothing."""


class _ConnectionLost(aiohttp.ClientError):
    """The connection broke after it was assigned to a request."""


async def _never_resend(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from resending a PUT or DELETE by itself, which it does on these two errors."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise _ConnectionLost from error
