"""Decides whether a draft's plan is offered: it can be proved, leaves nothing out, and does what is asked."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from planner_svc.cascade import DEMONSTRATED, MODEL, BackendAnswer
from planner_svc.compile import compile_plan
from planner_svc.evidence import TriedCalls
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.proving.change_order import with_change_order
from planner_svc.proving.code_places import with_codes_in_place
from planner_svc.proving.contradictions import forbidden_change, forbidden_steps, without_forbidden
from planner_svc.proving.given_values import with_answers, with_refused
from planner_svc.proving.item_matches import with_matches
from planner_svc.proving.repair import repair
from planner_svc.proving.unused_values import questions_about
from planner_svc.proving.wrong_target import wrong_change_reason
from planner_svc.reading.single_change import keep_single_change
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

MISSING: Final = "A value is needed that is neither in the request nor in its context."
LEFT_OUT: Final = "The request has a value that the plan would not use."


class Prover:
    """Proves drafts and turns them into a backend's answer.

    Args:
        pool: Where proofs are computed, off the event loop.
    """

    def __init__(self, pool: ComputePool) -> None:
        self._pool = pool

    async def answer(self, draft: PlanDraft, request: PlanRequest, backend: str) -> BackendAnswer:
        """The plan if it compiles; else questions if only user input is missing; else a refusal.

        Raises:
            Overloaded: too much work is waiting.
        """
        confidence = probability(draft.confidence)
        plan = draft.plan
        if plan is None:
            return _answer_without_plan(draft, backend, confidence)
        apis = [candidate.api for candidate in request.candidates]
        result = await self._prove(plan, apis, request, backend)
        wrong, left_out = await self._objections(result, request, backend)
        if wrong:
            response = PlanResponse(status="no_plan", confidence=1 - confidence, backend=backend, reason=wrong)
            return BackendAnswer(response, "no_plan", trace=draft.trace, own_confidence=response.confidence)
        if denied := _denied_changes(plan, result, apis):
            refused = _refused_answer(draft, backend, "denied", result.diagnostics, denied)
            return dataclasses.replace(refused, plan=plan, own_confidence=confidence)
        if result.compiled is not None and not left_out:
            return _planned_answer(draft, result.compiled, result.diagnostics, backend)
        if (asking := _asking_answer(draft, plan, result, left_out, request, backend)) is not None:
            return asking
        return _refused_answer(draft, backend, "unproved", result.diagnostics, result.diagnostics)

    async def _objections(
        self, result: CompileResponse, request: PlanRequest, backend: str
    ) -> tuple[str, tuple[Question, ...]]:
        """Why a proved plan does not do what is asked, or empty; and what must be asked before it is offered.

        A demonstration's plan is not checked: its pattern matches every word of the request.
        """
        if result.compiled is None or backend == DEMONSTRATED:
            return "", ()
        plan, apis = result.compiled.plan, result.compiled.apis
        if never := await self._pool.run(forbidden_steps, request.query, plan, apis):
            return f"The request says “{next(iter(never.values()))}”, so nothing is done.", ()
        if wrong := await self._pool.run(wrong_change_reason, request.query, plan, apis):
            return wrong, ()
        proof = result.compiled.proof
        unasked = not set(proof.mutating) <= set(proof.approvals)  # otherwise a person is shown the words, and asked
        if unasked and (said := await self._pool.run(forbidden_change, request.query, plan, apis)):
            return f"The request also says “{said}”, and nobody would be asked before that is done.", ()
        return "", await self._pool.run(questions_about, request.query, request.context, plan, apis)

    async def _prove(self, plan: Plan, apis: Sequence[Api], request: PlanRequest, backend: str) -> CompileResponse:
        if backend != DEMONSTRATED and may_state(request.query):  # a demonstration's pattern matches every word
            if backend != MODEL:  # that reads what a value is stated for: "close what has status open"
                plan = await self._pool.run(with_stated, plan, request.query, {api.id: api for api in apis})
            plan = await self._pool.run(keep_single_change, plan, request.query, {api.id: api for api in apis})
        if backend not in (DEMONSTRATED, MODEL):
            plan = await self._pool.run(with_codes_in_place, plan, request.query, {api.id: api for api in apis})
        if backend != DEMONSTRATED:
            plan = await self._pool.run(without_forbidden, plan, request.query, {api.id: api for api in apis})
        if request.context.values:
            plan = await self._pool.run(
                with_answers, plan, request.query, request.context, {api.id: api for api in apis}
            )
        shown = backend == DEMONSTRATED and any(plan.id == one.demo.plan.id for one in request.demos)
        if request.choose_items and not shown:  # a demonstration's own plan already says which items it takes
            changing = {api.id for api in apis if api.mutating}
            changes = {step.id for step in plan.steps if step.api in changing}
            plan = await self._pool.run(with_matches, plan, request.query, request.context.values, changes=changes)
        if backend != DEMONSTRATED:  # the same request gives the same plan
            plan = await self._pool.run(with_change_order, plan, {api.id: api for api in apis})
        result = await self._pool.run(compile_plan, plan, apis, request.policy, request.credentials)
        if result.compiled is None and (repaired := await self._pool.run(repair, plan, result.diagnostics)) is not None:
            result = await self._pool.run(compile_plan, repaired, apis, request.policy, request.credentials)
        if result.compiled is None or not request.evidence:
            return result
        found = TriedCalls(request.evidence).findings(result.compiled.plan, same_words=backend != MODEL)
        return CompileResponse(diagnostics=found) if found else result


def _answer_without_plan(draft: PlanDraft, backend: str, confidence: float) -> BackendAnswer:
    """The answer of a backend without a plan: something failed, operations are missing, or nothing fits."""
    reason = draft.reason or "Nothing in the catalogue fits this request."
    outcome = "no_plan"
    if draft.fault is not None:
        reason, outcome = draft.fault.text, draft.fault.kind
    elif draft.needs:
        reason, outcome = f"The request needs operations that were not found: {'; '.join(draft.needs)}.", "needs"
    response = PlanResponse(
        status="no_plan",
        confidence=confidence,
        backend=backend,
        reason=reason,
        needs=() if draft.fault else draft.needs,
    )
    return BackendAnswer(response, outcome, draft.fault, draft.trace, own_confidence=confidence)


def _planned_answer(
    draft: PlanDraft, compiled: CompiledPlan, diagnostics: tuple[Diagnostic, ...], backend: str
) -> BackendAnswer:
    """The answer of a backend with a proved plan."""
    confidence = probability(draft.confidence)
    response = PlanResponse(
        status="planned",
        plan=compiled.plan,
        compiled=compiled,
        diagnostics=diagnostics,
        confidence=confidence,
        backend=backend,
    )
    return BackendAnswer(response, "planned", None, draft.trace, response.plan, confidence)


def _asking_answer(
    draft: PlanDraft,
    plan: Plan,
    result: CompileResponse,
    left_out: tuple[Question, ...],
    request: PlanRequest,
    backend: str,
) -> BackendAnswer | None:
    """The answer of a backend whose plan leaves something out, or lacks only user input; None for other plans."""
    if left_out:
        questions, reason = left_out, LEFT_OUT
    elif _only_input_missing(result):
        worded = _in_backend_words(result.questions, draft.missing)
        questions, reason = with_refused(worded, request.context), MISSING
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
    return BackendAnswer(response, "needs_input", None, draft.trace, plan, confidence)


def _refused_answer(
    draft: PlanDraft, backend: str, outcome: str, diagnostics: tuple[Diagnostic, ...], why: Sequence[Diagnostic]
) -> BackendAnswer:
    """The answer of a backend whose plan is refused. The trace gets the reason as well."""
    response = PlanResponse(status="no_plan", diagnostics=diagnostics, backend=backend, reason=_reason(why))
    trace = draft.trace
    if trace is not None and trace.attempts:
        last = trace.attempts[-1].model_copy(update={"problem": response.reason})
        trace = trace.model_copy(update={"attempts": (*trace.attempts[:-1], last)})
    return BackendAnswer(response, outcome, trace=trace)


def probability(confidence: float) -> float:
    """The confidence limited to 0 to 1; NaN becomes 0. Backends are not trusted to return a probability."""
    return 0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0)


def _errors(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]


def _denied_changes(plan: Plan, result: CompileResponse, apis: Sequence[Api]) -> list[Diagnostic]:
    """The diagnostics for denied calls that may change something."""
    mutating = {api.id for api in apis if api.mutating}
    changes = {step.id for step in plan.steps if step.api in mutating}
    return [d for d in result.diagnostics if d.code is DiagnosticCode.DENIED and d.step in changes]


def _only_input_missing(result: CompileResponse) -> bool:
    codes = {diagnostic.code for diagnostic in _errors(result.diagnostics)}
    return bool(result.questions) and codes == {DiagnosticCode.MISSING_ARGUMENT}


def _in_backend_words(questions: Sequence[Question], missing: Sequence[MissingValue]) -> tuple[Question, ...]:
    """The questions in the backend's words if there are any: unlike the compiler, it has read the request."""
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
