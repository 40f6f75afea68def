"""Asks the planner: planner_svc's service with the backends that ship, nothing in their place.

What counts as its plan is the plan it returns. Where it needs input it returns questions and no plan; then the draft
that it asks about counts, without the arguments it lacks: the metrics ask which calls it would make. To see that draft
the backend is listened to, not asked a second time.
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
from planner_svc.cascade import BackendAnswer
from planner_svc.judging.judge import AnswerJudge
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
from services.contracts.planning import CompiledPlan, Diagnostic, PlanRequest, PlanResponse, Question
from services.contracts.solve import SolveOptions
from services.contracts.trace import ModelAttempt, PlannerTrace
from services.encoder import model_directory
from services.errors import ServiceError

NOW = datetime(2024, 1, 1, 12, tzinfo=UTC)
"""What "today" means: the same in every measurement."""

LookUp = Callable[[str, Offer, Sequence[str]], Awaitable[tuple[Offer, tuple[str, ...]]]]
"""Finds, for a request and its offer, operations that are missing: the larger offer, and what is new in it."""

PATIENCE_S = 600.0
"""How long a draft may take here. The service gives up earlier, but what is right must not depend on a busy machine."""

SERVED = "served"
"""The backend that asks a language model's server; only there where one is configured."""

Status = Literal["planned", "needs_input", "no_plan", "failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the planner made of a request.

    Attributes:
        status: its own, or ``failed`` where it gave no answer.
        plan: what counts as its plan, if anything.
        compiled: the proved plan, where there is one.
        confidence: 0 to 1; of the trained backend what its judge says, where there is one.
        sure: 0 to 1, the backend's own.
        reason: why there is no plan, or what is asked.
        diagnostics: what the compiler found.
        traces: what a language model was shown and wrote, each time it was asked.
        looked_up: APIs that were offered besides, since it missed them.
        signs: what the judge goes by; none where a backend has none.
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

    @property
    def attempts(self) -> tuple[ModelAttempt, ...]:
        """What a language model wrote, turn after turn."""
        return tuple(attempt for trace in self.traces for attempt in trace.attempts)

    @property
    def well_formed(self) -> bool:
        """Whether it is in the form that is asked for: of a language model, whether its first text could be read."""
        return self.attempts[0].readable if self.attempts else self.status != "failed"


class Listening:
    """A backend that another one's drafts are heard of through: ``draft`` is the last one of a request."""

    def __init__(self, backend: PlannerBackend) -> None:
        self._backend = backend
        self.draft: PlanDraft | None = None

    @property
    def name(self) -> str:
        """The backend's own name."""
        return self._backend.name

    async def read(self, apis: Sequence[Api]) -> int:
        """As the backend does."""
        return await self._backend.read(apis)

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """The backend's draft."""
        self.draft = None
        return self._heard(await self._backend.plan(request))

    def _heard(self, draft: PlanDraft) -> PlanDraft:
        self.draft, revise = draft, draft.revise
        if revise is None:
            return draft

        async def revised(diagnostics: Sequence[Diagnostic]) -> PlanDraft:
            return self._heard(await revise(diagnostics))

        return dataclasses.replace(draft, revise=revised)


class Afresh:
    """A backend that is made anew for each request: what one learns of its server in one is not known in the next.

    Answers of files have no server. That one is an error does not say that the next is to be done without.

    Args:
        name: of the backend.
        make: makes one.
    """

    def __init__(self, name: str, make: Callable[[], PlannerBackend]) -> None:
        self.name, self._make = name, make

    async def read(self, apis: Sequence[Api]) -> int:
        """None: nothing is kept."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """A new one's draft."""
        return await self._make().plan(request)


class Hearing:
    """A judge that what it goes by is heard of through.

    Args:
        judge: None: there is none yet, each word is as likely right as its backend says.

    Attributes:
        signs: of the word that was judged last.
    """

    def __init__(self, judge: AnswerJudge | None) -> None:
        self._judge = judge
        self.signs: tuple[float, ...] = ()

    def weigh(self, request: PlanRequest, answer: BackendAnswer) -> float:
        """What the judge says."""
        self.signs = signs_of(request, answer)
        return answer.response.confidence if self._judge is None else self._judge.weigh(request, answer)


class Planner:
    """Asks one backend, one request after the other.

    Args:
        service: that is asked.
        listening: the backend.
        hearing: the judge of its words.
    """

    def __init__(self, service: PlannerService, listening: Listening, hearing: Hearing) -> None:
        self.name = listening.name
        self._service, self._listening, self._hearing = service, listening, hearing

    async def read(self, apis: Sequence[Api]) -> None:
        """Have APIs read, as an import does."""
        await self._service.read(apis)

    async def ask(
        self,
        query: str,
        offer: Offer,
        demos: tuple[SelectedDemo, ...],
        look_up: LookUp | None = None,
        now: datetime | None = None,
    ) -> Answer:
        """Plan a request as the gateway would have it planned.

        Args:
            query: the request.
            offer: its candidates.
            demos: its demonstrations.
            look_up: finds operations that the planner misses; it then plans once more.
            now: the request's clock; by default one for all.
        """
        context = Context(now=now or NOW)
        traces: tuple[PlannerTrace, ...] = ()
        looked_up: tuple[str, ...] = ()
        lookups = SolveOptions().lookups if look_up is not None else 0
        while True:
            response = await self._asked(query, context, offer, demos, looked_up)
            told = self._listening.draft if isinstance(response, ServiceError) else response
            traces += (told.trace,) if told is not None and told.trace is not None else ()
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
        draft = self._listening.draft
        if response.status == "needs_input" and plan is None and draft is not None:
            plan = asked_about(draft, response.questions)
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
            signs=self._hearing.signs,
        )


