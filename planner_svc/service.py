"""The rules of planning: who is asked, whose word stands, and what is too unlikely to be answered with."""

import asyncio
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Final

from planner_svc.backends.base import PlannerBackend
from planner_svc.cascade import DEMONSTRATED, JUDGED, PAIR, CascadePolicy, TimeLeft, Word
from planner_svc.compile import compile_plan
from planner_svc.judging.judge import QUESTION, Heard, Weigh, WordJudge
from planner_svc.metrics import PlannerMetrics
from planner_svc.proving.prover import Prover, probability
from planner_svc.proving.untold import untold
from planner_svc.sentences.writer import SentenceWriter
from services.compute import ComputePool, for_tenant
from services.contracts.api import Api
from services.contracts.evidence import written, written_call
from services.contracts.plan import Plan
from services.contracts.planning import (
    CompiledPlan,
    CompileRequest,
    CompileResponse,
    PlannerBackends,
    PlanRequest,
    PlanResponse,
    Policy,
    ReadApisReport,
)
from services.contracts.sentence import Sentence, SentenceRequest
from services.contracts.trace import PlannerAsked, PlannerTrace
from services.errors import DeadlineExceeded, Overloaded, ServiceError, ServiceUnavailable, ValidationFailed
from services.signing import PlanSigner
from services.tracing import span
from services.turns import Turns

_NO_LIMIT: Final = 1_000_000
_MAX_TOLD: Final = 3
"""Calls of a plan that is told of in words."""


