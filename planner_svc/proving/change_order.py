"""Keeps the order of changes and of what follows them: steps run at the same time unless one needs the other.

"Book the room and show me what is booked" has two independent calls; run at once, the list may lack the booking.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.compute import with_checkpoints
from services.contracts.api import Api, Location
from services.contracts.plan import Plan, Reference, Step, dependencies


def with_change_order(plan: Plan, apis: Mapping[str, Api]) -> Plan:
    """The plan in which calls to a provider wait for its changes that are listed before them.

    A call that reads waits for all of them; one that changes something waits for those that have an argument in common
    with it, such as the id of what both change.

    Args:
        plan: the plan; its steps are in the order in which they are meant.
        apis: the APIs by id. Steps of others are left alone.
    """
    needed = {step.id: dependencies(step) for step in plan.steps}
    steps: list[Step] = []
    changes: list[Step] = []
    for step in with_checkpoints(plan.steps):
        api = apis.get(step.api)
        if api is not None and changes:
            mine = [one for one in changes if apis[one.api].provider == api.provider]
            wanted = [one.id for one in mine if not api.mutating or _have_in_common(one, step, apis)]
            step = _after(step, wanted, needed)
        if api is not None and api.mutating:
            changes.append(step)
        steps.append(step)
    return plan if tuple(steps) == plan.steps else Plan(steps=tuple(steps), answer=plan.answer)


def _after(step: Step, wanted: list[str], needed: dict[str, frozenset[str]]) -> Step:
    """The step, waiting for the wanted ones that it does not wait for already, and that do not wait for it."""
    before, added = _before(step.id, needed), list[str]()
    for other in with_checkpoints(reversed(wanted)):  # the last change waits for earlier ones of the same thing
        if other not in before and step.id not in (earlier := _before(other, needed)):
            before |= {other, *earlier}
            added.append(other)
    needed[step.id] |= set(added)
    return step.model_copy(update={"after": (*step.after, *reversed(added))}) if added else step


def _before(step_id: str, needed: Mapping[str, frozenset[str]]) -> set[str]:
    """All steps that a step waits for."""
    found, waiting = set[str](), [step_id]
    while waiting:
        new = needed.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found


def _have_in_common(one: Step, other: Step, apis: Mapping[str, Api]) -> bool:
    """Whether both calls take the same value of an earlier call, or the same value for an argument in a path."""
    references = [value for value in one.arguments.values() if isinstance(value, Reference)]
    if any(value in references for value in other.arguments.values()):
        return True
    parameters = (*apis[one.api].parameters, *apis[other.api].parameters)
    names = {parameter.name for parameter in parameters if parameter.location is Location.PATH}
    shared = names & one.arguments.keys() & other.arguments.keys()
    return any(one.arguments[name] == other.arguments[name] for name in shared)
