"""The rules of planning: draft, prove, repair, and never let a plan out that does not compile."""

import asyncio
import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner_svc.backends.base import PlannerBackend
from planner_svc.cascade import DEMONSTRATED, JUDGED, MODEL, PAIR, CascadePolicy, TimeLeft, Word
from planner_svc.choosing import with_matches
from planner_svc.compile import compile_plan
from planner_svc.evidence import Tried
from planner_svc.judge import QUESTION, Heard, Weigh, WordJudge
from planner_svc.leftovers import questions_about, with_answers
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.near_misses import other_than_asked
from planner_svc.repair import repair
from planner_svc.sentences.writer import SentenceWriter
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.evidence import written_call, written_calls
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
from services.contracts.sentence import Sentence, SentenceRequest
from services.contracts.trace import PlannerAsked, PlannerTrace
from services.errors import DeadlineExceeded, Overloaded, ServiceError, ServiceUnavailable, ValidationFailed

_MAX_TOLD: Final = 3
"""Calls of a plan that is told of in words."""
MISSING: Final = "Something is needed that neither the request nor its context says."
LEFT_OUT: Final = "The request says something that would not be used."


@dataclass(frozen=True, slots=True)
class _Asking:
    """A plan that is not offered, what is asked in its place, and why."""

    plan: Plan
    questions: tuple[Question, ...]
    diagnostics: tuple[Diagnostic, ...]
    reason: str


