"""Which plan of a draft is offered: one that can be proved, leaves nothing out, and does what is asked for."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from planner_svc.cascade import DEMONSTRATED, MODEL, Word
from planner_svc.compile import compile_plan
from planner_svc.evidence import Tried
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.proving.choosing import with_matches
from planner_svc.proving.leftovers import questions_about, with_answers
from planner_svc.proving.near_misses import other_than_asked
from planner_svc.proving.repair import repair
from planner_svc.reading.alone import alone
from planner_svc.reading.stated import may_state, with_stated
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import (
    CompiledPlan,
    CompileResponse,
    Diagnostic,
    DiagnosticCode,
    PlanRequest,
    PlanResponse,
    Question,
)

MISSING: Final = "Something is needed that neither the request nor its context says."
LEFT_OUT: Final = "The request says something that would not be used."


class Prover:
    """Proves drafts and says what a backend's word is.

    Args:
        pool: Where proofs are computed, off the event loop.
        max_alternatives: Further drafts that are tried where the best does not compile.
    """

    def __init__(self, pool: ComputePool, max_alternatives: int) -> None:
        self._pool = pool
        self._max_alternatives = max_alternatives

    async def word(self, draft: PlanDraft, request: PlanRequest, backend: str) -> Word:
        """The first draft that compiles; else the first whose only fault is what the user must supply; else nothing.

        A draft that lacks user input, or leaves out what the request says, only gives way to an alternative that calls
        all of its APIs: one that calls others compiles more easily, and answers another question. The best draft gives
        way to none where it is denied a call that changes something: what else there is changes something else, or
        nothing.

        Raises:
            Overloaded: too much work is waiting.
        """
        confidence = probability(draft.confidence)
        if draft.plan is None:
            return _without_plan(draft, backend, confidence)
        apis = [candidate.api for candidate in request.candidates]
        first: CompileResponse | None = None
        asking: Word | None = None
        locked: Word | None = None
        for rank in range(1 + self._max_alternatives):
            plan = draft.plan if rank == 0 else await self._alternative(draft, rank - 1)
            if plan is None:
                break
            result = await self._prove(plan, apis, request, backend)
            first = first or result
            wrong, left_out = await self._objections(result, request, backend)
            if wrong:
                response = PlanResponse(status="no_plan", confidence=1 - confidence, backend=backend, reason=wrong)
                return Word(response, "no_plan", trace=draft.trace, sure=response.confidence)
            if rank == 0 and (denied := _denied_changes(plan, result, apis)):
                refused = _refused(draft, backend, "denied", result.diagnostics, denied)
                return dataclasses.replace(refused, plan=plan, sure=confidence)
            compiled = None if left_out else result.compiled
            if compiled is not None and (asking is None or _apis(plan) >= _apis(asking.plan)):
                planned = _planned(draft, compiled, result.diagnostics, backend, rank)
                if not compiled.proof.missing:
                    return planned
                locked = locked or (planned if asking is None else None)  # an alternative that can be run is better
            elif asking is None and locked is None:
                asking = _asking(draft, plan, result, left_out, backend)
        if (word := locked or asking) is not None:
            return word
        diagnostics = first.diagnostics if first is not None else ()
        return _refused(draft, backend, "unproved", diagnostics, diagnostics)

    async def _alternative(self, draft: PlanDraft, index: int) -> Plan | None:
        """The draft's alternative at that place, if it has so many. Making them is work for the pool."""
        others = await self._pool.run(tuple, draft.alternatives)
        return others[index] if index < len(others) else None

    async def _objections(
        self, result: CompileResponse, request: PlanRequest, backend: str
    ) -> tuple[str, tuple[Question, ...]]:
        """Why a proved plan is no answer, or nothing; and what must be asked before it is offered.

        There are none to a demonstration's plan: its pattern has a place for every word.
        """
        if result.compiled is None or backend == DEMONSTRATED:
            return "", ()
        plan, apis = result.compiled.plan, result.compiled.apis
        if wrong := await self._pool.run(other_than_asked, request.query, plan, apis):
            return wrong, ()
        return "", await self._pool.run(questions_about, request.query, request.context, plan, apis)

    async def _prove(self, plan: Plan, apis: Sequence[Api], request: PlanRequest, backend: str) -> CompileResponse:
        if backend != DEMONSTRATED and may_state(request.query):  # its pattern has a place for every word
            plan = await self._pool.run(with_stated, plan, request.query, {api.id: api for api in apis})
            plan = await self._pool.run(alone, plan, request.query, {api.id: api for api in apis})
        if request.context.values:
            plan = await self._pool.run(with_answers, plan, request.context, {api.id: api for api in apis})
        shown = backend == DEMONSTRATED and any(plan.id == one.demo.plan.id for one in request.demos)
        if request.choose_items and not shown:  # a demonstration's own plan says already which items it takes
            plan = with_matches(plan, request.query)
        result = await self._pool.run(compile_plan, plan, apis, request.policy, request.credentials)
        if result.compiled is None and (repaired := repair(plan, result.diagnostics)) is not None:
            result = await self._pool.run(compile_plan, repaired, apis, request.policy, request.credentials)
        if result.compiled is None or not request.evidence:
            return result
        found = Tried(request.evidence).findings(result.compiled.plan, same_words=backend != MODEL)
        return CompileResponse(diagnostics=found) if found else result


