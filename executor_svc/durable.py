"""The durable lane: runs that may change something survive the loss of their process and their callers.

One process at a time owns an execution. When the owner's lease expires, another process takes the execution over. It
reads the finished calls from the ledger, repeats the calls that may be repeated, and marks the others as in doubt.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import Any

from executor_svc.admission import admit, graph_of
from executor_svc.binding import hold_of
from executor_svc.graph import Graph
from executor_svc.held import HeldAnswers, Room, memory_of_apis
from executor_svc.ledger import Ledger, LedgerAdapter, in_doubt_result, memory_of_outputs, with_full_outputs
from executor_svc.live import Gate, LiveRun
from executor_svc.metrics import ExecutorMetrics
from executor_svc.models import Call, Caller, CallResult, Execution, ForTenant, LargeValue, Limits, RecordedCall
from executor_svc.runner import Run
from executor_svc.settings import ExecutorSettings
from executor_svc.settling import call_key, is_settled_so, open_doubts, settled
from executor_svc.storage import LedgerStore
from executor_svc.values import ValueStore
from executor_svc.workers import Workers
from services.compute import for_tenant
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionFinished, ExecutionState, StepFinished
from services.contracts.outcome import Failed, RequestRecord
from services.errors import Conflict, NotFound, Overloaded, ServiceError, ServiceUnavailable, ValidationFailed
from services.outages import Outage
from services.ownership.heartbeat import Heartbeat
from services.ownership.members import Membership
from services.ownership.ticket import Fenced, Ticket
from services.telemetry import get_logger
from services.tracing import continued

_log = get_logger(__name__)
_POLL_S = 0.2
_FORGET_EVERY_S = 3600.0


class DurableLane:
    """Runs plans durably: follows, cancels and takes over runs, and settles their calls in doubt.

    Use it inside ``async with lane.working()``.
    """

    def __init__(
        self,
        adapter: Caller,
        store: LedgerStore,
        membership: Membership,
        settings: ExecutorSettings,
        metrics: ExecutorMetrics,
        workers: Workers,
    ) -> None:
        self._adapter, self._store, self._membership, self._workers = adapter, store, membership, workers
        self._gate, self._held = Gate(), HeldAnswers(settings.max_held_bytes)
        self._settings, self._metrics = settings, metrics
        self.ledger = Ledger(store, self._cancel_live)
        self._live: dict[str, LiveRun] = {}
        self._failed: set[str] = set()  # runs that a bug ended in this process, until they are taken over
        self._tasks: set[asyncio.Task[None]] = set()
        # Without the lock, a run that this process owns but has not launched yet looks like one that a bug ended.
        self._takeover_lock = asyncio.Lock()

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None, None]:
        """Renew the membership, write the ledger and take over orphans until the context ends.

        Active runs are then left for another process. Their calls in flight end and are recorded.
        """
        await self._membership.beat()
        heartbeat = Heartbeat(self._membership)
        work = (self.ledger.write_forever(), self._maintain_forever())
        background = [asyncio.create_task(job) for job in work]
        async with heartbeat.beating():
            try:
                yield
            finally:
                await self._gate.close(self._settings.shutdown_grace_s)
                await _cancel(self._tasks)
                with suppress(ServiceError, TimeoutError):
                    async with asyncio.timeout(self._membership.lease_s):
                        await self.ledger.flush()
                        await heartbeat.stop()
                        await self._membership.leave()
                await _cancel(background)

    @property
    def active(self) -> int:
        """The number of runs in this process."""
        return len(self._live)

    async def execute(self, request: ExecuteRequest, graph: Graph) -> AsyncGenerator[ExecutionEvent, None]:
        """Start a run, or follow the run of that id in any process. Closing the iterator does not stop the run.

        Raises:
            Conflict: the run of that id has another plan.
            ServiceUnavailable: the ledger cannot be written, so nothing was started.
        """
        live = self._live.get(request.run_id)
        if live is None and request.run_id not in self._failed:
            live = self._launch(request, partial(self._begin, graph))
        if live is not None:
            if live.request.compiled.plan.id != request.compiled.plan.id:
                raise _other_plan(request)
            async for event in live.follow():
                yield event
            if live.finished:
                return
        async for event in self._follow_stored(request):
            yield event

    async def follow(self, request: ExecuteRequest, refused: ServiceError) -> AsyncGenerator[ExecutionEvent, None]:
        """Follow the run of that id, if there is one with this plan. Starts nothing.

        A run that was started with a valid signature continues after the key has changed or the signature has expired.

        Raises:
            ServiceError: there is no such run (``refused``).
            Conflict: it has another plan.
        """
        if await self._store.status(request.run_id) is None:
            raise refused
        async for event in self._follow_stored(request):
            yield event

    async def cancel(self, run_id: str) -> ExecutionState:
        """Start no further call of a run, in any process.

        Once this returns, no call that may change something is started. An owner in another process may start reads
        until it notices the cancellation, for at most a tenth of a lease.

        Raises:
            NotFound: there is no such run. It cannot be started later either, even if a request for it is on its way.
        """
        if await self._store.status(run_id) is None and await self._store.forbid(run_id):
            raise NotFound(f"There is no durable execution {run_id}, and none will be started.")
        await self._store.request_cancel(run_id)
        self._cancel_live(run_id)
        if (status := await self._store.status(run_id)) is None:
            raise _unknown(run_id)
        return ExecutionState.model_validate({"run_id": run_id, "status": status})

    def value_store(self, tenant: str) -> ValueStore:
        """The store of one run's large values, empty. Close it when the run is over."""
        settings = self._settings
        room = Room(self._held, tenant)
        return ValueStore(self.ledger.keep, settings.max_inline_bytes, settings.max_kept_bytes, room)

    async def resolve(self, run_id: str, step_id: str, request: ResolveRequest) -> ExecutionState:
        """Settle a call in doubt. After the last one, the run continues. A call that was settled before stays as it is.

        The same settlement may be repeated, since its answer may have been lost, also after the run has continued.

        Raises:
            NotFound: there is no such run or step.
            Conflict: the call is not in doubt, or its run is still active.
            ValidationFailed: the step is a `foreach` and the item is missing, or the other way round; or the outputs of
                the run would take more memory than a tenant may hold.
            ServiceUnavailable: the value cannot be stored.
        """
        execution = await self._stored(run_id)
        step = execution.request.compiled.plan.step(step_id)
        if step is None:
            raise NotFound(f"Run {run_id} has no step {step_id}.")
        key = call_key(step, request.item)
        if execution.status != "in_doubt":
            if is_settled_so(execution, key, request, await self._store.calls(run_id)):
                return ExecutionState.model_validate({"run_id": run_id, "status": execution.status})
            raise Conflict(f"Run {run_id} is {execution.status}; only a run that is in_doubt has calls to settle.")
        result, values = settled(request)
        if result is not None and values:
            await self._store_settled(run_id, key, result, values)
        took_effect = await self._store.settle(execution, key, result)
        if not took_effect:
            if (now := await self._stored(run_id)).epoch != execution.epoch:
                raise Conflict(f"Run {run_id} has changed and is now {now.status}; check its calls in doubt again.")
            calls = await self._store.calls(run_id)
            took_effect = is_settled_so(execution, key, request, calls)
            unknown = not took_effect and (key not in calls or calls[key].result is None)
            # No doubt is left: the last one was settled, but that process died before it continued the run.
            if unknown and open_doubts(execution, calls):
                raise Conflict(f"The call {key} of run {run_id} is not in doubt.")
        else:
            _log.info("settled", run=run_id, call=key, outcome=request.outcome)
        return (await self._go_on(execution)).model_copy(update={"settled": took_effect})

    async def _store_settled(self, run_id: str, key: str, result: CallResult, values: Collection[LargeValue]) -> None:
        """Store the value of a call before that refers to it. Raises ValidationFailed, ServiceUnavailable."""
        others = {name: call for name, call in (await self._store.calls(run_id)).items() if name != key}
        if memory_of_outputs(others) + result.memory > self._held.share:
            most = self._held.share
            raise ValidationFailed(
                f"The run's answers take {most} bytes of memory at most: settle it with less of one."
            )
        for value in values:
            self.ledger.keep(value)
        try:
            async with asyncio.timeout(self._membership.lease_s):
                await self.ledger.flush()
        except TimeoutError:
            raise ServiceUnavailable("The ledger cannot be written. Nothing was settled.", service="ledger") from None

    async def _go_on(self, execution: Execution) -> ExecutionState:
        """Continue a run if its last doubt is settled; otherwise return the doubts that are left."""
        left = open_doubts(execution, await self._store.calls(execution.run_id))
        if left:
            return ExecutionState(run_id=execution.run_id, status="in_doubt", doubts=left)
        async with self._takeover_lock:
            ticket = await self._store.reopen(execution, self._membership.id)
            if ticket is not None:
                self._launch(execution.request, partial(self._continue, execution, ticket))
        return ExecutionState(run_id=execution.run_id, status="running")

    def _launch(self, request: ExecuteRequest, work: Callable[[LiveRun], Coroutine[Any, Any, None]]) -> LiveRun:
        self._cancel_live(request.run_id)  # an earlier run of this id that another process took over unnoticed
        live = self._live[request.run_id] = LiveRun(request)
        self._failed.discard(request.run_id)
        self._metrics.active.inc()
        task = asyncio.create_task(work(live))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(live, done))
        return live

    def _ended(self, live: LiveRun, task: asyncio.Task[None]) -> None:
        """Clean up after a run. If an error ended it, this process still owns it and takes it over like an orphan."""
        self._tasks.discard(task)
        self._metrics.active.dec()
        if self._live.get(live.request.run_id) is live:
            del self._live[live.request.run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, ServiceError):
                _log.warning("a run stopped: its database cannot be reached", run=live.request.run_id, why=error.detail)
            else:
                _log.error("bug", run=live.request.run_id, exc_info=error)
            self._failed.add(live.request.run_id)
        live.feed.end()

    async def _begin(self, graph: Graph, live: LiveRun) -> None:
        request, ticket = live.request, Ticket(live.request.run_id, self._membership.id, 1)
        with closing(self.value_store(request.tenant)) as value_store:
            try:
                value_store.hold_apis(request.compiled.apis.values())
                async with asyncio.timeout(request.deadline_ms / 1000):
                    admitted = await self.ledger.admit(ticket, request)
            except Overloaded as error:
                live.problem = error
                return
            except TimeoutError:
                message = "The ledger cannot be written. Nothing was sent yet; repeat the request with the same run_id."
                live.problem = ServiceUnavailable(message, service="ledger")
                return
            if admitted:
                await self._drive(live, graph, ticket, {}, self._adapter, value_store)

    async def _continue(self, execution: Execution, ticket: Ticket, live: LiveRun) -> None:
        """Continue a run that this process has taken over or reopened, if its stored request was admitted.

        Whoever can write the database can store a request. One that cannot have been admitted, or is not sealed with
        this proof key (the key may have changed), sends nothing: its finished calls are kept, and its calls in flight
        are in doubt. The same holds if the record of one of its calls cannot be relied on; that call is in doubt too,
        and its recorded output feeds nothing. One whose plan cannot be followed at all has no calls, and ends at once.
        """
        compiled = execution.request.compiled
        try:
            graph = graph_of(compiled)
            if absent := [step.api for step in compiled.plan.steps if step.api not in compiled.apis]:
                raise ValidationFailed(f"The compiled plan does not contain the API {absent[0]}.")
        except ServiceError as error:
            _log.warning("a stored run is not continued", run=execution.run_id, why=error.detail)
            problem = f"the run was not continued: {error.detail}"
            ended = ExecutionFinished(status="failed", records=(), problem=problem, duration_ms=0)
            with suppress(Fenced):
                await self._publish(live, ticket, ended)
            return
        # Read again: a cancellation may have come after the takeover, but before the run was registered as live.
        live.cancelled |= bool(await self._store.to_stop(ticket.owner, [execution.run_id]))
        tenant, traceparent = execution.request.tenant, execution.traceparent
        for_tenant.set(tenant)
        with closing(self.value_store(tenant)) as value_store, continued("executor_svc", traceparent):
            calls = await self._store.calls(execution.run_id)
            beside = memory_of_apis(compiled.apis.values())
            waits = live.may_wait()
            known = await with_full_outputs(calls, self._store, value_store, self._workers, waits, beside)
            given_up = self._given_up(execution, known)
            if given_up:
                _log.warning("a stored run is given up", run=execution.run_id, why=given_up)
            adapter = _GivenUpAdapter(self._adapter, given_up) if given_up else self._adapter
            await self._drive(live, graph, ticket, known, adapter, value_store)

    def _given_up(self, execution: Execution, known: Mapping[str, RecordedCall]) -> str:
        """Why nothing more is sent for a stored run; empty if it goes on."""
        try:
            admit(execution.request)
        except ServiceError as error:
            return f"the run was not continued: {error.detail}"
        if not execution.admitted:
            return "the stored run was not admitted with this proof key; the key has changed, or somebody else wrote it"
        if broken := [key for key, call in known.items() if not call.intact]:
            return (
                f"the run was not continued: the record of call {broken[0]} was not written with this proof key, was "
                "changed, or lacks its value"
            )
        if execution.takeovers > self._settings.max_takeovers:
            return f"the run was given up after its process had stopped {execution.takeovers} times"
        return ""

    async def _drive(
        self,
        live: LiveRun,
        graph: Graph,
        ticket: Ticket,
        known: dict[str, RecordedCall],
        adapter: Caller,
        value_store: ValueStore,
    ) -> None:
        request = live.request
        sure_s = self._membership.lease_s / 2  # a process is taken for dead a whole lease after it was last heard of
        caller, begun, workers = ForTenant(adapter, request.tenant), frozenset(known), self._workers
        writing = LedgerAdapter(caller, self.ledger, ticket, known, value_store, sure_s, workers)
        limits = Limits.of(request, self._settings)
        # Of a run that is given up nothing is sent, and its steps say why: not that the reads changed.
        hold = None if isinstance(adapter, _GivenUpAdapter) else hold_of(request, graph, limits, workers)
        gated = self._gate.before(writing)
        for_tenant.set(request.tenant)
        run = Run(request.compiled, graph, gated, request.run_id, limits, value_store, begun, hold, workers)
        live.begin(run)
        try:
            async for event in run.events():
                await self._publish(live, ticket, event)
        except* Fenced:
            _log.warning("another process has taken this run over", run=request.run_id)

    async def _publish(self, live: LiveRun, ticket: Ticket, event: ExecutionEvent) -> None:
        """Give an event to the run's followers; the last one is recorded before. Raises Fenced."""
        if isinstance(event, ExecutionFinished):
            await self.ledger.conclude(ticket, event)
        self._metrics.event(event, live.request.compiled)
        live.feed.publish(event)

    async def _follow_stored(self, request: ExecuteRequest) -> AsyncGenerator[ExecutionEvent, None]:
        """Follow a run of another process by polling the ledger, until it ends or this process takes it over."""
        while True:
            if (stored := await self._store.ending(request.run_id)) is None:
                raise _unknown(request.run_id)
            plan_id, result = stored
            if plan_id != request.compiled.plan.id:
                raise _other_plan(request)
            if result is not None:
                for record in result.records:
                    yield StepFinished(record=record)
                yield result
                return
            live = self._live.get(request.run_id)
            if live is not None:
                async for event in live.follow():
                    yield event
                if live.finished:
                    return
            await asyncio.sleep(_POLL_S)

    async def _maintain_forever(self) -> None:
        """Take over runs of dead processes, stop runs that others cancelled or took over, and delete old runs."""
        clock, outage = asyncio.get_running_loop().time, Outage("searching abandoned runs")
        forget_at = clock()
        while True:
            try:
                await self._take_over()
                for run_id in await self._store.to_stop(self._membership.id, self._live.keys()):
                    self._cancel_live(run_id)
                if clock() >= forget_at:
                    more = await self._store.forget(self._settings.keep_days * 86_400.0)
                    forget_at = clock() + (0 if more else _FORGET_EVERY_S)
                outage.worked()
            except ServiceError as error:
                outage.failed(error)
            except Exception as error:  # noqa: BLE001 - orphaned runs would be lost if this loop ended
                _log.error("bug", exc_info=error)
            await asyncio.sleep(self._membership.lease_s / 10)

    async def _take_over(self) -> None:
        after = ""  # each at most once: one that ends at once has to wait, as the database may be away
        async with self._takeover_lock:
            while self.active < self._settings.max_concurrent_runs:
                found = await self._store.take_over(self._membership, self._live.keys(), after)
                if found is None:
                    return
                execution, ticket = found
                after = execution.run_id
                _log.warning("run taken over", run=execution.run_id, from_=execution.owner, epoch=ticket.epoch)
                self._metrics.taken_over.inc()
                self._launch(execution.request, partial(self._continue, execution, ticket))

    def _cancel_live(self, run_id: str) -> None:
        if run_id in self._live:
            self._live[run_id].cancel()

    async def _stored(self, run_id: str) -> Execution:
        execution = await self._store.execution(run_id)
        if execution is None:
            raise _unknown(run_id)
        return execution


def _unknown(run_id: str) -> NotFound:
    return NotFound(f"There is no durable execution {run_id}.")


def _other_plan(request: ExecuteRequest) -> Conflict:
    return Conflict(f"Run {request.run_id} exists with another plan.")


class _GivenUpAdapter:
    """The adapter of a stored run that is given up, with the reason. Sends nothing."""

    def __init__(self, adapter: Caller, reason: str) -> None:
        self._adapter, self._message = adapter, reason

    def preview(self, call: Call) -> RequestRecord:
        """The same as the wrapped adapter."""
        return self._adapter.preview(call)

    async def call(self, call: Call) -> CallResult:
        """Refuse. A call that a former process may have sent is in doubt, even if it could be resent."""
        if call.resent:
            return in_doubt_result(self._adapter, call, self._message)
        return CallResult(Failed(reason="refused", message=f"not sent: {self._message}"), None, 0)


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
