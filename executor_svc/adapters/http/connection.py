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
_MAX_FRAMING: Final = 16 * 1024
_FRAMING_SHARE: Final = 8
"""Beyond that, an eighth of the body: chunks of 48 bytes or more, which take a tenth of what parsing JSON takes."""


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
        self._interim = self._arrived = 0
        self._body: StreamReader | None = None
        self._unparsed = b""
        self._overlong: Overlong | None = None

    def set_response_params(self, **params: Any) -> None:
        """Expect the answer of a request. aiohttp calls this before it sends one."""
        self._used = self._awaits_head = True
        self._interim, self._arrived, self._body = 0, 0, None
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
        if self._overlong is not None and self._body is not None:
            self._body.set_exception(self._overlong)  # aiohttp says that the body is incomplete, to who reads it later

    def _parse(self, data: bytes) -> None:
        """Parse a slice, unless more than enough came that is no body: heads, sizes and extensions of chunks, trailers.

        Each chunk is parsed by itself, however small it is: ten megabytes in chunks of a byte would take 20 s.
        """
        if self.exception() is not None:
            return
        if not self._awaits_head and (self._body is None or self._body.is_eof()):
            self._end()
            return
        before = self._body
        super().data_received(data)
        self._arrived = self._arrived + len(data) if self._body is before else 0
        if self._body is None and self._arrived > _MAX_HEADERS:
            self._end(Overlong(f"more than {_MAX_HEADERS // 1024} kB of headers"))
        elif self._body is not None and self._beside_body(self._body) > _MAX_FRAMING:
            self._end(Overlong(f"more than {_MAX_FRAMING // 1024} kB beside its body, such as sizes of tiny chunks"))

    def _beside_body(self, body: StreamReader) -> int:
        """The bytes that came after the head and are no body, less those that a body of its size may have."""
        return self._arrived - body.total_bytes - body.total_bytes // _FRAMING_SHARE

    def _end(self, error: Overlong | None = None) -> None:
        """Close the connection at once, and fail the request that waits for an answer."""
        if error is not None:
            self._awaits_head, self._overlong = False, error
            self.set_exception(error)
            if self._body is not None:
                self._body.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class UpstreamConnector(aiohttp.TCPConnector):
    """Opens such connections, with the options of :class:`aiohttp.TCPConnector`.

    ``limit`` holds for the idle ones as well, which aiohttp does not count: calls of many hosts, or ports of one, would
    leave thousands of open files.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        opened: type[ResponseHandler] = UpstreamConnection
        self._factory = partial(opened, loop=asyncio.get_running_loop())

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        """Keep a connection that is not used any more, or close it."""
        idle = sum(map(len, self._conns.values()))
        super()._release(key, protocol, should_close=should_close or idle >= self.limit)
