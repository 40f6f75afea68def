"""Repairs that change only how a plan is written, not what it does. They need no backend."""

from collections.abc import Iterable

from pydantic import JsonValue

from planner_svc.compiler.arguments import place_of
from planner_svc.compiler.graph import in_order
from services.contracts.base import JsonPath
from services.contracts.plan import MAX_PATH, AnswerOutput, LiteralValue, Plan, Step
from services.contracts.planning import Diagnostic, DiagnosticCode


def repair(plan: Plan, diagnostics: Iterable[Diagnostic]) -> Plan | None:
    """The plan with steps in an executable order and literals of the required type; None if nothing changes.

    A literal is changed only if the compiler offers exactly one value of the same meaning (``"5"`` for ``5``, ``"eur"``
    for ``"EUR"``). A field that the answer takes of a list is taken of every item.
    """
    arguments: dict[tuple[str, str], LiteralValue] = {}
    outputs: dict[str | None, JsonPath] = {}
    forward = False
    for diagnostic in diagnostics:
        if diagnostic.severity != "error":
            continue
        forward |= diagnostic.code is DiagnosticCode.FORWARD_REFERENCE
        if diagnostic.code is DiagnosticCode.INVALID_LITERAL and len(diagnostic.fixes) == 1:
            step, argument = diagnostic.step or "", diagnostic.argument or ""
            arguments[step, argument] = LiteralValue(value=diagnostic.fixes[0].value)
        if diagnostic.code is DiagnosticCode.LIST_FOR_SINGLE and diagnostic.step is None:
            outputs[diagnostic.argument] = _path(diagnostic.fixes[-1].value)
    answer = tuple(_of_every(output, outputs) for output in plan.answer)
    repaired = Plan(steps=tuple(_with(step, arguments) for step in plan.steps), answer=answer)
    if forward:
        repaired = in_order(repaired) or repaired
    return repaired if repaired.id != plan.id else None


def _path(value: JsonValue) -> JsonPath:
    parts = value if isinstance(value, list) and len(value) <= MAX_PATH else []
    return tuple(part for part in parts if isinstance(part, str | int))


def _of_every(output: AnswerOutput, paths: dict[str | None, JsonPath]) -> AnswerOutput:
    path = paths.get(place_of(output))
    return output.model_copy(update={"value": output.value.model_copy(update={"path": path})}) if path else output


def _with(step: Step, changed: dict[tuple[str, str], LiteralValue]) -> Step:
    own = {name: changed[step.id, name] for name in step.arguments if (step.id, name) in changed}
    return step.model_copy(update={"arguments": {**step.arguments, **own}}) if own else step
