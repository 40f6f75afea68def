"""The rules of requests: who may ask for what, and when. How runs are worked on is in ``runs``; no HTTP and no SQL."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from gateway.approval import prove_again, refreshed
from gateway.events import Events
from gateway.live import Live, closing_event
from gateway.metrics import GatewayMetrics
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.runs import Runs
from gateway.settings import GatewaySettings
from gateway.solve import Clock
from gateway.storage import UNDER_WAY, Filter, Identity, RunStore, StoredRun, new_run_id
from services.contracts.api import NeededSecrets
from services.contracts.demo import Demo, demo_id
from services.contracts.plan import content_hash
from services.contracts.run import (
    Approval,
    ApproveRequest,
    ExecutionState,
    Feedback,
    FeedbackRequest,
    ResolveRequest,
    Run,
    RunEvent,
    RunPage,
    RunStatus,
    SecretTest,
    SecretTestRequest,
    SolveEvent,
    SolveRequest,
    Succeeded,
    Verdict,
)
from services.errors import Conflict, NotFound, Overloaded
from services.telemetry import get_logger

_log = get_logger(__name__)
_POLL_S: Final = 0.25
_CANCEL_WAIT_S: Final = 1.0
_NOT_OVER: Final = UNDER_WAY | {RunStatus.NEEDS_APPROVAL, RunStatus.IN_DOUBT}
_CONFIRMABLE: Final = frozenset({RunStatus.SUCCEEDED, RunStatus.PLANNED})
_WAITING_FOR_A_PERSON: Final = frozenset({RunStatus.NEEDS_APPROVAL, RunStatus.NEEDS_INPUT})


class GatewayService:
    """What apps ask of the gateway, each as a principal, who sees the runs of its tenant."""

    def __init__(
        self,
        peers: Peers,
        store: RunStore,
        runs: Runs,
        events: Events,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
    ) -> None:
        self.peers = peers
        self._store, self._runs, self._events = store, runs, events
        self._settings, self._metrics = settings, metrics
        self._followers = 0

    async def solve(self, request: SolveRequest, principal: Principal, key: str | None = None) -> Run:
        """Solve; without `wait` the run is returned as soon as it is stored.

        A key that this tenant has sent before with the same request gives the run of that time.

        Raises:
            Conflict: the key was sent before with another request.
            Overloaded: too many runs are under way.
            ServiceError: what kept the run from being planned or executed, with its `run_id`.
        """
        accepted = await self._accept(request, principal, key)
        run_id = accepted.run.id if isinstance(accepted, Live) else accepted
        if not request.wait:
            return await self._store.get(run_id, principal.tenant)
        clock = Clock(request.options.deadline_ms)
        if isinstance(accepted, Live):
            return await self._outcome(accepted, principal, clock)
        return await self._ended(run_id, principal, clock)

    async def solve_events(
        self, request: SolveRequest, principal: Principal, key: str | None = None
    ) -> AsyncGenerator[SolveEvent, None]:
        """Solve and follow. The last event is ``finished``; a failed run's problem is in it, not raised."""
        accepted = await self._accept(request, principal, key)
        run_id = accepted.run.id if isinstance(accepted, Live) else accepted
        async with aclosing(self._events.follow(run_id, 0)) as events:
            async for event in events:
                if event is not None:
                    yield event.event

    async def plan(self, request: SolveRequest, principal: Principal) -> Run:
        """Plan and prove; nothing is executed."""
        options = request.options.model_copy(update={"dry_run": True})
        return await self.solve(request.model_copy(update={"options": options, "wait": True}), principal)

    async def page(self, which: Filter, *, limit: int, cursor: str | None) -> RunPage:
        """A page of runs, newest first."""
        return await self._store.page(which, limit=limit, cursor=cursor)

    async def run(self, run_id: str, principal: Principal) -> Run:
        """One run. Raises NotFound, also for another tenant's."""
        return await self._store.get(run_id, principal.tenant)

    async def told(self, run_id: str, principal: Principal) -> list[RunEvent]:
        """What has happened in a run and is stored by now, in order. Raises NotFound."""
        await self._store.get(run_id, principal.tenant)
        found: list[RunEvent] = []
        while page := await self._store.events(run_id, found[-1].id if found else 0):
            found += page
        return found

    async def asked(self, run_id: str, principal: Principal) -> SolveRequest:
        """What a run was asked with. Raises NotFound."""
        stored = await self._store.stored(run_id, principal.tenant)
        return stored.request or SolveRequest(query=stored.run.query)

    async def counts(self, principal: Principal, since: datetime) -> dict[RunStatus, int]:
        """How many runs of the principal's tenant there are of each status that has any, created since then."""
        return await self._store.counts(Filter(principal.tenant, after=since))

    async def follow(
        self, run_id: str, principal: Principal, after: int
    ) -> AsyncGenerator[RunEvent | None, None] | None:
        """The events of a run with a higher number than ``after``; None where there are none and will be none.

        Raises:
            NotFound: there is no such run.
            Overloaded: too many streams are open.
        """
        run = await self._store.get(run_id, principal.tenant)
        if run.status not in UNDER_WAY and not await self._store.events(run_id, after, limit=1):
            return None
        if self._followers >= self._settings.max_followers:
            raise Overloaded("Too many streams are open.", retry_after_s=5)
        return self._counted(run_id, after)

    async def _counted(self, run_id: str, after: int) -> AsyncGenerator[RunEvent | None, None]:
        self._followers += 1
        try:
            with self._metrics.followers.track_inprogress():
                async with aclosing(self._events.follow(run_id, after)) as events:
                    async for event in events:
                        yield event
        finally:
            self._followers -= 1

    async def approve(self, run_id: str, request: ApproveRequest, principal: Principal) -> Run:
        """Run a plan that waited for approval.

        The plan is proved once more, against the APIs and the policy as they are now, and it must still send the
        requests that were shown.

        Raises:
            NotFound: no such run.
            Conflict: the run does not wait for an approval, it waits with another plan, or its requests have changed.
            ValidationFailed: the plan does not hold any more.
            Overloaded: too many runs are under way.
        """
        stored = await self._store.stored(run_id, principal.tenant)
        run = stored.run
        if run.status is not RunStatus.NEEDS_APPROVAL or run.plan is None:
            raise Conflict(f"Run {run_id} is {run.status.value}; it does not wait for an approval.")
        if run.plan.id != request.plan_id:
            raise Conflict("The approval is for another plan than the one this run waits with.")
        compiled = await prove_again(self.peers, run.plan, self._runs.policy(run.tenant))
        if (changed := await refreshed(self.peers, run, compiled)) is not None:
            await self._store.replace(stored, changed)
            raise Conflict("The requests are not those that were shown any more. Look at the run again.")
        approval = Approval(
            plan_id=run.plan.id, approver=principal.name, on_behalf_of=request.on_behalf_of, at=datetime.now(UTC)
        )
        approved = run.model_copy(update={"status": RunStatus.RUNNING, "approval": approval, "proof": compiled.proof})
        live = await self._runs.resume(stored, approved, compiled)
        _log.info("approved", run_id=run_id, plan_id=run.plan.id, approver=principal.name)
        return await self._outcome(live, principal, live.clock) if request.wait else approved

    async def cancel(self, run_id: str, principal: Principal) -> Run:
        """End a run. It may still be under way when this returns: calls in flight are waited for.

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
                if await self._store.replace(stored, ended, events=[closing_event(stored.epoch, ended)]):
                    self._metrics.ended(ended)
                    return ended
            else:
                raise Conflict(f"Run {run_id} is {status.value}; it has ended already.")

    async def _cancelled(self, run_id: str, principal: Principal) -> Run:
        live = self._runs.cancel(run_id)
        if live is not None:
            with suppress(TimeoutError):  # the caller is told that it is under way
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await live.ended.wait()
        return await self._store.get(run_id, principal.tenant)

    async def resolve(
        self, run_id: str, step: str, request: ResolveRequest, principal: Principal, *, wait: bool
    ) -> Run:
        """Settle a call in doubt; with the last one the run goes on.

        Raises:
            NotFound: no such run or step.
            Conflict: the run is not in doubt, or the call is not.
            ValidationFailed: the step is a `foreach` and the item is not said, or the other way round.
        """
        stored = await self._store.stored(run_id, principal.tenant)
        if stored.run.status is not RunStatus.IN_DOUBT or stored.compiled is None:
            raise Conflict(f"Run {run_id} is {stored.run.status.value}; no call of it is in doubt.")
        state = await self._settle(stored, step, request)
        _log.info("settled", run_id=run_id, step=step, item=request.item, outcome=request.outcome, by=principal.name)
        if state is not None and state.status == "in_doubt":
            await self._store.replace(stored, stored.run.model_copy(update={"doubts": state.doubts}))
            return await self._store.get(run_id, principal.tenant)
        running = stored.run.model_copy(update={"status": RunStatus.RUNNING, "doubts": ()})
        live = await self._runs.resume(stored, running, stored.compiled)
        return await self._outcome(live, principal, live.clock) if wait else running

    async def _settle(self, stored: StoredRun, step: str, request: ResolveRequest) -> ExecutionState | None:
        """Tell the executor. None: it had been told before, and the run goes on there already."""
        try:
            return await self.peers.executor.resolve(stored.run.execution_id, step, request)
        except Conflict:
            if any(doubt.step == step and doubt.item == request.item for doubt in stored.run.doubts):
                return None
            raise

    async def judge(self, run_id: str, request: FeedbackRequest, principal: Principal) -> Run:
        """Keep who says what of a run's outcome, and when. The last word counts; saying the same again changes nothing.

        A demonstration that was made of a run goes when the run is rejected.

        Raises:
            NotFound: no such run.
            Conflict: it is not over; or it is to be confirmed and has neither succeeded nor ended as a dry run does.
        """
        run = await self._store.get(run_id, principal.tenant)
        if run.status in _NOT_OVER:
            raise Conflict(f"Run {run_id} is {run.status.value}; it can be confirmed or rejected once it is over.")
        if request.verdict is Verdict.CONFIRMED and run.status not in _CONFIRMABLE:
            raise Conflict(f"Run {run_id} is {run.status.value}; it can only be rejected.")
        said = Feedback(verdict=request.verdict, reason=request.reason, principal=principal.name, at=datetime.now(UTC))
        before = run.feedback
        if before is not None and before == said.model_copy(update={"at": before.at}):
            return run
        if said.verdict is Verdict.REJECTED and before is not None and before.verdict is Verdict.CONFIRMED:
            await self._forget_demo(run)
        await self._store.judge(run_id, said)
        self._metrics.feedback.labels(said.verdict.value).inc()
        _log.info("judged", run_id=run_id, verdict=said.verdict.value, by=principal.name)
        return run.model_copy(update={"feedback": said})

    async def demonstrate(self, run_id: str, principal: Principal) -> Demo:
        """Make a confirmed run a demonstration, which every tenant's requests are planned with.

        Raises:
            NotFound: no such run.
            Conflict: nobody has confirmed it, or somebody has rejected it.
        """
        run = await self._store.get(run_id, principal.tenant)
        if run.feedback is None or run.feedback.verdict is not Verdict.CONFIRMED:
            raise Conflict(f"Run {run_id} is not confirmed; only confirmed runs become demonstrations.")
        return await self.peers.demos.add(_demo(run))

    async def _forget_demo(self, run: Run) -> None:
        """Remove the demonstration that was made of a run. An equal one that came from elsewhere stays."""
        with suppress(NotFound):
            demo = await self.peers.demos.get(demo_id(_demo(run)))
            if demo.source == run.id:
                await self.peers.demos.delete(demo.id)

    async def secrets(self, provider: str, principal: Principal) -> NeededSecrets:
        """The credentials that a provider's APIs ask for, and which of them are configured."""
        needed, there = await asyncio.gather(
            self.peers.retriever.secrets(provider, tenant=principal.tenant), self.peers.executor.credentials()
        )
        known = frozenset(there.secrets)
        marked = (one.model_copy(update={"configured": one.secret in known}) for one in needed.secrets)
        return NeededSecrets(secrets=tuple(marked))

    async def try_secret(self, name: str, principal: Principal) -> SecretTest:
        """What comes of presenting a credential: in a call that only reads and needs no arguments, if there is one.

        Raises:
            NotFound: no API that this tenant sees asks for it.
        """
        needed = await self.peers.retriever.secrets(name.partition(".")[0], tenant=principal.tenant)
        one = next((one for one in needed.secrets if one.secret == name), None)
        if one is None or one.probe is None:
            raise NotFound(f"No API can be called with {name!r} alone.")
        api = await self.peers.retriever.get(one.probe, tenant=principal.tenant)
        alone = next((r,) for alternative in api.security for r in alternative if r.secret == name)
        asked = SecretTestRequest(api=api.model_copy(update={"security": (alone,)}), send=one.harmless)
        return await self.peers.executor.test_secret(asked)

    async def value(self, run_id: str, value_id: str, principal: Principal) -> JsonValue:
        """A large value of a run, in full. Raises NotFound, also for a value that no step of the run has."""
        run = await self._store.get(run_id, principal.tenant)
        if value_id not in stored_values(run):
            raise NotFound(f"Run {run_id} has no stored value {value_id}.")
        return await self.peers.executor.value(value_id)

    async def _accept(self, request: SolveRequest, principal: Principal, key: str | None) -> Live | str:
        """Begin a run; or return the id of the run that the same key and request made before."""
        identity = None if key is None else Identity(key, _fingerprint(request))
        run = Run(
            id=new_run_id(),
            status=RunStatus.PLANNING,
            query=request.query,
            created_at=datetime.now(UTC),
            tenant=principal.tenant,
        )
        accepted = await self._runs.begin(run, request, identity)
        if isinstance(accepted, str) and identity is not None:
            there = await self._store.stored(accepted, principal.tenant)
            if there.fingerprint != identity.fingerprint:
                raise Conflict("This Idempotency-Key was sent before with another request.", run_id=accepted)
        return accepted

    async def _outcome(self, live: Live, principal: Principal, clock: Clock) -> Run:
        run = await asyncio.shield(live.outcome)
        return run if run is not None else await self._ended(live.run.id, principal, clock)

    async def _ended(self, run_id: str, principal: Principal, clock: Clock) -> Run:
        """A run of any process once it has ended; as it is where it has not at the deadline."""
        while await self._store.status(run_id) in UNDER_WAY and clock.remaining_s() > 0:
            live = self._runs.lives.get(run_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, clock.remaining_s())):
                    await (asyncio.sleep(_POLL_S) if live is None else live.ended.wait())
        return await self._store.get(run_id, principal.tenant)


def _fingerprint(request: SolveRequest) -> str:
    """What was asked for; how the answer is to be delivered does not belong to it."""
    return content_hash(request.model_dump(mode="json", exclude={"wait"}))


def _demo(run: Run) -> Demo:
    assert run.plan is not None, "a run that can be confirmed has a plan"
    return Demo(query=run.query, plan=run.plan, source=run.id)


def stored_values(run: Run) -> set[str]:
    """The ids of the large values of a run."""
    records = [*run.steps, *(record for earlier in run.evidence for record in earlier.steps)]
    outcomes = [record.outcome for record in records]
    outcomes += [item.outcome for record in records for item in record.items]
    stored = [outcome.stored for outcome in outcomes if isinstance(outcome, Succeeded)]
    stored += [value.stored for value in run.answer.values]
    return {value.id for value in stored if value is not None}
