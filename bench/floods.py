"""Floods from clients without a token: requests that are never finished, and bodies of 100 MB.

Meanwhile this process measures ``/healthz``. These times include delays within this process itself.
"""

import asyncio
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.figures import Figure
from bench.processes import rss_mb, service
from deploy.sockets import free_port

HALF_SENT = 2_500
FILES = 1_024
"""The gateway's soft limit of open files at start, a common system default."""
WATCHED_S = 10.0
BODIES = 4
BODY_BYTES = 100_000_000
HALF = b"POST /solve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
WHOLE = b"POST /apis:import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
STALL_MS = 100.0
GROWTH_MB = 50.0


def measure() -> list[Figure]:
    """Start a gateway with a token, and send requests without one."""
    port = free_port()
    env = {"NESTOR_GATEWAY_TOKEN": "a-token-for-the-bench", "NESTOR_GATEWAY_LOG_LEVEL": "ERROR"}
    with ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory())
        serve = ("deploy.cli", "serve", "--port", str(port), "--data", data)
        with _files(FILES):
            started = service(*serve, env=env, url=f"http://127.0.0.1:{port}", ready="/readyz")
            child, _ = stack.enter_context(started)
        with _files(HALF_SENT + FILES):
            half_sent = asyncio.run(_half_sent(port))
        bodies = asyncio.run(_bodies(port, child.pid))
    return [
        Figure(f"/healthz beside {HALF_SENT:,} half-sent requests, the slowest", half_sent, "ms", STALL_MS),
        *bodies,
    ]


@contextmanager
def _files(number: int) -> Iterator[None]:
    """Set the limit of open files of this process and of those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _half_sent(port: int) -> float:
    """Begin requests and never finish them. Returns the slowest ``/healthz`` response afterwards, in milliseconds."""
    held = []
    try:
        for _ in range(HALF_SENT):
            line = socket.socket()
            line.setblocking(False)
            held.append(line)
            await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", port))
            line.send(HALF)
        slowest, ends = 0.0, time.perf_counter() + WATCHED_S
        while time.perf_counter() < ends:
            slowest = max(slowest, await health_ms(port))
            await asyncio.sleep(0.02)
        return slowest
    finally:
        for line in held:
            line.close()


async def _bodies(port: int, pid: int) -> list[Figure]:
    """Send large bodies in parallel threads, and measure memory and the slowest ``/healthz`` response meanwhile."""
    before = most = rss_mb(pid)
    sending = [asyncio.create_task(asyncio.to_thread(_send, port)) for _ in range(BODIES)]
    slowest, ends = 0.0, time.perf_counter() + WATCHED_S
    while time.perf_counter() < ends or not all(task.done() for task in sending):
        slowest = max(slowest, await health_ms(port))
        most = max(most, rss_mb(pid))
        await asyncio.sleep(0.01)
    refused = [await task for task in sending].count(b"401")
    return [
        Figure(f"{BODIES} bodies of 100 MB without a token: more memory", most - before, "MB", GROWTH_MB),
        Figure("  /healthz meanwhile, the slowest", slowest, "ms", STALL_MS),
        Figure("  of them answered with 401", refused, "", BODIES, True),
    ]


def _send(port: int) -> bytes:
    """Send as much of a body as is accepted. Returns the response's status; empty if there is no response."""
    chunk = b"[]," * 100_000
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        sent, answer = 0, b""
        try:
            line.sendall(WHOLE % BODY_BYTES)
            while sent < BODY_BYTES:
                line.sendall(chunk)
                sent += len(chunk)
        except ConnectionError:
            pass  # the server refused the body
        try:
            while data := line.recv(65_536):
                answer += data
        except ConnectionError:
            pass
    return answer.partition(b" ")[2][:3]


async def health_ms(port: int) -> float:
    """Time of one ``/healthz`` request, including its connection. Raises ConnectionError unless the status is 200."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEALTH)
    answer = await reader.read(-1)
    writer.close()
    if b" 200 " not in answer[:20]:
        raise ConnectionError(f"/healthz answered {answer[:40]!r}")
    return (time.perf_counter() - began) * 1000
