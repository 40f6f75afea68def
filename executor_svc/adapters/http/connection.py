"""Connections that take what a request asked for, and no more.

All that the executor uses of aiohttp's private names is here.
"""

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader


class UpstreamConnection(ResponseHandler):
    """One connection to an upstream. It ends with the first byte that no request asked for.

    aiohttp would parse such data into a queue without a limit, and the next request would take it for its answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._used = self._awaits_head = False
        self._body: StreamReader | None = None

    def set_response_params(self, **params: Any) -> None:
        """Expect the answer of a request. aiohttp calls this before it sends one."""
        self._used = self._awaits_head = True
        self._body = None
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head that was parsed."""
        if not self._awaits_head:
            self._end()
            return
        message, body = data
        if not 100 <= message.code < 200 or message.code == 101:
            self._awaits_head, self._body = False, body
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the upstream; none if the parser shall go on with those that it holds."""
        # What comes before the first request is not parsed: aiohttp keeps the beginning, and stops reading.
        if self._used and data and not self._awaits_head and (self._body is None or self._body.is_eof()):
            self._end()
        else:
            super().data_received(data)

    def _end(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class UpstreamConnector(aiohttp.TCPConnector):
    """Opens such connections, with the options of :class:`aiohttp.TCPConnector`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        opened: type[ResponseHandler] = UpstreamConnection
        self._factory = partial(opened, loop=asyncio.get_running_loop())
