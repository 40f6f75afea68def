"""Uses the values that an application gives for arguments, such as its user's answers to questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from planner_svc.proving.unused_values import MAX_LEAVES
from planner_svc.reading.choices import named_choices
from planner_svc.reading.leaves import flat, has, held_at, put
from planner_svc.reading.numbers import number
from planner_svc.reading.profile import Profile, Slot, profile_of
from services.contracts.api import Api
from services.contracts.context import Context
from services.contracts.plan import LiteralValue, Plan, Step
from services.contracts.planning import Question

_FLAGS: Final = {"true": True, "yes": True, "false": False, "no": False}


def with_answers(plan: Plan, query: str, context: Context, apis: Mapping[str, Api]) -> Plan:
    """The plan with the application's values, by name, for arguments that lack a value.

    These are places inside objects, such as ``metadata.name``, whose names only come from a question about them;
    required arguments; and arguments that would otherwise be a constant, or an option that the request does not name.
    """
    steps = tuple(_with_answers(step, query, context, apis.get(step.api)) for step in plan.steps)
    return plan if steps == plan.steps else Plan(steps=steps, answer=plan.answer)


def with_refused(questions: Sequence[Question], context: Context) -> tuple[Question, ...]:
    """The questions; one that a value was given for says that it does not fit."""
    return tuple(_with_refused(one, context.values.get(one.argument)) for one in questions)


def _with_refused(question: Question, value: JsonValue) -> Question:
    if value is None:
        return question
    wanted = question.json_schema.get("format") or question.json_schema.get("type")
    hint = f" ({wanted})" if isinstance(wanted, str) else ""
    said = " ".join(str(value).split())[:60]
    return question.model_copy(update={"text": f"“{said}” does not fit{hint}. {question.text}"})


def _with_answers(step: Step, query: str, context: Context, api: Api | None) -> Step:
    if api is None:
        return step
    profile, arguments = flat(profile_of(api), MAX_LEAVES), step.arguments
    for slot in (*profile.slots, *profile.constant_slots):
        path = slot.path or (slot.name,)
        takes = slot.path or slot.required or slot.parameter.constant is not None
        free = takes and not has(arguments, path)
        if slot.name in context.values and (free or _is_guessed(slot, step, query)):
            value = next(_fitting(context.values[slot.name], slot, profile), None)
            arguments = arguments if value is None else put(arguments, path, value)
    return step.model_copy(update={"arguments": arguments})


def _is_guessed(slot: Slot, step: Step, query: str) -> bool:
    """Whether the argument's value is an option, and the request names none of the options."""
    if slot.path or not slot.choices or not isinstance(held_at(step.arguments, (slot.name,)), LiteralValue):
        return False
    return next(named_choices(slot, query), None) is None


def _fitting(value: JsonValue, slot: Slot, profile: Profile) -> Iterator[JsonValue]:
    """The value in the forms that the schema allows: command lines give numbers as text, forms texts as numbers."""
    forms: list[JsonValue] = [value]
    if isinstance(value, str):
        forms += [number(value), _FLAGS.get(value.casefold())]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        forms.append(str(value))
    for form in forms:
        if form is not None and profile.schemas.problem(slot.node, form) is None:
            yield form
