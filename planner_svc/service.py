"""The planner service: asks backends in order, chooses the final answer, and withholds plans of low confidence."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planner_svc.backends.base import PlannerBackend
from planner_svc.cascade import DEMONSTRATED, MODEL, BackendAnswer, CascadePolicy, TimeLeft
from planner_svc.compile import compile_plan
from planner_svc.judging.judge import Weigh
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.proving.assumed_times import assumed_midnight
from planner_svc.proving.contradictions import forbidden_change
from planner_svc.proving.item_matches import unordered
from planner_svc.proving.prover import Prover, probability
from planner_svc.proving.restrictions import restriction
from planner_svc.proving.unanswered import unanswered
from planner_svc.proving.unread import unread
from planner_svc.proving.unsaid_options import unsaid_option
from planner_svc.proving.untold import join_words, missing_from_plan, untold
from planner_svc.proving.unused_values import values_left_out
from planner_svc.reading.implied import with_implied
from planner_svc.reading.standard_codes import with_codes
from planner_svc.reading.stated import without_constants
from planner_svc.sentences.writer import SentenceWriter
from services.compute import ComputePool, for_tenant
from services.contracts.api import Api
from services.contracts.evidence import written, written_call
from services.contracts.operations import ModelServer, PlannerStatus
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
from services.errors import (
    LANGUAGE_MODEL,
    DeadlineExceeded,
    Overloaded,
    ServiceError,
    ServiceUnavailable,
    ValidationFailed,
)
from services.fair_slots import FairSlots
from services.signing import PlanSigner
from services.tracing import span

_STUCK_S: Final = 30.0
"""How long the pool may make no progress before the planner is not ready: far longer than one run of a network."""
_MAX_TOLD: Final = 3
"""Most calls that a plan's description in words lists."""


