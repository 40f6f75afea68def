"""The rules of requests: who may ask for what, and when. It has no HTTP and no SQL. ``runs`` does the work on runs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.administration import Administration
from gateway.audit import AuditLog, entry
from gateway.call_history import PastCall, past_calls
from gateway.comparing import compare
from gateway.decisions import Decisions
from gateway.events import Events
from gateway.listing import Filter
from gateway.live import Live
from gateway.metrics import GatewayMetrics
from gateway.operations import Overview
from gateway.outcomes import Outcomes
from gateway.peers import Peers
from gateway.previewing import Previews
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.roles import Role
from gateway.runs import Runs
from gateway.settings import GatewaySettings
from gateway.solve import Clock
from gateway.storage import NOT_OVER, UNDER_WAY, RequestIdentity, RunStore, new_run_id
from gateway.stored_values import stored_values
from gateway.streams import Streams
from gateway.tenants import Tenants
from gateway.told_events import ToldEvent, told_event
from gateway.waiting import Waiting
from services.contracts.access import Action
from services.contracts.comparison import Comparison
from services.contracts.event import RunEvent, SolveEvent
from services.contracts.plan import Plan, content_hash
from services.contracts.planning import Decision
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run, RunPage, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.contracts.start import StartOptions, StartRequest
from services.errors import Conflict, Forbidden, NotFound
from services.telemetry import get_logger

_log = get_logger(__name__)
_EVENTS_WEIGHT: Final = 4
"""Size of a run with its events, relative to the run: they have its steps, and the run as planned and as ended."""
_COMPARED_WEIGHT: Final = 2
"""Size of a run that is compared, relative to one that is shown: going through its values takes as long as parsing."""
_NOTHING: Final[Mapping[str, object]] = {}


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
        self.previews = Previews(peers, store, runs.prover, runs.policy, settings.max_body_bytes, quotas)
        self.overview = Overview(peers, store, quotas, settings.lease_s)
        self.outcomes = Outcomes(store, self.administration, metrics)
        self._audit = audit
        self._store, self._runs = store, runs
        self._settings = settings
        self._waiting = Waiting(store, runs, quotas)
        self.decisions = Decisions(peers, store, runs, self._waiting, audit, settings, metrics)
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

    async def start(
        self, request: StartRequest, principal: Principal, key: str | None = None, planned: Run | None = None
    ) -> Run:
        """Prove a given plan and run it unchanged. Without `wait`, the run is returned as soon as it is stored.

        ``planned``: the run whose plan was shown. If the plan is the same, it is as unsure as it was there.

        Raises:
            ValidationFailed: the calls are not a plan, or hold too many values.
            Conflict: the key was sent before with another request.
            Overloaded: too many runs are under way.
            ServiceError: what kept the plan from being proved or executed, with the run's `run_id`.
        """
        plan = await self.previews.plan_of([dict(call) for call in request.calls], principal.tenant)
        unsure = planned.unsure if planned is not None and planned.plan == plan else ""
        asked = _given_plan_request(request.query, request.options, request.wait)
        return await self._solve(asked, principal, key, {"plan": plan, "unsure": unsure})

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
            # A run that has just been accepted is not refused any more: its caller would start another one.
            return await self._store.get(run_id, principal.tenant, further=isinstance(accepted, Live))
        clock = Clock(request.options.deadline_ms)
        if isinstance(accepted, Live):
            return await self._waiting.for_outcome(accepted, principal.tenant, clock)
        return await self._waiting.for_end(run_id, principal.tenant, clock)

    async def solve_events(
        self, request: SolveRequest, principal: Principal, key: str | None = None
    ) -> AsyncGenerator[SolveEvent, None]:
        """Begin to solve a request, and return the run's events. Raises as ``solve`` does before the run is stored.

        The last event is ``finished``. A failed run's problem is in it; it is not raised.
        """

        async def begin() -> tuple[str, bool]:
            accepted = await self._accept(request, principal, key)
            if isinstance(accepted, Live):
                return accepted.run.id, True
            await self._store.charge(accepted, principal.tenant, _EVENTS_WEIGHT)  # as in `follow`
            return accepted, False

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
        """The number of runs of the principal's tenant by status, for each interval. Raises Overloaded."""
        return await self._store.listing.counts(principal.tenant, since, ends)

    async def calls(self, api: str, principal: Principal) -> list[PastCall]:
        """The calls of an API in the newest runs of the principal's tenant."""
        return await past_calls(api, principal.tenant, self._store)

    async def compare(self, run_id: str, other: str, principal: Principal) -> Comparison:
        """The first difference between two runs. Raises NotFound, also for a run of another tenant."""
        one = await self._store.get(run_id, principal.tenant, _COMPARED_WEIGHT)
        another = await self._store.get(other, principal.tenant, _COMPARED_WEIGHT, further=True)
        return await asyncio.to_thread(compare, one, another)

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
        # The events of a run that has ended are charged already, with the run.
        return await self._streams.follow(run_id, principal.tenant, after, charged=status not in UNDER_WAY)

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
                run = await self._store.get(run_id, principal.tenant, further=True)  # gone, if deleted meanwhile
        raise Conflict(f"Run {run_id} is {run.status.value}; only a run that has ended can be deleted.")

    async def value(self, run_id: str, value_id: str, principal: Principal) -> bytes:
        """The JSON of a large value of a run. Raises NotFound, also for a value that is not part of the run."""
        run = await self._store.get(run_id, principal.tenant)
        sizes = stored_values(run)
        if value_id not in sizes:
            raise NotFound(f"Run {run_id} has no stored value {value_id}.")
        self.quotas.read(principal.tenant, sizes[value_id])
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
        in_advance = request.options.mutations.allows
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

    def _why_not_in_advance(self, principal: Principal) -> Forbidden | None:
        """The refusal if this principal may not approve its own changes in advance."""
        try:
            principal.require({Role.APPROVE})
        except Forbidden as refusal:
            return refusal
        if self._settings.four_eyes:
            return Forbidden('With `"mutations": "allow"`, a principal would approve its own request.')
        return None


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
