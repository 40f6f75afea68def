"""Chooses the answer's outputs if the model does not: without guessing, so no field is left out."""

from __future__ import annotations

from collections.abc import Sequence

from planner_svc.reading.answers import answer_of, unique_name
from planner_svc.reading.profile import profile_of
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.plan import dependencies as needed_by


def with_outputs(plan: Plan, apis: Sequence[Api]) -> Plan:
    """The plan with the outputs of all calls that feed no other call. A plan with outputs is returned unchanged."""
    known = {api.id: api for api in apis}
    if plan.answer or any(step.api not in known for step in plan.steps):
        return plan
    taken = {needed for step in plan.steps for needed in needed_by(step)}
    outputs: list[AnswerOutput] = []
    names: set[str] = set()
    for step in plan.steps:
        if step.id in taken:
            continue
        many = step.foreach is not None  # a list of answers: return all of it
        for name, path in [("", ())] if many else answer_of(profile_of(known[step.api])):
            label = unique_name(name or "result", names)
            outputs.append(AnswerOutput(name=label, value=Reference(step=step.id, path=path)))
    return Plan(steps=plan.steps, answer=tuple(outputs))
