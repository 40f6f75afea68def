"""Puts a code of the request where only it can belong: "the flights of b-12" has the id that ``birdId`` takes.

A planner may look up what the request already identifies, or leave an optional filter out. The examples in documents
tell which argument takes the code (:mod:`planner_svc.reading.code_kinds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner_svc.reading.code_kinds import CodeKinds, codes_said, thing_of
from planner_svc.reading.negations import denies
from planner_svc.reading.profile import Slot, profile_of
from planner_svc.reading.stated import without_needless_reads
from planner_svc.reading.withdrawn import TakenBack
from services.contracts.api import Api
from services.contracts.plan import LiteralValue, Plan, Reference, Step, scalars, step_values


def with_codes_in_place(plan: Plan, query: str, apis: Mapping[str, Api]) -> Plan:
    """The plan with codes that one argument alone can take, and without calls that only looked these up.

    A code that another call uses stays there, unless that call only feeds the argument. An argument with a value of its
    own keeps it, and so does one for which the request has several codes.

    Args:
        plan: the planner's plan.
        query: the request.
        apis: the candidates by id.
    """
    taken_back = TakenBack(query)
    said = [
        code
        for code, place in codes_said(query)
        if not taken_back.covers(*place, named=True) and not denies(query, place, changes=False)
    ]
    if not said:
        return plan
    kinds = CodeKinds(map(profile_of, apis.values()))
    steps, changed = list(plan.steps), False
    for code in dict.fromkeys(said):
        places = list(_places(plan, code, [one for one in said if one != code], apis, kinds))
        if len(places) != 1:
            continue
        number, slot = places[0]
        arguments = {**steps[number].arguments, slot.name: LiteralValue(value=code)}
        steps[number] = steps[number].model_copy(update={"arguments": arguments})
        changed = True
    return without_needless_reads(Plan(steps=tuple(steps), answer=plan.answer), apis) if changed else plan


def _places(
    plan: Plan, code: str, others: list[str], apis: Mapping[str, Api], kinds: CodeKinds
) -> Iterator[tuple[int, Slot]]:
    """The steps and arguments that can take a code which no call uses, or which calls only use to look it up."""
    users = {step.id for step in plan.steps if _uses(step, code)}
    for number, step in enumerate(plan.steps):
        if step.api not in apis or step.foreach is not None or step.id in users:
            continue
        profile = profile_of(apis[step.api])
        for slot in profile.slots:
            thing, held = thing_of(profile, slot), step.arguments.get(slot.name)
            own = slot.kinds == {"string"} and kinds.takes(thing, code)
            if not own or any(kinds.takes(thing, other) for other in others):
                continue
            if (held is None and not users) or (isinstance(held, Reference) and users <= {held.step}):
                yield number, slot


def _uses(step: Step, code: str) -> bool:
    """Whether a step has the code in a value."""
    texts = (str(one).lower() for value in step_values(step) for one in scalars(value))
    return any(code.lower() in text for text in texts)
