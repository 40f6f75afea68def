"""The backend that asks a language model: prompt, constrained completion, parsed answer, repair turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner_svc.backends.served.constraint import constrain
from planner_svc.backends.served.conversation import Conversation, Task
from planner_svc.backends.served.model import Model
from planner_svc.backends.served.prompt import Budget, Prompt, render
from planner_svc.backends.served.signatures import DETAILS
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.reading.context import read_clock
from planner_svc.settings import ServedSettings
from services.clients.chat import ChatModel, Patience, open_chat
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.planning import PlanRequest

NOTHING: Final = "Nothing in the catalogue fits this request."
_SHARE: Final = 0.96
"""Share of the time limit that the model may use; processing its answer takes the rest."""


class ServedBackend:
    """Plans with a language model. It keeps no requests, only what it learnt about the server.

    Args:
        chat: the model.
        settings: how to ask it.
        pool: where prompts, constraints and answers are computed.
        metrics: counts tokens, time and repairs.
    """

    name = "served"

    def __init__(self, chat: ChatModel, settings: ServedSettings, pool: ComputePool, metrics: PlannerMetrics) -> None:
        self._model = Model(chat, settings, metrics)
        self._settings, self._pool, self._metrics = settings, pool, metrics

    @property
    def model(self) -> Model:
        """The model, for other uses than planning."""
        return self._model

    async def read(self, apis: Sequence[Api]) -> int:
        """Return 0: a prompt is made from the APIs' own texts."""
        return 0

    async def aclose(self) -> None:
        """Close connections and tasks."""
        await self._model.aclose()

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`.

        Failures of the server are not raised: the draft reports them (``fault``).
        """
        if not request.candidates or not re.search(r"\w", request.query):
            return PlanDraft(None, 0.9, reason=NOTHING)
        limit_s = self._settings.timeout_s
        if request.deadline_ms is not None:
            limit_s = min(limit_s, request.deadline_ms / 1000 * _SHARE)
        task = await self._pool.run(self.task, request)
        return await Conversation(self._model, self._pool, self._metrics, task, limit_s, self._settings.repairs).draft()

    def task(self, request: PlanRequest) -> Task:
        """Build what to ask the model. Runs on the calling thread."""
        prompt = shown(request, self._settings)
        brief = self._settings.detail == "brief"
        constraint = constrain(prompt.apis, prompt.names, calls_only=brief, kind=self._model.constraint)
        return Task(request, prompt, constraint)


def shown(request: PlanRequest, settings: ServedSettings) -> Prompt:
    """The prompt for a request: first the APIs looked up for the model, then the other candidates in order.

    Deprecated APIs are left out unless the request pins them.
    """
    offered = [one for one in request.candidates if not one.api.deprecated or one.found_by == "pinned"]
    found = {one.api.id: one.api for one in offered}
    asked = [found[api_id] for api_id in request.looked_up if api_id in found]
    rest = [api for api_id, api in found.items() if api_id not in request.looked_up]
    return render(
        request.query,
        request.context.model_copy(update={"now": read_clock(request.context)}),
        [*asked, *rest],
        request.demos,
        detail=DETAILS[settings.detail],
        budget=Budget(tokens=settings.prompt_tokens, apis=settings.candidates + len(asked), demos=settings.demos),
        evidence=request.evidence,
        added=len(asked),
    )


def open_served(settings: ServedSettings, pool: ComputePool, metrics: PlannerMetrics) -> ServedBackend | None:
    """The backend with these settings; None if they name no server."""
    if settings.url is None:
        return None
    chat = open_chat(
        settings.url,
        settings.model,
        key=settings.api_key,
        temperature=settings.temperature,
        logprobs=settings.logprobs,
        patience=Patience(settings.first_token_s, settings.between_tokens_s),
    )
    return ServedBackend(chat, settings, pool, metrics)
