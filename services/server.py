"""The server of every service: uvicorn, with limits on what a connection may use before it is authorised.

uvicorn does not limit header bytes, the time to send a request or to read its response, connections, or pipelined
requests. These limits belong in the protocol, below ASGI, where the application does not see the request yet.
"""

import asyncio
import resource
import sys
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.lifespan.on import LifespanOn, LifespanSendMessage
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from services.errors import HeadersTooLarge, InvalidRequest, Overloaded, RequestTimeout, ServiceError, UnusableSettings
from services.http import problem_response
from services.settings import ServiceSettings
from services.telemetry import new_request_id, request_id
from services.turns import address_key, give_up, waits

_BODY_BYTES_PER_S: Final = 10_000
"""A body may take ``read_timeout_s`` plus the time it takes at this rate."""
_WRITE_TIMEOUT_S: Final = 60.0
"""How long a client may read nothing of a response that waits for it."""
_LINGER_S: Final = 2.0
"""How long input is discarded after a refusal. Closing at once would make TCP discard the refusal itself."""
_DRAIN_S: Final = 5.0
"""How long the rest of a body is read if the response was sent before the whole body arrived."""
_DISCARD_PAUSE_S: Final = 0.01
"""Pause between two reads of discarded input."""
_MAX_PIPELINED: Final = 16
"""Maximum number of pipelined requests that wait on one connection."""
_MAX_HEADERS: Final = 200
"""Maximum number of headers. Each takes a hundred bytes of memory, also if it is four bytes long."""
_PIECE_BYTES: Final = 64
"""A piece of a body is small below this size. Each piece costs a call, however small it is."""
_MAX_SMALL_PIECES: Final = 1_000
"""How many more small pieces than others one body may have."""
_MAX_FILES: Final = 65_536
_BODY_HEADERS: Final = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one server. :class:`~services.settings.ServiceSettings` describes each."""

    header_bytes: int
    read_timeout_s: float
    connections: int
    connections_per_address: int
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: ServiceSettings) -> Self:
        """The limits in the settings, capped by the number of files that this process may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = settings.max_connections if files < 0 else min(settings.max_connections, max(files // 2, 1))
        return cls(
            header_bytes=settings.max_header_bytes,
            read_timeout_s=settings.read_timeout_s,
            connections=connections,
            connections_per_address=min(settings.max_connections_per_address, max(connections // 2, 1)),
            trusted_proxies=settings.trusted_proxies,
        )


def raise_file_limit() -> None:
    """Raise the soft limit of open files. Many systems start at 1,024, which connections can use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard < 0 else min(hard, _MAX_FILES)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration of a service: bounded connections, no log of its own, no WebSockets."""

    def __init__(self, app: ASGIApp, *, bounds: Bounds | None = None, **options: Any) -> None:
        settings = getattr(getattr(app, "state", None), "settings", None)
        own = settings if isinstance(settings, ServiceSettings) else ServiceSettings.model_construct()
        self.bounds = bounds or Bounds.of(own)
        self.limiter = ConnectionLimiter(self.bounds)
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            log_level="warning",
            access_log=False,  # RequestScopeMiddleware writes one line per request, with the request id
            server_header=False,
            # uvicorn's default trusts X-Forwarded-For from any process on this machine.
            proxy_headers=bool(self.bounds.trusted_proxies),
            forwarded_allow_ips=list(self.bounds.trusted_proxies),
            log_config=None,  # its lines go where all others go, in the same form
            **options,
        )

    def load(self) -> None:
        """See :class:`uvicorn.Config`."""
        super().load()
        self.lifespan_class = _Lifespan


class _Lifespan(LifespanOn):
    """uvicorn's start of an application. A cause that is no bug is told in one line, without a traceback."""

    async def send(self, message: LifespanSendMessage) -> None:
        """Called by the application, when the start fails while it handles the error."""
        error = sys.exception()
        if message["type"] == "lifespan.startup.failed" and isinstance(
            error, UnusableSettings | ServiceError | OSError
        ):
            message["message"] = str(error)
        await super().send(message)


class ConnectionLimiter:
    """The connections of one server. A new one may replace a waiting one, but never one that is being served."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._by_address: dict[str, dict[BoundedProtocol, None]] = {}
        self._all: dict[BoundedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, connection: "BoundedProtocol", address: str) -> bool:
        """Add a connection if there is room.

        To make room, it closes the oldest connection that is half open, or else the oldest idle one.

        Returns:
            Whether it was added.
        """
        same = self._by_address.get(address, {})
        full = len(same) >= self._bounds.connections_per_address and address not in self._bounds.trusted_proxies
        if full and not self._make_room(same):
            return False
        if len(self._all) >= self._bounds.connections and not self._make_room(self._all):
            return False
        self._by_address.setdefault(address, {})[connection] = None
        self._all[connection] = None
        return True

    def leave(self, connection: "BoundedProtocol", address: str) -> None:
        """Remove a connection. Idempotent."""
        self._all.pop(connection, None)
        same = self._by_address.get(address, {})
        same.pop(connection, None)
        if not same:
            self._by_address.pop(address, None)

    def _make_room(self, among: dict["BoundedProtocol", None]) -> bool:
        idle: BoundedProtocol | None = None
        for one in among:
            if one.is_half_open:
                one.cut_off()
                return True
            idle = idle or (one if one.is_idle else None)
        if idle is not None:
            idle.cut_off()
        return idle is not None


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits. A client that exceeds one gets a problem document if a response can be sent."""

    config: BoundedConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounds = self.config.bounds
        self._expects: Literal["head", "body"] | None = "head"
        self._head_bytes = 0
        self._headers_seen = 0
        self._unread_bytes = 0  # since the parser last made progress
        self._progress = False
        self._body_bytes = 0
        self._small_pieces = 0  # of the current body, less the others
        self._began = 0.0
        self._refusal: ServiceError | None = None
        self._over = False
        self._closes = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._address = ""
        self._served: RequestResponseCycle | None = None

    @property
    def is_half_open(self) -> bool:
        """The client has not sent a complete request, or its request waits for a turn, and no response has begun.

        Those without an accepted token could otherwise keep all connections by requests that wait.
        """
        if self._over or (self._served is not None and waits(self._served.scope)):
            return True
        return self._expects is not None and not self._is_idle_between() and not self._is_answering()

    @property
    def is_idle(self) -> bool:
        """All responses are sent and no new request has begun."""
        return self._is_idle_between()

    def cut_off(self) -> None:
        """Close the connection at once."""
        self._over = True
        self.config.limiter.leave(self, self._address)
        self.transport.abort()

    # ---- the transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a new connection, or refuse it if too many are being served."""
        super().connection_made(transport)
        self._address = address_key(self.client[0]) if self.client else ""
        if not self.config.limiter.enter(self, self._address):
            self._over = True
            transport.write(_as_http(Overloaded("There are too many connections.", retry_after_s=1)))
            transport.close()
            self._end_within(_LINGER_S)
            return
        self._await("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._over = True
        self.config.limiter.leave(self, self._address)
        for timer in (self._read_timer, self._write_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        if self._served is not None:
            self._served.disconnected = True
            self._served.message_event.set()
            give_up(self._served.scope)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and count the bytes with which the parser makes no progress."""
        if self._over or (self._closes and self._expects is None):
            self._slow_down()
            return
        self._progress = False
        self._small_pieces = max(self._small_pieces - 1, 0)  # a slow client may send a few bytes at a time
        super().data_received(data)
        if self._over or self.transport.is_closing():
            return
        if self._expects == "body" and self.cycle.response_complete:
            self._slow_down()
        self._unread_bytes = 0 if self._progress else self._unread_bytes + len(data)
        if self._unread_bytes > self._bounds.header_bytes:
            self._refuse(_headers_too_large(self._bounds.header_bytes))
        elif self._expects is None and not self._is_answering():
            self._await("head")  # bytes between requests that start none: the timeout still runs

    def pause_writing(self) -> None:
        """The client reads more slowly than we send. Start its timeout."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(_WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up. Stop its timeout."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # ---- the parser's side

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._head_bytes = self._headers_seen = 0
        self._await("head")

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer. Trailers are dropped: uvicorn would add them to the headers."""
        self._count(len(name) + len(value) + 4)
        self._headers_seen += 1
        if self._headers_seen > _MAX_HEADERS:
            self._refusal = HeadersTooLarge(f"There are more than {_MAX_HEADERS} headers.")
            raise ValueError("too many headers")
        if self._expects == "body":
            return  # a proxy may pass trailers on unchecked, for example one that names the client's address
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are complete, so the request can be served."""
        names = {name for name, _ in self.headers}
        # After such a request the parser skips the body, and would take what follows for the next request.
        upgrades = self.parser.should_upgrade()
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._reject(f"More than {_MAX_PIPELINED} requests were sent without waiting.")
        if upgrades and names & _BODY_HEADERS:
            self._reject("A request with a body cannot ask for another protocol (Upgrade, CONNECT).")
        if b"transfer-encoding" in names and self.parser.get_http_version() != "1.1":
            self._reject("Only HTTP/1.1 has Transfer-Encoding (RFC 9112, section 6.1).")
        self._progress = True
        self._small_pieces = 0
        self._await("body")
        super().on_headers_complete()
        if upgrades:
            self.cycle.keep_alive, self._closes = False, True
        elif not self.cycle.keep_alive and names & _BODY_HEADERS:
            # uvicorn would close after the response. With part of the body unread, TCP would discard the response.
            self.cycle.keep_alive, self._closes = True, True
        if names & _BODY_HEADERS:
            self.flow.pause_reading()  # until the application asks for the body: its turn may be late

    def on_body(self, body: bytes) -> None:
        """A piece of the body. While the body is discarded, every piece counts as small."""
        self._progress = True
        self._body_bytes += len(body)
        small = len(body) < _PIECE_BYTES or self.cycle.response_complete
        self._small_pieces = max(self._small_pieces + (1 if small else -1), 0)
        if self._small_pieces > _MAX_SMALL_PIECES:
            self._reject(f"The body comes in too many pieces of less than {_PIECE_BYTES} bytes.")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._progress = True
        self._await(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser rejected."""
        if self._expects == "body" and self.cycle.response_complete:
            self._over = True  # a second response would pass for that of the next request
            self.transport.write_eof()
            return
        self._refuse(self._refusal or InvalidRequest(msg))

    # ---- the application's side

    def on_response_complete(self) -> None:
        """The response is sent. Discard the rest of its request for a while, so that the client can read it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._end_within(_WRITE_TIMEOUT_S)
        elif self._expects == "body":
            self._end_within(_DRAIN_S)
            if self._closes:
                self.transport.write_eof()
        elif self._closes and not self._is_answering():
            self.transport.close()
            self._end_within(_WRITE_TIMEOUT_S)

    def timeout_keep_alive_handler(self) -> None:
        """No further request arrived in time."""
        super().timeout_keep_alive_handler()
        self._end_within(_WRITE_TIMEOUT_S)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    # ---- bounds

    def _reject(self, why: str) -> None:
        """Make the parser stop. Then :meth:`send_400_response` answers with the reason."""
        self._refusal = InvalidRequest(why)
        raise ValueError(why)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._bounds.header_bytes:
            self._refusal = _headers_too_large(self._bounds.header_bytes)
            raise ValueError("headers too large")

    def _is_answering(self) -> bool:
        latest = self.cycle
        return bool(self.pipeline) or (latest is not None and not (latest.response_complete or latest.more_body))

    def _is_idle_between(self) -> bool:
        return self._expects is None and self.cycle is not None and self.cycle.response_complete

    def _await(self, what: Literal["head", "body"] | None) -> None:
        if what == "head" and self._expects == "head" and self._read_timer is not None:
            return  # a request that arrives slowly gets no extra time
        self._expects = what
        self._began, self._body_bytes = self.loop.time(), 0
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        if what is None:
            if self._end_timer is not None:
                self._end_timer.cancel()
                self._end_timer = None
        else:
            self._read_timer = self.loop.call_later(self._bounds.read_timeout_s, self._check_reading)

    def _check_reading(self) -> None:
        """Refuse the request if its time is up, unless we paused reading or the body arrives fast enough."""
        self._read_timer = None
        if self._over or self.transport.is_closing():
            return
        now = self.loop.time()
        if self._is_answering() or self.flow.read_paused:
            self._began, self._body_bytes = now, 0
        left = self._began + self._bounds.read_timeout_s + self._body_bytes / _BODY_BYTES_PER_S - now
        if left > 0:
            self._read_timer = self.loop.call_later(left, self._check_reading)
        else:
            self._refuse(RequestTimeout(f"The request was not received within {self._bounds.read_timeout_s:g} s."))

    def _refuse(self, error: ServiceError) -> None:
        """Send the error, unless it could be mistaken for part of another response, and end the connection."""
        self._over = True
        self._unset_keepalive_if_required()
        self._end_within(_LINGER_S)
        cycle = self.cycle
        if self._is_answering():
            self.transport.close()
            return
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_as_http(error))
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write_eof()

    def _slow_down(self) -> None:
        """Read discarded input slowly. At full speed it would block the event loop for other connections."""
        self.flow.pause_reading()
        self.loop.call_later(_DISCARD_PAUSE_S, self._resume_reading)

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _end_within(self, seconds: float) -> None:
        if self._end_timer is None:
            self._end_timer = self.loop.call_later(seconds, self.transport.abort)


def _headers_too_large(limit: int) -> HeadersTooLarge:
    return HeadersTooLarge(f"Address and headers are larger than {limit} bytes.", limit_bytes=limit)


def _as_http(error: ServiceError) -> bytes:
    token = request_id.set(new_request_id())
    try:
        response = problem_response(error)
    finally:
        request_id.reset(token)
    head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
    return b"HTTP/1.1 %d \r\n%sconnection: close\r\n\r\n%s" % (response.status_code, head, bytes(response.body))
