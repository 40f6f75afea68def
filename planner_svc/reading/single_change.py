"""Requests for one change and nothing else: ``New order: item "Blue door", quantity 3``.

The names of the values are also words of other operations. A request that says nothing else does not ask for these
operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner_svc.reading.profile import profile_of
from planner_svc.reading.stated import stated
from planner_svc.reading.text import MAX_CHARS, STOP, name_parts, split_name, stem, word_set
from services.contracts.api import Api
from services.contracts.plan import Plan, Step, dependencies

_SILENT: Final = STOP - word_set("call find get gets give help know knows look say see show tell write")
"""Words that ask for nothing."""


def keep_single_change(plan: Plan, query: str, apis: Mapping[str, Api]) -> Plan:
    """The plan with only the change that the request asks for, and the steps that it needs.

    A request asks for one change only if all its words are the operation's name or summary, or names and values of its
    arguments. Any other word leaves the plan unchanged.
    """
    if len(plan.steps) < 2 or len(query) > MAX_CHARS:
        return plan
    asked = [step for step in plan.steps if step.api in apis and _is_all(step, query, apis[step.api])]
    if len(asked) != 1:
        return plan
    # A request for a single change implies no order of calls.
    steps = {step.id: step.model_copy(update={"after": ()}) for step in plan.steps}
    kept, waiting = set[str](), [asked[0].id]
    while waiting:
        name = waiting.pop()
        if name in steps and name not in kept:
            kept.add(name)
            waiting += dependencies(steps[name])
    if len(kept) == len(steps):
        return plan
    answer = tuple(one for one in plan.answer if one.value.step in kept)
    return Plan(steps=tuple(step for name, step in steps.items() if name in kept), answer=answer)


def _is_all(step: Step, query: str, api: Api) -> bool:
    """Whether the request contains nothing but this change."""
    if not api.mutating or step.foreach is not None:
        return False
    profile = profile_of(api)
    found = stated(query, profile)
    if not found:
        return False
    own = profile.title | {part.stem for part in name_parts(api.summary)}
    own |= {stem(word) for one in found for part in one.path if isinstance(part, str) for word in split_name(part)}
    return all(
        part.stem in own or part.text.lower() in _SILENT or any(one.start <= part.start < one.end for one in found)
        for part in name_parts(query)
    )
