"""Which fields answer a request where the model does not say: nothing is guessed, so no field is left out."""

from __future__ import annotations

from collections.abc import Sequence

from planner_svc.reading.answers import answer_of, unused
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.plan import dependencies as needed_by


def answered(plan: Plan, apis: Sequence[Api]) -> Plan:
    """The plan with outputs: of the calls that no other call takes anything from. As it is where it has some."""
    known = {api.id: api for api in apis}
    if plan.answer or any(step.api not in known for step in plan.steps):
        return plan
    taken = {needed for step in plan.steps for needed in needed_by(step)}
    outputs: list[AnswerOutput] = []
    names: set[str] = set()
    for step in plan.steps:
        if step.id in taken:
            continue
        many = step.foreach is not None  # a list of answers: all of it
        for name, path in [("", ())] if many else answer_of(read_profile(known[step.api])):
            label = unused(name or "result", names)
            outputs.append(AnswerOutput(name=label, value=Reference(step=step.id, path=path)))
    return Plan(steps=plan.steps, answer=tuple(outputs))