class PlannerService:
    """Plans requests with its backends, one after the other where it must, and proves what they draft.

    Args:
        backends: By name; the default one among them. Where ``PAIR`` is among them, ``judged`` is a backend as well.
        default: The backend used where a request names none and no language model is there.
        pool: Where proofs are computed, off the event loop.
        backend_timeout_s: How long one backend may take.
        max_alternatives: Further drafts that are tried where the best does not compile.
        metrics: Counts answers and who gave them.
        policy: Who is asked, where a request names no backend.
        writer: Words answers; None: nobody does.
        weigh: The judge of the pair's words; None: each is as likely right as its planner says.

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
        metrics: PlannerMetrics,
        policy: CascadePolicy | None = None,
        writer: SentenceWriter | None = None,
        weigh: Weigh | None = None,
    ) -> None:
        self._policy = policy or CascadePolicy()
        self._available = frozenset(backends) | ({JUDGED} if backends.keys() >= set(PAIR) else frozenset())
        named = {"default": default, "other": self._policy.escalate_to or default}
        for which, name in named.items():
            if name not in self._available:
                raise ValueError(f"the {which} backend {name!r} is not among {', '.join(sorted(self._available))}")
        self._backends = dict(backends)
        self._default = default
        self._pool = pool
        self._backend_timeout_s = backend_timeout_s
        self._max_alternatives = max_alternatives
        self._metrics = metrics
        self._writer = writer
        self._weigh = weigh or WordJudge({}).weigh

    def backends(self) -> PlannerBackends:
        """The backends there are, and the order in which they are asked."""
        order = self._policy.order(self._default, self._available)
        first = next(name for name in order if name != DEMONSTRATED or len(order) == 1)
        return PlannerBackends(default=first, available=tuple(sorted(self._available)), cascade=order)

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
        names = PAIR if self._default == JUDGED else (self._default,)
        return ReadApisReport(read=max([await self._backends[name].read(apis) for name in names]))

    async def plan(self, request: PlanRequest) -> PlanResponse:
        """Plan a request: a proved plan, questions to the user, or the statement that nothing fits.

        Raises:
            ValidationFailed: an unknown backend, or two different candidates of one id.
            DeadlineExceeded: the backend took too long, and there is no other.
            ServiceError: whatever the last backend raises (see :class:`PlannerBackend`).
        """
        if request.backend is not None and request.backend not in self._available:
            known = ", ".join(sorted(self._available))
            raise ValidationFailed(f"there is no planner backend {request.backend!r}; there is {known}")
        order = (request.backend,) if request.backend else self._order(request)
        word, asked, trace = await self._asked(order, request)
        response = word.response if request.backend else self._abstained(word)
        self._metrics.outcomes.labels(backend=response.backend, status=response.status).inc()
        self._metrics.needs.inc(bool(response.needs))
        worded = self._writer is not None and self._writer.is_wanted(None, request.backend)
        return response.model_copy(update={"asked": asked, "trace": trace, "sentences": worded})

    async def sentence(self, request: SentenceRequest) -> Sentence:
        """Words for a plan's answer, with slots for its values; or why there are none.

        Raises:
            Overloaded: too much work is waiting.
        """
        return Sentence(outcome="off") if self._writer is None else await self._writer.write(request)

    def _order(self, request: PlanRequest) -> tuple[str, ...]:
        """Who is asked, in order, where the request names nobody."""
        order = self._policy.order(self._default, self._available, request.cascade)
        return order if request.demos or len(order) == 1 else tuple(name for name in order if name != DEMONSTRATED)

    async def _asked(
        self, order: Sequence[str], request: PlanRequest
    ) -> tuple[Word, tuple[PlannerAsked, ...], PlannerTrace | None]:
        """Ask one after the other until somebody's word stands; the best word there is, and how that went."""
        time_left = TimeLeft(request.deadline_ms, self._backend_timeout_s)
        best: Word | None = None
        error: ServiceError | None = None
        asked: list[PlannerAsked] = []
        trace: PlannerTrace | None = None
        for position, name in enumerate(order):
            last = position == len(order) - 1
            heard = await self._heard(name, request, time_left.share_s(last=last))
            asked += heard.asked
            word = heard.word
            if word is None:
                error = heard.error
            else:
                trace = word.trace or trace
                if name == DEMONSTRATED and word.outcome != "planned" and not last:
                    continue  # it has nothing to say
                if word.fault is not None and word.fault.outage:
                    error = _outage(word) if error is None else error
                elif word.replaces(best):
                    best = word
                if self._policy.stands(word):
                    break
            if not last:
                self._metrics.fallbacks.labels(name, asked[-1].outcome if word is None else word.outcome).inc()
        if best is None:
            assert error is not None  # everybody failed
            raise error
        return best, tuple(_stood(one, best) for one in asked), trace

    async def _heard(self, name: str, request: PlanRequest, limit_s: float) -> Heard:
        """What a backend says, or how it failed."""
        if name == JUDGED:
            return await self._judged(request, limit_s)
        started = time.perf_counter()
        try:
            word = await self._word(name, request, limit_s)
        except (ServiceUnavailable, Overloaded, DeadlineExceeded) as failed:
            return Heard((_failed(name, failed, started),), error=failed)
        return Heard((_told(word, started),), word)

    async def _judged(self, request: PlanRequest, limit_s: float) -> Heard:
        """The likelier one of the pair's words, as likely right as the judge holds it; questions count for less."""
        pair = await asyncio.gather(*(self._heard(name, request, limit_s) for name in PAIR))
        asked = tuple(one for heard in pair for one in heard.asked)
        try:
            weighed = await self._pool.run(self._weigh, request, [heard.word for heard in pair])
        except Overloaded as failed:
            return Heard(asked, error=failed)
        sure = [_probability(likely) for likely in weighed]
        asked = tuple(
            one if heard.word is None else one.model_copy(update={"judged": round(likely, 4)})
            for one, heard, likely in zip(asked, pair, sure, strict=True)
        )
        likely, word = max(
            ((likely, heard.word) for heard, likely in zip(pair, sure, strict=True) if heard.word is not None),
            key=lambda one: one[0] * (QUESTION if one[1].outcome == "needs_input" else 1.0),
            default=(0.0, None),
        )
        if word is None:
            return Heard(asked, error=next(heard.error for heard in pair))
        self._metrics.judged.labels(word.response.backend).observe(likely)
        response = word.response.model_copy(update={"confidence": likely})
        return Heard(asked, dataclasses.replace(word, response=response))

    async def _word(self, name: str, request: PlanRequest, limit_s: float) -> Word:
        """What a backend says, after it was shown what is wrong with its draft where it can make a better one."""
        backend = self._backends[name]
        request = request.model_copy(update={"deadline_ms": max(int(limit_s * 1000), 1)})
        try:
            async with asyncio.timeout(limit_s):
                draft = await backend.plan(request)
                word = await self._choose(draft, request, name)
                while word.outcome in ("unproved", "garbage") and draft.revise is not None:
                    draft = await draft.revise(word.response.diagnostics)
                    word = await self._choose(draft, request, name)
                return word
        except TimeoutError as error:
            if limit_s < self._backend_timeout_s:  # it is the caller's deadline, which clients report in these words
                detail = f"planner_svc did not answer within {limit_s:g} s."
                raise DeadlineExceeded(detail, service="planner_svc") from error
            raise DeadlineExceeded(f"the planner backend {name!r} gave no draft within {limit_s:g} s") from error

    def _abstained(self, word: Word) -> PlanResponse:
        """The answer; a plan that is not likely enough is told of instead, so that its user may insist on it."""
        response = word.response
        if response.status != "planned" or response.confidence >= self._policy.enough(response):
            return response
        assert word.plan is not None  # it is proved
        self._metrics.abstained.labels(response.backend).inc()
        reason = (
            f"I am not sure what is meant. The closest plan is right with a probability of {response.confidence:.0%} "
            f"only: {_briefly(word.plan)}. Say more of what is wanted, or name the planner that made it "
            f"({response.backend}) as the backend, to have it as it is."
        )
        return PlanResponse(
            status="no_plan", confidence=1 - response.confidence, backend=response.backend, reason=reason
        )

    async def _choose(self, draft: PlanDraft, request: PlanRequest, backend: str) -> Word:
        """The first draft that compiles; else the first whose only fault is what the user must supply; else nothing.

        A draft that lacks user input, or leaves out what the request says, only gives way to an alternative that calls
        all of its APIs: one that calls others compiles more easily, and answers another question. The best draft gives
        way to none where it is denied a call that changes something: what else there is changes something else, or
        nothing.
        """
        confidence = _probability(draft.confidence)
        if draft.plan is None:
            return _without_plan(draft, backend, confidence)
        apis = [candidate.api for candidate in request.candidates]
        first: CompileResponse | None = None
        asking: _Asking | None = None
        locked: Word | None = None
        for rank in range(1 + self._max_alternatives):
            plan = draft.plan if rank == 0 else await self._alternative(draft, rank - 1)
            if plan is None:
                break
            result = await self._prove(plan, apis, request, backend)
            left_out = await self._left_out(result, request, backend)
            first = first or result
            if wrong := await self._other_than_asked(result, request, backend):
                response = PlanResponse(status="no_plan", confidence=1 - confidence, backend=backend, reason=wrong)
                return Word(response, "no_plan", trace=draft.trace)
            if rank == 0 and (denied := _denied_changes(plan, result, apis)):
                refused = _refused(draft, backend, "denied", result.diagnostics, denied)
                return dataclasses.replace(refused, plan=plan, sure=confidence)
            if result.compiled is not None and not left_out and (asking is None or _apis(plan) >= _apis(asking.plan)):
                response = PlanResponse(
                    status="planned",
                    plan=result.compiled.plan,
                    compiled=result.compiled,
                    diagnostics=result.diagnostics,
                    confidence=confidence if rank == 0 else min(confidence, 1 - confidence),
                    backend=backend,
                )
                word = Word(response, "planned", None, draft.trace, response.plan, confidence, rank)
                if not result.compiled.proof.missing:
                    return word
                locked = locked or (word if asking is None else None)  # an alternative that can be run is better
            elif asking is None and locked is None and left_out:
                asking = _Asking(plan, left_out, result.diagnostics, LEFT_OUT)
            elif asking is None and locked is None and _only_input_missing(result):
                asking = _Asking(plan, _worded(result.questions, draft.missing), result.diagnostics, MISSING)
        if locked is not None:
            return locked
        if asking is not None:
            response = PlanResponse(
                status="needs_input",
                diagnostics=asking.diagnostics,
                questions=asking.questions,
                confidence=confidence,
                backend=backend,
                reason=asking.reason,
            )
            return Word(response, "needs_input", None, draft.trace, asking.plan, confidence)
        diagnostics = first.diagnostics if first is not None else ()
        return _refused(draft, backend, "unproved", diagnostics, diagnostics)

    async def _alternative(self, draft: PlanDraft, index: int) -> Plan | None:
        """The draft's alternative at that place, if it has so many. Making them is work for the pool."""
        others = await self._pool.run(tuple, draft.alternatives)
        return others[index] if index < len(others) else None

    async def _left_out(self, result: CompileResponse, request: PlanRequest, backend: str) -> tuple[Question, ...]:
        """What must be asked before a proved plan is offered. A demonstration's pattern has a place for every word."""
        if result.compiled is None or backend == DEMONSTRATED:
            return ()
        plan, known = result.compiled.plan, result.compiled.apis
        return await self._pool.run(questions_about, request.query, request.context, plan, known)

    async def _other_than_asked(self, result: CompileResponse, request: PlanRequest, backend: str) -> str:
        """Why a proved plan does something else than the request tells; empty where it does not."""
        if result.compiled is None or backend == DEMONSTRATED:
            return ""
        compiled = result.compiled
        return await self._pool.run(other_than_asked, request.query, compiled.plan, compiled.apis)

    async def _prove(self, plan: Plan, apis: Sequence[Api], request: PlanRequest, backend: str) -> CompileResponse:
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


