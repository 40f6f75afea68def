"""Service processes that can be killed. They are forked, so that one starts in a fraction of a second."""

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import TypeAdapter

import executor_svc.main
import gateway.main
from deploy.sockets import listen
from executor_svc.settings import ExecutorSettings
from gateway.peers import Peers
from gateway.settings import GatewaySettings
from services.clients import ExecutorClient, GatewayClient, open_http
from services.contracts.plan import Plan
from services.errors import ServiceError
from services.telemetry import configure_logging
from tests.fakes import FakeDemos, FakePlanner, FakeRetriever
from tests.stateful.clocks import SteppedClock
from tests.stateful.plans import Case, Task, apis_of

_WORDS: TypeAdapter[tuple[str, tuple[Task, ...]]] = TypeAdapter(tuple[str, tuple[Task, ...]])
_FORKING = multiprocessing.get_context("forkserver")
# All modules that a process imports, and pytest, because a child imports its parent's main module.
_FORKING.set_forkserver_preload([__name__, "pytest", "aiosqlite", "asyncpg", "uvicorn.protocols.http.httptools_impl"])


def _serve(
    bound: socket.socket, log: Path, clock: SteppedClock, build: Callable[..., FastAPI], given: dict[str, Any]
) -> None:
    """Run a service until it is stopped. A stop cuts open streams, because their callers reconnect."""
    clock.use()
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    configure_logging(level="WARNING", json=True)
    config = uvicorn.Config(
        build(**given), loop="uvloop", http="httptools", access_log=False, log_config=None, timeout_graceful_shutdown=0
    )
    uvicorn.Server(config).run(sockets=[bound])


class Process:
    """A process on its own port. ``going`` is set when it is stopped or killed."""

    client: ExecutorClient | GatewayClient

    def __init__(
        self, log: Path, clock: SteppedClock, build: Callable[..., FastAPI], given: dict[str, Any], port: int = 0
    ) -> None:
        bound = listen("127.0.0.1", port)
        bound.listen()  # early connections wait until the process accepts them
        self.port: int = bound.getsockname()[1]
        self._process = _FORKING.Process(target=_serve, args=(bound, log, clock, build, given), daemon=True)
        self._process.start()
        bound.close()
        self.going = False

    @property
    def url(self) -> str:
        """The process's URL."""
        return f"http://127.0.0.1:{self.port}"

    async def ready(self) -> None:
        """Wait until the service is ready."""
        while True:
            try:
                return await self.client.ready()
            except ServiceError:
                assert self._process.is_alive(), "the service did not start"
                await asyncio.sleep(0.02)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def fell(self) -> bool:
        """Whether the process has ended by itself."""
        return not self.going and not self._process.is_alive()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.going = True
        self._process.kill()
        self._process.join()

    def stop(self) -> None:
        """Send SIGTERM. The service waits a short time for its work in progress."""
        self.going = True
        self._process.terminate()

    async def stall(self, seconds: float) -> None:
        """Pause the process, as a machine out of memory or a paused container does."""
        os.kill(self.pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)
        await self.ready()

    async def gone(self) -> int | None:
        """Close the client and wait for the process's end. Returns the exit code; None if a stop did not end it."""
        await self.client.aclose()
        if not self.going:
            self.kill()
        await asyncio.to_thread(self._process.join, 10)
        code = self._process.exitcode
        if code is None:
            self.kill()
        return code


def _executor(**settings: Any) -> FastAPI:
    return executor_svc.main.create_app(ExecutorSettings(**settings))


class Executor(Process):
    """An executor."""

    client: ExecutorClient

    def __init__(self, log: Path, clock: SteppedClock, settings: dict[str, Any], port: int = 0) -> None:
        super().__init__(log, clock, _executor, settings, port)
        self.client = ExecutorClient(open_http(self.url))


class _Written(dict[str, Plan]):
    """Reads the plan from the query itself; see :func:`in_words`."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin

    def get(self, query: str, default: Any = None) -> Any:
        return Case(*_WORDS.validate_json(query), self._origin).plan.plan


def in_words(case: Case) -> str:
    """A query that contains this case's plan as JSON."""
    return _WORDS.dump_json((case.run_id, tuple(replace(task, fates=()) for task in case.tasks))).decode()


def _gateway(origin: str, executor: str, **settings: Any) -> FastAPI:
    planner = FakePlanner()
    planner.plans = _Written(origin)
    peers = Peers(
        retriever=FakeRetriever(*apis_of(origin).values()),
        demos=FakeDemos(),
        planner=planner,
        executor=ExecutorClient(open_http(executor)),
    )
    return gateway.main.create_app(GatewaySettings(**settings), peers=peers)


class Gateway(Process):
    """A gateway with a real executor; the other peers are fakes."""

    client: GatewayClient

    def __init__(self, log: Path, clock: SteppedClock, settings: dict[str, Any], *, origin: str, executor: str) -> None:
        super().__init__(log, clock, _gateway, {"origin": origin, "executor": executor, **settings})
        self.client = GatewayClient(open_http(self.url))