class PlannerService:
    """Plans requests with its backends, one after the other if needed, and proves their drafts.

    Args:
        backends: By name; must include the default one.
        default: The backend used if a request names none and there is no language model.
        pool: Where proofs are computed, off the event loop.
        backend_timeout_s: How long one backend may take.
        metrics: Counts answers by backend.
        turns: Limits how many requests are planned at once, and picks the next one; None: no limit.
        policy: Which backends are asked if a request names none.
        writer: Writes answers as sentences; None: no answer is.
        weigh: Estimate how likely a backend's answers are right, by backend. Without one its own confidence is used.
        signer: Signs proved plans; None: plans are not signed.
        servers: Return the known status of each language model's server.

    Raises:
        ValueError: the default backend, or the one to escalate to, is not among the backends.
    """

    def __init__(
        self,
        backends: Mapping[str, PlannerBackend],
        default: str,
        pool: ComputePool,
        *,
        backend_timeout_s: float,
        metrics: PlannerMetrics,
        turns: FairSlots | None = None,
        policy: CascadePolicy | None = None,
        writer: SentenceWriter | None = None,
        weigh: Mapping[str, Weigh] | None = None,
        signer: PlanSigner | None = None,
        servers: Sequence[Callable[[], ModelServer]] = (),
    ) -> None:
        self._policy = policy or CascadePolicy()
        named = {"default": default, "other": self._policy.escalate_to or default}
        for which, name in named.items():
            if name not in backends:
                raise ValueError(f"the {which} backend {name!r} is not among {', '.join(sorted(backends))}")
        self._backends = dict(backends)
        self._default = default
        self._pool = pool
        self._backend_timeout_s = backend_timeout_s
        self._prover = Prover(pool)
        self._metrics = metrics
        self._turns = turns or FairSlots()
        self._writer = writer
        self._weigh = dict(weigh or {})
        self._signer = signer
        self._servers = tuple(servers)

    def backends(self) -> PlannerBackends:
        """The available backends, and the order in which they are asked."""
        order = self._policy.order(self._default, self._backends)
        first = next(name for name in order if name != DEMONSTRATED or len(order) == 1)
        return PlannerBackends(default=first, available=tuple(sorted(self._backends)), cascade=order)

    def status(self) -> PlannerStatus:
        """What is known about the language models' servers; this does not contact them."""
        return PlannerStatus(servers=tuple(status() for status in self._servers))

    async def check_moving(self) -> None:
        """Check that the pool makes progress, for readiness. It takes no turn, so a long queue does not delay it.

        Raises:
            Overloaded: no computation has made progress for long.
        """
        if (stuck_s := self._pool.stuck_s) > _STUCK_S:
            raise Overloaded(f"no computation has begun, ended or gone on for {stuck_s:.0f} s")

    async def compile(self, request: CompileRequest) -> CompileResponse:
        """Prove a given plan.

        Raises:
            ValidationFailed: two different APIs of one id.
            Overloaded: too much work is waiting.
        """
        for_tenant.set(request.policy.tenant)
        answer = await self._pool.run(compile_plan, request.plan, request.apis, request.policy, request.credentials)
        return answer.model_copy(update={"compiled": await self._signed(answer.compiled, request.policy)})

    async def read(self, apis: Sequence[Api]) -> ReadApisReport:
        """Have the default backend read APIs before a request has them as candidates, each for its own tenant.

        An API that takes too long does not keep the others from being read.

        Raises:
            DeadlineExceeded: none was read, and one took too long.
            Overloaded: too much work is waiting.
        """
        read, error = 0, None
        for api in apis:
            before = for_tenant.set(next(iter(api.tenants), ""))
            try:
                read += await self._backends[self._default].read([api])
            except DeadlineExceeded as exceeded:
                error = exceeded
            finally:
                for_tenant.reset(before)  # a caller in this process continues with its own tenant
        if error is not None and not read:
            raise error
        return ReadApisReport(read=read)

    async def plan(self, request: PlanRequest) -> PlanResponse:
        """Plan a request: a proved plan, questions to the user, or the statement that nothing fits.

        Raises:
            ValidationFailed: an unknown backend, or two different candidates of one id.
            DeadlineExceeded: the backend took too long, and there is no other one.
            Overloaded: too many requests wait to be planned, or this one did not get its turn in time.
            ServiceError: any error of the last backend (see :class:`PlannerBackend`).
        """
        if request.backend is not None and request.backend not in self._backends:
            known = ", ".join(sorted(self._backends))
            raise ValidationFailed(f"there is no planner backend {request.backend!r}; there is {known}")
        order = (request.backend,) if request.backend else self._order(request)
        time_left = TimeLeft(request.deadline_ms, self._backend_timeout_s)
        for_tenant.set(request.policy.tenant)
        async with self._turns.slot(request.policy.tenant, time_left.share_s(last=True)):
            answer, asked, trace = await self._ask_in_order(order, request, time_left)
        request = answer.reworded or request
        missing, elsewhere = await self._find_missing(answer, request)
        response = answer.response.model_copy(update={"untold": missing})
        response = response if request.backend else self._withhold_if_unsure(answer, response)
        response = self._mark_if_unsure(response, elsewhere, await self._find_omissions(response, request))
        self._metrics.outcomes.labels(backend=response.backend, status=response.status).inc()
        self._metrics.needs.inc(bool(response.needs))
        worded = self._writer is not None and self._writer.is_wanted(None, request.backend)
        compiled = await self._signed(response.compiled, request.policy)
        return response.model_copy(update={"compiled": compiled, "asked": asked, "trace": trace, "sentences": worded})

    async def _signed(self, compiled: CompiledPlan | None, policy: Policy) -> CompiledPlan | None:
        """The plan, signed for the executor and for the tenant whose policy it was proved under."""
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
        """The backends to ask, in order, if the request names none."""
        order = self._policy.order(self._default, self._backends, request.cascade)
        return order if request.demos or len(order) == 1 else tuple(name for name in order if name != DEMONSTRATED)

    async def _ask_in_order(
        self, order: Sequence[str], request: PlanRequest, time_left: TimeLeft
    ) -> tuple[BackendAnswer, tuple[PlannerAsked, ...], PlannerTrace | None]:
        """Ask backends in order until an answer is final; return the best answer, the log and the trace."""
        best: BackendAnswer | None = None
        error: ServiceError | None = None
        asked: list[PlannerAsked] = []
        trace: PlannerTrace | None = None
        for position, name in enumerate(order):
            last = position == len(order) - 1
            answer, entry = await self._ask_backend(name, request, time_left.share_s(last=last))
            asked.append(entry)
            if isinstance(answer, ServiceError):
                error = answer
            else:
                trace = answer.trace or trace
                if name == DEMONSTRATED and answer.outcome != "planned" and not last:
                    continue  # no demonstration fits
                if answer.fault is not None and answer.fault.outage:
                    error = _outage(answer) if error is None else error
                elif answer.replaces(best):
                    best = answer
                if self._policy.is_final(answer):
                    break
            if not last:
                self._metrics.fallbacks.labels(name, entry.outcome).inc()
        if best is None:
            assert error is not None  # every backend failed
            raise error
        return best, tuple(_mark_final(one, best) for one in asked), trace

    async def _ask_backend(
        self, name: str, request: PlanRequest, limit_s: float
    ) -> tuple[BackendAnswer | ServiceError, PlannerAsked]:
        """A backend's answer or its error, and the entry for the run's trace."""
        started = time.perf_counter()
        try:
            with span(f"draft {name}", {"nestor.backend": name}) as current:
                answer = await self._draft_answer(name, request, limit_s)
                current.set_attribute("nestor.outcome", answer.outcome)
            weigh = self._weigh.get(name)
            if weigh is None or not answer.can_be_judged:
                return answer, _log_entry(answer, started)
            likely = probability(await self._pool.run(weigh, answer.reworded or request, answer))
        except (ServiceUnavailable, Overloaded, DeadlineExceeded) as failed:
            return failed, _failure_entry(name, failed, started)
        self._metrics.judged.observe(likely)
        entry = _log_entry(answer, started).model_copy(update={"judged": round(likely, 4)})
        response = answer.response.model_copy(update={"confidence": likely})
        return dataclasses.replace(answer, response=response, judged=True), entry

    async def _request_for(self, name: str, request: PlanRequest) -> PlanRequest:
        """The request for one backend, without phrases about arguments that the backend cannot fill.

        The demonstrated backend matches every word, and a language model is shown all arguments: both get the full
        request.
        """
        if name in (DEMONSTRATED, MODEL):
            return request
        query = await self._pool.run(without_constants, request.query, [one.api for one in request.candidates])
        if query == request.query:
            return request
        clauses = tuple(one.model_copy(update={"text": query[one.start : one.end]}) for one in request.clauses)
        return request.model_copy(update={"query": query, "clauses": clauses})

    async def _draft_answer(self, name: str, request: PlanRequest, limit_s: float) -> BackendAnswer:
        """A backend's answer. A draft that cannot be proved is revised, if the backend can, until it is proved."""
        backend = self._backends[name]
        request = request.model_copy(update={"deadline_ms": max(int(limit_s * 1000), 1)})
        try:
            async with asyncio.timeout(limit_s):
                draft = await backend.plan(await self._request_for(name, request))
                answer = await self._prover.answer(draft, request, name)
                while answer.outcome in ("unproved", "garbage") and draft.revise is not None:
                    draft = await draft.revise(answer.response.diagnostics)
                    answer = await self._prover.answer(draft, request, name)
                return await self._with_known(name, request, draft, answer)
        except TimeoutError as error:
            if limit_s < self._backend_timeout_s:  # the caller's deadline; clients report it in these words
                detail = f"planner_svc did not answer within {limit_s:g} s."
                raise DeadlineExceeded(detail, service="planner_svc") from error
            raise DeadlineExceeded(f"the planner backend {name!r} gave no draft within {limit_s:g} s") from error

    async def _with_known(
        self, name: str, request: PlanRequest, draft: PlanDraft, answer: BackendAnswer
    ) -> BackendAnswer:
        """The answer without questions that the request or its clock answers: EUR is the code of "euros".

        A backend that copies values out of the request knows no codes. It is asked again, with codes in place of names.
        """
        questions, found = answer.response.questions, answer
        if answer.outcome != "needs_input" or name == MODEL:
            return answer
        coded = await self._pool.run(with_codes, request, questions)
        if coded is not request:
            draft = await self._backends[name].plan(await self._request_for(name, coded))
            found = await self._prover.answer(draft, coded, name)
        implied = coded
        if found.outcome == "needs_input" and found.plan is not None:
            implied = await self._pool.run(with_implied, coded, found.response.questions, found.plan)
        if implied is not coded:
            found = await self._prover.answer(draft, implied, name)
        better = found.outcome in ("planned", "needs_input") and len(found.response.questions) < len(questions)
        return dataclasses.replace(found, reworded=implied) if better else answer

    async def _find_missing(self, answer: BackendAnswer, request: PlanRequest) -> tuple[str, tuple[str, ...]]:
        """What is asked for and no API returns, as a sentence; and names that only APIs outside the plan may return.

        Nothing for a plan from a demonstration: that plan has answered the same or a like request.
        """
        compiled = answer.response.compiled
        if compiled is None or answer.response.backend == DEMONSTRATED:
            return "", ()
        asked = (request.query, compiled.plan, compiled.apis)
        candidates = [candidate.api for candidate in request.candidates]
        try:
            names = await self._pool.run(missing_from_plan, *asked)
            missing = await self._pool.run(untold, *asked, candidates) if names else ""
        except (Overloaded, DeadlineExceeded):
            return "", ()  # optional: the plan is valid without it
        self._metrics.untold.inc(bool(missing))
        return missing, () if missing else names

    async def _find_omissions(self, response: PlanResponse, request: PlanRequest) -> str:
        """What the plan leaves out of the request, in a sentence; empty for a demonstration's plan.

        These are stated values that an argument could take, what the request orders a list by, that it also says not to
        make a change, words that restrict one, a time of day or an option that nobody said, days that do not exist, and
        a further question.
        """
        if response.compiled is None or response.backend == DEMONSTRATED:
            return ""
        plan, apis = response.compiled.plan, response.compiled.apis
        try:
            forbidden = await self._pool.run(forbidden_change, request.query, plan, apis)
            if forbidden:
                return f"the request also says “{forbidden}”"
            restricted = await self._pool.run(restriction, request.query, plan, apis)
            if restricted:
                return f"I cannot tell whether it keeps to “{restricted}”"
            day = await self._pool.run(assumed_midnight, request.query, plan, apis)
            if day:
                return f"nothing says at what time of {day} it should be, and 00:00 would be sent"
            option = await self._pool.run(unsaid_option, request.query, plan, apis, request.context.values)
            if option and response.backend != MODEL:  # which knows more words for an option
                return f"nothing says “{option}”, which would be sent"
            lost = await self._pool.run(unread, request.query, plan, apis)
            if lost:
                return lost
            left = await self._pool.run(values_left_out, request.query, request.context, plan, apis)
            if left:
                return f"it does not use {join_words([f'“{text}”' for text in left], 'or')}"
            further = await self._pool.run(unanswered, request.query, plan, apis)
            if further:
                return f"it may not answer “{further}”"
            extreme = await self._pool.run(unordered, plan, request.query, apis)
        except (Overloaded, DeadlineExceeded):  # a read is valid without it; an unsure change waits
            changes = any(apis[step.api].mutating for step in plan.steps)
            return "there was no time to look for what it leaves out" if changes else ""
        return f"it takes the first item, and nothing says that this is the “{extreme}” one" if extreme else ""

    def _withhold_if_unsure(self, answer: BackendAnswer, response: PlanResponse) -> PlanResponse:
        """The response. A plan of too low confidence is withheld and described, so that the user can insist on it."""
        if response.status != "planned" or response.confidence >= self._policy.min_confidence(response):
            return response
        assert answer.plan is not None  # a proved plan has one
        self._metrics.abstained.labels(response.backend).inc()
        reason = (
            "I am not sure what you mean. The closest plan is right with a probability of only "
            f"{response.confidence:.0%}: {_briefly(answer.plan)}. Describe in more detail what you want. To get this "
            f"plan anyway, ask again with the option backend={response.backend}."
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

    def _mark_if_unsure(self, response: PlanResponse, elsewhere: Sequence[str], omission: str) -> PlanResponse:
        """The response. A plan that is probably wrong, or does not do all that is asked for, is marked as unsure.

        Args:
            response: the response to mark.
            elsewhere: what is asked for and the plan's calls do not return.
            omission: what else the plan leaves out, in a sentence.
        """
        if response.compiled is None or not self._policy.unsure_below:
            return response
        unlikely = response.confidence < self._policy.unsure_below
        percent = int(round(100 * response.confidence, 6))  # rounded up, it would be the limit that it is below
        doubts = [f"I am only {percent}% sure of this" if unlikely else "I am not sure of this"]
        if elsewhere:
            doubts.append(f"what is called does not tell {join_words([f'“{name}”' for name in elsewhere], 'or')}")
        if omission:
            doubts.append(omission)
        if not unlikely and len(doubts) == 1:
            return response
        self._metrics.unsure.labels(response.backend).inc()
        unsure = f"{', '.join(doubts)}: {_briefly(response.compiled.plan)}."
        return response.model_copy(update={"unsure": unsure})


def _log_entry(answer: BackendAnswer, started: float) -> PlannerAsked:
    response = answer.response
    return PlannerAsked(
        backend=response.backend,
        outcome=answer.outcome,
        stood=False,
        confidence=response.confidence,
        detail=response.reason,
        ms=_since(started),
    )


def _failure_entry(name: str, error: ServiceError, started: float) -> PlannerAsked:
    kinds = {Overloaded: "busy", DeadlineExceeded: "late"}
    return PlannerAsked(
        backend=name, outcome=kinds.get(type(error), "down"), stood=False, detail=error.detail, ms=_since(started)
    )


def _mark_final(entry: PlannerAsked, best: BackendAnswer) -> PlannerAsked:
    mine = entry.backend == best.response.backend
    return entry.model_copy(update={"stood": True}) if mine else entry


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def _outage(answer: BackendAnswer) -> ServiceError:
    """The error of a request for which only a language model was asked, which is unavailable."""
    assert answer.fault is not None
    kind, text = answer.fault.kind, answer.fault.text
    if kind == "busy":
        return Overloaded(text, service=LANGUAGE_MODEL)
    return DeadlineExceeded(text) if kind == "late" else ServiceUnavailable(text, service=LANGUAGE_MODEL)


def _briefly(plan: Plan) -> str:
    """A plan's calls on one line, for a person. Step names are shown if there are several calls."""
    calls = []
    for step in plan.steps:
        call = written_call(step.api, {name: written(value) for name, value in step.arguments.items()})
        calls.append(f"{step.id} {call}" if len(plan.steps) > 1 else call)
    more = f" and {len(calls) - _MAX_TOLD} more" if len(calls) > _MAX_TOLD else ""
    return ", then ".join(calls[:_MAX_TOLD]) + more
