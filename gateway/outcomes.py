"""Feedback on the outcome of runs, and demonstrations made of confirmed runs."""

from datetime import UTC, datetime
from typing import Final

from gateway.administration import Administration, demo_of
from gateway.metrics import GatewayMetrics
from gateway.principals import Principal
from gateway.roles import Role
from gateway.storage import NOT_OVER, RunStore
from services.contracts.demo import Demo
from services.contracts.feedback import Feedback, FeedbackRequest, Verdict
from services.contracts.run import Run, RunStatus
from services.errors import Conflict, NotFound
from services.telemetry import get_logger

_log = get_logger(__name__)
_CONFIRMABLE: Final = frozenset({RunStatus.SUCCEEDED, RunStatus.PLANNED})


class Outcomes:
    """Stores feedback on runs, and makes demonstrations of confirmed runs."""

    def __init__(self, store: RunStore, administration: Administration, metrics: GatewayMetrics) -> None:
        self._store, self._administration, self._feedback = store, administration, metrics.feedback

    async def judge(self, run_id: str, request: FeedbackRequest, principal: Principal) -> Run:
        """Store a verdict on a run's outcome. It replaces an earlier verdict; repeating the same one changes nothing.

        When an administrator rejects a run, also one that is rejected, the demonstration that was made of it is
        removed. Others cannot make one, so their verdict only marks the run: the demonstration stays until an
        administrator rejects the run, too.

        Raises:
            NotFound: no such run.
            Conflict: the run is not over; or it is to be confirmed, but it is neither `succeeded` nor `planned`, or it
                is a rerun that reused values of another run.
            ServiceUnavailable: the verdict is not stored; or it is, but the demonstration cannot be removed now. Then
                the rejection can be repeated.
        """
        run = await self._store.get(run_id, principal.tenant)
        if run.status in NOT_OVER:
            raise Conflict(f"Run {run_id} is {run.status.value}; it can be confirmed or rejected once it has ended.")
        if request.verdict is Verdict.CONFIRMED and run.status not in _CONFIRMABLE:
            raise Conflict(f"Run {run_id} is {run.status.value}; it can only be rejected.")
        if request.verdict is Verdict.CONFIRMED and run.reused:
            message = (
                "Its plan contains values of another run, so it cannot become a demonstration; it can only be rejected."
            )
            raise Conflict(message)
        said = Feedback(verdict=request.verdict, reason=request.reason, principal=principal.name, at=datetime.now(UTC))
        before = run.feedback
        if before is None or before != said.model_copy(update={"at": before.at}):
            await self._store.judge(run_id, said)
            self._feedback.labels(said.verdict.value).inc()
            _log.info("judged", run_id=run_id, verdict=said.verdict.value, by=principal.name)
            run = run.model_copy(update={"feedback": said})
        # Stored first, and looked for in any case: another process may be making the demonstration at this moment.
        removes = said.verdict is Verdict.REJECTED and run.status in _CONFIRMABLE
        if removes and Role.ADMINISTER in principal.roles:
            await self._administration.forget_demo(run, principal)
        return run

    async def demonstrate(self, run_id: str, principal: Principal, *, shared: bool = False) -> Demo:
        """Make a confirmed run a demonstration for its tenant, or, if ``shared``, for everyone.

        Raises:
            NotFound: no such run.
            Forbidden: it is to be shared, and the principal does not belong to the operator's tenant.
            Conflict: the run is not confirmed, or it was rejected.
        """
        run = await self._confirmed(run_id, principal)
        demo = await self._administration.add_demo(demo_of(run), principal, shared=shared)
        try:
            await self._confirmed(run_id, principal, again=True)
        except (Conflict, NotFound):  # rejected or deleted meanwhile, perhaps before there was anything to remove
            await self._administration.forget_demo(run, principal)
            raise
        return demo

    async def _confirmed(self, run_id: str, principal: Principal, *, again: bool = False) -> Run:
        """The run, which counts as read once. Raises NotFound, and Conflict unless it is confirmed."""
        run = await self._store.get(run_id, principal.tenant, further=again)
        if run.feedback is None or run.feedback.verdict is not Verdict.CONFIRMED:
            raise Conflict(f"Run {run_id} is not confirmed; only confirmed runs become demonstrations.")
        return run
