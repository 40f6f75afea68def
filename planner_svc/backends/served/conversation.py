"""One request's conversation with the model: its answers, and the turns that show it what is wrong with them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planner_svc.backends.served.constraint import Constraint
from planner_svc.backends.served.model import Model
from planner_svc.backends.served.outputs import with_outputs
from planner_svc.backends.served.prompt import Prompt, repair_turn
from planner_svc.backends.served.reply import Reply, ReplyError, read_reply
from planner_svc.backends.served.signatures import with_names
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
"""Confidence in a plan that compiles at once, if the server gives no log-probabilities. Not measured: set in view of
what a frontier model got right (79% of 210 requests to vendors that nobody tuned to)."""
REPAIRED_CONFIDENCE: Final = 0.6
NOTHING_FITS: Final = "The language model says that nothing it was offered fits this request."
_MAX_PROBLEMS: Final = 8
_MAX_PROBLEM_CHARS: Final = 2_000
_OUTAGES: Final = frozenset({"down", "hung", "late", "busy", "denied_access"})


@dataclass(frozen=True, slots=True)
class Task:
    """What to ask the model: the request, its prompt, and the constraint on answers."""

    request: PlanRequest
    prompt: Prompt
    constraint: Constraint


class Conversation:
    """Asks for a draft, and for a better one if that cannot be used.

    Args:
        model: the model to ask.
        pool: where answers are parsed.
        metrics: counts repairs.
        task: what to ask for.
        limit_s: seconds for all turns together.
        repairs: how often the model may correct an answer.
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
        """The model's next draft. If the server fails, the draft says what went wrong."""
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
        plan = with_outputs(reply.plan, self._task.prompt.apis)
        return Reply(plan, reply.needs, reply.aside)

    def _revision(self) -> _Revision | None:
        return _Revision(self) if len(self._attempts) <= self._repairs else None

    async def revise(self, diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        """A new draft, after the model was shown what is wrong with its last one."""
        attempt = self._attempts[-1]
        problems = self._problems(diagnostics) or [attempt.problem]
        if not attempt.problem:
            self._attempts[-1] = attempt.model_copy(update={"problem": "; ".join(problems)[:_MAX_PROBLEM_CHARS]})
        self._metrics.repairs.inc()
        self._messages += repair_turn(self._last[:MAX_OUTPUT_CHARS], problems)
        return await self.draft()

    def _problems(self, diagnostics: Iterable[Diagnostic]) -> list[str]:
        """The compiler's errors, with APIs named as in the prompt."""
        errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
        return [self._problem(diagnostic) for diagnostic in errors[:_MAX_PROBLEMS]]

    def _problem(self, diagnostic: Diagnostic) -> str:
        place = ", ".join(part for part in (diagnostic.step, diagnostic.argument) if part)
        hints = " ".join(fix.message for fix in diagnostic.fixes[:2])
        text = f"{place}: {diagnostic.message}" if place else diagnostic.message
        text = f"{text}. {hints}".strip() if hints else text
        return " ".join(with_names(text, self._task.prompt.names).split())[: _MAX_PROBLEM_CHARS // _MAX_PROBLEMS]

    def _confidence(self, completion: Completion) -> float:
        """The probability of the least likely token; a fixed value if the server gives no log-probabilities."""
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
    """The remaining repair turn."""

    conversation: Conversation

    async def __call__(self, diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        return await self.conversation.revise(diagnostics)


def _shown(messages: Iterable[dict[str, str]]) -> Iterable[PromptMessage]:
    """The messages, cut to a total length."""
    left = MAX_PROMPT_CHARS
    for message in messages:
        content = message["content"][:left]
        left -= len(content)
        yield PromptMessage.model_validate({"role": message["role"], "content": content})
