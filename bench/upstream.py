"""``python -m bench.upstream [--precise]``: the service that all runners call, in a separate process.

``GET /call/NAME?ms=...&salt=...&in0=...`` and ``POST /call/NAME?ms=...&salt=...`` with a JSON body return a small
object after ``ms`` milliseconds. It prints its port. It uses bare sockets, so that it does not slow the runners down.
"""

import argparse
import asyncio
import json
import re
import selectors
import sys
import time
from typing import cast

import uvloop

from bench.workload import value_of

_HEAD = re.compile(rb"(GET|POST) /call/(\w+)\?(\S*) HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_AWAKE_S = 0.0005
_NOTE = "what a service says beside the value that matters: names, links, dates and so on"


class Service(asyncio.Protocol):
    """One connection, one request at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport, self._buffer = cast(asyncio.Transport, transport), b""  # uvloop's is not a subclass
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Respond when a request is complete."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        complete = end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < complete:
            return
        request, self._buffer = self._buffer[:complete], self._buffer[complete:]
        delay_ms, answer = respond(request, end + 4)
        if delay_ms:
            due = time.perf_counter() + delay_ms / 1000
            self._loop.call_later(delay_ms / 1000 - _AWAKE_S, self._answer, answer, due)
        else:
            self._transport.write(answer)

    def _answer(self, answer: bytes, due: float) -> None:
        """Respond on time. Called slightly early, so that wake-up latency does not count as the runner's delay."""
        while time.perf_counter() < due:
            pass
        self._transport.write(answer)


def respond(request: bytes, body: int) -> tuple[float, bytes]:
    """The delay in milliseconds, and the response. ``body`` is the offset of the request's body."""
    head = _HEAD.match(request)
    if head is None:
        return 0.0, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    name = head[2].decode()
    arguments = dict(pair.split("=") for pair in head[3].decode().split("&"))
    delay_ms, salt = float(arguments.pop("ms")), int(arguments.pop("salt"))
    given = json.loads(request[body:]) if head[1] == b"POST" else arguments
    value = value_of(name, salt, [int(given[f"in{place}"]) for place in range(len(given))])
    content = json.dumps({"name": name, "value": value, "note": _NOTE, "tags": ["one", "two"]}).encode()
    lines = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return delay_ms, lines.encode() + content


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Service, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Serve. ``--precise`` waits with select(2), whose timeout is in microseconds; epoll's is in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m bench.upstream", description=__doc__)
    parser.add_argument("--precise", action="store_true")
    precise = parser.parse_args().precise
    with asyncio.Runner(loop_factory=_select_loop if precise else uvloop.new_event_loop) as runner:
        runner.run(serve())


def _select_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    main()
