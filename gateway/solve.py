"""The pipeline of a request, in order: retrieve, select demos, plan and prove, execute, answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from gateway.demonstrations import apis_of_same_request, offer_apis_of, select_demos
from gateway.failures import READING, why_failed
from gateway.labels import labels_of
from gateway.lookup import look_up
from gateway.peers import Peers
from gateway.planning_room import BoundedPeers, PlanningRoom
from gateway.rendering import message_line, render
from services.clients import CREDENTIALS_TIMEOUT_S, Executor, Planner, Turn
from services.contracts.answer import Answer, AnswerValue
from services.contracts.demo import SelectDemosResponse
from services.contracts.doubt import doubts_of
from services.contracts.evidence import MAX_ATTEMPTS
from services.contracts.execution import ExecuteRequest, ExecutionFinished, StepFinished, StepStarted
from services.contracts.outcome import StepRecord, Succeeded, UnmatchedItem
from services.contracts.planning import PlanRequest, PlanResponse, Policy
from services.contracts.retrieval import RetrieveRequest, RetrieveResponse
from services.contracts.run import CandidateSummary, DemoSummary, Run, RunStatus, Timings
from services.contracts.solve import SolveRequest
from services.contracts.trace import LookUp, PlannerTrace
from services.errors import DeadlineExceeded, Overloaded, ServiceUnavailable

Emit = Callable[[StepStarted | StepFinished], None]
_NOTHING: Final[tuple[JsonValue, ...]] = (None, {})
_PLANNER_SHARE: Final = 0.97
"""Share of the remaining time that the planner gets as its deadline. The rest is for sending its answer."""


class Clock:
    """Measures the parts of a request, and how much of its deadline is left."""

    def __init__(self, deadline_ms: int) -> None:
        self._start = time.perf_counter()
        self._deadline_s = deadline_ms / 1000
        self.parts: dict[str, float] = {}

    def elapsed_ms(self) -> float:
        """Milliseconds since the request began."""
        return round((time.perf_counter() - self._start) * 1000, 3)

    def remaining_s(self) -> float:
        """Seconds until the deadline; negative once it has passed."""
        return self._deadline_s - (time.perf_counter() - self._start)

    def left_s(self) -> float:
        """Seconds until the deadline. Raises DeadlineExceeded if it has passed."""
        left = self.remaining_s()
        if left <= 0:
            raise DeadlineExceeded(f"The request's deadline of {self._deadline_s:g} s has passed.")
        return left

    def lap(self, part: str, since_ms: float) -> None:
        """Record how long a part took. Repeated parts are added up."""
        self.parts[part] = round(self.parts.get(part, 0.0) + self.elapsed_ms() - since_ms, 3)

    def timings(self) -> Timings:
        """All parts and the total."""
        return Timings(**self.parts, total_ms=self.elapsed_ms())


async def plan(
    peers: Peers, room: PlanningRoom, request: SolveRequest, run: Run, policy: Policy, clock: Clock
) -> tuple[Run, PlanResponse]:
    """Turn a request in words into a proved plan, given what was tried before. No API is called."""
    async with room.plan(peers, run.id, run.tenant) as bounded:
        return await _plan(peers, bounded, request, run, policy, clock)


async def _plan(
    peers: Peers, bounded: BoundedPeers, request: SolveRequest, run: Run, policy: Policy, clock: Clock
) -> tuple[Run, PlanResponse]:
    options = request.options
    mark = clock.elapsed_ms()
    ask = _asked(request, run.tenant)
    # The planner needs to know which credentials exist: a plan that cannot authenticate is refused before it runs.
    found, credentials, apis = await asyncio.gather(
        bounded.retrieve(ask, timeout_s=clock.left_s()),
        peers.executor.credentials(run.tenant, timeout_s=min(clock.left_s(), CREDENTIALS_TIMEOUT_S)),
        apis_of_same_request(peers.demos, ask, options.demos, timeout_s=clock.left_s()),
    )
    retrieved, same = await offer_apis_of(apis, ask, found, bounded, options.demos, timeout_s=clock.left_s())
    clock.lap("retrieve_ms", mark)

    mark = clock.elapsed_ms()
    demos = await select_demos(bounded, ask, retrieved, same, options.demos, timeout_s=clock.left_s())
    clock.lap("demos_ms", mark)

    mark = clock.elapsed_ms()
    first = PlanRequest(
        query=request.query,
        context=request.context.model_copy(update={"now": request.context.now or datetime.now(UTC)}),
        clauses=retrieved.clauses,
        candidates=retrieved.candidates,
        demos=demos.demos,
        backend=options.backend,
        cascade=options.cascade,
        policy=policy,
        credentials=credentials.secrets,
        choose_items=options.evidence,
        evidence=tuple(attempt for one in run.evidence for attempt in one.attempts)[-MAX_ATTEMPTS:],
    )
    planning = await _planned(peers.planner, bounded, first, ask, Planning(retrieved), options.lookups, clock)
    clock.lap("plan_ms", mark)
    return describe(run, planning, demos, policy, clock), planning.answer


@dataclass(frozen=True, slots=True)
class Planning:
    """The result of planning, and how it was reached.

    Attributes:
        retrieved: the candidates, including those that were looked up for the planner.
        planned: the planner's last answer.
        lookups: which operations the planner was missing, and what was found.
        traces: prompts and answers of language models.
    """

    retrieved: RetrieveResponse
    planned: PlanResponse | None = None
    lookups: tuple[LookUp, ...] = ()
    traces: tuple[PlannerTrace, ...] = ()

    @property
    def answer(self) -> PlanResponse:
        """The planner's last answer. There must be one."""
        assert self.planned is not None
        return self.planned


