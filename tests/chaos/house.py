"""Executor processes on one store that can be started, killed, stopped and continued."""

import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from services.clients import ExecutorClient, open_http
from services.errors import ServiceError
from tests.chaos.plans import PROOF_KEY

_PAUSE_BEFORE_RESTART_S = 0.1


class Zygote:
    """The process that forks executors; see :mod:`tests.chaos.zygote`. ``log`` holds their log lines."""

    def __init__(self, process: asyncio.subprocess.Process, log: "Log") -> None:
        self._process, self.log = process, log
        self._lock = asyncio.Lock()

    async def fork(self, port: int, settings: dict[str, Any]) -> int:
        """Start an executor; returns its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._lock:
            self._process.stdin.write(json.dumps({"port": port, "settings": settings}).encode() + b"\n")
            return int(await self._process.stdout.readline())


@asynccontextmanager
async def open_zygote(log: "Log") -> AsyncIterator[Zygote]:
    """Start a zygote in its own process group, which is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.chaos.zygote"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    reading = asyncio.create_task(log.read(process))
    try:
        yield Zygote(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await reading


@dataclass
class Log:
    """The executors' log: the last lines, and a count of every bug (an unexpected exception).

    It comes through a pipe, so the limit on file sizes that simulates a full disk does not apply to it.
    """

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=5_000))
    bugs: Counter[str] = field(default_factory=Counter)
    takeovers: int = 0
    """How often another process took over a run."""

    async def read(self, process: asyncio.subprocess.Process) -> None:
        """Read to the end."""
        assert process.stderr is not None
        while line := (await _line(process.stderr)).decode(errors="replace"):
            self.lines.append(line.rstrip())
            if '"bug"' in line:
                self.bugs[_what(line)] += 1
            self.takeovers += '"run taken over"' in line


def _what(line: str) -> str:
    """The last line of a bug's traceback, or the whole line if lines of two processes are mixed up."""
    try:
        return str(json.loads(line)["exception"]).strip().rpartition("\n")[2]
    except (ValueError, KeyError):
        return line.rstrip()


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line. A line that is too long is dropped in part."""
    while True:
        try:
            return await stream.readline()
        except ValueError:
            continue


class Slot:
    """One executor: a port that its processes share over time, and a client for the port ``front`` (it or its proxy).

    When a process ends, another one is started, as a supervisor would do.
    """

    def __init__(self, zygote: Zygote, settings: dict[str, Any], port: int, front: int) -> None:
        self._zygote, self._settings, self._port = zygote, settings, port
        self._pid = 0
        self._pidfd = -1  # unlike a process id, it is never reused for another process
        self._stopping = self._killed = False
        self._keeper: asyncio.Task[None] | None = None
        self._http = open_http(f"http://127.0.0.1:{front}")
        self.client = ExecutorClient(self._http)

    def start(self) -> None:
        """Start a process, and restart it whenever it ends."""
        self._stopping = False
        self._keeper = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Kill the process and do not restart it."""
        self._stopping = True
        self.signal(signal.SIGKILL)
        if self._keeper is not None:
            await self._keeper

    async def close(self) -> None:
        """Stop, and close the client."""
        await self.stop()
        await self._http.aclose()

    def signal(self, number: int) -> bool:
        """Send a signal to the process; False if there is no process at the moment."""
        if self._pidfd < 0:
            return False
        self._killed |= number == signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)
            return True
        return False

    def limit_files(self, size: int) -> None:
        """Limit the size of files in bytes, as if the disk were full; ``resource.RLIM_INFINITY`` removes the limit."""
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    async def _keep_running(self) -> None:
        while not self._stopping:
            self._pid = await self._zygote.fork(self._port, self._settings)
            with contextlib.suppress(ProcessLookupError):
                self._pidfd = os.pidfd_open(self._pid)
                await self._run_to_its_end()
            if not self._killed:
                await asyncio.sleep(_PAUSE_BEFORE_RESTART_S)
            self._killed = False

    async def _run_to_its_end(self) -> None:
        if self._stopping:
            self.signal(signal.SIGKILL)
        try:
            await _readable(self._pidfd)
        finally:
            os.close(self._pidfd)
            self._pidfd = -1


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor is readable. A pidfd is readable when its process has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)


@dataclass
class House:
    """Executors that share a store, and their log."""

    slots: tuple[Slot, ...]
    log: Log
    rng: random.Random

    def any(self) -> ExecutorClient:
        """A client of a random executor, which may be dead."""
        return self.rng.choice(self.slots).client

    def start(self) -> None:
        """Start all executors."""
        for slot in self.slots:
            slot.start()

    async def ready(self) -> None:
        """Wait until all executors serve."""
        await asyncio.gather(*(self._ready(slot) for slot in self.slots))

    async def _ready(self, slot: Slot) -> None:
        while True:
            try:
                return await slot.client.ready()
            except ServiceError:
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Kill all executors. Their requests may still be in flight."""
        await asyncio.gather(*(slot.stop() for slot in self.slots))


@asynccontextmanager
async def open_house(
    zygote: Zygote, url: str, ports: Mapping[int, int], rng: random.Random, **settings: Any
) -> AsyncIterator[House]:
    """Executors with a short lease. They are not started yet; they are killed at the end.

    ``ports``: the port that callers use, by the executor's own port.
    """
    given: dict[str, Any] = {
        "database_url": url,
        "proof_key": PROOF_KEY,  # so that runs are continued only with the seal of their admission
        "allowed_private_hosts": ["127.0.0.1"],
        "lease_s": 0.5,
        "max_inline_bytes": 1_024,
        "retry_base_s": 0.02,
        "circuit_failures": 1_000_000,  # an open circuit breaker would keep calls from failing
    }
    house = House(tuple(Slot(zygote, given | settings, *pair) for pair in ports.items()), zygote.log, rng)
    try:
        yield house
    finally:
        await asyncio.gather(*(slot.close() for slot in house.slots))
