"""A TCP proxy that injects the faults of networks, middleboxes and broken peers."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

_DRIP_S = 0.02


class Fault(StrEnum):
    """What happens to connections during the fault, including those that were open before."""

    REFUSE = "refuse"
    """New connections are refused and open ones are closed."""
    RESET = "reset"
    """The connection is reset instead of forwarding the request, or instead of forwarding the response."""
    BLACK_HOLE = "black hole"
    """All data is dropped silently in both directions, for these connections also after the fault ends."""
    DRIP = "slow drip"
    """Responses arrive byte by byte."""
    TRUNCATE = "truncate"
    """Responses end early, with an orderly close."""
    GARBAGE = "garbage"
    """Responses are replaced by random bytes."""


class FaultProxy:
    """Forwards connections to ``host:port``; ``fault`` is the current fault."""

    def __init__(self, host: str, port: int, rng: random.Random) -> None:
        self._host, self._port, self._rng = host, port, rng
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.fault: Fault | None = None
        self.port = 0

    async def listen(self) -> None:
        """Listen, always on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def set(self, fault: Fault | None) -> None:
        """Set the fault; None ends it."""
        self.fault = fault
        if fault is Fault.REFUSE:
            await self.close()
        elif self._server is None:
            await self.listen()

    async def close(self) -> None:
        """Stop listening and close open connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def quiet(self) -> None:
        """Wait until all data from dead peers is forwarded."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)  # accepted after all waiting connections
        writer.write_eof()
        await reader.read()
        writer.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _Connection(self, self._rng, reader, writer).pass_on(self._host, self._port)
        except (OSError, asyncio.CancelledError):
            pass  # the peer is gone, or the proxy is closed
        finally:
            self._tasks.discard(task)
            writer.close()


class _Connection:
    """One connection. Once a black hole has affected it, it stays silent."""

    def __init__(
        self, proxy: FaultProxy, rng: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._rng, self._reader, self._writer = proxy, rng, reader, writer
        self._swallowed = False

    async def pass_on(self, host: str, port: int) -> None:
        """Forward in both directions until either end closes or the fault ends the connection."""
        reader, writer = await asyncio.open_connection(host, port)
        asking = asyncio.create_task(self._ask(writer))
        answering = asyncio.create_task(self._answer(reader))
        try:
            await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
            while self._swallowed and not asking.done():
                await asyncio.wait((asking,))
        finally:
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
            writer.close()

    async def _ask(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await self._reader.read(65_536):
                self._swallowed |= self._proxy.fault is Fault.BLACK_HOLE
                if self._proxy.fault is Fault.RESET and self._rng.random() < 0.5:
                    return self._reset()
                if not self._swallowed:
                    writer.write(data)
                    await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                fault = self._proxy.fault
                self._swallowed |= fault is Fault.BLACK_HOLE
                if self._swallowed:
                    continue
                if fault is Fault.RESET:
                    return self._reset()
                if fault is Fault.TRUNCATE:
                    self._writer.write(data[: self._rng.randrange(len(data))])
                    return await self._writer.drain()
                await self._write(self._rng.randbytes(len(data)) if fault is Fault.GARBAGE else data)

    async def _write(self, data: bytes) -> None:
        while data and self._proxy.fault is Fault.DRIP:
            self._writer.write(data[:1])
            data = data[1:]
            await asyncio.sleep(_DRIP_S)
        self._writer.write(data)
        await self._writer.drain()

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)  # close with a reset
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.close()


@asynccontextmanager
async def open_proxy(host: str, port: int, rng: random.Random) -> AsyncIterator[FaultProxy]:
    """A proxy on a free port of the loopback interface, without fault."""
    proxy = FaultProxy(host, port, rng)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