async def _planned(
    planner: Planner,
    bounded: BoundedPeers,
    first: PlanRequest,
    ask: RetrieveRequest,
    planning: Planning,
    lookups: int,
    clock: Clock,
) -> Planning:
    """Ask the planner for a plan. While it is missing operations that the catalogue has, look them up and ask again."""
    request = first
    while True:
        left_s = clock.left_s()
        deadline_ms = max(int(left_s * 1000 * _PLANNER_SHARE), 1)
        planned = await planner.plan(request.model_copy(update={"deadline_ms": deadline_ms}), timeout_s=left_s)
        traces = planning.traces if planned.trace is None else (*planning.traces, planned.trace)
        planning = replace(planning, planned=planned, traces=traces)
        if not planned.needs or len(planning.lookups) >= lookups:
            return planning
        try:
            retrieved, found = await look_up(bounded, planned.needs, ask, planning.retrieved, left_s=clock.left_s())
        except (ServiceUnavailable, Overloaded, DeadlineExceeded):
            return planning  # keep the planner's answer that operations are missing
        planning = replace(planning, retrieved=retrieved, lookups=(*planning.lookups, found))
        if not found.added:
            return planning
        looked_up = tuple(api for one in planning.lookups for api in one.added)
        request = request.model_copy(update={"candidates": retrieved.candidates, "looked_up": looked_up})


def _asked(request: SolveRequest, tenant: str) -> RetrieveRequest:
    """The retriever's request. The tenant is the principal's; a request cannot set it."""
    options = request.options
    return RetrieveRequest(
        query=request.query,
        k=options.top_k,
        providers=options.providers,
        tags=options.tags,
        methods=options.methods,
        deprecated=options.deprecated,
        pinned=options.pinned,
        tenant=tenant,
    )


