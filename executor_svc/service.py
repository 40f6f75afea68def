"""The rules for running plans: which plans may run, and how many at a time. No HTTP."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from executor_svc.adapters.http import HttpAdapter
from executor_svc.admission import admit, check_apis, check_size, graph_of
from executor_svc.binding import hold_of
from executor_svc.durable import DurableLane
from executor_svc.graph import Graph
from executor_svc.metrics import ExecutorMetrics
from executor_svc.models import Call, ForTenant, Limits
from executor_svc.preview import previews, read_and_preview
from executor_svc.runner import Run
from executor_svc.secret_journal import SecretJournal
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from executor_svc.storage import LedgerStore
from executor_svc.values import ValueStore
from executor_svc.workers import BESIDE, NotDone
from services.compute import for_tenant
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionFinished, ExecutionState
from services.contracts.operations import ExecutorStatus
from services.contracts.planning import CompiledPlan
from services.contracts.preview import PreviewRequest, PreviewResponse
from services.contracts.secret import Credentials, JournalPage, SecretTest, SecretTestRequest
from services.errors import Conflict, DeadlineExceeded, NotFound, Overloaded, ServiceError, ValidationFailed
from services.signing import PlanSigner
from services.telemetry import get_logger

_log = get_logger(__name__)
_FLUSH_S: Final = 10.0
_TEST_S: Final = 20.0
_JOURNAL_PAGE: Final = 500
_SAFE: Final = frozenset({"GET", "HEAD"})


class ExecutorService:
    """Runs plans: plans that only read in the memory lane, plans that may change something in the durable lane."""

    def __init__(
        self,
        adapter: HttpAdapter,
        lane: DurableLane,
        store: LedgerStore,
        secrets: SecretStore,
        journal: SecretJournal,
        settings: ExecutorSettings,
        metrics: ExecutorMetrics,
    ) -> None:
        self._adapter, self._lane, self._store, self._secrets, self._journal = adapter, lane, store, secrets, journal
        self._settings, self._metrics = settings, metrics
        self._signer = PlanSigner(settings.proof_key) if settings.proof_key else None
        self._reading = 0

    def credentials(self, tenant: str | None) -> Credentials:
        """The names of the secrets that calls of this tenant can present. None means an unknown tenant."""
        self._secrets.reload()
        return Credentials(secrets=self._secrets.names(tenant))

    async def secret_changes(self, after: int) -> JournalPage:
        """Changes of secrets with a higher number than ``after``, oldest first."""
        await self._journal.flush()
        return await self._journal.page(after, _JOURNAL_PAGE)

    async def status(self) -> ExecutorStatus:
        """The executor's processes, and the circuit breakers of this one."""
        lease_s = self._settings.lease_s
        workers = await self._store.workers(lease_s)
        return ExecutorStatus(lease_s=lease_s, workers=workers, breakers=self._adapter.breakers())

    async def test_secret(self, request: SecretTestRequest) -> SecretTest:
        """The result of presenting an API's credentials. For a mutating API, only whether they are available."""
        deadline = asyncio.get_running_loop().time() + _TEST_S
        # The caller describes the API, its effect included, and is not trusted: only GET and HEAD are sent.
        send = request.send and not request.api.mutating and request.api.method in _SAFE
        bare: dict[str, object] = {"parameters": (), "path": "/", "body": None, "idempotency_header": None}
        api = request.api if send else request.api.model_copy(update=bare)
        call = Call(api, {}, f"test/{uuid.uuid4().hex}", deadline, tenant=request.tenant)
        return await self._adapter.test(call, send=send)

    async def preview(self, request: PreviewRequest) -> PreviewResponse:
        """The requests that a plan's mutating or unapproved steps would send. With ``reads``, these are made first.

        Raises:
            Conflict: the APIs are not those the plan was proved against, or reads are requested and the plan's
                signature is not valid.
            ValidationFailed: the plan is not a graph, or its APIs are too large.
            Overloaded: too many runs are active, or too much work is waiting.
            DeadlineExceeded: the requests were not known in time.
        """
        compiled = request.compiled
        check_apis(compiled)
        graph_of(compiled)
        for_tenant.set(request.tenant)
        try:
            return await (self._read_and_preview(request) if request.reads else self._preview(request))
        except NotDone as error:
            if error.reason == "timeout":
                raise DeadlineExceeded("The requests were not known in time.") from None
            raise Overloaded("Too many large requests are waiting to be shown.", retry_after_s=1) from None

    async def _preview(self, request: PreviewRequest) -> PreviewResponse:
        check_size(request.compiled)
        deadline = asyncio.get_running_loop().time() + request.deadline_ms / 1000
        most = self._settings.max_items, self._settings.max_taken_bytes
        return await self._adapter.workers.run(BESIDE, deadline, previews, request.compiled, self._adapter, *most)

    async def _read_and_preview(self, request: PreviewRequest) -> PreviewResponse:
        compiled = request.compiled
        if (refused := self._refused(compiled, request.tenant)) is not None:
            raise refused
        self._check_room()
        value_store = self._lane.value_store(request.tenant)
        seconds = request.deadline_ms / 1000, self._settings.step_deadline_ms / 1000
        limits = Limits(*seconds, self._settings.max_items, self._settings.max_taken_bytes)
        self._reading += 1
        try:
            value_store.hold_apis(compiled.apis.values())
            adapter, run_id = ForTenant(self._adapter, request.tenant), f"preview-{uuid.uuid4().hex}"
            shown = await read_and_preview(compiled, adapter, value_store, limits, run_id, self._adapter.workers)
            await self._wait_until_stored(value_store)
        finally:
            value_store.close()
            self._reading -= 1
        return shown

    def execute(self, request: ExecuteRequest) -> AsyncGenerator[ExecutionEvent, None]:
        """Check a plan and return its events. Nothing is sent before the first event is requested.

        A plan of safe reads runs in this iterator and stops when it is closed. A plan that may change something runs
        once per run id, to its end; the iterator only follows it.

        Raises:
            Conflict: approvals are open, the APIs are not those the plan was proved against, or its signature is not
                valid. A run that has started can still be followed if its signature is no longer valid.
            ValidationFailed: the plan is not a graph, or its APIs are too large. One that has started can be followed.
            Overloaded: too many runs are active.
        """
        graph, refused = admit(request), self._refused(request.compiled, request.tenant)
        self._check_room()
        apis = request.compiled.apis
        if any(apis[step.api].mutating for step in request.compiled.plan.steps):
            return self._lane.execute(request, graph) if refused is None else self._lane.follow(request, refused)
        if refused is not None:
            raise refused
        return self._read(request, graph)

    def _refused(self, compiled: CompiledPlan, tenant: str) -> ServiceError | None:
        """The error if the plan's APIs are too large, or its signature is required but not valid; otherwise None."""
        try:
            check_size(compiled)
            if self._signer is not None:
                self._signer.check(compiled, tenant)
        except (Conflict, ValidationFailed) as refused:
            return refused
        return None

    def _check_room(self) -> None:
        if self._reading + self._lane.active >= self._settings.max_concurrent_runs:
            raise Overloaded(f"{self._settings.max_concurrent_runs} runs are active", retry_after_s=1)

    async def _read(self, request: ExecuteRequest, graph: Graph) -> AsyncGenerator[ExecutionEvent, None]:
        """The memory lane."""
        value_store = self._lane.value_store(request.tenant)
        limits = Limits.of(request, self._settings)
        workers = self._adapter.workers
        hold = hold_of(request, graph, limits, workers)
        adapter = ForTenant(self._adapter, request.tenant)
        for_tenant.set(request.tenant)
        run = Run(request.compiled, graph, adapter, request.run_id, limits, value_store, hold=hold, workers=workers)
        finished = False
        self._reading += 1
        self._metrics.active.inc()
        try:
            value_store.hold_apis(request.compiled.apis.values())
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, ExecutionFinished):
                        finished = True
                        await self._wait_until_stored(value_store)
                    self._metrics.event(event, request.compiled)
                    yield event
        finally:
            value_store.close()
            self._reading -= 1
            self._metrics.active.dec()
            if not finished:
                self._metrics.abandoned()
                _log.info("run abandoned", run=request.run_id)

    async def _wait_until_stored(self, value_store: ValueStore) -> None:
        """Wait until stored values can be fetched, before their references are sent. Gives up after a time-out."""
        if value_store.kept:
            try:
                async with asyncio.timeout(_FLUSH_S):
                    await self._lane.ledger.flush()
            except TimeoutError:
                _log.warning("large values are not saved yet", values=value_store.kept)

    async def cancel(self, run_id: str) -> ExecutionState:
        """Start no further call of a durable run. Raises NotFound."""
        return await self._lane.cancel(run_id)

    async def resolve(self, run_id: str, step: str, request: ResolveRequest) -> ExecutionState:
        """Settle a call in doubt. Raises NotFound, Conflict, ValidationFailed."""
        return await self._lane.resolve(run_id, step, request)

    async def forget(self, run_id: str) -> None:
        """Delete the data of a durable run. Raises Conflict if it is not over."""
        if not await self._store.empty(run_id):
            raise Conflict(f"Run {run_id} has not ended.")

    async def value(self, value_id: str) -> str:
        """The JSON of a large value. Raises NotFound."""
        content = await self._store.value(value_id)
        if content is None:
            raise NotFound(f"There is no value {value_id}; values are kept for {self._settings.keep_days:g} days.")
        return content
