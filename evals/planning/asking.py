"""Asks the planner: planner_svc's service with the backends that ship, nothing in their place.

What counts as its plan is the plan it returns. Where it needs input it returns questions and no plan; then the draft
that it asks about counts, without the arguments it lacks: the metrics ask which calls it would make. To see that draft
the backend is listened to, not asked a second time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from prometheus_client import CollectorRegistry

from evals.data import DataError
from evals.planning.offers import Offer
from evals.planning.running import ANYTHING
from planner_svc.backends import load_backends
from planner_svc.backends.base import PlannerBackend
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.service import PlannerService
from planner_svc.settings import PlannerSettings
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.context import Context
from services.contracts.demo import SelectedDemo
from services.contracts.plan import Plan
from services.contracts.planning import CompiledPlan, PlanRequest, PlanResponse, Question
from services.encoder import Encoder
from services.errors import ServiceError

NOW = datetime(2024, 1, 1, 12, tzinfo=UTC)
"""What "today" means: the same in every measurement."""

PATIENCE_S = 600.0
"""How long a draft may take here. The service gives up earlier, but what is right must not depend on a busy machine."""

Status = Literal["planned", "needs_input", "no_plan", "failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the planner made of a request.

    Attributes:
        status: its own, or ``failed`` where it gave no answer.
        plan: what counts as its plan, if anything.
        compiled: the proved plan, where there is one.
        confidence: 0 to 1, its own.
        reason: why there is no plan, or what is asked.
    """

    status: Status
    plan: Plan | None = None
    compiled: CompiledPlan | None = None
    confidence: float = 0.0
    reason: str = ""


class Listening:
    """A backend that another one's drafts are heard of through."""

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
        self.draft = await self._backend.plan(request)
        return self.draft


class Planner:
    """Asks one backend, one request after the other."""

    def __init__(self, service: PlannerService, listening: Listening) -> None:
        self._service, self._listening = service, listening

    @property
    def name(self) -> str:
        """The backend's name."""
        return self._listening.name

    async def read(self, apis: Sequence[Api]) -> None:
        """Have APIs read, as an import does."""
        await self._service.read(apis)

    async def ask(self, query: str, offer: Offer, demos: tuple[SelectedDemo, ...]) -> Answer:
        """Plan a request as the gateway would have it planned."""
        request = PlanRequest(
            query=query,
            context=Context(now=NOW),
            clauses=offer.clauses,
            candidates=offer.candidates,
            demos=demos,
            backend=self.name,
            policy=ANYTHING,
        )
        try:
            response = await self._service.plan(request)
        except ServiceError as error:
            return Answer("failed", reason=f"{error.title}: {error.detail}")
        return self._answer(response)

    def _answer(self, response: PlanResponse) -> Answer:
        plan, reason = response.plan, response.reason
        if response.status == "needs_input" and plan is None and self._listening.draft is not None:
            plan = asked_about(self._listening.draft, response.questions)
            reason = "; ".join(question.text for question in response.questions)
        if response.status == "no_plan":
            plan = None
        return Answer(response.status, plan, response.compiled, response.confidence, reason)


def asked_about(draft: PlanDraft, questions: tuple[Question, ...]) -> Plan | None:
    """The draft that the questions are about: the first that has their steps, without the arguments they ask for.

    Where none has (the compiler may have mended it), it is the best one.
    """
    plans = [plan for plan in (draft.plan, *draft.alternatives) if plan is not None]
    return next((plan for plan in plans if all(_lacks(plan, question) for question in questions)), draft.plan)


@asynccontextmanager
async def open_planner(
    name: str | None, encoder: Encoder, backends: Mapping[str, PlannerBackend] | None = None
) -> AsyncIterator[Planner]:
    """The planner's service with the backend of that name; by default the one that the settings name.

    It waits longer than the settings say; what takes longer than they say is counted (``late``).

    Args:
        name: of the backend.
        encoder: the planner's.
        backends: by name; otherwise those that ship.

    Raises:
        DataError: there is no such backend.
    """
    settings = PlannerSettings()
    pool = ComputePool(max(settings.compute_workers, os.cpu_count() or 1), settings.compute_waiting, name="planner")
    try:
        available = backends or load_backends(encoder, pool, settings.model)
        chosen = name or settings.default_backend
        if chosen not in available:
            raise DataError(f"there is no planner {chosen!r}; there is {', '.join(sorted(available))}")
        listening = Listening(available[chosen])
        service = PlannerService(
            {chosen: listening},
            chosen,
            pool,
            backend_timeout_s=PATIENCE_S,
            max_alternatives=settings.max_alternatives,
            metrics=PlannerMetrics(CollectorRegistry()),
        )
        yield Planner(service, listening)
    finally:
        await pool.close()


def _lacks(plan: Plan, question: Question) -> bool:
    step = plan.step(question.step)
    return step is not None and step.api == question.api and question.argument not in step.arguments
