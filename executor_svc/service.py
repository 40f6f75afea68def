"""The rules of running a plan: what may be run at all, and how much at a time. No HTTP."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from executor_svc.graph import Graph, NotAGraph
from executor_svc.metrics import ExecutorMetrics
from executor_svc.models import Adapter, Limits
from executor_svc.runner import Run
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.plan import content_hash
from services.contracts.planning import CompiledPlan
from services.contracts.run import Credentials, ExecuteRequest, ExecutionEvent, ExecutionFinished, StepFinished
from services.errors import Conflict, Overloaded, ValidationFailed
from services.telemetry import get_logger

_log = get_logger(__name__)


class ExecutorService:
    """Runs plans with an adapter. Holds no run's state: a run lives in its own iterator."""

    def __init__(
        self, adapter: Adapter, store: SecretStore, settings: ExecutorSettings, metrics: ExecutorMetrics
    ) -> None:
        self._adapter, self._store, self._settings, self._metrics = adapter, store, settings, metrics
        self._active = 0

    def credentials(self) -> Credentials:
        """The names of the secrets that calls can present."""
        return Credentials(secrets=self._store.names)

    def execute(self, request: ExecuteRequest) -> AsyncGenerator[ExecutionEvent, None]:
        """Check a plan and return its events; nothing is sent before they are asked for.

        Raises:
            Conflict: approvals are open, or the APIs are not those the plan was proved against.
            ValidationFailed: the plan is not a graph.
            Overloaded: too many runs are active.
        """
        graph = admit(request)
        if self._active >= self._settings.max_concurrent_runs:
            raise Overloaded(f"{self._active} runs are active", retry_after_s=1)
        return self._events(request, graph)

    async def _events(self, request: ExecuteRequest, graph: Graph) -> AsyncGenerator[ExecutionEvent, None]:
        step_ms = request.step_deadline_ms or self._settings.step_deadline_ms
        limits = Limits(run_s=request.deadline_ms / 1000, step_s=step_ms / 1000, items=self._settings.max_items)
        run = Run(request.compiled, graph, self._adapter, request.run_id, limits)
        self._active += 1
        self._metrics.active.inc()
        finished = False
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    finished = finished or isinstance(event, ExecutionFinished)
                    self._observe(event, request)
                    yield event
        finally:
            self._active -= 1
            self._metrics.active.dec()
            if not finished:
                self._metrics.abandoned()
                _log.info("run abandoned", run=request.run_id)

    def _observe(self, event: ExecutionEvent, request: ExecuteRequest) -> None:
        if isinstance(event, StepFinished):
            record = event.record
            self._metrics.step(record, request.compiled.apis[record.api].provider)
            if record.outcome.kind in ("failed", "in_doubt"):
                _log.info("step", run=request.run_id, step=record.step, api=record.api, outcome=record.outcome.kind)
        elif isinstance(event, ExecutionFinished):
            self._metrics.run(event)
            _log.info("run finished", run=request.run_id, status=event.status, ms=event.duration_ms)


def admit(request: ExecuteRequest) -> Graph:
    """Whether this plan may be run; its graph if so. That its id fits its content, the contract has checked.

    Raises:
        Conflict: an approval is missing, or is for another plan; an API is missing or another than was proved.
        ValidationFailed: the plan is not a graph.
    """
    compiled = request.compiled
    if compiled.proof.approvals and request.approved != compiled.plan.id:
        open_steps = ", ".join(compiled.proof.approvals[:5])
        raise Conflict(f"These steps need an approval of exactly this plan: {open_steps}.", plan_id=compiled.plan.id)
    _check_apis(compiled)
    try:
        return Graph(compiled.plan)
    except NotAGraph as error:
        raise ValidationFailed(f"The plan cannot be run: {error}.") from None


def _check_apis(compiled: CompiledPlan) -> None:
    for api_id in dict.fromkeys(step.api for step in compiled.plan.steps):
        api = compiled.apis.get(api_id)
        if api is None or api.id != api_id:
            raise Conflict(f"The compiled plan does not hold the API {api_id}.")
        # An API nobody has sealed yet is proved under the hash the contract gives it.
        digest = api.content_hash or content_hash(api.model_dump(mode="json", exclude={"content_hash"}))
        if compiled.proof.api_hashes.get(api_id) != digest:
            raise Conflict(f"The API {api_id} is not the one the plan was proved against.")
