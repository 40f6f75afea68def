"""Connections that take what a request asked for, and no more.

All that the executor uses of aiohttp's private names is here.
"""

import asyncio
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

_SLICE: Final = 4 * 1024
_MAX_INTERIM: Final = 8
_MAX_HEADERS: Final = 64 * 1024


class Overlong(aiohttp.ClientError):
    """The upstream sends on and on, and no answer comes of it. The message quotes nothing of what it sends."""


class UpstreamConnection(ResponseHandler):
    """One connection to an upstream. It ends with the first byte that no request asked for.

    aiohttp parses all that arrives at once, a quarter of a megabyte at a time, and keeps each head in a queue without a
    limit, whoever waits for it. Here it gets slices, so that what is too much ends before it is parsed. The body is in
    slices as well: other heads may follow it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._used = self._awaits_head = False
        self._interim = self._headers = 0
        self._body: StreamReader | None = None
        self._unparsed = b""

    def set_response_params(self, **params: Any) -> None:
        """Expect the answer of a request. aiohttp calls this before it sends one."""
        self._used = self._awaits_head = True
        self._interim, self._headers, self._body = 0, 0, None
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head that was parsed. Interim ones are dropped: nothing waits for them."""
        message, body = data
        if not self._awaits_head:
            self._end()
        elif not 100 <= message.code < 200 or message.code == 101:
            self._awaits_head, self._body = False, body
            super().feed_data(data, size)
        elif self._interim == _MAX_INTERIM:
            self._end(Overlong(f"more than {_MAX_INTERIM} interim answers (1xx)"))
        else:
            self._interim += 1

    def data_received(self, data: bytes) -> None:
        """Take bytes of the upstream; none if the parser shall go on with those that it holds."""
        if not self._used:
            super().data_received(data)  # it keeps the beginning of what comes before the first request
            return
        if not data:
            super().data_received(data)
        data, self._unparsed = self._unparsed + data, b""
        for start in range(0, len(data), _SLICE):
            if self._reading_paused:
                self._unparsed = data[start:]
                return
            self._parse(data[start : start + _SLICE])

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take the end of the connection, after the bytes that came before it."""
        if self.transport is not None:
            data, self._unparsed = self._unparsed, b""
            for start in range(0, len(data), _SLICE):
                self._parse(data[start : start + _SLICE])
        super().connection_lost(exc)

    def _parse(self, data: bytes) -> None:
        """Parse a slice. Until the head is whole, and while the body does not grow (trailers), it counts as headers."""
        if self.exception() is not None:
            return
        if not self._awaits_head and (self._body is None or self._body.is_eof()):
            self._end()
            return
        before = self._arrived()
        super().data_received(data)
        self._headers = self._headers + len(data) if self._arrived() == before else 0
        if self._headers > _MAX_HEADERS:
            self._end(Overlong(f"more than {_MAX_HEADERS // 1024} kB of headers"))

    def _arrived(self) -> int:
        """The bytes of the body so far; -1 before the end of the head."""
        return -1 if self._body is None else self._body.total_bytes

    def _end(self, error: Overlong | None = None) -> None:
        """Close the connection at once, and fail the request that waits for an answer."""
        if error is not None:
            self._awaits_head = False
            self.set_exception(error)
            if self._body is not None:
                self._body.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class UpstreamConnector(aiohttp.TCPConnector):
    """Opens such connections, with the options of :class:`aiohttp.TCPConnector`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        opened: type[ResponseHandler] = UpstreamConnection
        self._factory = partial(opened, loop=asyncio.get_running_loop())