def describe(run: Run, planning: Planning, demos: SelectDemosResponse, policy: Policy, clock: Clock) -> Run:
    """The run with its plan and everything that explains it.

    Changes in a plan of which the planner is not sure wait, unless they are allowed even so.
    """
    retrieved, planned = planning.retrieved, planning.answer
    compiled = planned.compiled
    status = RunStatus(planned.status)
    if compiled and policy.waits(compiled, unsure=bool(planned.unsure)):
        status = RunStatus.NEEDS_APPROVAL
    return run.model_copy(
        update={
            "status": status,
            "plan": compiled.plan if compiled else planned.plan,
            "proof": compiled.proof if compiled else None,
            "questions": planned.questions,
            "diagnostics": planned.diagnostics,
            "reason": planned.reason,
            "untold": planned.untold,
            "unsure": planned.unsure,
            "clauses": retrieved.clauses,
            "candidates": tuple(
                CandidateSummary(
                    api=c.api.id,
                    summary=c.api.summary,
                    score=c.score,
                    signals=c.signals,
                    clause=c.clause,
                    found_by=c.found_by,
                    relevance=c.relevance,
                )
                for c in retrieved.candidates
            ),
            "demos": tuple(
                DemoSummary(id=d.demo.id, query=d.demo.query, similarity=d.similarity, level=d.level)
                for d in demos.demos
            ),
            "confidence": planned.confidence,
            "backend": planned.backend,
            "planners": (*run.planners, *planned.asked),
            "lookups": (*run.lookups, *planning.lookups),
            "traces": (*run.traces, *planning.traces),
            "catalogue_version": retrieved.catalogue_version,
            "timings": clock.timings(),
        }
    )


async def execute(executor: Executor, ask: ExecuteRequest, emit: Emit, turn: Turn) -> ExecutionFinished:
    """Execute a proved plan, and pass its events to ``emit``. Each is parsed in a ``turn``."""
    async with aclosing(executor.execute(ask, turn)) as events:
        async for event in events:
            if isinstance(event, ExecutionFinished):
                return event
            emit(event)
    raise ServiceUnavailable("executor_svc ended its answer early.", service="executor_svc")


def answer(run: Run, finished: ExecutionFinished, sentence: str | None, clock: Clock) -> Run:
    """The run with its result."""
    status = RunStatus(finished.status)
    values = (*run.kept, *finished.answer)
    remarks = [run.unsure, *(text for text in map(_unmatched, finished.unmatched) if text not in run.unsure)]
    unsure = " ".join(filter(None, remarks))
    labels = labels_of(run.plan, finished.records, values)
    text = render(_shown(values, finished), unsure, run.untold, labels=labels)
    return run.model_copy(
        update={
            "status": status,
            "reason": finished.problem or why_failed(run.plan, finished),
            "steps": finished.records,
            "unsure": unsure,
            "doubts": doubts_of(finished.records) if status is RunStatus.IN_DOUBT else (),
            "answer": Answer(values=values, text=text, sentence=sentence),
            "timings": clock.timings(),
        }
    )


def _shown(values: Sequence[AnswerValue], finished: ExecutionFinished) -> list[AnswerValue]:
    """The values as the text has them: of a change that answers nothing at all, that it is done."""
    done = {record.step: told for record in finished.records if (told := _done(record)) is not None}
    return [
        one.model_copy(update={"value": done[one.step]})
        if one.step in done and not (one.path and isinstance(done[one.step], list))
        else one
        for one in values
    ]


def _done(record: StepRecord) -> JsonValue:
    """What to show for a change that answers nothing, or does so for items of a list; None for any other step."""
    if not isinstance(record.outcome, Succeeded) or all(one.method in READING for one in record.requests):
        return None
    done, value = f"done ({record.api})", record.outcome.value
    if record.items and isinstance(value, list):
        return [done if one in _NOTHING else one for one in value]
    return done if value in _NOTHING else None


def _unmatched(item: UnmatchedItem) -> str:
    label = f"“{message_line(item.label)}”"
    if item.unread:
        return f"The list goes on; of the items that were compared, {label} was taken for {item.said}."
    return f"No item matches {item.said} by name; this is about {label}."
