"""The compiler: proves a plan before anything is sent, or says why the plan cannot be proved.

The compiler is a pure function of plan, APIs, policy and the names of configured credentials. It fetches nothing and
calls nothing.
It proves what plan.md requires of a plan: every API and argument exists, literals satisfy their JSON Schema, every
reference leads to a field of a fitting type, the order can be executed and the policy allows the calls. Missing
credentials are listed, not refused: the plan can run once they are configured.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from planner_svc.compiler.access import Access, check_access
from planner_svc.compiler.arguments import ArgumentChecker
from planner_svc.compiler.findings import Findings
from planner_svc.compiler.graph import Graph, check_graph
from planner_svc.compiler.implicit import Completer, find_missing, questions_inside, report_missing
from planner_svc.compiler.schemas import Schemas
from services.contracts.api import OUTSIDE_CONTENT, Api
from services.contracts.base import EVERY
from services.contracts.plan import (
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Value,
    content_hash,
    step_references,
    step_values,
)
from services.contracts.planning import (
    CompiledPlan,
    CompileResponse,
    DiagnosticCode,
    Fix,
    Policy,
    Proof,
    apis_too_large,
)
from services.errors import ValidationFailed

MAX_VALUES = 200_000
"""Most values in a plan's arguments, including nested values and those inside literals."""

MAX_DEPTH = 64
"""Deepest nesting of one argument, in levels."""

MAX_LISTS = 100
"""Most references that take something of every item of a list: each makes a new list."""


def compile_plan(
    plan: Plan, apis: Iterable[Api], policy: Policy, credentials: Sequence[str] | None = None
) -> CompileResponse:
    """Prove a plan.

    Args:
        plan: What a backend or a person proposes.
        apis: The plan's APIs; further ones are candidates for implicit calls and fixes.
        policy: Which calls may go out.
        credentials: Names of the configured secrets; None: credentials are not checked.

    Returns:
        The compiled plan and warnings; or errors, and a question for each argument that the user must supply. The
        compiled plan differs from the given one only by the steps that its proof lists as inserted and the values that
        its warnings report as filled in.

    Raises:
        ValidationFailed: two different APIs of one id are given.
    """
    known = _by_id(apis)
    findings, schemas = Findings(), Schemas()
    if problem := _too_large(plan) or apis_too_large(_used(plan, known)):
        return _refused(problem, findings)
    configured = None if credentials is None else frozenset(credentials)
    checker = ArgumentChecker(plan, known, schemas, findings)
    missing = find_missing(plan, known, checker)
    completer = Completer(plan, known, policy, configured, checker, schemas) if missing else None
    if completer is not None:
        plan = completer.complete(missing, findings)
        if problem := apis_too_large(_used(plan, known)):
            return _refused(problem, findings)
        checker = ArgumentChecker(plan, known, schemas, findings)
        missing = find_missing(plan, known, checker)
    questions = report_missing(missing, completer, findings)
    for step in plan.steps:
        checker.check_step(step)
    checker.check_answer()
    graph = check_graph(plan, known, findings)
    access = check_access(plan, known, policy, configured, findings)
    if findings.errors:
        questions += questions_inside(checker.lacking, plan, known)
        return CompileResponse(diagnostics=findings.sorted(), questions=questions)
    inserted = tuple(completer.inserted) if completer is not None else ()
    compiled = _prove(plan, known, graph, access, inserted, (findings.checks, schemas.assumed))
    return CompileResponse(compiled=compiled, diagnostics=findings.sorted())


def _used(plan: Plan, known: Mapping[str, Api]) -> Iterator[Api]:
    return (known[name] for name in dict.fromkeys(step.api for step in plan.steps) if name in known)


def _refused(problem: str, findings: Findings) -> CompileResponse:
    findings.error(DiagnosticCode.TOO_LARGE, problem, fixes=[Fix(message="Split the request into smaller ones.")])
    return CompileResponse(diagnostics=findings.sorted())


def _prove(
    plan: Plan, apis: Mapping[str, Api], graph: Graph, access: Access, inserted: tuple[str, ...], facts: tuple[int, int]
) -> CompiledPlan:
    used = {step.api: apis[step.api] for step in plan.steps}
    proof = Proof(
        checks=facts[0],
        assumed=facts[1],
        stages=graph.stages,
        api_hashes={api_id: _hash(api) for api_id, api in used.items()},
        mutating=access.mutating,
        approvals=access.approvals,
        credentials=access.credentials,
        missing=access.missing,
        inserted=inserted,
        pages_anywhere=access.anywhere,
    )
    return CompiledPlan(plan=plan, apis=used, proof=proof)


def _by_id(apis: Iterable[Api]) -> dict[str, Api]:
    known: dict[str, Api] = {}
    for api in apis:
        if known.setdefault(api.id, api) != api:
            raise ValidationFailed(f"two different APIs are called {api.id!r}")
    return known


def _hash(api: Api) -> str:
    return api.content_hash or content_hash(api.model_dump(mode="json", exclude=OUTSIDE_CONTENT))


def _too_large(plan: Plan) -> str | None:
    """Why the plan is too large to check, or None. Iterative, as the depth may exceed the recursion limit."""
    taken = chain((one for step in plan.steps for one in step_references(step)), (one.value for one in plan.answer))
    if sum(EVERY in one.path for one in taken) > MAX_LISTS:
        return f"more than {MAX_LISTS} references take something of every item of a list"
    level: list[object] = [value for step in plan.steps for value in step_values(step)]
    count = 0
    for _ in range(MAX_DEPTH):
        if not level:
            return None
        count += len(level)
        if count > MAX_VALUES:
            return f"the plan holds more than {MAX_VALUES} values"
        level = [child for value in level for child in _inside(value)]
    return f"an argument is nested deeper than {MAX_DEPTH} levels" if level else None


def _inside(value: Value | object) -> Iterable[object]:
    if isinstance(value, LiteralValue):
        return _inside(value.value)
    if isinstance(value, ListValue):
        return value.items
    if isinstance(value, ObjectValue):
        return value.fields.values()
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
