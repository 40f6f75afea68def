"""What people decide about a run: they approve it, cancel it, or settle its calls in doubt."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from gateway.approval import is_still_valid, preview
from gateway.audit import AuditLog, entry
from gateway.live import closing_event
from gateway.metrics import GatewayMetrics
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.runs import RESUMED_DEADLINE_MS, Runs, request_to_resume
from gateway.settings import GatewaySettings
from gateway.solve import Clock
from gateway.storage import UNDER_WAY, RunStore, StoredRun
from gateway.usage import secrets_of_reads
from gateway.waiting import Waiting
from services.contracts.access import Action
from services.contracts.approval import Approval, ApproveRequest
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecutionState
from services.contracts.outcome import Failed
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run, RunStatus
from services.errors import Conflict, Forbidden, NotFound
from services.telemetry import get_logger

_log = get_logger(__name__)
_CANCEL_WAIT_S: Final = 1.0
_WAITING_FOR_A_PERSON: Final = frozenset({RunStatus.NEEDS_APPROVAL, RunStatus.NEEDS_INPUT})


class Decisions:
    """The decisions of people. Each is made by a principal, on a run of its tenant."""

    def __init__(
        self,
        peers: Peers,
        store: RunStore,
        runs: Runs,
        waiting: Waiting,
        audit: AuditLog,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
    ) -> None:
        self._peers, self._store, self._runs, self._waiting = peers, store, runs, waiting
        self._audit, self._settings, self._metrics = audit, settings, metrics

    async def approve(self, run_id: str, request: ApproveRequest, principal: Principal) -> Run:
        """Run a plan that waited for approval.

        The plan is proved again, against the current APIs and policy. If any of them has changed, including APIs that
        the plan only reads from, its requests are prepared again and must be reviewed again.

        Raises:
            NotFound: no such run.
            Forbidden: the principal asked for the run itself, and the settings require another approver.
            Conflict: the run does not wait for an approval, it waits with another plan or other requests, or its
                requests have changed.
            ValidationFailed: the plan is no longer valid.
            Overloaded: too many runs are under way.
        """
        stored = await self._store.stored(run_id, principal.tenant)
        run = stored.run
        self._refuse_own(run, principal, "approve")
        if run.status is not RunStatus.NEEDS_APPROVAL or run.plan is None:
            raise Conflict(f"Run {run_id} is {run.status.value}; it does not wait for an approval.")
        if run.plan.id != request.plan_id:
            raise Conflict("The approval is for another plan than this run's.")
        if request.digest != run.digest and (request.digest is not None or run.moved):
            raise Conflict("The approval is for other requests. Review the run again.")
        mutating = request_to_resume(stored).options.mutations
        compiled = await self._runs.prover.prove_again(run.plan, self._runs.policy(run.tenant, mutating))
        if not is_still_valid(run, compiled):
            await self._refresh_preview(stored, compiled)
            raise Conflict("The requests differ from those that were shown. Review the run again.")
        approval = Approval(
            plan_id=run.plan.id,
            approver=principal.name,
            on_behalf_of=request.on_behalf_of,
            at=datetime.now(UTC),
            digest=run.digest,
        )
        running = {"status": RunStatus.RUNNING, "approval": approval, "proof": compiled.proof, "reason": ""}
        approved = run.model_copy(update=running)
        made = entry(principal, Action.APPROVE, run_id, run.digest)
        live = await self._runs.resume(stored, approved, compiled, made)
        _log.info("approved", run_id=run_id, plan_id=run.plan.id, approver=principal.name)
        return await self._waiting.for_outcome(live, principal.tenant, live.clock) if request.wait else approved

    async def _refresh_preview(self, stored: StoredRun, compiled: CompiledPlan) -> None:
        """Store with a waiting run what its plan would send now. Raises Conflict if that cannot be determined."""
        clock = Clock(RESUMED_DEADLINE_MS)
        used = secrets_of_reads(compiled)  # until it is known with which the reads were made
        try:
            again = await preview(self._peers, stored.run, compiled, clock)
            used = set(again.read_with if isinstance(again, Run) else chain(*(one.secrets for one in again.records)))
        finally:
            await self._audit.add_once(self._runs.uses.entries(stored.run, used))
            self._runs.uses.mark_logged(stored.run, used)
        if not isinstance(again, Run):
            failed = next((r for r in again.records if isinstance(r.outcome, Failed)), None)
            why = f"{failed.step}: {failed.outcome.message}" if failed and isinstance(failed.outcome, Failed) else ""
            raise Conflict(f"The values for the requests cannot be read again: {why}", run_id=stored.run.id)
        await self._store.replace(stored, again.model_copy(update={"moved": True}))

    async def cancel(self, run_id: str, principal: Principal) -> Run:
        """Cancel a run. It may still be under way when this returns, because calls in flight are not interrupted.

        Raises:
            NotFound: no such run.
            Conflict: it has ended already.
        """
        while True:
            stored = await self._store.stored(run_id, principal.tenant)
            status = stored.run.status
            if status in UNDER_WAY:
                if await self._store.request_cancel(run_id):
                    return await self._cancelled(run_id, principal)
            elif status in _WAITING_FOR_A_PERSON:
                ended = stored.run.model_copy(update={"status": RunStatus.CANCELLED, "reason": "It was cancelled."})
                waits = status is RunStatus.NEEDS_APPROVAL
                made = entry(principal, Action.REJECT, run_id, stored.run.digest) if waits else None
                closing = [closing_event(stored.epoch, ended)]
                if await self._store.replace(stored, ended, events=closing, entry=made):
                    self._metrics.count_run(ended)
                    return ended
            else:
                raise Conflict(f"Run {run_id} is {status.value}; it has ended already.")

    async def _cancelled(self, run_id: str, principal: Principal) -> Run:
        live = self._runs.cancel(run_id)
        if live is not None:
            with suppress(TimeoutError):  # the caller sees that it is still under way
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await live.ended.wait()
        return await self._store.get(run_id, principal.tenant, further=True)  # it is cancelled: not refused

    async def resolve(
        self, run_id: str, step: str, request: ResolveRequest, principal: Principal, *, wait: bool
    ) -> Run:
        """Settle a call in doubt. When the last one is settled, the run goes on.

        Raises:
            NotFound: no such run or step.
            Forbidden: the principal asked for the run itself, and the settings require another approver: the value that
                it states would go into changes that were approved without it.
            Conflict: the run is not in doubt, or the call is not.
            ValidationFailed: the step is a `foreach` but no item is given, or the other way round.
        """
        stored = await self._store.stored(run_id, principal.tenant, compiled=True)
        self._refuse_own(stored.run, principal, "settle a call of")
        if stored.run.status is not RunStatus.IN_DOUBT or stored.compiled is None:
            raise Conflict(f"Run {run_id} is {stored.run.status.value}; none of its calls is in doubt.")
        if stored.compiled.plan.step(step) is None:  # before it is written into the audit log
            raise NotFound(f"The plan of run {run_id} has no such step.")
        item = "" if request.item is None else f"[{request.item}]"
        async with self._audit.around(principal, Action.RESOLVE, f"{run_id}/{step}{item}: {request.outcome}") as told:
            state = await self._resolve_doubt(stored, step, request)
            if state is None or not state.settled:  # an earlier, other settlement counts
                told.outcome = "refused"
        what = "settled" if told.outcome == "done" else "was settled before"
        _log.info(what, run_id=run_id, step=step, item=request.item, outcome=request.outcome, by=principal.name)
        if state is not None and state.status == "in_doubt":
            await self._store.replace(stored, stored.run.model_copy(update={"doubts": state.doubts}))
            return await self._store.get(run_id, principal.tenant, further=True)
        running = stored.run.model_copy(update={"status": RunStatus.RUNNING, "doubts": ()})
        live = await self._runs.resume(stored, running, stored.compiled)
        return await self._waiting.for_outcome(live, principal.tenant, live.clock) if wait else running

    async def _resolve_doubt(self, stored: StoredRun, step: str, request: ResolveRequest) -> ExecutionState | None:
        """Tell the executor. None: the call was already settled there, and the execution goes on."""
        try:
            return await self._peers.executor.resolve(stored.run.execution_id, step, request)
        except Conflict:
            if any(doubt.step == step and doubt.item == request.item for doubt in stored.run.doubts):
                return None
            raise

    def _refuse_own(self, run: Run, principal: Principal, action: str) -> None:
        if self._settings.four_eyes and run.asked_by == principal.name:
            raise Forbidden(f"A principal cannot {action} a run that it requested.")
