"""The rules of planning: draft, prove, repair, and never let a plan out that does not compile."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Counter

from planner_svc.backends.base import PlannerBackend
from planner_svc.compile import compile_plan
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.repair import repair
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import (
    CompileRequest,
    CompileResponse,
    Diagnostic,
    DiagnosticCode,
    PlannerBackends,
    PlanRequest,
    PlanResponse,
    Question,
    ReadApisReport,
)
from services.errors import DeadlineExceeded, Overloaded, ServiceUnavailable, ValidationFailed


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What becomes of an answer that its backend is not sure of.

    Attributes:
        escalate_to: name of the backend that is asked then; None: nobody is.
        escalate_below: the confidence from which on a plan of the first stands.
        abstain_below: a plan that is less sure than this, after that, is not answered with.
    """

    escalate_to: str | None = None
    escalate_below: float = 0.0
    abstain_below: float = 0.0


class PlannerService:
    """Plans requests with one of its backends and proves what they draft.

    Args:
        backends: By name; the default one among them.
        default: The backend used where a request names none.
        pool: Where proofs are computed, off the event loop.
        backend_timeout_s: How long a draft may take.
        max_alternatives: Further drafts that are tried where the best does not compile.
        outcomes: Counts answers by ``backend`` and ``status``.
        thresholds: What becomes of unsure answers, where a request names no backend.

    Raises:
        ValueError: the default, or the one to escalate to, is not among the backends.
    """

    def __init__(
        self,
        backends: Mapping[str, PlannerBackend],
        default: str,
        pool: ComputePool,
        *,
        backend_timeout_s: float,
        max_alternatives: int,
        outcomes: Counter,
        thresholds: Thresholds | None = None,
    ) -> None:
        self._thresholds = thresholds or Thresholds()
        named = {"default": default, "other": self._thresholds.escalate_to or default}
        for which, name in named.items():
            if name not in backends:
                raise ValueError(f"the {which} backend {name!r} is not among {', '.join(sorted(backends))}")
        self._backends = dict(backends)
        self._default = default
        self._pool = pool
        self._backend_timeout_s = backend_timeout_s
        self._max_alternatives = max_alternatives
        self._outcomes = outcomes

    def backends(self) -> PlannerBackends:
        """The backends there are."""
        return PlannerBackends(default=self._default, available=tuple(sorted(self._backends)))

    async def compile(self, request: CompileRequest) -> CompileResponse:
        """Prove a plan as it is.

        Raises:
            ValidationFailed: two different APIs of one id.
            Overloaded: too much work is waiting.
        """
        return await self._pool.run(compile_plan, request.plan, request.apis, request.policy, request.credentials)

    async def read(self, apis: Sequence[Api]) -> ReadApisReport:
        """Have the default backend read APIs before a request has them as candidates.

        Raises:
            Overloaded: too much work is waiting.
        """
        return ReadApisReport(read=await self._backends[self._default].read(apis))

    async def plan(self, request: PlanRequest) -> PlanResponse:
        """Plan a request: a proved plan, questions to the user, or the statement that nothing fits.

        Raises:
            ValidationFailed: an unknown backend, or two different candidates of one id.
            DeadlineExceeded: the backend took too long.
            ServiceError: whatever the backend raises (see :class:`PlannerBackend`).
        """
        name = request.backend or self._default
        if name not in self._backends:
            known = ", ".join(sorted(self._backends))
            raise ValidationFailed(f"there is no planner backend {name!r}; there is {known}")
        response = await self._answer(name, request)
        if request.backend is None:
            response = self._abstained(await self._escalated(response, request))
        self._outcomes.labels(backend=response.backend, status=response.status).inc()
        return response

    async def _answer(self, name: str, request: PlanRequest) -> PlanResponse:
        return await self._choose(await self._draft(self._backends[name], request), request, name)

    async def _escalated(self, response: PlanResponse, request: PlanRequest) -> PlanResponse:
        """The answer of the backend to escalate to, where the first has no plan, or is unsure and the other has one."""
        other, planned = self._thresholds.escalate_to, response.status == "planned"
        stands = planned and response.confidence >= self._thresholds.escalate_below
        if other is None or other == response.backend or stands:
            return response
        try:
            second = await self._answer(other, request)
        except (ServiceUnavailable, Overloaded, DeadlineExceeded):
            return response  # the first answer is there
        return second if second.status == "planned" or not planned else response

    def _abstained(self, response: PlanResponse) -> PlanResponse:
        if response.status != "planned" or response.confidence >= self._thresholds.abstain_below:
            return response
        reason = f"The best plan found is right with a probability of {response.confidence:.0%} only."
        return PlanResponse(
            status="no_plan", confidence=1 - response.confidence, backend=response.backend, reason=reason
        )

    async def _draft(self, backend: PlannerBackend, request: PlanRequest) -> PlanDraft:
        try:
            async with asyncio.timeout(self._backend_timeout_s):
                return await backend.plan(request)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"the planner backend {backend.name!r} gave no draft within {self._backend_timeout_s:g} s"
            ) from error

    async def _choose(self, draft: PlanDraft, request: PlanRequest, backend: str) -> PlanResponse:
        """The first draft that compiles; else the first whose only fault is what the user must supply; else nothing.

        A draft that lacks user input only gives way to an alternative that calls all of its APIs: one that calls
        others compiles more easily, and answers another question. The best draft gives way to none where it is denied
        a call that changes something: what else there is changes something else, or nothing.
        """
        confidence = _probability(draft.confidence)
        if draft.plan is None:
            reason = draft.reason or "Nothing in the catalogue fits this request."
            return PlanResponse(status="no_plan", confidence=confidence, backend=backend, reason=reason)
        apis = [candidate.api for candidate in request.candidates]
        first: CompileResponse | None = None
        asking: tuple[Plan, CompileResponse] | None = None
        for rank in range(1 + self._max_alternatives):
            plan = draft.plan if rank == 0 else await self._alternative(draft, rank - 1)
            if plan is None:
                break
            result = await self._prove(plan, apis, request)
            first = first or result
            if rank == 0 and (denied := _denied_changes(plan, result, apis)):
                return PlanResponse(
                    status="no_plan", diagnostics=result.diagnostics, backend=backend, reason=_reason(denied)
                )
            if result.compiled is not None and (asking is None or _apis(plan) >= _apis(asking[0])):
                return PlanResponse(
                    status="planned",
                    plan=result.compiled.plan,
                    compiled=result.compiled,
                    diagnostics=result.diagnostics,
                    confidence=confidence if rank == 0 else min(confidence, 1 - confidence),
                    backend=backend,
                )
            if asking is None and _only_input_missing(result):
                asking = (plan, result)
        if asking is not None:
            return PlanResponse(
                status="needs_input",
                diagnostics=asking[1].diagnostics,
                questions=_worded(asking[1].questions, draft.missing),
                confidence=confidence,
                backend=backend,
                reason="Something is needed that neither the request nor its context says.",
            )
        diagnostics = first.diagnostics if first is not None else ()
        return PlanResponse(status="no_plan", diagnostics=diagnostics, backend=backend, reason=_reason(diagnostics))

    async def _alternative(self, draft: PlanDraft, index: int) -> Plan | None:
        """The draft's alternative at that place, if it has so many. Making them is work for the pool."""
        others = await self._pool.run(tuple, draft.alternatives)
        return others[index] if index < len(others) else None

    async def _prove(self, plan: Plan, apis: Sequence[Api], request: PlanRequest) -> CompileResponse:
        result = await self._pool.run(compile_plan, plan, apis, request.policy, request.credentials)
        if result.compiled is not None:
            return result
        repaired = repair(plan, result.diagnostics)
        if repaired is None:
            return result
        return await self._pool.run(compile_plan, repaired, apis, request.policy, request.credentials)