def _told(word: Word, started: float) -> PlannerAsked:
    response = word.response
    return PlannerAsked(
        backend=response.backend,
        outcome=word.outcome,
        stood=False,
        confidence=response.confidence,
        detail=response.reason,
        ms=_since(started),
    )


def _failed(name: str, error: ServiceError, started: float) -> PlannerAsked:
    kinds = {Overloaded: "busy", DeadlineExceeded: "late"}
    return PlannerAsked(
        backend=name, outcome=kinds.get(type(error), "down"), stood=False, detail=error.detail, ms=_since(started)
    )


def _stood(asked: PlannerAsked, best: Word) -> PlannerAsked:
    mine = asked.backend == best.response.backend
    return asked.model_copy(update={"stood": True}) if mine else asked


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def _outage(word: Word) -> ServiceError:
    """The problem of a request that nobody but a language model was asked, which cannot answer now."""
    assert word.fault is not None
    kind, text = word.fault.kind, word.fault.text
    if kind == "busy":
        return Overloaded(text)
    return DeadlineExceeded(text) if kind == "late" else ServiceUnavailable(text, service="the language model")


def _probability(confidence: float) -> float:
    """Backends are not trusted to know what a probability is."""
    return 0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0)


def _apis(plan: Plan) -> frozenset[str]:
    return frozenset(step.api for step in plan.steps)


def _briefly(plan: Plan) -> str:
    """A plan's calls on a line, for a person."""
    arguments = written_calls(plan)
    calls = [written_call(step.api, arguments[step.id]) for step in plan.steps]
    more = f" and {len(calls) - _MAX_TOLD} more" if len(calls) > _MAX_TOLD else ""
    return ", then ".join(calls[:_MAX_TOLD]) + more


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
