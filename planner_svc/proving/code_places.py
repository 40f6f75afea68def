"""Puts a code of the request where only it can belong: "the flights of b-12" has the id that ``birdId`` takes.

A planner may look up what the request already identifies, or leave an optional filter out. The examples in documents
tell which argument takes the code (:mod:`planner_svc.reading.code_kinds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from planner_svc.reading.code_kinds import CodeKinds, Thing, codes_said, thing_of
from planner_svc.reading.negations import denies
from planner_svc.reading.profile import Slot, profile_of
from planner_svc.reading.stated import without_needless_reads
from planner_svc.reading.withdrawn import TakenBack
from services.compute import with_checkpoints
from services.contracts.api import Api
from services.contracts.plan import LiteralValue, Plan, Reference, Step, scalars, step_values

_MAX_CODES: Final = 20
"""A request with more is a text to be sent, or a list."""
_Place = tuple[int, Slot, Thing]
"""A step's number, and one of its arguments with what it identifies."""


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
    meant = (
        code
        for code, place in with_checkpoints(codes_said(query))
        if not taken_back.covers(*place, named=True) and not denies(query, place, changes=False)
    )
    said = list(dict.fromkeys(meant))
    if not 0 < len(said) <= _MAX_CODES:
        return plan
    kinds = CodeKinds(map(profile_of, apis.values()))
    places = list(_places(plan, apis))
    steps, changed = list(plan.steps), False
    for code in said:
        able = list(_able(plan, code, [one for one in said if one != code], places, kinds))
        if len(able) != 1:
            continue
        number, slot = able[0]
        arguments = {**steps[number].arguments, slot.name: LiteralValue(value=code)}
        steps[number] = steps[number].model_copy(update={"arguments": arguments})
        changed = True
    return without_needless_reads(Plan(steps=tuple(steps), answer=plan.answer), apis) if changed else plan


def _places(plan: Plan, apis: Mapping[str, Api]) -> Iterator[_Place]:
    """The arguments of a plan that take a text."""
    for number, step in enumerate(plan.steps):
        if step.api not in apis or step.foreach is not None:
            continue
        profile = profile_of(apis[step.api])
        for slot in with_checkpoints(profile.slots):
            if slot.kinds == {"string"}:
                yield number, slot, thing_of(profile, slot)


def _able(
    plan: Plan, code: str, others: Sequence[str], places: Sequence[_Place], kinds: CodeKinds
) -> Iterator[tuple[int, Slot]]:
    """The steps and arguments that can take a code which no call uses, or which calls only use to look it up."""
    users = {step.id for step in plan.steps if _uses(step, code)}
    for number, slot, thing in with_checkpoints(places):
        step = plan.steps[number]
        if step.id in users or not kinds.takes(thing, code) or any(kinds.takes(thing, other) for other in others):
            continue
        held = step.arguments.get(slot.name)
        if (held is None and not users) or (isinstance(held, Reference) and users <= {held.step}):
            yield number, slot


def _uses(step: Step, code: str) -> bool:
    """Whether a step has the code in a value."""
    texts = (str(one).lower() for value in step_values(step) for one in scalars(value))
    return any(code.lower() in text for text in texts)
