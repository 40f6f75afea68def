"""A one-way TCP proxy between two container networks: it forwards each connection to one fixed address.

Two containers on one network can open connections in both directions. Through this proxy only one side can open a
connection. Example: ``python -m deploy.proxy 0.0.0.0:8000 sandbox_inside:8000``.
"""

import argparse
import asyncio
import contextlib
import signal
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from typing import Final

_CHUNK_BYTES: Final = 65_536


@contextlib.asynccontextmanager
async def proxy(host: str, port: int, to_host: str, to_port: int) -> AsyncIterator[int]:
    """Forward connections until the context ends. Yields the port it listens on; port 0 takes a free one.

    A connection is closed at once if the target address does not answer.

    Raises:
        OSError: the port is taken.
    """

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection(to_host, to_port)
            with contextlib.closing(to_writer), contextlib.suppress(ExceptionGroup):  # if one side fails, both end
                async with asyncio.TaskGroup() as both:
                    both.create_task(_forward(reader, to_writer))
                    both.create_task(_forward(to_reader, writer))

    server = await asyncio.start_server(handle, host, port)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _forward(reader: StreamReader, writer: StreamWriter) -> None:
    """Forward one direction and its end of stream. The other direction may still be sending."""
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _serve(listen: str, to: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    (host, _, port), (to_host, _, to_port) = listen.rpartition(":"), to.rpartition(":")
    async with proxy(host, int(port), to_host, int(to_port)):
        await stop.wait()


def main(argv: list[str] | None = None) -> None:
    """Parse the command line and forward connections until a signal arrives."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.proxy", description="Forward connections to one fixed address."
    )
    parser.add_argument("listen", metavar="HOST:PORT", help="address to listen on")
    parser.add_argument("to", metavar="HOST:PORT", help="address to forward to")
    options = parser.parse_args(argv)
    asyncio.run(_serve(options.listen, options.to))


if __name__ == "__main__":
    main()
