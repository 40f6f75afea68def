"""Executors on one database, the records that a dead process left there, and plans to run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from executor_svc.admission import Sealer
from executor_svc.main import open_executor
from executor_svc.models import Admission, CallResult, CallState, Outcome, SendIntent
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from executor_svc.storage import LedgerStore
from services.contracts.api import Api, RequestBody
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Succeeded
from services.contracts.plan import content_hash
from services.contracts.planning import CompiledPlan
from services.ownership.ticket import Ticket
from services.storage.migrate import migrate
from tests.support.executing import api, compiled, literal, parameter, ref, step
from tests.support.upstream import Seen, Upstream

DEAD = Ticket("run-1", "a process that died", 1)


@dataclass
class House:
    """Executors on one database."""

    url: str
    stack: AsyncExitStack
    engine: AsyncEngine

    async def executor(self, **settings: Any) -> ExecutorService:
        """Open one more executor, as another process would."""
        return await self.stack.enter_async_context(self.opened(**settings))

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncIterator[ExecutorService]:
        chosen: dict[str, Any] = {"allowed_private_hosts": ("127.0.0.1",), "lease_s": 0.5, "retry_base_s": 0.01}
        given = ExecutorSettings(database_url=self.url, **chosen | settings)
        async with open_executor(given, CollectorRegistry()) as (service, _):
            yield service

    async def left_behind(
        self, plan: CompiledPlan, *operations: SendIntent | Outcome, proof_key: SecretStr | None = None
    ) -> None:
        """Write the records of a process that died."""
        await migrate(self.engine, "executor_svc")
        store = LedgerStore(self.engine, Sealer(proof_key))
        await store.write([Admission(DEAD, asked(plan)), *operations])
        store.close()


def booking(upstream: Upstream, path: str = "/book", **more: Any) -> Api:
    return api(upstream.origin, path, parameter("room", "body"), name="book", method="POST", body=RequestBody(), **more)


def two_bookings(post: Api) -> CompiledPlan:
    """A plan whose second booking takes the first one's result."""
    first, second = step("a", post, {"room": literal("blue")}), step("b", post, {"room": ref("a", "id")})
    return compiled([post], first, second, answer={"id": ref("b", "id")}, mutating=("a", "b"))


def held_bookings(upstream: Upstream) -> asyncio.Event:
    """Hold all bookings' responses until the returned event is set."""
    held = asyncio.Event()

    @upstream.on("/book")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"id": "b1"})

    return held


def asked(plan: CompiledPlan, **more: Any) -> ExecuteRequest:
    return ExecuteRequest(run_id="run-1", compiled=plan, approved=plan.plan.id, **more)


async def finish(executor: ExecutorService, plan: CompiledPlan) -> ExecutionFinished:
    async with asyncio.timeout(20):
        last = [event async for event in executor.execute(asked(plan))][-1]
    assert isinstance(last, ExecutionFinished)
    return last


def sending(key: str, **arguments: Any) -> SendIntent:
    return SendIntent(DEAD, key, content_hash(arguments))


def done(key: str, value: Any) -> Outcome:
    return Outcome(DEAD, key, CallState.DONE, CallResult(Succeeded(value=value, status=201), None, 1), sent=True)
