"""The rules of runs: accept, plan, wait for approval, execute, keep. No HTTP and no SQL here."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.peers import Peers
from gateway.settings import GatewaySettings
from gateway.solve import Clock, Emit, execute, plan
from gateway.storage import RunStore, new_run_id
from services.contracts.planning import CompiledPlan, CompileRequest, Policy
from services.contracts.run import Run, RunFinished, RunProblem, RunStatus, SolveEvent, SolveRequest
from services.errors import Conflict, InternalError, NotFound, Overloaded, ServiceError, ValidationFailed
from services.telemetry import get_logger

_log = get_logger(__name__)
APPROVED_DEADLINE_MS = 60_000


class GatewayService:
    """Solves requests. A run goes on in a task of its own, whatever becomes of the client that asked."""

    def __init__(self, peers: Peers, runs: RunStore, settings: GatewaySettings, registry: CollectorRegistry) -> None:
        self.peers, self.runs = peers, runs
        self._settings = settings
        self._tasks: set[asyncio.Task[Run]] = set()
        self._solved = Counter("nestor_runs_total", "Runs by final status.", ["status"], registry=registry)
        self._parts = Histogram(
            "nestor_solve_part_seconds",
            "Seconds spent in each part of a request.",
            ["part"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )

    async def solve(self, request: SolveRequest) -> Run:
        """Solve and wait. Raises the ServiceError that kept the run from being planned or executed."""
        return await asyncio.shield(self._start(request, lambda _event: None))

    async def solve_events(self, request: SolveRequest) -> AsyncGenerator[SolveEvent, None]:
        """Solve and follow. The last event is ``finished``; a failed run's problem is in it, not raised."""
        events: asyncio.Queue[SolveEvent | None] = asyncio.Queue()
        task = self._start(request, events.put_nowait)
        task.add_done_callback(lambda _done: events.put_nowait(None))
        finished = False
        while (event := await events.get()) is not None:
            finished = isinstance(event, RunFinished)
            yield event
        if not finished:  # the run could not be stored
            await task

    async def plan(self, request: SolveRequest) -> Run:
        """Plan and prove; nothing is executed."""
        options = request.options.model_copy(update={"dry_run": True})
        return await self.solve(request.model_copy(update={"options": options}))

    async def approve(self, run_id: str, plan_id: str) -> Run:
        """Run a plan that waited for approval.

        The plan is proved once more, against the APIs as they are now.

        Raises:
            NotFound: no such run.
            Conflict: the run does not wait for an approval, or it waits with another plan.
            ValidationFailed: the APIs have changed and the plan does not hold any more.
            Overloaded: too many runs are under way.
        """
        run = await self.runs.get(run_id)
        if run.status is not RunStatus.NEEDS_APPROVAL or run.plan is None:
            raise Conflict(f"Run {run_id} is {run.status.value}; it does not wait for an approval.")
        if run.plan.id != plan_id:
            raise Conflict("The approval is for another plan than the one this run waits with.")
        compiled = await self._prove_again(run)
        self._admit()
        return await asyncio.shield(self._spawn(self._run_approved(run, compiled)))

    async def close(self) -> None:
        """Let the runs under way finish, for a while; then stop them."""
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=self._settings.shutdown_grace_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    def _admit(self) -> None:
        if len(self._tasks) >= self._settings.max_concurrent_runs:
            raise Overloaded("Too many runs are under way.", retry_after_s=1)

    def _start(self, request: SolveRequest, emit: Emit) -> asyncio.Task[Run]:
        self._admit()
        return self._spawn(self._solve(request, emit))

    def _spawn(self, work: Coroutine[Any, Any, Run]) -> asyncio.Task[Run]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Run]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it is in the stored run; whoever asked may be gone

    async def _run_approved(self, run: Run, compiled: CompiledPlan) -> Run:
        running = run.model_copy(update={"status": RunStatus.RUNNING})
        if not await self.runs.claim(running, RunStatus.NEEDS_APPROVAL):
            raise Conflict(f"Run {run.id} has been approved already.")
        clock = Clock(APPROVED_DEADLINE_MS)
        return await self._execute(running, compiled, clock, lambda _event: None, compiled.plan.id)

    async def _solve(self, request: SolveRequest, emit: Emit) -> Run:
        clock = Clock(request.options.deadline_ms)
        run = Run(id=new_run_id(), status=RunStatus.PLANNED, query=request.query, created_at=datetime.now(UTC))
        try:
            run, planned = await plan(self.peers, request, run, self._policy(request), clock)
        except Exception as error:  # whatever it was, the run must not be lost
            problem = _problem(error, run)
            await self._finish(_failed(run, problem, clock), emit, insert=True)
            raise problem from error
        except asyncio.CancelledError:
            await self._finish(run.model_copy(update={"status": RunStatus.CANCELLED}), emit, insert=True)
            raise
        if planned.compiled is None or run.status is not RunStatus.PLANNED or request.options.dry_run:
            return await self._finish(run, emit, insert=True)
        run = run.model_copy(update={"status": RunStatus.RUNNING})
        await self.runs.insert(run)
        return await self._execute(run, planned.compiled, clock, emit)

    async def _execute(
        self, run: Run, compiled: CompiledPlan, clock: Clock, emit: Emit, approved: str | None = None
    ) -> Run:
        try:
            run = await execute(self.peers, run, compiled, clock, emit, approved=approved)
        except Exception as error:  # whatever it was, the run must end in a final state
            problem = _problem(error, run)
            await self._finish(_cut_off(run, problem, clock), emit)
            raise problem from error
        except asyncio.CancelledError:
            await self._finish(run.model_copy(update={"status": RunStatus.CANCELLED}), emit)
            raise
        return await self._finish(run, emit)

    async def _finish(self, run: Run, emit: Emit, *, insert: bool = False) -> Run:
        await (self.runs.insert(run) if insert else self.runs.update(run))
        self._solved.labels(run.status.value).inc()
        for part, ms in run.timings.model_dump().items():
            self._parts.labels(part.removesuffix("_ms")).observe(ms / 1000)
        _log.info("run", run_id=run.id, status=run.status.value, total_ms=run.timings.total_ms)
        emit(RunFinished(run=run))
        return run

    def _policy(self, request: SolveRequest) -> Policy:
        return Policy(
            mutating=request.options.mutations, allow=self._settings.policy_allow, deny=self._settings.policy_deny
        )

    async def _prove_again(self, run: Run) -> CompiledPlan:
        assert run.plan is not None
        ids = dict.fromkeys(step.api for step in run.plan.steps)
        try:
            apis, credentials = await asyncio.gather(
                asyncio.gather(*(self.peers.retriever.get(api_id) for api_id in ids)), self.peers.executor.credentials()
            )
        except NotFound as error:
            raise ValidationFailed(f"The plan does not hold any more: {error.detail}") from error
        policy = Policy(allow=self._settings.policy_allow, deny=self._settings.policy_deny)
        ask = CompileRequest(plan=run.plan, apis=tuple(apis), policy=policy, credentials=credentials.secrets)
        answer = await self.peers.planner.compile(ask)
        if answer.compiled is None or answer.compiled.plan.id != run.plan.id:
            raise ValidationFailed(
                "The plan does not hold against the APIs as they are now.",
                errors=[d.model_dump(mode="json") for d in answer.diagnostics],
            )
        return answer.compiled


def _problem(error: Exception, run: Run) -> ServiceError:
    """The error as callers may see it. Anything but a ServiceError is a bug, and logged as one."""
    if isinstance(error, ServiceError):
        return error
    _log.error("bug", run_id=run.id, exc_info=error)
    return InternalError("The request id is in `instance`.")


def _failed(run: Run, error: ServiceError, clock: Clock) -> Run:
    problem = RunProblem(type=error.type_uri(), title=error.title, detail=error.detail)
    return run.model_copy(update={"status": RunStatus.FAILED, "problem": problem, "timings": clock.timings()})


def _cut_off(run: Run, error: ServiceError, clock: Clock) -> Run:
    """A run whose execution ended without a word: where a call may have changed something, it is in doubt."""
    failed = _failed(run, error, clock)
    never_ran = isinstance(error, (Conflict, ValidationFailed, Overloaded))
    if never_ran or run.proof is None or not run.proof.mutating:
        return failed
    return failed.model_copy(update={"status": RunStatus.IN_DOUBT})
