"""A fake planner that returns scripted plans."""

import asyncio
from collections.abc import Iterable, Sequence

from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.api import Api
from services.contracts.operations import ModelServer, PlannerStatus
from services.contracts.plan import Plan, Step, dependencies
from services.contracts.planning import (
    CompiledPlan,
    CompileRequest,
    CompileResponse,
    Decision,
    Diagnostic,
    DiagnosticCode,
    PlannerBackends,
    PlanRequest,
    PlanResponse,
    Policy,
    Proof,
    ReadApisReport,
)
from services.contracts.sentence import Sentence, SentenceRequest
from services.contracts.trace import PlannerTrace
from services.errors import ValidationFailed
from tests.fakes.base import Fake

_BACKEND = "scripted"


class FakePlanner(Fake):
    """:class:`~services.clients.Planner` by script.

    For a query that has no entry there is no plan.

    Attributes:
        plans: the plan by query; :func:`prove` checks it.
        answers: whole responses or errors by query. They take precedence over ``plans``.
        needs: the missing operations by query, returned until the request says that a lookup was made.
        again: plans by query for requests with evidence of an earlier run, used in order before ``plans``.
        requests: the requests of ``plan``.
        known: the ids of the APIs that were read.
        sentences: the sentence for the answer, by query, or the error to raise.
        wording: the requests of ``sentence``.
        words_gate: if set, ``sentence`` waits for this event.
    """

    service = "planner_svc"

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[str, Plan] = {}
        self.answers: dict[str, PlanResponse | Exception] = {}
        self.needs: dict[str, tuple[str, ...]] = {}
        self.again: dict[str, list[Plan]] = {}
        self.requests: list[PlanRequest] = []
        self.known: list[str] = []
        self.sentences: dict[str, Sentence | Exception] = {}
        self.wording: list[SentenceRequest] = []
        self.words_gate: asyncio.Event | None = None
        self.servers: tuple[ModelServer, ...] = ()

    async def read(self, apis: Sequence[Api]) -> ReadApisReport:
        """Add the APIs' ids to ``known``."""
        await self._arrive("read")
        self.known += [api.id for api in apis]
        return ReadApisReport(read=len(apis))

    async def plan(self, request: PlanRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> PlanResponse:
        """The scripted answer, or the scripted plan if it can be proved."""
        await self._arrive("plan", timeout_s)
        self.requests.append(request)
        if request.backend not in (None, _BACKEND):
            raise ValidationFailed(f"there is no planner backend {request.backend!r}; there is {_BACKEND}")
        answer = self.answers.get(request.query)
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer
        needs = self.needs.get(request.query, ())
        if needs and not request.looked_up:
            trace = PlannerTrace(model="scripted", prompt_version="0")
            reason = f"The request needs operations that were not found: {'; '.join(needs)}."
            return PlanResponse(status="no_plan", backend=_BACKEND, reason=reason, needs=needs, trace=trace)
        again = self.again.get(request.query, []) if request.evidence else []
        plan = again.pop(0) if again else self.plans.get(request.query)
        if plan is None:
            return PlanResponse(
                status="no_plan", backend=_BACKEND, reason="Nothing in the catalogue fits this request."
            )
        proved = prove(plan, (one.api for one in request.candidates), request.policy, request.credentials)
        if proved.compiled is None:
            reason = proved.diagnostics[0].message
            return PlanResponse(
                status="no_plan", backend=_BACKEND, diagnostics=proved.diagnostics, reason=f"Not proved: {reason}."
            )
        return PlanResponse(
            status="planned",
            plan=plan,
            compiled=proved.compiled,
            confidence=1.0,
            backend=_BACKEND,
            sentences=bool(self.sentences),
        )

    async def sentence(self, request: SentenceRequest) -> Sentence:
        """The scripted sentence; for other queries the outcome is ``off``."""
        await self._arrive("sentence", request.deadline_ms / 1000)
        self.wording.append(request)
        if self.words_gate is not None:
            await self.words_gate.wait()
        found = self.sentences.get(request.query, Sentence(outcome="off"))
        if isinstance(found, Exception):
            raise found
        return found

    async def compile(self, request: CompileRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> CompileResponse:
        """Prove a given plan."""
        await self._arrive("compile", timeout_s)
        return prove(request.plan, request.apis, request.policy, request.credentials)

    async def backends(self) -> PlannerBackends:
        """The only backend."""
        await self._arrive("backends")
        return PlannerBackends(default=_BACKEND, available=(_BACKEND,))

    async def status(self) -> PlannerStatus:
        """The servers in ``servers``."""
        await self._arrive("status")
        return PlannerStatus(servers=self.servers)


def prove(
    plan: Plan, apis: Iterable[Api], policy: Policy | None = None, credentials: tuple[str, ...] | None = None
) -> CompileResponse:
    """Check names only: APIs and arguments exist, no required argument is missing, and there is an answer.

    It applies the policy. It does not check types. For credentials it looks only at an API's first alternative.
    """
    known = {api.id: api for api in apis}
    policy = policy or Policy()
    found = [finding for step in plan.steps for finding in _findings(step, known, policy)]
    if not plan.answer:
        message = "the plan does not say what answers the request"
        found.append(Diagnostic(code=DiagnosticCode.MISSING_ANSWER, message=message))
    if found:
        return CompileResponse(diagnostics=tuple(found))
    used = {step.api: known[step.api] for step in plan.steps}
    mutating = tuple(step.id for step in plan.steps if used[step.api].mutating)
    needs = [need.secret for api in used.values() for need in (api.security or ((),))[0]]
    proof = Proof(
        checks=sum(1 + len(step.arguments) for step in plan.steps),
        stages=_stages(plan),
        api_hashes={api.id: api.content_hash for api in used.values()},
        mutating=mutating,
        approvals=tuple(step.id for step in plan.steps if policy.decide(used[step.api]) is Decision.ASK),
        credentials=tuple(name for name in needs if credentials is None or name in credentials),
        missing=tuple(name for name in needs if credentials is not None and name not in credentials),
    )
    return CompileResponse(compiled=CompiledPlan(plan=plan, apis=used, proof=proof))


def _findings(step: Step, known: dict[str, Api], policy: Policy) -> Iterable[Diagnostic]:
    api = known.get(step.api)
    if api is None:
        yield Diagnostic(code=DiagnosticCode.UNKNOWN_API, step=step.id, message=f"there is no API {step.api!r}")
        return
    if policy.decide(api) is Decision.DENY:
        yield Diagnostic(code=DiagnosticCode.DENIED, step=step.id, message=f"{step.api} may not be called")
    for name in step.arguments:
        if api.parameter(name) is None:
            message = f"{step.api} takes no {name!r}"
            yield Diagnostic(code=DiagnosticCode.UNKNOWN_ARGUMENT, step=step.id, argument=name, message=message)
    for parameter in api.parameters:
        if parameter.required and parameter.name not in step.arguments:
            message = f"{step.api} needs {parameter.name!r}"
            yield Diagnostic(
                code=DiagnosticCode.MISSING_ARGUMENT, step=step.id, argument=parameter.name, message=message
            )


def _stages(plan: Plan) -> tuple[tuple[str, ...], ...]:
    depth: dict[str, int] = {}
    for step in plan.steps:
        depth[step.id] = 1 + max((depth.get(before, 0) for before in dependencies(step)), default=-1)
    return tuple(tuple(step for step, at in depth.items() if at == stage) for stage in range(1 + max(depth.values())))
