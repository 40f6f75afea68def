"""Runs plans with executor_svc itself, against the service of :mod:`evals.planning.upstream`, over sockets.

A plan is proved again with the APIs at that service's address. No call waits for an approval. A plan ran if every step
succeeds and every value of the answer exists. Whether these were the wanted calls is not checked here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from evals.planning.upstream import serving, stand_in
from executor_svc.main import open_executor
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from planner_svc.compile import compile_plan
from services.contracts.api import Api
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed
from services.contracts.planning import CompiledPlan, Decision, Policy
from services.errors import ServiceError

ANYTHING = Policy(mutating=Decision.ALLOW)
"""No call waits for an approval: the calls change nothing."""
_DEADLINE_MS = 20_000


class PlanRunner:
    """Runs plans.

    Args:
        executor: executes them.
        apis: all APIs that may be called, in the order in which the service numbers them.
        url: the service's address.
    """

    def __init__(self, executor: ExecutorService, apis: Sequence[Api], url: str) -> None:
        self._executor, self._url = executor, url
        self._numbers: Mapping[str, int] = {api.id: number for number, api in enumerate(apis)}
        self._runs = 0

    async def run(self, compiled: CompiledPlan) -> str:
        """Run a plan. Returns why it did not finish, or an empty string."""
        moved = [stand_in(api, self._numbers[api.id], self._url) for api in compiled.apis.values()]
        try:
            proof = compile_plan(compiled.plan, moved, ANYTHING)
            if proof.compiled is None:
                return f"not proved at the stand-in's address: {proof.diagnostics[0].message}"
            self._runs += 1
            return await self._executed(proof.compiled, f"eval-{self._runs}")
        except (ServiceError, ValidationError) as error:
            return f"not executed: {error}"

    async def _executed(self, compiled: CompiledPlan, run_id: str) -> str:
        asked = ExecuteRequest(run_id=run_id, compiled=compiled, deadline_ms=_DEADLINE_MS)
        async with aclosing(self._executor.execute(asked)) as events:
            async for event in events:
                if isinstance(event, ExecutionFinished):
                    return "" if event.status == "succeeded" else _reason(event)
        return "the executor ended early"


@asynccontextmanager
async def open_plan_runner(apis: Sequence[Api], folder: Path) -> AsyncIterator[PlanRunner]:
    """Start the service and an executor that may call it, with the executor's ledger in a folder."""
    async with serving(apis) as url:
        settings = ExecutorSettings().model_copy(
            update={
                "database_url": f"sqlite+aiosqlite:///{folder / 'executor.db'}",
                "allowed_private_hosts": (urlsplit(url).netloc,),
            }
        )
        async with open_executor(settings, CollectorRegistry()) as (executor, _):
            yield PlanRunner(executor, apis, url)


def _reason(finished: ExecutionFinished) -> str:
    for record in finished.records:
        if isinstance(record.outcome, Failed):
            detail = f": {record.outcome.detail}" if record.outcome.detail else ""
            return f"{record.step} {record.api}: {record.outcome.message}{detail}"
    return finished.problem or finished.status