def asked_about(draft: PlanDraft, questions: tuple[Question, ...]) -> Plan | None:
    """The draft that the questions are about: the first that has their steps, without the arguments they ask for.

    Where none has (the compiler may have mended it), it is the best one.
    """
    plans = [plan for plan in (draft.plan, *draft.alternatives) if plan is not None]
    return next((plan for plan in plans if all(_lacks(plan, question) for question in questions)), draft.plan)


@asynccontextmanager
async def open_planner(
    name: str | None,
    backends: Mapping[str, PlannerBackend] | None = None,
    chat: ChatModel | None = None,
) -> AsyncIterator[Planner]:
    """The planner's service with the backend of that name; by default the one that the settings name.

    It waits longer than the settings say; what takes longer than they say is counted (``late``).

    Args:
        name: of the backend.
        backends: by name; otherwise those that ship, and ``served`` where its server is configured.
        chat: a language model in place of that server's.

    Raises:
        DataError: there is no such backend.
        JudgeError: the judge is damaged.
    """
    settings = PlannerSettings()
    pool = ComputePool(max(settings.compute_workers, os.cpu_count() or 1), settings.compute_waiting, name="planner")
    metrics = PlannerMetrics(CollectorRegistry())
    served: ServedBackend | None = None
    try:
        available = dict(backends or {})
        if chat is not None:
            make = partial(ServedBackend, chat, settings.served, pool, metrics)
            available[SERVED] = Afresh(SERVED, make)
        if not available:
            served = open_served(settings.served, pool, metrics)
            available = load_backends(pool, settings.model) | ({SERVED: served} if served else {})
        chosen = name or settings.default_backend
        if chosen not in available:
            hint = f"; {SERVED!r} is there where NESTOR_PLANNER_SERVED_URL is set" if chosen == SERVED else ""
            raise DataError(f"there is no planner {chosen!r}; there is {', '.join(sorted(available))}{hint}")
        listening = Listening(available[chosen])
        hearing = Hearing(AnswerJudge.load(model_directory(settings.model)))
        service = PlannerService(
            {chosen: listening},
            chosen,
            pool,
            backend_timeout_s=PATIENCE_S,
            max_alternatives=settings.max_alternatives,
            metrics=metrics,
            weigh=hearing.weigh,
        )
        yield Planner(service, listening, hearing)
    finally:
        if served is not None:
            await served.aclose()
        await pool.close()


def _lacks(plan: Plan, question: Question) -> bool:
    step = plan.step(question.step)
    return step is not None and step.api == question.api and question.argument not in step.arguments