def _probability(confidence: float) -> float:
    """Backends are not trusted to know what a probability is."""
    return 0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0)


def _apis(plan: Plan) -> frozenset[str]:
    return frozenset(step.api for step in plan.steps)


def _errors(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]


def _denied_changes(plan: Plan, result: CompileResponse, apis: Sequence[Api]) -> list[Diagnostic]:
    """The findings that the policy denies a call which may change something."""
    mutating = {api.id for api in apis if api.mutating}
    changes = {step.id for step in plan.steps if step.api in mutating}
    return [d for d in result.diagnostics if d.code is DiagnosticCode.DENIED and d.step in changes]


def _only_input_missing(result: CompileResponse) -> bool:
    codes = {diagnostic.code for diagnostic in _errors(result.diagnostics)}
    return bool(result.questions) and codes == {DiagnosticCode.MISSING_ARGUMENT}


def _worded(questions: Sequence[Question], missing: Sequence[MissingValue]) -> tuple[Question, ...]:
    """The questions in the backend's words where it has any: it has read the request, the compiler has not."""
    texts = {(value.step, value.argument): value.text for value in missing if value.text}
    return tuple(q.model_copy(update={"text": texts.get((q.step, q.argument), q.text)}) for q in questions)


def _reason(diagnostics: Sequence[Diagnostic]) -> str:
    errors = _errors(diagnostics)
    if not errors:
        return "No plan for this request could be proved."
    first = errors[0]
    place = f"step {first.step!r}" if first.step else "the plan"
    if first.argument:
        place += f", {first.argument}"
    return f"No plan for this request could be proved: in {place}, {first.message}."