def _without_plan(draft: PlanDraft, backend: str, confidence: float) -> Word:
    """The word of a backend that has no plan: something failed, operations are missing, or nothing fits."""
    reason = draft.reason or "Nothing in the catalogue fits this request."
    outcome = "no_plan"
    if draft.fault is not None:
        reason, outcome = draft.fault.text, draft.fault.kind
    elif draft.needs:
        reason, outcome = f"It would take operations that were not found: {'; '.join(draft.needs)}.", "needs"
    response = PlanResponse(
        status="no_plan",
        confidence=confidence,
        backend=backend,
        reason=reason,
        needs=() if draft.fault else draft.needs,
    )
    return Word(response, outcome, draft.fault, draft.trace, sure=confidence)


def _planned(
    draft: PlanDraft, compiled: CompiledPlan, diagnostics: tuple[Diagnostic, ...], backend: str, rank: int
) -> Word:
    """The word of a backend whose plan is proved, the best of its draft or an alternative."""
    confidence = probability(draft.confidence)
    response = PlanResponse(
        status="planned",
        plan=compiled.plan,
        compiled=compiled,
        diagnostics=diagnostics,
        confidence=confidence if rank == 0 else min(confidence, 1 - confidence),
        backend=backend,
    )
    return Word(response, "planned", None, draft.trace, response.plan, confidence, rank)


def _asking(
    draft: PlanDraft, plan: Plan, result: CompileResponse, left_out: tuple[Question, ...], backend: str
) -> Word | None:
    """The word of a backend whose plan leaves something out, or lacks only what the user must supply; else None."""
    if left_out:
        questions, reason = left_out, LEFT_OUT
    elif _only_input_missing(result):
        questions, reason = _worded(result.questions, draft.missing), MISSING
    else:
        return None
    confidence = probability(draft.confidence)
    response = PlanResponse(
        status="needs_input",
        diagnostics=result.diagnostics,
        questions=questions,
        confidence=confidence,
        backend=backend,
        reason=reason,
    )
    return Word(response, "needs_input", None, draft.trace, plan, confidence)


def _refused(
    draft: PlanDraft, backend: str, outcome: str, diagnostics: tuple[Diagnostic, ...], why: Sequence[Diagnostic]
) -> Word:
    """The word of a backend whose plan is not let out, with the reason in its trace as well."""
    response = PlanResponse(status="no_plan", diagnostics=diagnostics, backend=backend, reason=_reason(why))
    trace = draft.trace
    if trace is not None and trace.attempts:
        last = trace.attempts[-1].model_copy(update={"problem": response.reason})
        trace = trace.model_copy(update={"attempts": (*trace.attempts[:-1], last)})
    return Word(response, outcome, trace=trace)


def probability(confidence: float) -> float:
    """Backends are not trusted to know what a probability is."""
    return 0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0)


def _apis(plan: Plan | None) -> frozenset[str]:
    return frozenset(step.api for step in plan.steps) if plan is not None else frozenset()


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
