"""The runs of this process. Each has its own task, from its acceptance to its end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from opentelemetry.trace import Span

from gateway.approval import credentials_hint, has_changed, preview, without_approval
from gateway.ended import BUG, final_run, with_questions, with_run_id
from gateway.evidence import attempts_of, questions_of, same_changes
from gateway.execution import RunCancelled, execute_run, is_durable, once_available, pauses
from gateway.large_results import LargeResults
from gateway.live import Live
from gateway.metrics import GatewayMetrics
from gateway.peers import Peers
from gateway.planning_room import PlanningRoom
from gateway.proving import Prover
from gateway.quotas import Quotas
from gateway.sentences import request_sentence
from gateway.settings import GatewaySettings
from gateway.solve import Clock, answer, plan
from gateway.storage import RequestIdentity, RunStore, StoredRun
from gateway.usage import SecretUses, secrets_of, secrets_of_reads, unrecorded_secrets
from services.compute import for_tenant
from services.contracts.event import RunFinished, RunPlanned
from services.contracts.evidence import Attempt
from services.contracts.execution import ExecutionFinished
from services.contracts.planning import CompiledPlan, Decision, PlanResponse, Policy, Question
from services.contracts.run import EvidenceRound, Run, RunStatus
from services.contracts.solve import SolveRequest
from services.errors import TYPE_PREFIX, Conflict, InternalError, ServiceError, ServiceUnavailable, ValidationFailed
from services.outages import Outage
from services.ownership.ticket import Fenced, Ticket
from services.telemetry import get_logger
from services.tracing import Attributes, continued, fail, span

RESUMED_DEADLINE_MS: Final = 60_000
_log = get_logger(__name__)


class Runs:
    """Works on runs. A run goes on if its client disconnects, and ends in a final state that is stored.

    Attributes:
        lives: the runs that this process is working on, by id.
        uses: which secrets runs presented.
        owner: the id of this process, as stored with its runs.
        prover: proves plans that were given.
    """

    def __init__(
        self,
        peers: Peers,
        store: RunStore,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        quotas: Quotas,
        owner: str,
    ) -> None:
        self._peers, self._store, self._settings, self._metrics = peers, store, settings, metrics
        self._quotas = quotas
        self.prover = Prover(peers, quotas)
        self.owner = owner
        self.lives: dict[str, Live] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._planning = PlanningRoom(settings.max_planning_bytes, quotas.charge)
        self._large = LargeResults()
        self.uses = SecretUses()
        self._closing = False

    @property
    def room(self) -> int:
        """How many more runs may be under way at once."""
        return 0 if self._closing else self._quotas.room

    def full(self) -> list[str]:
        """The tenants that have as many runs under way as they may."""
        return self._quotas.full()

    async def _admit(self, tenant: str, wait_s: float) -> None:
        """Take a slot for a run. Raises ServiceUnavailable if this process is stopping."""
        await self._quotas.begin_run(tenant, wait_s)
        if self._closing:
            self._quotas.end_run(tenant)
            raise ServiceUnavailable("The gateway is stopping.", service="gateway")

    def policy(self, tenant: str, mutating: Decision = Decision.ASK) -> Policy:
        """The policy for calls: the operator's rules, and ``mutating`` where they leave it open."""
        return Policy(
            mutating=mutating,
            rules=self._settings.policy_rules,
            allow=self._settings.policy_allow,
            deny=self._settings.policy_deny,
            tenant=tenant,
        )

    async def begin(
        self,
        run: Run,
        request: SolveRequest,
        identity: RequestIdentity | None,
        entry: Mapping[str, object] | None = None,
    ) -> Live | str:
        """Accept a new run and add an audit entry; or return the id of an earlier run with the same idempotency key.

        Raises:
            QuotaExceeded: the tenant has as many runs under way as it may.
            Overloaded: too many runs are under way.
            ServiceUnavailable: the run cannot be stored, so it was not begun.
        """
        clock = Clock(request.options.deadline_ms)
        await self._admit(run.tenant, clock.remaining_s())
        live = Live(Ticket(run.id, self.owner, 0), run, request, clock, unattended=not request.wait)
        there = await self._enter(live, partial(self._store.insert, live.ticket, run, request, identity, entry))
        return there or live

    async def resume(
        self, stored: StoredRun, run: Run, compiled: CompiledPlan, entry: Mapping[str, object] | None = None
    ) -> Live:
        """Resume a run that waited for a person, and add an audit entry.

        Raises:
            Conflict: the run was already resumed or cancelled.
            QuotaExceeded: the tenant has as many runs under way as it may.
            Overloaded: too many runs are under way.
        """
        await self._admit(run.tenant, RESUMED_DEADLINE_MS / 1000)
        live = self._resumed(stored, run, stored.epoch + 1, compiled)

        async def claim() -> str | None:
            if not await self._store.replace(stored, run, ticket=live.ticket, compiled=compiled, entry=entry):
                raise Conflict(f"Run {run.id} is no longer {stored.run.status.value}.")
            return None

        if run.id in self.lives:
            self._quotas.end_run(run.tenant)
            raise Conflict(f"Run {run.id} is no longer {stored.run.status.value}.")
        await self._enter(live, claim)
        return live

    def resume_taken_over(self, stored: StoredRun) -> None:
        """Continue a run that this process has taken over."""
        _log.warning("run taken over", run_id=stored.run.id, status=stored.run.status.value, epoch=stored.epoch)
        self._metrics.recovered.inc()
        self._quotas.take_run(stored.run.tenant)
        live = self._resumed(stored, stored.run, stored.epoch, stored.compiled)
        if stored.cancel_requested:
            live.cancel()
        self._spawn(live, self._drive(live, stored.takeovers))

    def cancel(self, run_id: str) -> Live | None:
        """Cancel a run if this process works on it."""
        live = self.lives.get(run_id)
        if live is not None and not live.cancelled:
            _log.info("run cancelled", run_id=run_id)
            live.cancel()
        return live

    def _resumed(self, stored: StoredRun, run: Run, epoch: int, compiled: CompiledPlan | None) -> Live:
        request = request_to_resume(stored)
        clock = Clock(max(RESUMED_DEADLINE_MS, request.options.deadline_ms))
        ticket = Ticket(run.id, self.owner, epoch)
        return Live(ticket, run, request, clock, compiled, stored.traceparent, unattended=True)

    async def _enter(self, live: Live, admission: Callable[[], Awaitable[str | None]]) -> str | None:
        """Store that the run is under way here, and work on it. A task does this, since the caller may be cancelled."""
        entered: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        async def enter() -> None:
            try:
                there = await admission()
            except ServiceError as error:
                entered.set_exception(error)
                return
            entered.set_result(there)
            if there is None:
                await self._drive(live)

        def leave(task: asyncio.Task[None]) -> None:
            if not entered.done():
                stopping = ServiceUnavailable("The gateway is stopping.", service="gateway")
                entered.set_exception(stopping if task.cancelled() else InternalError(BUG))
            entered.exception()  # the caller may be gone

        self._spawn(live, enter()).add_done_callback(leave)
        return await asyncio.shield(entered)

    def _spawn(self, live: Live, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.lives[live.run.id] = live
        self._metrics.active.inc()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, live))
        return task

    def _on_done(self, live: Live, task: asyncio.Task[None]) -> None:
        """Forget a run. If it is unfinished, a process takes it over, possibly this one."""
        self._tasks.discard(task)
        self._metrics.active.dec()
        del self.lives[live.run.id]
        self._quotas.end_run(live.run.tenant)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("bug", run_id=live.run.id, exc_info=error)
        if task.cancelled():
            stopping = "The gateway is stopping; the run continues in another process."
            live.settle(ServiceUnavailable(stopping, service="gateway", run_id=live.run.id))
        live.end()

    async def _drive(self, live: Live, takeovers: int = 0) -> None:
        """Work on a run to its end and store it. If cancelled, leave the run as it is for another process."""
        attributes: Attributes = {
            "nestor.run_id": live.run.id,
            "nestor.tenant": live.run.tenant,
            "nestor.takeovers": takeovers,
        }
        live.turns = partial(self._large.turn, live.run.tenant)
        for_tenant.set(live.run.tenant)  # it may be taken over
        with continued("gateway", live.traceparent), span("run", attributes) as current:
            live.work = asyncio.create_task(self._work(live, takeovers))
            try:
                await asyncio.wait({live.work})
            finally:
                live.work.cancel()
                await asyncio.wait({live.work})
            run, problem = final_run(live, live.work)
            _annotate_span(current, run)
            await self._conclude(live, run, problem)

    async def _work(self, live: Live, takeovers: int) -> Run:
        """Plan the run if it has no plan yet, then execute it."""
        durable = live.compiled is not None and is_durable(live.compiled)  # the executor recovers these
        if takeovers > self._settings.max_takeovers and not durable:
            raise InternalError(f"The run was given up after its process had stopped {takeovers} times.")
        if live.run.status is RunStatus.PLANNING:
            return await self._plan(live)
        if live.compiled is None:
            raise ValidationFailed("The stored run cannot be read by this version.")
        return await self._execute(live, live.compiled)

    async def _plan(self, live: Live) -> Run:
        if live.cancelled:
            raise RunCancelled
        if live.run.plan is not None:  # the app has given it
            policy = self.policy(live.run.tenant, live.request.options.mutations)
            prove = partial(self.prover.prove_given, live.run, policy, live.clock)
            live.run, compiled = await once_available(live, prove)
        else:
            live.run, planned = await once_available(live, partial(self._plan_request, live, live.run))
            live.writes_sentences, compiled = planned.sentences, planned.compiled
        if compiled is None or (live.request.options.dry_run and live.run.status is RunStatus.PLANNED):
            return live.run
        return await self._approve_or_execute(live, compiled)

    async def _plan_request(self, live: Live, run: Run) -> tuple[Run, PlanResponse]:
        policy = self.policy(run.tenant, live.request.options.mutations)
        return await plan(self._peers, self._planning, live.request, run, policy, live.clock)

    async def _approve_or_execute(self, live: Live, compiled: CompiledPlan) -> Run:
        """Ask for approval of a new plan if it needs one; else execute it, unless credentials are missing."""
        if live.run.status is RunStatus.NEEDS_APPROVAL:
            return await self._ask_for_approval(live, compiled)
        if compiled.proof.missing:
            return live.run.model_copy(update={"status": RunStatus.FAILED, "reason": credentials_hint(compiled.proof)})
        live.run = live.run.model_copy(update={"status": RunStatus.RUNNING})
        await self._store.begin(live.ticket, live.run, compiled)
        return await self._execute(live, compiled)

    async def _ask_for_approval(self, live: Live, compiled: CompiledPlan) -> Run:
        """Show what a plan would send. If the reads needed for that failed, treat them as the result of the plan."""
        live.durable = False  # nothing is under way at the executor
        reads = not live.request.options.dry_run or bool(live.run.lapsed)
        try:
            show = partial(preview, self._peers, live.run, compiled, live.clock, reads=reads, turn=live.turn)
            waiting = await once_available(live, show)
        except BaseException:  # also where the run is cancelled: the reads may have been made
            live.reads_secrets |= secrets_of_reads(compiled) if reads else set()
            raise
        if isinstance(waiting, Run):
            return waiting
        return await self._replan_on_evidence(live, compiled, answer(live.run, waiting, None, live.clock), waiting)

    async def _execute(self, live: Live, compiled: CompiledPlan) -> Run:
        """Execute a plan. If an approved plan would send other requests by now, it waits for approval again."""
        ended, finished = await self._execute_and_answer(live, compiled)
        if live.run.approval is not None and has_changed(finished) and not live.cancelled:
            live.run = without_approval(live.run)
            _log.info("approval lapsed", run_id=live.run.id)
            return await self._ask_for_approval(live, compiled)
        return await self._replan_on_evidence(live, compiled, ended, finished)

    async def _replan_on_evidence(
        self, live: Live, compiled: CompiledPlan, ended: Run, finished: ExecutionFinished
    ) -> Run:
        """The run as it ended. If its calls found nothing, plan again and run the new plan, as often as is allowed."""
        budget = self._settings.evidence_attempts if live.request.options.evidence else 0
        may_go_on = len(ended.evidence) < budget and not live.cancelled
        attempts = attempts_of(compiled, finished) if may_go_on else ()
        if not attempts:
            return with_questions(ended, questions_of(compiled, finished, ended.evidence))
        live.durable = False  # nothing is under way at the executor
        questions = questions_of(compiled, finished)
        again = await self._replan(live, compiled, ended, attempts, questions)
        self._metrics.count_evidence(live.run.evidence[-1])
        if again is None:
            kept = ended.model_copy(update={"evidence": live.run.evidence, "timings": live.clock.timings()})
            return with_questions(kept, questions_of(compiled, finished, kept.evidence))
        return await self._approve_or_execute(live, again)

    async def _replan(
        self,
        live: Live,
        compiled: CompiledPlan,
        ended: Run,
        attempts: tuple[Attempt, ...],
        questions: tuple[Question, ...],
    ) -> CompiledPlan | None:
        """A new plan, made with the results so far; None to keep the current one. The run records the outcome."""
        replaced = EvidenceRound(
            outcome="replanned",
            attempts=attempts,
            plan=compiled.plan,
            steps=ended.steps,
            questions=questions,
            approval=ended.approval,
        )
        tried = {compiled.plan.id} | {one.plan.id for one in ended.evidence if one.plan is not None}
        again = live.run.model_copy(
            update={
                "evidence": (*live.run.evidence, replaced),
                "approval": None,
                "previews": (),
                "reads": (),
                "digest": "",
                "moved": False,
            }
        )
        try:
            planned_run, planned = await self._plan_request(live, again)
        except ServiceError as error:
            _log.info("not planned again", run_id=live.run.id, why=error.detail)
            outcome = "unasked"
        else:
            if planned.compiled is None:
                outcome = planned.status
            elif planned.compiled.proof.missing:
                outcome = "no_plan"
            elif planned.compiled.plan.id in tried:
                outcome = "same_plan"
            elif not same_changes(compiled, planned.compiled):
                outcome = "other_changes"
            else:
                live.run, live.writes_sentences = planned_run, planned.sentences
                return planned.compiled
        kept = EvidenceRound.model_validate({"outcome": outcome, "attempts": attempts})
        live.run = live.run.model_copy(update={"evidence": (*live.run.evidence, kept)})
        return None

    async def _execute_and_answer(self, live: Live, compiled: CompiledPlan) -> tuple[Run, ExecutionFinished]:
        mark = live.clock.elapsed_ms()
        live.compiled = compiled
        live.publish(RunPlanned(run=live.run))
        requested = request_sentence(self._peers.planner, live, compiled, self._settings.sentence_wait_s, self._metrics)
        async with requested as pending:
            finished = await execute_run(self._peers.executor, live, compiled)
            live.clock.lap("execute_ms", mark)
            mark = live.clock.elapsed_ms()
            sentence = await pending.wait_for_text(finished)
            live.clock.lap("sentence_ms", mark)
        return answer(live.run, finished, sentence, live.clock), finished

    async def _conclude(self, live: Live, run: Run, problem: ServiceError | None) -> None:
        """Store the end of a run, retry until the database answers, then notify subscribers and callers."""
        finished, used = live.next_event(RunFinished(run=run)), secrets_of(run) | unrecorded_secrets(live, run)
        outage = Outage(f"storing the end of {run.id}")
        for pause in pauses():
            try:
                entries = self.uses.entries(run, used)
                async with live.turns(live.told):
                    await self._store.conclude(live.ticket, run, [*live.unwritten(), finished], entries)
                self.uses.mark_logged(run, used)
                outage.worked()
                break
            except Fenced:
                _log.warning("another process has taken over this run", run_id=run.id)
                return
            except ServiceError as error:
                outage.failed(error)
                if live.clock.remaining_s() <= 0:
                    live.settle(with_run_id(error, run))
            await asyncio.sleep(pause)
        self._quotas.charge(run.tenant, live.told // 2)  # its steps are told when they end, and with the run's end
        self._metrics.count_run(run)
        _log.info("run", run_id=run.id, status=run.status.value, total_ms=run.timings.total_ms)
        live.publish(RunFinished(run=run))
        live.settle(problem or run)

    async def close(self) -> None:
        """Wait for the runs under way for the grace period; then leave them to other processes."""
        self._closing = True
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=self._settings.shutdown_grace_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)


def request_to_resume(stored: StoredRun) -> SolveRequest:
    """The request of a run that goes on.

    A dry run that waits may be approved. What it allowed in advance is only planned, and is in no audit log, so changes
    are asked about then.
    """
    request = stored.request or SolveRequest(query=stored.run.query)
    if not request.options.dry_run or stored.run.status is RunStatus.PLANNING:
        return request
    asking = request.options.model_copy(update={"mutations": Decision.ASK})
    return request.model_copy(update={"options": asking})


def _annotate_span(current: Span, run: Run) -> None:
    """Record on the run's span how it ended."""
    current.set_attributes({"nestor.status": run.status.value, "nestor.candidates": len(run.candidates)})
    if run.backend:
        current.set_attribute("nestor.backend", run.backend)
    if run.plan is not None:
        current.set_attribute("nestor.steps", len(run.plan.steps))
    if run.problem is not None:
        fail(current, run.problem.type.removeprefix(TYPE_PREFIX))
