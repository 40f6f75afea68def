"""The server under every service: uvicorn, with bounds on what a connection takes before anybody has authorised it.

uvicorn bounds none of these: bytes of a header, time to send a request or to take its answer, connections, requests
that are sent ahead. All of it lives in the protocol, below ASGI, where an application cannot see it yet.
"""

import asyncio
import ipaddress
import resource
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from services.errors import HeadersTooLarge, InvalidRequest, Overloaded, RequestTimeout, ServiceError
from services.http import problem_response
from services.settings import ServiceSettings
from services.telemetry import new_request_id, request_id

_BODY_BYTES_PER_S: Final = 10_000
"""A body may take ``read_timeout_s`` and as long as it takes at this rate."""
_WRITE_TIMEOUT_S: Final = 60.0
"""How long a reader may take nothing of an answer that is waiting for it."""
_LINGER_S: Final = 2.0
"""How long what still comes is thrown away after a refusal: closed at once, TCP would discard the refusal itself."""
_DRAIN_S: Final = 5.0
"""How long the rest of a body is read that was answered before it had come."""
_BITE_S: Final = 0.01
"""Rest between two reads of what is thrown away."""
_SENT_AHEAD: Final = 16
"""Requests on one connection that wait for the one before them."""
_MOST_FILES: Final = 65_536
_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one server takes; :class:`~services.settings.ServiceSettings` says what each means."""

    header_bytes: int
    read_timeout_s: float
    connections: int
    connections_per_address: int
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: ServiceSettings) -> Self:
        """The bounds that the settings ask for, within the files that this process may open."""
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
    """Let this process open as many files as it may: many systems begin at 1,024, which connections use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard < 0 else min(hard, _MOST_FILES)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def address_key(host: str) -> str:
    """What counts as one address: an IPv4 address, or the network of an IPv6 address (a host has 2**64 of those)."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration of a service: bounded connections, no log of its own, no WebSockets."""

    def __init__(self, app: ASGIApp, *, bounds: Bounds | None = None, **options: Any) -> None:
        settings = getattr(getattr(app, "state", None), "settings", None)
        own = settings if isinstance(settings, ServiceSettings) else ServiceSettings.model_construct()
        self.bounds = bounds or Bounds.of(own)
        self.crowd = Crowd(self.bounds)
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            log_level="warning",
            access_log=False,  # the chassis writes one line per request, with the request id
            server_header=False,
            # uvicorn would believe anybody on this machine who says whom he speaks for.
            proxy_headers=bool(self.bounds.trusted_proxies),
            forwarded_allow_ips=list(self.bounds.trusted_proxies),
            **options,
        )


class Crowd:
    """The connections of one server. Who waits makes room for who comes; who is being served is never cut off."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._by_address: dict[str, dict[BoundedProtocol, None]] = {}
        self._all: dict[BoundedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, who: "BoundedProtocol", address: str) -> bool:
        """Whether there is room for one more, if need be by cutting off the oldest that still owes us a request."""
        same = self._by_address.get(address, {})
        full = len(same) >= self._bounds.connections_per_address and address not in self._bounds.trusted_proxies
        if full and not self._make_room(same):
            return False
        if len(self._all) >= self._bounds.connections and not self._make_room(self._all):
            return False
        self._by_address.setdefault(address, {})[who] = None
        self._all[who] = None
        return True

    def leave(self, who: "BoundedProtocol", address: str) -> None:
        """It is gone. May be said twice."""
        self._all.pop(who, None)
        same = self._by_address.get(address, {})
        same.pop(who, None)
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
    """uvicorn's protocol, with bounds. What breaks one is told so, as a problem document, where that can still be."""

    config: BoundedConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounds = self.config.bounds
        self._expects: Literal["head", "body"] | None = "head"
        self._head_bytes = 0
        self._unread_bytes = 0  # since the parser last made anything of them
        self._progress = False
        self._body_bytes = 0
        self._began = 0.0
        self._refusal: ServiceError | None = None
        self._over = False
        self._closes = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._address = ""

    @property
    def is_half_open(self) -> bool:
        """It owes us a request, or the rest of one, and has had no part of an answer to it."""
        return self._over or (self._expects is not None and not self._is_idle_between() and not self._is_answering())

    @property
    def is_idle(self) -> bool:
        """It has had its answers and asked nothing since."""
        return self._is_idle_between()

    def cut_off(self) -> None:
        """Close it at once, whatever it waits for."""
        self._over = True
        self.config.crowd.leave(self, self._address)
        self.transport.abort()

    # ---- the transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A new connection; refused where there are too many that are being served."""
        super().connection_made(transport)
        self._address = address_key(self.client[0]) if self.client else ""
        if not self.config.crowd.enter(self, self._address):
            self._over = True
            transport.write(_as_http(Overloaded("There are too many connections.", retry_after_s=1)))
            transport.close()
            self._end_within(_LINGER_S)
            return
        self._await("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._over = True
        self.config.crowd.leave(self, self._address)
        for timer in (self._read_timer, self._write_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and count what the parser makes nothing of."""
        if self._over:
            self._slow_down()
            return
        self._progress = False
        super().data_received(data)
        if self._over or self.transport.is_closing():
            return
        if self._expects == "body" and self.cycle.response_complete:
            self._slow_down()
        self._unread_bytes = 0 if self._progress else self._unread_bytes + len(data)
        if self._unread_bytes > self._bounds.header_bytes:
            self._refuse(_headers_too_large(self._bounds.header_bytes))
        elif self._expects is None and not self._is_answering():
            self._await("head")  # bytes between two requests, which are none: they do not stop the clock

    def pause_writing(self) -> None:
        """The reader takes less than we send: it has so long."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(_WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # ---- the parser's side

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._head_bytes = 0
        self._await("head")

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request can begin to be served."""
        if len(self.pipeline) >= _SENT_AHEAD:
            self._refusal = InvalidRequest(f"More than {_SENT_AHEAD} requests were sent without waiting for answers.")
            raise ValueError("too many requests at once")
        self._progress = True
        self._await("body")
        super().on_headers_complete()
        if not self.cycle.keep_alive and any(name in _BODY_HEADERS for name, _ in self.headers):
            # uvicorn would close with the answer, and TCP throw the answer away if a part of the body is unread.
            self.cycle.keep_alive, self._closes = True, True

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progress = True
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        self._progress = True
        self._await(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser stumbled over."""
        self._refuse(self._refusal or InvalidRequest(msg))

    # ---- the application's side

    def on_response_complete(self) -> None:
        """The answer is out. What is left of its request is thrown away for a while, so that the answer can be read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._end_within(_WRITE_TIMEOUT_S)
        elif self._expects == "body":
            self._end_within(_DRAIN_S)
            if self._closes:
                self.transport.write_eof()
        elif self._closes:
            self.transport.close()
            self._end_within(_WRITE_TIMEOUT_S)

    def timeout_keep_alive_handler(self) -> None:
        """No further request came."""
        super().timeout_keep_alive_handler()
        self._end_within(_WRITE_TIMEOUT_S)

    # ---- bounds

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
            return  # a request that trickles in gets no more time for it
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
        """The time for a request is up, unless we kept it waiting ourselves or it came fast enough."""
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
        """Say why, where no other answer would be taken for it, and end the connection."""
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
        """Take what is thrown away in small bites: at full speed it would keep the loop from everybody else."""
        self.flow.pause_reading()
        self.loop.call_later(_BITE_S, self._go_on)

    def _go_on(self) -> None:
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
