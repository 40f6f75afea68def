"""The rules of requests: who may ask for what, and when. It has no HTTP and no SQL. ``runs`` does the work on runs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from pydantic import JsonValue

from gateway.administration import Administration
from gateway.approval import is_still_valid, preview, prove_again
from gateway.audit import AuditLog, entry
from gateway.call_history import PastCall, past_calls
from gateway.comparing import compare
from gateway.events import Events
from gateway.listing import Filter
from gateway.live import Live, closing_event
from gateway.metrics import GatewayMetrics
from gateway.operations import Overview
from gateway.outcomes import Outcomes
from gateway.peers import Peers
from gateway.previewing import Previews, plan_of
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.roles import Role
from gateway.runs import RESUMED_DEADLINE_MS, Runs, request_to_resume
from gateway.settings import GatewaySettings
from gateway.solve import Clock
from gateway.storage import NOT_OVER, UNDER_WAY, RequestIdentity, RunStore, StoredRun, new_run_id
from gateway.stored_values import stored_values
from gateway.streams import Streams
from gateway.tenants import Tenants
from gateway.told_events import ToldEvent, told_event
from gateway.usage import secrets_of_reads
from services.contracts.access import Action
from services.contracts.approval import Approval, ApproveRequest
from services.contracts.comparison import Comparison
from services.contracts.doubt import ResolveRequest
from services.contracts.event import RunEvent, SolveEvent
from services.contracts.execution import ExecutionState
from services.contracts.outcome import Failed
from services.contracts.plan import Plan, content_hash
from services.contracts.planning import CompiledPlan, Decision
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run, RunPage, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.contracts.start import StartOptions, StartRequest
from services.errors import Conflict, Forbidden, NotFound
from services.telemetry import get_logger

_log = get_logger(__name__)
_POLL_S: Final = 0.25
_CANCEL_WAIT_S: Final = 1.0
_EVENTS_WEIGHT: Final = 4
"""Size of a run with its events, relative to the run: they have its steps, and the run as planned and as ended."""
_NOTHING: Final[Mapping[str, object]] = {}
_WAITING_FOR_A_PERSON: Final = frozenset({RunStatus.NEEDS_APPROVAL, RunStatus.NEEDS_INPUT})


class GatewayService:
    """The operations of the gateway. Each is called as a principal, which sees the runs of its tenant."""

    def __init__(
        self,
        peers: Peers,
        store: RunStore,
        runs: Runs,
        events: Events,
        quotas: Quotas,
        tenants: Tenants,
        audit: AuditLog,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
    ) -> None:
        self.peers, self.quotas, self.tenants = peers, quotas, tenants
        self.administration = Administration(peers, store, quotas, audit, runs.policy)
        self.previews = Previews(peers, store, runs.policy, settings.max_body_bytes, quotas.charge)
        self.overview = Overview(peers, store, quotas, settings.lease_s)
        self.outcomes = Outcomes(store, self.administration, metrics)
        self._audit = audit
        self._store, self._runs = store, runs
        self._settings, self._metrics = settings, metrics
        self._streams = Streams(events, quotas, metrics, settings.max_followers)

    async def solve(self, request: SolveRequest, principal: Principal, key: str | None = None) -> Run:
        """Solve a request. Without `wait`, the run is returned as soon as it is stored.

        If the tenant has sent the same key and request before, the run of that time is returned.

        Raises:
            Conflict: the key was sent before with another request.
            QuotaExceeded: the tenant has as many runs under way as it may.
            Overloaded: too many runs are under way.
            ServiceError: what kept the run from being planned or executed, with its `run_id`.
        """
        return await self._solve(request, principal, key)

    async def start(self, request: StartRequest, principal: Principal, key: str | None = None) -> Run:
        """Prove a given plan and run it unchanged. Without `wait`, the run is returned as soon as it is stored.

        Raises:
            ValidationFailed: the calls are not a plan, or hold too many values.
            Conflict: the key was sent before with another request.
            Overloaded: too many runs are under way.
            ServiceError: what kept the plan from being proved or executed, with the run's `run_id`.
        """
        plan = await plan_of([dict(call) for call in request.calls])
        return await self._solve(
            _given_plan_request(request.query, request.options, request.wait), principal, key, {"plan": plan}
        )

    async def rerun(self, run_id: str, request: RerunRequest, principal: Principal, key: str | None = None) -> Run:
        """Run the plan of an earlier run again, from a given step on and with other inputs.

        Raises:
            NotFound: no such run.
            Conflict: the run is under way, or a step that is not repeated has no value that can be reused.
            ValidationFailed: the plan is not valid with these inputs and the current APIs.
            ServiceError: as ``start``.
        """
        earlier, again, compiled = await self.previews.rerun(run_id, request, principal)
        asked = _given_plan_request(earlier.query, request.options, request.wait)
        return await self._solve(asked, principal, key, again.fields(compiled))

    async def _solve(
        self,
        request: SolveRequest,
        principal: Principal,
        key: str | None,
        given: Mapping[str, object] = _NOTHING,
    ) -> Run:
        accepted = await self._accept(request, principal, key, given)
        run_id = accepted.run.id if isinstance(accepted, Live) else accepted
        if not request.wait:
            return await self._store.get(run_id, principal.tenant)
        clock = Clock(request.options.deadline_ms)
        if isinstance(accepted, Live):
            return await self._wait_for_outcome(accepted, principal, clock)
        return await self._wait_for_end(run_id, principal, clock)

    async def solve_events(
        self, request: SolveRequest, principal: Principal, key: str | None = None
    ) -> AsyncGenerator[SolveEvent, None]:
        """Begin to solve a request, and return the run's events. Raises as ``solve`` does before the run is stored.

        The last event is ``finished``. A failed run's problem is in it; it is not raised.
        """

        async def begin() -> str:
            accepted = await self._accept(request, principal, key)
            if isinstance(accepted, Live):
                return accepted.run.id
            await self._store.charge(accepted, principal.tenant, _EVENTS_WEIGHT)  # as in `follow`
            return accepted

        return await self._streams.begin(principal.tenant, begin)

    async def plan(self, request: SolveRequest, principal: Principal) -> Run:
        """Plan and prove; nothing is executed."""
        options = request.options.model_copy(update={"dry_run": True})
        return await self.solve(request.model_copy(update={"options": options, "wait": True}), principal)

    async def page(self, which: Filter, *, limit: int, cursor: str | None) -> RunPage:
        """A page of runs, newest first."""
        return await self._store.listing.page(which, limit=limit, cursor=cursor)

    async def run(self, run_id: str, principal: Principal) -> Run:
        """One run. Raises NotFound, also for a run of another tenant."""
        return await self._store.get(run_id, principal.tenant)

    async def run_json(self, run_id: str, principal: Principal) -> str:
        """The JSON of one run. Raises NotFound, also for a run of another tenant."""
        return await self._store.json(run_id, principal.tenant)

    async def stored_events(self, run_id: str, principal: Principal) -> list[RunEvent]:
        """The events of a run that are stored so far, in order. Raises NotFound."""
        await self._store.charge(run_id, principal.tenant, _EVENTS_WEIGHT)
        found: list[RunEvent] = []
        while page := await self._store.events(run_id, found[-1].id if found else 0):
            found += page
        return found

    async def newest_events(self, run_id: str, principal: Principal, limit: int) -> tuple[list[ToldEvent], int]:
        """The newest of a run's stored events, in order and without their values, and how many there are."""
        await self._store.charge(run_id, principal.tenant, _EVENTS_WEIGHT)
        rows, total = await self._store.newest_events(run_id, limit)
        return [told_event(*row) for row in rows], total

    async def original_request(self, run_id: str, principal: Principal) -> SolveRequest:
        """The request of a run. Raises NotFound."""
        stored = await self._store.stored(run_id, principal.tenant)
        return stored.request or SolveRequest(query=stored.run.query)

    async def counts(
        self, principal: Principal, since: datetime, ends: Sequence[datetime]
    ) -> list[dict[RunStatus, int]]:
        """The number of runs of the principal's tenant by status, for each interval."""
        return await self._store.listing.counts(Filter(principal.tenant, after=since), ends)

    async def calls(self, api: str, principal: Principal) -> list[PastCall]:
        """The calls of an API in the newest runs of the principal's tenant."""
        return await past_calls(api, principal.tenant, self._store)

    async def compare(self, run_id: str, other: str, principal: Principal) -> Comparison:
        """The first difference between two runs. Raises NotFound, also for a run of another tenant."""
        found = [await self._store.get(one, principal.tenant) for one in (run_id, other)]
        return compare(*found)

    async def follow(self, run_id: str, principal: Principal, after: int) -> AsyncGenerator[RunEvent, None] | None:
        """The events of a run with a higher number than ``after``; None if there are none and will be none.

        Raises:
            NotFound: there is no such run.
            QuotaExceeded: too many streams of the tenant are open.
            Overloaded: too many streams are open.
        """
        status = await self._store.charge(run_id, principal.tenant, _EVENTS_WEIGHT)
        if status not in UNDER_WAY and not await self._store.events(run_id, after, limit=1):
            return None
        return await self._streams.follow(run_id, principal.tenant, after)

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
        compiled = await prove_again(self.peers, run.plan, self._runs.policy(run.tenant, mutating))
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
        return await self._wait_for_outcome(live, principal, live.clock) if request.wait else approved

    async def _refresh_preview(self, stored: StoredRun, compiled: CompiledPlan) -> None:
        """Store with a waiting run what its plan would send now. Raises Conflict if that cannot be determined."""
        clock = Clock(RESUMED_DEADLINE_MS)
        used = secrets_of_reads(compiled)  # until it is known with which the reads were made
        try:
            again = await preview(self.peers, stored.run, compiled, clock)
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
        return await self._store.get(run_id, principal.tenant)

    async def delete(self, run_id: str, principal: Principal) -> None:
        """Delete a run that is over, with its events, its idempotency key and the executor's data of it.

        Raises:
            NotFound: no such run.
            Conflict: it is not over.
        """
        run = await self._store.get(run_id, principal.tenant)
        if run.status not in NOT_OVER:
            async with self._audit.around(principal, Action.DELETE_RUN, run_id) as told:
                # The executor comes first: if it fails, the run is still here, and can be deleted again.
                for execution_id in run.execution_ids:
                    await self.peers.executor.forget(execution_id)
                if await self._store.delete(run_id, principal.tenant):
                    _log.info("deleted", run_id=run_id, by=principal.name)
                    return
                told.outcome = "refused"
        raise Conflict(f"Run {run_id} is {run.status.value}; only a run that has ended can be deleted.")

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
        stored = await self._store.stored(run_id, principal.tenant)
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
            return await self._store.get(run_id, principal.tenant)
        running = stored.run.model_copy(update={"status": RunStatus.RUNNING, "doubts": ()})
        live = await self._runs.resume(stored, running, stored.compiled)
        return await self._wait_for_outcome(live, principal, live.clock) if wait else running

    async def _resolve_doubt(self, stored: StoredRun, step: str, request: ResolveRequest) -> ExecutionState | None:
        """Tell the executor. None: the call was already settled there, and the execution goes on."""
        try:
            return await self.peers.executor.resolve(stored.run.execution_id, step, request)
        except Conflict:
            if any(doubt.step == step and doubt.item == request.item for doubt in stored.run.doubts):
                return None
            raise

    async def value(self, run_id: str, value_id: str, principal: Principal) -> JsonValue:
        """A large value of a run, in full. Raises NotFound, also for a value that is not part of the run."""
        run = await self._store.get(run_id, principal.tenant)
        sizes = stored_values(run)
        if value_id not in sizes:
            raise NotFound(f"Run {run_id} has no stored value {value_id}.")
        self.quotas.charge(principal.tenant, sizes[value_id])
        return await self.peers.executor.value(value_id)

    async def _accept(
        self, request: SolveRequest, principal: Principal, key: str | None, given: Mapping[str, object] = _NOTHING
    ) -> Live | str:
        """Begin a run; or return the id of an earlier run with the same idempotency key.

        ``given`` holds fields of the run: a given `plan`, and for a rerun what refers to the earlier run.
        A dry run of a principal that may not approve in advance is planned as if it had not asked for that.

        Raises:
            Forbidden: the principal may not approve its own changes in advance.
        """
        in_advance = request.options.mutations is Decision.ALLOW
        if in_advance and (refusal := self._why_not_in_advance(principal)) is not None:
            if not request.options.dry_run:
                raise refusal
            # Nothing is sent, but the waiting run may be approved later, and then be planned again.
            asking = request.options.model_copy(update={"mutations": Decision.ASK})
            request, in_advance = request.model_copy(update={"options": asking}), False
        identity = None if key is None else RequestIdentity(key, _fingerprint(request, given))
        run = Run(
            id=new_run_id(),
            status=RunStatus.PLANNING,
            query=request.query,
            created_at=datetime.now(UTC),
            tenant=principal.tenant,
            asked_by=principal.name,
        ).model_copy(update=given)
        counts = in_advance and not request.options.dry_run  # see `request_to_resume`
        made = entry(principal, Action.APPROVE_IN_ADVANCE, run.id) if counts else None
        accepted = await self._runs.begin(run, request, identity, made)
        if isinstance(accepted, str) and identity is not None:
            there = await self._store.stored(accepted, principal.tenant)
            if there.fingerprint != identity.fingerprint:
                raise Conflict("This Idempotency-Key was already used for another request.", run_id=accepted)
        return accepted

    def _refuse_own(self, run: Run, principal: Principal, action: str) -> None:
        if self._settings.four_eyes and run.asked_by == principal.name:
            raise Forbidden(f"A principal cannot {action} a run that it requested.")

    def _why_not_in_advance(self, principal: Principal) -> Forbidden | None:
        """The refusal if this principal may not approve its own changes in advance."""
        try:
            principal.require({Role.APPROVE})
        except Forbidden as refusal:
            return refusal
        if self._settings.four_eyes:
            return Forbidden('With `"mutations": "allow"`, a principal would approve its own request.')
        return None

    async def _wait_for_outcome(self, live: Live, principal: Principal, clock: Clock) -> Run:
        run = await asyncio.shield(live.outcome)
        return run if run is not None else await self._wait_for_end(live.run.id, principal, clock)

    async def _wait_for_end(self, run_id: str, principal: Principal, clock: Clock) -> Run:
        """A run of any process once it has ended, or as it is at the deadline."""
        while await self._store.status(run_id) in UNDER_WAY and clock.remaining_s() > 0:
            live = self._runs.lives.get(run_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, clock.remaining_s())):
                    await (asyncio.sleep(_POLL_S) if live is None else live.ended.wait())
        return await self._store.get(run_id, principal.tenant)


def _fingerprint(request: SolveRequest, given: Mapping[str, object]) -> str:
    """The hash of what was asked for. How the answer is delivered does not count."""
    asked = request.model_dump(mode="json", exclude={"wait"})
    plan = given.get("plan")
    if not isinstance(plan, Plan):
        return content_hash(asked)
    return content_hash([asked, plan.id, *(str(given[name]) for name in ("rerun_of",) if name in given)])


def _given_plan_request(query: str, options: StartOptions, wait: bool) -> SolveRequest:
    """The request of a run whose plan is given: it is run unchanged, and not planned again."""
    how = SolveOptions(
        dry_run=options.dry_run,
        deadline_ms=options.deadline_ms,
        mutations=options.mutations,
        evidence=False,
        sentence=False,
    )
    return SolveRequest(query=query, options=how, wait=wait)
