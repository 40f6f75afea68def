"""Loops: one call for each item, if a list meets a parameter that takes one value and the request asks for all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from planner_svc.models import LazyPlans, PlanDraft
from services.contracts.base import JsonPath
from services.contracts.plan import AnswerOutput, ForEach, ItemReference, Plan, Reference, Step, Value

_EACH: Final = re.compile(
    r"\b(?:each|every)\b(?!\s+(?:day|week|month|year|hour|minute|second|morning|evening|night|time|other)\b)"
    r"|\ball\s+(?:of\s+)?(?:them|these|those|its|their|his|her|our|my|the)\b",
    re.IGNORECASE,
)


def draft_with_loops(draft: PlanDraft, query: str) -> PlanDraft:
    """The draft with its plans as loops, see :func:`with_loops`."""
    plan = with_loops(draft.plan, query) if draft.plan is not None else None
    alternatives = LazyPlans(lambda: (with_loops(other, query) for other in draft.alternatives))
    return replace(draft, plan=plan, alternatives=alternatives)


def with_loops(plan: Plan, query: str) -> Plan:
    """The plan with a ``foreach`` wherever it takes the first item of a list and the request speaks of each item.

    Without such words the plan is unchanged: the first result of a search is meant.
    """
    if _EACH.search(query) is None:
        return plan
    steps: list[Step] = []
    looped: set[str] = set()
    for step in plan.steps:
        arguments = {name: _first_of_each(value, looped) for name, value in step.arguments.items()}
        found = next(_lists(arguments.values()), None) if step.foreach is None else None
        if found is not None:
            looped.add(step.id)
            arguments = {name: _of_item(value, found) for name, value in arguments.items()}
            step = step.model_copy(update={"arguments": arguments, "foreach": ForEach(items=found)})
        steps.append(step)
    if not looped:
        return plan
    return Plan(steps=tuple(steps), answer=tuple(_answers(plan.answer, looped)))


def _lists(values: Iterable[Value]) -> Iterator[Reference]:
    """The lists whose first items are referred to."""
    for value in values:
        if isinstance(value, Reference) and (at := _index(value.path)) is not None:
            yield Reference(step=value.step, path=value.path[:at])


def _index(path: JsonPath) -> int | None:
    return next((at for at, part in enumerate(path) if isinstance(part, int)), None)


def _first_of_each(value: Value, looped: set[str]) -> Value:
    """The value; a reference to a looped call points to its first answer, since its output is now a list."""
    if isinstance(value, Reference) and value.step in looped:
        return Reference(step=value.step, path=(0, *value.path))
    return value


def _of_item(value: Value, items: Reference) -> Value:
    size = len(items.path)
    if not isinstance(value, Reference) or (value.step, value.path[:size]) != (items.step, items.path):
        return value
    return ItemReference(path=value.path[size + 1 :]) if _index(value.path) == size else value


def _answers(outputs: tuple[AnswerOutput, ...], looped: set[str]) -> Iterator[AnswerOutput]:
    """The outputs; those of a looped call are replaced by one output with all its answers."""
    given: set[str] = set()
    for output in outputs:
        step = output.value.step
        if step not in looped:
            yield output
        elif step not in given:
            given.add(step)
            yield AnswerOutput(name=output.name, value=Reference(step=step))
