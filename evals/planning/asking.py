"""Asks the planner: planner_svc's service with the shipped backends.

The plan that it returns is the one that is scored. If it needs input, it returns questions and no plan. Then the draft
behind the questions is scored, without the arguments it lacks: the metrics ask which calls it would make. To get that
draft, the backend is wrapped; it is not asked a second time.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from prometheus_client import CollectorRegistry

from evals.data import DataError
from evals.planning.offers import Offer
from evals.planning.running import ANYTHING
from planner_svc.backends import load_backends
from planner_svc.backends.base import PlannerBackend
from planner_svc.backends.served.backend import ServedBackend, open_served
from planner_svc.cascade import COMPACT, MODEL, BackendAnswer
from planner_svc.judging.fingerprint import fingerprint
from planner_svc.judging.judge import AnswerJudge, load_judges
from planner_svc.judging.signs import signs_of
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.service import PlannerService
from planner_svc.settings import PlannerSettings
from services.clients.chat import ChatModel
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.context import Context
from services.contracts.demo import SelectedDemo
from services.contracts.plan import Plan
from services.contracts.planning import CompiledPlan, Diagnostic, PlanRequest, PlanResponse
from services.contracts.solve import SolveOptions
from services.contracts.trace import ModelAttempt, PlannerTrace
from services.encoder import model_directory
from services.errors import ServiceError

NOW = datetime(2024, 1, 1, 12, tzinfo=UTC)
"""The current time, the same in every measurement."""

LookUp = Callable[[str, Offer, Sequence[str]], Awaitable[tuple[Offer, tuple[str, ...]]]]
"""Finds missing operations for a request and its offer. Returns the larger offer and the ids that are new in it."""

BACKEND_TIMEOUT_S = 600.0
"""Time limit for a draft. Longer than the service's limit, so that a busy machine does not change the results."""

SERVED = "served"
"""The backend that asks a language model's server. It exists only if a server is configured."""