class PlannerService:
    """Plans requests with its backends, one after the other where it must, and proves what they draft.

    Args:
        backends: By name; the default one among them. Where ``PAIR`` is among them, ``judged`` is a backend as well.
        default: The backend used where a request names none and no language model is there.
        pool: Where proofs are computed, off the event loop.
        backend_timeout_s: How long one backend may take.
        max_alternatives: Further drafts that are tried where the best does not compile.
        metrics: Counts answers and who gave them.
        turns: How many requests are worked on at once, and whose is next; None: all.
        policy: Who is asked, where a request names no backend.
        writer: Words answers; None: nobody does.
        weigh: The judge of the pair's words; None: each is as likely right as its planner says.
        signer: Signs what was proved; None: nobody does.

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
        turns: Turns | None = None,
        policy: CascadePolicy | None = None,
        writer: SentenceWriter | None = None,
        weigh: Weigh | None = None,
        signer: PlanSigner | None = None,
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
        self._prover = Prover(pool, max_alternatives)
        self._metrics = metrics
        self._turns = turns or Turns(_NO_LIMIT, 0)
        self._writer = writer
        self._weigh = weigh or WordJudge({}).weigh
        self._signer = signer

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
        for_tenant.set(request.policy.tenant)
        answer = await self._pool.run(compile_plan, request.plan, request.apis, request.policy, request.credentials)
        return answer.model_copy(update={"compiled": await self._signed(answer.compiled, request.policy)})

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
            Overloaded: too many requests wait to be planned, or this one did not get its turn in time.
            ServiceError: whatever the last backend raises (see :class:`PlannerBackend`).
        """
        if request.backend is not None and request.backend not in self._available:
            known = ", ".join(sorted(self._available))
            raise ValidationFailed(f"there is no planner backend {request.backend!r}; there is {known}")
        order = (request.backend,) if request.backend else self._order(request)
        time_left = TimeLeft(request.deadline_ms, self._backend_timeout_s)
        for_tenant.set(request.policy.tenant)
        async with self._turns.slot(request.policy.tenant, time_left.share_s(last=True)):
            word, asked, trace = await self._asked(order, request, time_left)
        missing = await self._untold(word, request)
        response = word.response.model_copy(update={"untold": missing})
        response = self._cautioned(response if request.backend else self._abstained(word, response))
        self._metrics.outcomes.labels(backend=response.backend, status=response.status).inc()
        self._metrics.needs.inc(bool(response.needs))
        worded = self._writer is not None and self._writer.is_wanted(None, request.backend)
        compiled = await self._signed(response.compiled, request.policy)
        return response.model_copy(update={"compiled": compiled, "asked": asked, "trace": trace, "sentences": worded})

    async def _signed(self, compiled: CompiledPlan | None, policy: Policy) -> CompiledPlan | None:
        """The plan as the executor takes it, for the tenant whose policy it was proved under."""
        if compiled is None or self._signer is None:
            return compiled
        return await self._pool.run(self._signer.signed, compiled, policy.tenant)

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
        self, order: Sequence[str], request: PlanRequest, time_left: TimeLeft
    ) -> tuple[Word, tuple[PlannerAsked, ...], PlannerTrace | None]:
        """Ask one after the other until somebody's word stands; the best word there is, and how that went."""
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
            with span(f"draft {name}", {"nestor.backend": name}) as current:
                word = await self._word(name, request, limit_s)
                current.set_attribute("nestor.outcome", word.outcome)
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
        sure = [probability(likely) for likely in weighed]
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
                word = await self._prover.word(draft, request, name)
                while word.outcome in ("unproved", "garbage") and draft.revise is not None:
                    draft = await draft.revise(word.response.diagnostics)
                    word = await self._prover.word(draft, request, name)
                return word
        except TimeoutError as error:
            if limit_s < self._backend_timeout_s:  # it is the caller's deadline, which clients report in these words
                detail = f"planner_svc did not answer within {limit_s:g} s."
                raise DeadlineExceeded(detail, service="planner_svc") from error
            raise DeadlineExceeded(f"the planner backend {name!r} gave no draft within {limit_s:g} s") from error

    async def _untold(self, word: Word, request: PlanRequest) -> str:
        """What is asked for and no API tells; of a demonstration's plan nothing: it was an answer before."""
        compiled = word.response.compiled
        if compiled is None or word.response.backend == DEMONSTRATED:
            return ""
        candidates = [candidate.api for candidate in request.candidates]
        try:
            missing = await self._pool.run(untold, request.query, compiled.plan, compiled.apis, candidates)
        except Overloaded:
            return ""  # the plan is no worse for it
        self._metrics.untold.inc(bool(missing))
        return missing

    def _abstained(self, word: Word, response: PlanResponse) -> PlanResponse:
        """The answer; a plan that is not likely enough is told of instead, so that its user may insist on it."""
        if response.status != "planned" or response.confidence >= self._policy.enough(response):
            return response
        assert word.plan is not None  # it is proved
        self._metrics.abstained.labels(response.backend).inc()
        reason = (
            f"I am not sure what is meant. The closest plan is right with a probability of {response.confidence:.0%} "
            f"only: {_briefly(word.plan)}. Say more of what is wanted, or name the planner that made it "
            f"({response.backend}) as the backend, to have it as it is."
        )
        if response.untold:
            reason = f"{response.untold} {reason}"
        return PlanResponse(
            status="no_plan",
            confidence=1 - response.confidence,
            backend=response.backend,
            reason=reason,
            untold=response.untold,
        )

    def _cautioned(self, response: PlanResponse) -> PlanResponse:
        """The answer; a plan that is more likely wrong than right says so, and what it calls."""
        if response.compiled is None or response.confidence >= self._policy.unsure_below:
            return response
        self._metrics.unsure.labels(response.backend).inc()
        unsure = (
            f"I am not sure of this, it is right with a probability of {response.confidence:.0%} only: "
            f"{_briefly(response.compiled.plan)}."
        )
        return response.model_copy(update={"unsure": unsure})


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


def _briefly(plan: Plan) -> str:
    """A plan's calls on a line, for a person; several have their steps' names, by which later ones refer to them."""
    calls = []
    for step in plan.steps:
        call = written_call(step.api, {name: written(value, {}) for name, value in step.arguments.items()})
        calls.append(f"{step.id} {call}" if len(plan.steps) > 1 else call)
    more = f" and {len(calls) - _MAX_TOLD} more" if len(calls) > _MAX_TOLD else ""
    return ", then ".join(calls[:_MAX_TOLD]) + more
