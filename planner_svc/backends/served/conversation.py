"""One request's conversation with the model: its answer, and the turn in which it is shown what is wrong with it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planner_svc.backends.served.constraint import Constraint
from planner_svc.backends.served.model import Model
from planner_svc.backends.served.outputs import answered
from planner_svc.backends.served.prompt import Prompt, repair_turn
from planner_svc.backends.served.reply import Reply, ReplyError, read_reply
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import Fault, PlanDraft
from services.clients.chat import ChatError, Completion
from services.compute import ComputePool
from services.contracts.planning import Diagnostic, PlanRequest
from services.contracts.trace import (
    MAX_OUTPUT_CHARS,
    MAX_PROMPT_CHARS,
    ModelAttempt,
    PlannerTrace,
    PromptMessage,
)

FIRST_CONFIDENCE: Final = 0.8
"""Of a plan that compiles at once, where the server gives no log-probabilities. Not measured: set beside what a
frontier model got right (79% of 210 requests to vendors that nobody tuned to)."""
REPAIRED_CONFIDENCE: Final = 0.6
NOTHING_FITS: Final = "The language model says that nothing it was offered fits this request."
_MAX_PROBLEMS: Final = 8
_MAX_PROBLEM_CHARS: Final = 2_000
_OUTAGES: Final = frozenset({"down", "hung", "late", "busy", "denied_access"})


@dataclass(frozen=True, slots=True)
class Task:
    """What the model is asked for: the request, its prompt, and what an answer may look like."""

    request: PlanRequest
    prompt: Prompt
    constraint: Constraint


class Conversation:
    """Asks for a draft, and for a better one where that cannot be used.

    Args:
        model: is asked.
        pool: where answers are read.
        metrics: counts repairs.
        task: what is asked for.
        limit_s: seconds for all turns together.
        repairs: how often an answer may be corrected.
    """

    def __init__(
        self,
        model: Model,
        pool: ComputePool,
        metrics: PlannerMetrics,
        task: Task,
        limit_s: float,
        repairs: int,
    ) -> None:
        self._model, self._pool, self._metrics = model, pool, metrics
        self._task, self._repairs = task, repairs
        self._end = asyncio.get_running_loop().time() + limit_s
        self._messages: list[dict[str, str]] = list(task.prompt.messages)
        self._attempts: list[ModelAttempt] = []
        self._last = ""

    async def draft(self) -> PlanDraft:
        """The model's next draft. Whatever the server does, there is one: it says what went wrong."""
        started = time.perf_counter()
        try:
            completion, kind = await self._model.complete(self._messages, self._task.constraint, self._end)
        except ChatError as error:
            self._attempted(error.partial or Completion(""), "none", started, str(error))
            return PlanDraft(
                None, fault=Fault(error.trouble, str(error), error.trouble in _OUTAGES), trace=self._trace()
            )
        self._last = completion.text
        try:
            reply = await self._pool.run(self._read, completion)
        except ReplyError as error:
            self._attempted(completion, kind, started, str(error))
            return PlanDraft(
                None,
                fault=Fault("garbage", f"the language model's answer cannot be read: {error}"),
                revise=self._revision(),
                trace=self._trace(),
            )
        self._attempted(completion, kind, started, aside=reply.aside)
        return PlanDraft(
            reply.plan,
            self._confidence(completion),
            reason="" if reply.plan is not None or reply.needs else NOTHING_FITS,
            needs=reply.needs,
            revise=self._revision() if reply.plan is not None else None,
            trace=self._trace(),
        )

    def _read(self, completion: Completion) -> Reply:
        """Read an answer, on the calling thread."""
        reply = read_reply(completion.text, self._task.prompt.names, cut=completion.finish == "length")
        if reply.plan is None:
            return reply
        plan = answered(reply.plan, self._task.prompt.apis)
        return Reply(plan, reply.needs, reply.aside)

    def _revision(self) -> _Revision | None:
        return _Revision(self) if len(self._attempts) <= self._repairs else None

    async def revise(self, diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        """A draft of the model that has been shown what is wrong with its last one."""
        attempt = self._attempts[-1]
        problems = self._problems(diagnostics) or [attempt.problem]
        if not attempt.problem:
            self._attempts[-1] = attempt.model_copy(update={"problem": "; ".join(problems)[:_MAX_PROBLEM_CHARS]})
        self._metrics.repairs.inc()
        self._messages += repair_turn(self._last[:MAX_OUTPUT_CHARS], problems)
        return await self.draft()

    def _problems(self, diagnostics: Iterable[Diagnostic]) -> list[str]:
        """The compiler's errors in the prompt's own names."""
        errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
        return [self._problem(diagnostic) for diagnostic in errors[:_MAX_PROBLEMS]]

    def _problem(self, diagnostic: Diagnostic) -> str:
        place = ", ".join(part for part in (diagnostic.step, diagnostic.argument) if part)
        hints = " ".join(fix.message for fix in diagnostic.fixes[:2])
        text = f"{place}: {diagnostic.message}" if place else diagnostic.message
        text = f"{text}. {hints}".strip() if hints else text
        for api_id, name in self._task.prompt.names.items():
            text = text.replace(api_id, name)
        return " ".join(text.split())[: _MAX_PROBLEM_CHARS // _MAX_PROBLEMS]

    def _confidence(self, completion: Completion) -> float:
        """How likely the least likely token was; a fixed value where nobody says."""
        if completion.logprobs:
            return math.exp(min(0.0, *completion.logprobs))
        return FIRST_CONFIDENCE if len(self._attempts) <= 1 else REPAIRED_CONFIDENCE

    def _attempted(
        self, completion: Completion, kind: str, started: float, problem: str = "", *, aside: str = ""
    ) -> None:
        reasoning = "\n".join(part for part in (completion.reasoning, aside) if part)
        self._attempts.append(
            ModelAttempt(
                output=completion.text[:MAX_OUTPUT_CHARS],
                reasoning=reasoning[:MAX_OUTPUT_CHARS],
                readable=not problem,
                problem=problem[:_MAX_PROBLEM_CHARS],
                constraint=kind,
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
                ms=round((time.perf_counter() - started) * 1000, 3),
            )
        )

    def _trace(self) -> PlannerTrace:
        prompt = self._task.prompt
        return PlannerTrace(
            model=self._model.name,
            prompt_version=prompt.version,
            prompt=tuple(_shown(prompt.messages)),
            attempts=tuple(self._attempts),
        )


@dataclass(frozen=True, slots=True)
class _Revision:
    """The turn that is left."""

    conversation: Conversation

    async def __call__(self, diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        return await self.conversation.revise(diagnostics)


def _shown(messages: Iterable[dict[str, str]]) -> Iterable[PromptMessage]:
    """The messages, cut where they are too long together."""
    left = MAX_PROMPT_CHARS
    for message in messages:
        content = message["content"][:left]
        left -= len(content)
        yield PromptMessage.model_validate({"role": message["role"], "content": content})
