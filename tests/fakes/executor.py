"""A fake executor that sends no requests; tests give it the outcomes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import nullcontext

from pydantic import JsonValue
from pydantic_core import to_json

from services.clients import Turn
from services.clients.executor import CREDENTIALS_TIMEOUT_S
from services.contracts.answer import AnswerValue
from services.contracts.doubt import ResolveRequest, doubts_of
from services.contracts.execution import (
    ExecuteRequest,
    ExecutionEvent,
    ExecutionFinished,
    ExecutionState,
    StepFinished,
    StepStarted,
)
from services.contracts.operations import Breaker, ExecutorStatus, Worker
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Skipped, StepOutcome, StepRecord, Succeeded
from services.contracts.plan import LiteralValue, Step, content_hash, dependencies
from services.contracts.planning import CompiledPlan
from services.contracts.preview import PreviewRequest, PreviewResponse, RequestPreview
from services.contracts.secret import Credentials, JournalEntry, JournalPage, SecretTest, SecretTestRequest
from services.errors import Conflict, NotFound, ServiceUnavailable
from tests.fakes.base import Fake

_CANCELLED = "cancelled"


class FakeExecutor(Fake):
    """:class:`~services.clients.Executor` by script: ``outcomes`` by API id; an API without one succeeds with null.

    The lists of the APIs in ``cut`` are not read to their end.

    Steps run one after another in the plan's order, so a plan must list a step before the steps that use it. If a step
    gives no value, its dependants do not run. With ``gate``, every started step waits for that event. With ``breaks``,
    the stream breaks off at that point, as when a service dies.

    For plans with mutating calls, it keeps the steps' records by run id, like the real ledger. If the run is requested
    again, it continues from there. ``sent`` lists the mutating calls in order.

    ``found`` stands for the values of the reads. If it changed after the approval, the steps fail as ``changed``. If
    ``unreadable`` is set, previews return it as the failed execution of their reads.
    """

    service = "executor_svc"

    def __init__(self, outcomes: dict[str, StepOutcome] | None = None, secrets: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.outcomes = dict(outcomes or {})
        self.secrets = secrets
        self.presents: dict[str, tuple[str, ...]] = {}
        """The names of the secrets that an API's calls use, by API id."""
        self.read_with: tuple[str, ...] = ()
        """The names of the secrets that the reads before an approval use."""
        self.gate: asyncio.Event | None = None
        self.breaks = False
        self.cut = frozenset[str]()
        self.found = ""
        self.unreadable: ExecutionFinished | None = None
        self.breakers: tuple[Breaker, ...] = ()
        self.journal: list[JournalEntry] = []
        """Changes of secrets."""
        self.requests: list[ExecuteRequest] = []
        self.asked_for: list[str] = []
        """The tenants for which ``credentials`` was called."""
        self.values: dict[str, JsonValue] = {}
        self.sent: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.resolved: list[tuple[str, str, ResolveRequest]] = []
        self.tolerant = False
        """Whether a call that was settled otherwise before is answered with the run's state, not with Conflict."""
        self._ledger: dict[str, dict[str, StepRecord]] = {}
        self._running: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def execute(self, request: ExecuteRequest, turn: Turn = nullcontext) -> AsyncGenerator[ExecutionEvent, None]:
        """Run a plan. Raises Conflict if an approval is missing or an API changed since the proof."""
        await self._arrive("execute", request.deadline_ms / 1000)
        compiled = request.compiled
        if compiled.proof.approvals and request.approved != compiled.plan.id:
            steps = ", ".join(compiled.proof.approvals[:5])
            raise Conflict(f"These steps need an approval of exactly this plan: {steps}.", plan_id=compiled.plan.id)
        for step in compiled.plan.steps:
            if compiled.proof.api_hashes.get(step.api) != compiled.apis[step.api].content_hash:
                raise Conflict(f"The API {step.api} differs from the one that the plan was proved against.")
        self.requests.append(request)
        if not any(compiled.apis[step.api].mutating for step in compiled.plan.steps):
            async for event in self._run(request, {}):
                async with turn(len(event.model_dump_json())):
                    pass
                yield event
            return
        records = self._ledger.setdefault(request.run_id, {})
        async with self._running[request.run_id]:  # a second request for the run waits until the first ends
            async for event in self._run(request, records):
                async with turn(len(event.model_dump_json())):
                    pass
                yield event

    async def _run(
        self, request: ExecuteRequest, records: dict[str, StepRecord]
    ) -> AsyncGenerator[ExecutionEvent, None]:
        compiled = request.compiled
        for record in list(records.values()):
            yield StepFinished(record=record)
        for step in compiled.plan.steps:
            if step.id in records:
                continue
            blocked: Skipped | Failed | None = self._blocked(step, records, request.run_id)
            if request.bound.get(step.id, self._digest(step)) != self._digest(step):
                blocked = Failed(reason="changed", message="not what was approved")
            if blocked is None:
                yield StepStarted(step=step.id, api=step.api, at_ms=0)
                await self._interrupted()
                if compiled.apis[step.api].mutating:
                    self.sent.append((request.run_id, step.id))
            outcome = blocked or self.outcomes.get(step.api, Succeeded(status=200))
            records[step.id] = StepRecord(
                step=step.id,
                api=step.api,
                outcome=outcome,
                started_ms=0,
                duration_ms=0,
                attempts=0 if blocked else 1,
                more=step.api in self.cut,
                secrets=() if blocked else self.presents.get(step.api, ()),
            )
            yield StepFinished(record=records[step.id])
        yield _finished(request, records)

    async def credentials(self, tenant: str, timeout_s: float = CREDENTIALS_TIMEOUT_S) -> Credentials:
        """The names of the configured secrets."""
        await self._arrive("credentials", timeout_s)
        self.asked_for.append(tenant)
        return Credentials(secrets=self.secrets)

    async def secret_changes(self, after: int = 0) -> JournalPage:
        """The entries of ``journal``, two at a time."""
        await self._arrive("secret_changes", CREDENTIALS_TIMEOUT_S)
        later = [one for one in self.journal if one.seq > after]
        newest = self.journal[-1].seq if self.journal else 0
        return JournalPage(entries=tuple(later[:2]), newest=newest)

    async def status(self) -> ExecutorStatus:
        """Report one worker and ``breakers``."""
        await self._arrive("status", CREDENTIALS_TIMEOUT_S)
        return ExecutorStatus(lease_s=30, workers=(Worker(id="fake", seen_s=0, alive=True),), breakers=self.breakers)

    async def test_secret(self, request: SecretTestRequest) -> SecretTest:
        """Whether the secrets of the API's first alternative are configured."""
        await self._arrive("test_secret", CREDENTIALS_TIMEOUT_S)
        there = all(r.secret in self.secrets for alternative in request.api.security[:1] for r in alternative)
        return SecretTest(outcome="ready" if there else "unavailable", message="as told")

    async def preview(self, request: PreviewRequest, turn: Turn = nullcontext) -> PreviewResponse:
        """A request for every mutating or unapproved step, with its literal arguments as body."""
        await self._arrive("preview", CREDENTIALS_TIMEOUT_S)
        if self.breaks and request.reads:
            raise ServiceUnavailable(f"{self.service} does not answer.", service=self.service)
        compiled = request.compiled
        if self.unreadable is not None and request.reads:
            return PreviewResponse(failed=self.unreadable)
        held = frozenset(compiled.proof.mutating) | frozenset(compiled.proof.approvals)
        shown = [_preview(compiled, step, self._digest(step)) for step in compiled.plan.steps if step.id in held]
        return PreviewResponse(requests=tuple(shown), settled=request.reads or not self.found, secrets=self.read_with)

    def _digest(self, step: Step) -> str:
        return content_hash([step.model_dump(mode="json"), self.found])

    async def cancel(self, run_id: str) -> ExecutionState:
        """Start no further step of a durable run. Raises NotFound."""
        await self._arrive("cancel", CREDENTIALS_TIMEOUT_S)
        request, records = self._known(run_id)
        if len(records) == len(request.compiled.plan.steps):
            return _state(request, records)
        self.cancelled.append(run_id)
        return ExecutionState(run_id=run_id, status="running")

    async def resolve(self, run_id: str, step: str, request: ResolveRequest) -> ExecutionState:
        """Settle a step in doubt. After the last one, the steps that were skipped may run."""
        await self._arrive("resolve", CREDENTIALS_TIMEOUT_S)
        asked, records = self._known(run_id)
        record = records.get(step)
        if asked.compiled.plan.step(step) is None:
            raise NotFound(f"Run {run_id} has no step {step}.")
        if record is None or not isinstance(record.outcome, InDoubt):
            same = (run_id, step, request) in self.resolved
            if same or (self.tolerant and (run_id, step) in [one[:2] for one in self.resolved]):
                return ExecutionState(run_id=run_id, status="running", settled=same)
            raise Conflict(f"Step {step} of run {run_id} is not in doubt.")
        self.resolved.append((run_id, step, request))
        del records[step]
        if request.outcome == "failed":
            outcome: StepOutcome = Failed(reason="upstream_error", message=request.message)
            records[step] = record.model_copy(update={"outcome": outcome})
        elif request.outcome == "succeeded":
            records[step] = record.model_copy(update={"outcome": Succeeded(value=request.value)})
        doubts = doubts_of(records.values())
        if not doubts:
            for waiting in [r.step for r in records.values() if isinstance(r.outcome, Skipped)]:
                del records[waiting]
        status = "in_doubt" if doubts else "running"
        return ExecutionState.model_validate({"run_id": run_id, "status": status, "doubts": doubts})

    async def forget(self, run_id: str) -> None:
        """Delete a durable run."""
        await self._arrive("forget", CREDENTIALS_TIMEOUT_S)
        self._ledger.pop(run_id, None)

    async def value(self, value_id: str) -> bytes:
        """The JSON of one of ``values``. Raises NotFound."""
        await self._arrive("value", CREDENTIALS_TIMEOUT_S)
        if value_id not in self.values:
            raise NotFound(f"There is no value {value_id}.")
        return to_json(self.values[value_id])

    def _known(self, run_id: str) -> tuple[ExecuteRequest, dict[str, StepRecord]]:
        if run_id not in self._ledger:
            raise NotFound(f"There is no durable execution {run_id}.")
        return next(request for request in self.requests if request.run_id == run_id), self._ledger[run_id]

    async def _interrupted(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.breaks:
            raise ServiceUnavailable(f"{self.service} does not answer.", service=self.service)

    def _blocked(self, step: Step, records: dict[str, StepRecord], run_id: str) -> Skipped | None:
        """The outcome of a step that cannot run; it names the step that is the root cause."""
        if run_id in self.cancelled:
            return Skipped(because=_CANCELLED)
        for before in sorted(dependencies(step)):
            outcome = records[before].outcome
            if not isinstance(outcome, Succeeded):
                return Skipped(because=outcome.because if isinstance(outcome, Skipped) else before)
        return None


def _state(request: ExecuteRequest, records: dict[str, StepRecord]) -> ExecutionState:
    status = _finished(request, records).status
    return ExecutionState(run_id=request.run_id, status=status, doubts=doubts_of(records.values()))


def _finished(request: ExecuteRequest, records: dict[str, StepRecord]) -> ExecutionFinished:
    outcomes = [record.outcome for record in records.values()]
    values, problems = [], []
    for output in request.compiled.plan.answer:
        outcome = records[output.value.step].outcome
        if not isinstance(outcome, Succeeded):
            continue
        try:
            value = _walk(outcome.value, output.value.path)
        except (KeyError, IndexError, TypeError):
            problems.append(f"answer {output.name!r}: {output.value.step} has no such output")
        else:
            step, path = output.value.step, output.value.path
            values.append(AnswerValue(name=output.name, value=value, step=step, path=path, partial=records[step].more))
    doubtful = any(isinstance(outcome, InDoubt) for outcome in outcomes)
    stopped = any(isinstance(outcome, Skipped) and outcome.because == _CANCELLED for outcome in outcomes)
    failed = bool(problems) or any(isinstance(outcome, Failed) for outcome in outcomes)
    return ExecutionFinished(
        status="in_doubt" if doubtful else "cancelled" if stopped else "failed" if failed else "succeeded",
        records=tuple(records.values()),
        answer=tuple(values),
        problem="; ".join(problems),
        duration_ms=0,
    )


def _preview(compiled: CompiledPlan, step: Step, digest: str) -> RequestPreview:
    api = compiled.apis[step.api]
    body: dict[str, JsonValue] = {n: v.value for n, v in step.arguments.items() if isinstance(v, LiteralValue)}
    record = RequestRecord(method=api.method, url=api.server + api.path, body=body)
    complete = len(body) == len(step.arguments)
    return RequestPreview(step=step.id, api=api.id, request=record, complete=complete, digest=digest)


def _walk(value: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    for key in path:
        value = value[key]  # type: ignore[index]
    return value