Status = Literal["planned", "needs_input", "no_plan", "failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The planner's answer to a request.

    Attributes:
        status: the planner's status, or ``failed`` if it gave no answer.
        plan: the plan to score, if any.
        compiled: the proved plan, if any.
        confidence: 0 to 1; the probability from the backend's judge, if it has one.
        sure: 0 to 1, the backend's own confidence.
        reason: why there is no plan, or the questions.
        diagnostics: the compiler's diagnostics.
        traces: what a language model was shown and wrote, for each time it was asked.
        looked_up: APIs offered in addition, because the planner missed them.
        signs: the judge's input features; empty for backends and answers that are not judged.
        model: fingerprint of the model that answered; empty if its weights are elsewhere.
    """

    status: Status
    plan: Plan | None = None
    compiled: CompiledPlan | None = None
    confidence: float = 0.0
    sure: float = 0.0
    reason: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    traces: tuple[PlannerTrace, ...] = ()
    looked_up: tuple[str, ...] = ()
    signs: tuple[float, ...] = ()
    model: str = ""

    @property
    def attempts(self) -> tuple[ModelAttempt, ...]:
        """What a language model wrote, in order of its turns."""
        return tuple(attempt for trace in self.traces for attempt in trace.attempts)

    @property
    def well_formed(self) -> bool:
        """Whether the answer has the requested form. For a language model: whether its first text could be parsed."""
        return self.attempts[0].readable if self.attempts else self.status != "failed"


class RecordingBackend:
    """A backend that records the drafts of another one. ``draft`` is the last draft of a request."""

    def __init__(self, backend: PlannerBackend) -> None:
        self._backend = backend
        self.draft: PlanDraft | None = None

    @property
    def name(self) -> str:
        """The wrapped backend's name."""
        return self._backend.name

    async def read(self, apis: Sequence[Api]) -> int:
        """Delegate to the wrapped backend."""
        return await self._backend.read(apis)

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Return the wrapped backend's draft and record it."""
        self.draft = None
        return self._record(await self._backend.plan(request))

    def _record(self, draft: PlanDraft) -> PlanDraft:
        self.draft, revise = draft, draft.revise
        if revise is None:
            return draft

        async def revised(diagnostics: Sequence[Diagnostic]) -> PlanDraft:
            return self._record(await revise(diagnostics))

        return dataclasses.replace(draft, revise=revised)


class FreshBackend:
    """A backend that is created anew for each request, so that it keeps no state about its server between requests.

    Answers from files have no server: an error in one answer must not make the backend skip the next.

    Args:
        name: of the backend.
        make: creates a backend.
    """

    def __init__(self, name: str, make: Callable[[], PlannerBackend]) -> None:
        self.name, self._make = name, make

    async def read(self, apis: Sequence[Api]) -> int:
        """Return 0: nothing is kept."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Return the draft of a new backend."""
        return await self._make().plan(request)


class RecordingJudge:
    """A judge that records its input features.

    Args:
        judge: the wrapped judge; None: use the backend's own confidence.
        model: fingerprint of the model whose answers are judged; empty if its weights are elsewhere.

    Attributes:
        signs: the features of the draft that was judged last; the caller clears them before each request.
    """

    def __init__(self, judge: AnswerJudge | None, model: str) -> None:
        self._judge, self.model = judge, model
        self.signs: tuple[float, ...] = ()

    def weigh(self, request: PlanRequest, answer: BackendAnswer) -> float:
        """Return the judge's probability."""
        self.signs = signs_of(request, answer)
        return answer.response.confidence if self._judge is None else self._judge.weigh(request, answer)


class Planner:
    """Asks one backend, one request after the other.

    Args:
        service: the planner's service.
        backend: writes the drafts.
        judge: judges them.
    """

    def __init__(self, service: PlannerService, backend: RecordingBackend, judge: RecordingJudge) -> None:
        self.name = backend.name
        self._service, self._backend, self._judge = service, backend, judge

    async def read(self, apis: Sequence[Api]) -> None:
        """Let the planner read APIs, as an import does."""
        await self._service.read(apis)

    async def ask(
        self,
        query: str,
        offer: Offer,
        demos: tuple[SelectedDemo, ...],
        look_up: LookUp | None = None,
        now: datetime | None = None,
    ) -> Answer:
        """Plan a request in the way the gateway does.

        Args:
            query: the request.
            offer: its candidates.
            demos: its demonstrations.
            look_up: finds operations that the planner misses; the planner then plans once more.
            now: the request's clock; by default the same for all.
        """
        context = Context(now=now or NOW)
        traces: tuple[PlannerTrace, ...] = ()
        looked_up: tuple[str, ...] = ()
        lookups = SolveOptions().lookups if look_up is not None else 0
        self._judge.signs = ()
        while True:
            response = await self._asked(query, context, offer, demos, looked_up)
            traced = self._backend.draft if isinstance(response, ServiceError) else response
            traces += (traced.trace,) if traced is not None and traced.trace is not None else ()
            if isinstance(response, ServiceError):
                reason = f"{response.title}: {response.detail}"
                return Answer("failed", reason=reason, traces=traces, looked_up=looked_up)
            new: tuple[str, ...] = ()
            if response.needs and lookups and look_up is not None:
                lookups -= 1
                offer, new = await look_up(query, offer, response.needs)
                looked_up += new
            if not new:
                return dataclasses.replace(self._answer(response), traces=traces, looked_up=looked_up)

    async def _asked(
        self,
        query: str,
        context: Context,
        offer: Offer,
        demos: tuple[SelectedDemo, ...],
        looked_up: tuple[str, ...],
    ) -> PlanResponse | ServiceError:
        request = PlanRequest(
            query=query,
            context=context,
            clauses=offer.clauses,
            candidates=offer.candidates,
            demos=demos,
            backend=self.name,
            policy=ANYTHING,
            looked_up=looked_up,
        )
        try:
            return await self._service.plan(request)
        except ServiceError as error:
            return error

    def _answer(self, response: PlanResponse) -> Answer:
        plan, reason = response.plan, response.reason
        draft = self._backend.draft
        if response.status == "needs_input" and plan is None and draft is not None:
            plan = draft.plan
            reason = "; ".join(question.text for question in response.questions)
        if response.status == "no_plan":
            plan = None
        return Answer(
            response.status,
            plan,
            response.compiled,
            response.confidence,
            sure=response.asked[0].confidence,
            reason=reason,
            diagnostics=response.diagnostics,
            signs=self._judge.signs,
            model=self._judge.model,
        )


@asynccontextmanager
async def open_planner(
    name: str | None,
    backends: Mapping[str, PlannerBackend] | None = None,
    chat: ChatModel | None = None,
) -> AsyncIterator[Planner]:
    """The planner's service with the named backend; by default the one in the settings.

    It waits longer than the settings say. Answers that exceed the limit in the settings are counted as ``late``.

    Args:
        name: of the backend.
        backends: by name; otherwise the shipped ones, and ``served`` if its server is configured.
        chat: a language model in place of that server's.

    Raises:
        DataError: there is no such backend.
        JudgeError: a judge is damaged or missing.
    """
    settings = PlannerSettings()
    pool = ComputePool(max(settings.compute_workers, os.cpu_count() or 1), settings.compute_waiting, name="planner")
    metrics = PlannerMetrics(CollectorRegistry())
    served: ServedBackend | None = None
    try:
        available = dict(backends or {})
        if chat is not None:
            make = partial(ServedBackend, chat, settings.served, pool, metrics)
            available[SERVED] = FreshBackend(SERVED, make)
        if not available:
            served = open_served(settings.served, pool, metrics)
            available = load_backends(pool, settings.model) | ({SERVED: served} if served else {})
        chosen = name or settings.default_backend
        if chosen not in available:
            hint = f"; {SERVED!r} is there where NESTOR_PLANNER_SERVED_URL is set" if chosen == SERVED else ""
            raise DataError(f"there is no planner {chosen!r}; there is {', '.join(sorted(available))}{hint}")
        backend = RecordingBackend(available[chosen])
        directory = model_directory(settings.model)
        judged = load_judges(directory, settings.served.judge).get(chosen)
        judge = RecordingJudge(judged, fingerprint(directory) if chosen == COMPACT else "")
        service = PlannerService(
            {chosen: backend},
            chosen,
            pool,
            backend_timeout_s=BACKEND_TIMEOUT_S,
            metrics=metrics,
            weigh={COMPACT: judge.weigh, MODEL: judge.weigh},
        )
        yield Planner(service, backend, judge)
    finally:
        if served is not None:
            await served.aclose()
        await pool.close()
