"""Finds values that a request states and a plan leaves out, although an argument could take them.

A plan can be proved and still say less than the request: a note without its text, a change without the new value. A
person who approves it sees what is there, but easily overlooks what is missing, so the user is asked. A plan that only
reads is marked as unsure: usage since November is not the usage of all times.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.context import read_clock
from planner_svc.reading.leaves import flat, has
from planner_svc.reading.limits import limit_before, limit_named
from planner_svc.reading.moments import Duration, Moment
from planner_svc.reading.numbers import NUMBER_WORD
from planner_svc.reading.profile import Profile, Slot, profile_of
from planner_svc.reading.quantities import Quantity, quantities, quantity_at, shares
from planner_svc.reading.text import MAX_CHARS, split_name, stem_set, stems, words_of
from planner_svc.reading.timestamps import stamp_of
from planner_svc.reading.units import UNIT_WORDS, converted
from planner_svc.reading.values import Kind, Span, find_spans
from planner_svc.reading.withdrawn import corrected, excepted, within
from services.contracts.api import Api, Location
from services.contracts.context import Context
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Plan, Step, Value, step_values
from services.contracts.planning import Question

MAX_QUESTIONS: Final = 5
_KINDS: Final[frozenset[Kind]] = frozenset(("quoted", "email", "url", "phone", "code", "number", "moment", "duration"))
_NAMED: Final[Mapping[Kind, frozenset[str]]] = {
    "email": stem_set("email mail recipient recipients to cc bcc contact sender from user username login"),
    "url": stem_set("url uri link website webhook callback endpoint href image photo address source target"),
    "phone": stem_set("phone telephone mobile tel number msisdn recipient to from sender contact caller"),
    "code": stem_set("id ids code key number reference ref sku serial identifier token slug uuid name"),
}
"""Words in the names of arguments that take values of the kind; quoted texts and numbers go anywhere."""
_SCALES: Final = (1.0, 7.0, 12.0, 24.0, 60.0, 3_600.0, 60_000.0, 86_400.0, *(10.0**power for power in range(1, 10)))
"""Factors between a number as said and as sent: hours and minutes, euros and cents, shares and percent."""
_DIGITS: Final = re.compile(r"\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W_]+")
_DATED: Final = re.compile(
    rf"\d|\b(?:tomorrow|next|(?:mon|tues|wednes|thurs|fri|satur|sun)day|{NUMBER_WORD}\s+[a-z]+s)\b", re.IGNORECASE
)
"""Signs of a moment that is meant as a value; "today" and "last week" mostly only tell what happened."""
_LENGTH: Final = re.compile(r"\b(?:for|by)\s+(?:another\s+|about\s+)?$", re.IGNORECASE)
"""Text before a time that tells when something ends."""
_PAST: Final = re.compile(
    r"\b(?:was|were|from|instead\s+of|rather\s+than|not|than|wrong\w*(?:\s+\w+)?|old|until\s+now|last)\W{1,3}$",
    re.IGNORECASE,
)
"""Text before a value that is to be replaced."""
_SHARE: Final = "share"
_PART: Final = 0.5
"""Stands for any share of something, such as "a third of order 5"."""
_NEARLY: Final = 1e-6
"""Relative difference below which two numbers are equal."""
_BEFORE: Final = 30
_MAX_LISTED: Final = 6
_MAX_TEXT: Final = 100
MAX_LEAVES: Final = 120
"""Most arguments of an API that are considered, as many as a request may state. The network reads fewer."""
_SPLIT: Final = re.compile(r"(?<![\w.,-])\d[\d.,]*[.,\s]$")
_SIGN: Final = re.compile(r"[.,]\d")
_MEASURE: Final = re.compile(r"\d+(?:\.\d+)?(?:[x\u00d7]\d+(?:\.\d+)?)*[A-Za-z]{0,3}")
"""A code of only numbers and their unit: "47U", "4x4x5"."""
# Weights for an open argument as the target of a value; a word of its name near the value counts 1.
_IN_BODY: Final = 0.5
"""The argument is in the body, not in the path, the query or a header."""
_QUOTED_TEXT: Final = 0.5
"""The value is in quotation marks, and the argument is a text."""
_CALLED_TEXT: Final = 0.5
"""The argument's name allows any text, such as "comment"."""
_REQUIRED: Final = 0.25
_AMOUNTS: Final = stem_set("amount cost count credit price quantity sum total")
"""Words in the names of texts that take numbers."""
_TEXTS: Final = stem_set("body comment content description message name note subject summary text title value")
_ALTERS: Final = stem_set("change edit modify patch rename update")


@dataclass(frozen=True, slots=True)
class _OpenArgument:
    """An argument that a step lacks."""

    step: Step
    profile: Profile
    slot: Slot


def questions_about(query: str, context: Context, plan: Plan, apis: Mapping[str, Api]) -> tuple[Question, ...]:
    """The questions to ask before the plan is offered: one for each value that it leaves out.

    Empty if no step changes anything, if the plan uses all values, or if no argument could take what is left.

    Args:
        query: the request.
        context: its clock.
        plan: a proved plan.
        apis: its APIs by id.
    """
    changing = [step for step in plan.steps if apis[step.api].mutating]
    if not changing:
        return ()
    query = query[:MAX_CHARS]
    profiles = _profiles(changing, apis)
    left = _unused(query, context, plan, apis, profiles)
    free = [argument for step in changing for argument in _open_arguments(step, profiles[step.api], context)]
    found: dict[tuple[str, str], Question] = {}
    for span in left:
        takers = [argument for argument in free if _may_take(argument, span)]
        takers.sort(key=lambda argument: -_nearness(argument.slot, span))
        best = next(iter(takers), None)
        if best is not None and best.slot.name not in context.values:
            found.setdefault((best.step.id, best.slot.name), _question(best, span, takers))
    for step in changing:
        if not any(question.step == step.id for question in found.values()):
            found |= _body_question(
                query, context, step, profiles[step.api], [argument for argument in free if argument.step is step]
            )
    return tuple(found.values())[:MAX_QUESTIONS]


def values_left_out(query: str, context: Context, plan: Plan, apis: Mapping[str, Api]) -> tuple[str, ...]:
    """The texts of values that a plan leaves out and that :func:`questions_about` does not ask about.

    Of a plan that only reads, these are those for which one of its calls has an argument; of a change, when it is to be
    made, if that is still to come: "cancel order 5 tomorrow".

    Args:
        query: the request.
        context: its clock.
        plan: a proved plan.
        apis: its APIs by id.
    """
    query = query[:MAX_CHARS]
    profiles = _profiles(plan.steps, apis)
    left = _unused(query, context, plan, apis, profiles)
    if any(apis[step.api].mutating for step in plan.steps):
        today = read_clock(context).date()
        takes = (span.text for span in left if isinstance(span.value, Moment) and _is_to_come(span.value, today))
    else:
        free = [argument for step in plan.steps for argument in _open_arguments(step, profiles[step.api], context)]
        takes = (span.text for span in left if any(_may_take(argument, span) for argument in free))
    return tuple(dict.fromkeys(text[:_MAX_TEXT] for text in takes))[:MAX_QUESTIONS]


def _is_to_come(moment: Moment, today: date) -> bool:
    last = moment.last_day().day
    return last is None or last > today or (last == today and moment.clock is not None)


def _profiles(steps: Iterable[Step], apis: Mapping[str, Api]) -> dict[str, Profile]:
    return {name: flat(profile_of(apis[name]), MAX_LEAVES) for name in dict.fromkeys(step.api for step in steps)}


def _unused(
    query: str, context: Context, plan: Plan, apis: Mapping[str, Api], profiles: Mapping[str, Profile]
) -> list[Span]:
    """Values of the request that are in no literal of the plan, and in no constant of its APIs.

    Codes that consist of words of these profiles are left out: they name the API or the thing.
    """
    reads = not any(apis[step.api].mutating for step in plan.steps)
    spans = [span for span in find_spans(query, read_clock(context)) if span.kind in _KINDS]
    parts = () if reads else (Span("number", *place, query[slice(*place)], _PART, _SHARE) for place in shares(query))
    spans += [part for part in parts if not any(map(str.isdigit, part.text))]
    if not spans:
        return []
    used = _PlanValues(plan, apis)
    known = frozenset(word for profile in profiles.values() for word in profile.vocabulary)
    amounts, replaced = quantities(query), [*corrected(query), *excepted(query)]
    filters = any(map(_limits_change, plan.steps, (profiles.get(step.api) for step in plan.steps)))
    return [
        span
        for span in spans
        if _is_meant(query, span, reads=reads, filters=filters)
        and not within(span.start, span.end, replaced)
        and not used.contains(span)
        and (span.kind == "duration" or not used.contains_amount(quantity_at(amounts, span.start, span.end)))
        and (span.kind != "code" or not known.issuperset(stems(span.text)))
    ]


def _limits_change(step: Step, profile: Profile | None) -> bool:
    """Whether a step could be told, by a moment that it lacks, for which things a change is made."""
    if profile is None or not profile.api.mutating:
        return False
    filters = (one for one in profile.slots if one.temporal and one.parameter.location is Location.QUERY)
    return any(limit_named(slot) is not None and slot.name not in step.arguments for slot in filters)


def _is_meant(query: str, span: Span, *, reads: bool, filters: bool) -> bool:
    """Whether a span is meant as a value: "PDF", "the two" and "was 58" are not.

    Args:
        query: the request.
        span: the span.
        reads: whether the plan only reads: any period limits it.
        filters: whether a change lacks a moment that limits it: any moment does.
    """
    if span.kind in ("number", "code") and span.unit != _SHARE and not any(map(str.isdigit, span.text)):
        return False
    if span.kind == "number" and (_SPLIT.search(query[: span.start][-_BEFORE:]) or _SIGN.match(query, span.end)):
        return False  # "186,40" is read as two numbers
    before = query[max(span.start - _BEFORE, 0) : span.start]
    limit = limit_before(query, span.start, moment=True)
    if span.kind == "moment" and (filters or (limit is not None and not limit.weak)):
        return True
    if span.kind == "duration":
        return _LENGTH.search(before) is not None
    if span.kind == "moment" and not _DATED.search(span.text):
        return reads and isinstance(span.value, Moment) and span.value.last is not None
    return _PAST.search(before) is None


class _PlanValues:
    """The values of a plan: all its literals and its APIs' constants."""

    def __init__(self, plan: Plan, apis: Mapping[str, Api]) -> None:
        constants = (one.constant for step in plan.steps for one in apis[step.api].parameters)
        values = [*literals(plan), *(value for value in constants if isinstance(value, str | int | float))]
        self._texts = [_folded(value) for value in values if isinstance(value, str)]
        self._words = {word for text in self._texts for word in _WORD.findall(text)}
        numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        self._sent = frozenset(numbers)
        numbers += [float(digits) for text in self._texts for digits in _DIGITS.findall(text)[:100]]
        self._counts = {*Counter(step.api for step in plan.steps).values()}
        self._numbers = sorted({*numbers})
        self._dates = any(re.search(r"\d{4}|\d:\d\d", text) for text in self._texts) or any(n > 1e9 for n in numbers)

    def contains(self, span: Span) -> bool:
        """Whether the plan has the value, in this or another form."""
        if isinstance(span.value, Duration):
            return self._text(span.text) or not self._sent.isdisjoint(_in_units(span.value))
        if span.kind == "moment":
            return self._dates or any(_folded(span.text) in said for said in self._texts)
        if span.unit == _SHARE:
            return self._has(_PART) or self._has(100 * _PART)
        if span.kind == "number" and isinstance(span.value, int | float):
            return self._number(float(span.value)) or (len(span.text) > 2 and self._text(span.text))
        if self._text(str(span.value)):
            return True
        measured = _DIGITS.findall(span.text) if _MEASURE.fullmatch(span.text) else ()
        return bool(measured) and all(self._number(float(digits)) for digits in measured)

    def contains_amount(self, amount: Quantity | None) -> bool:
        """Whether the plan has an amount in any unit: 3.25 for "3 hours 15 minutes"."""
        if amount is None:
            return False
        unit = amount.unit
        if unit is None:
            return self._number(float(amount.amount))
        others = {other for other in UNIT_WORDS.values() if other.kind == unit.kind}
        return any(self._number(float(converted(amount.amount, unit, other))) for other in others)

    def _text(self, text: str) -> bool:
        folded = _folded(text)
        words = _WORD.findall(folded)
        if any(folded in said or (len(said) > 2 and said in folded) for said in self._texts):
            return True
        return bool(words) and self._words.issuperset(words)

    def _number(self, value: float) -> bool:
        forms = {sign * form for sign in (1, -1) for scale in _SCALES for form in (value * scale, value / scale)}
        return value in self._counts or any(map(self._has, forms))

    def _has(self, value: float) -> bool:
        low, high = sorted((value / (1 + _NEARLY), value / (1 - _NEARLY)))
        place = bisect_left(self._numbers, low)
        return place < len(self._numbers) and self._numbers[place] <= high


def _in_units(length: Duration) -> set[float]:
    """How long something lasts, in each unit: 14 for two weeks."""
    unit = UNIT_WORDS[length.unit.lower()]
    return {
        float(converted(abs(length.amount), unit, other)) for other in UNIT_WORDS.values() if other.kind == unit.kind
    }


def literals(plan: Plan) -> Iterator[str | int | float]:
    """Every text, number and boolean of a plan, the names in its objects, and the lengths of its lists."""
    waiting: list[Value | JsonValue] = [value for step in plan.steps for value in step_values(step)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, LiteralValue):
            waiting.append(value.value)
        elif isinstance(value, ListValue):
            waiting += value.items
        elif isinstance(value, ObjectValue):
            waiting += [*value.fields.values(), *value.fields]
        elif isinstance(value, dict):
            waiting += [*value.values(), *value]
        elif isinstance(value, list):
            waiting += [*value, len(value)]
        elif isinstance(value, str | int | float):
            yield value


def _open_arguments(step: Step, profile: Profile, context: Context) -> Iterator[_OpenArgument]:
    """The arguments that the step lacks, also inside objects, and those that were asked about already."""
    for slot in profile.slots:
        if slot.name in context.values or not (slot.paging or has(step.arguments, slot.path or (slot.name,))):
            yield _OpenArgument(step, profile, slot)


def _body_question(
    query: str, context: Context, step: Step, profile: Profile, free: Sequence[_OpenArgument]
) -> dict[tuple[str, str], Question]:
    """The question for a step without a body: what the request names, or for an update, what to change."""
    body = [argument for argument in free if argument.slot.parameter.location is Location.BODY]
    sent = [profile.api.parameter(name) for name in step.arguments]
    if not body or any(one is not None and one.location is not Location.PATH for one in sent):
        return {}
    named = {word.stem for word in words_of(query)} - profile.title
    said = [argument for argument in body if argument.slot.words and named.issuperset(argument.slot.words)]
    best = next(iter(said or (body if _alters(profile) else [])), None)
    if best is None or best.slot.name in context.values:
        return {}
    listed = _listed(said or body)
    text = f"“{_purpose(best)}” would be called with nothing in its body. What is to be in it? It could be: {listed}."
    return {(step.id, best.slot.name): _asked(best, text)}


def _alters(profile: Profile) -> bool:
    """Whether the operation changes members of a thing, so that it does nothing without any.

    A ``POST`` is told by its verb, since its other words are often things: "restore a change".
    """
    api = profile.api
    verbs = {word for text in (" ".join(split_name(api.name)), api.summary) for word in stems(text)[:1]}
    altering = {"PUT": profile.title, "POST": verbs}.get(api.method, frozenset[str]())
    return api.method == "PATCH" or not _ALTERS.isdisjoint(altering)


def _may_take(argument: _OpenArgument, span: Span) -> bool:
    """Whether the value could be meant for the argument."""
    slot = argument.slot
    if slot.choices or slot.kinds == {"boolean"}:
        return False
    if span.kind == "moment":
        takes = (slot.temporal and ("string" in slot.kinds or limit_named(slot) is not None)) or stamp_of(
            slot
        ) is not None
        return takes and isinstance(span.value, Moment)
    if span.kind == "duration":
        return slot.temporal and slot.role == "to" and "string" in slot.kinds
    if slot.temporal:
        return False
    if span.kind == "number":
        if slot.kinds & {"integer", "number"}:
            return _allows(argument, span.value)
        return "string" in slot.kinds and _is_amount(slot, span) and _allows(argument, str(span.value))
    if span.kind != "quoted" and not slot.specific and not _NAMED[span.kind] & {*slot.words}:
        return False
    text = str(span.value)
    return ("string" in slot.kinds and _allows(argument, text)) or (
        slot.kinds == {"array"} and _allows(argument, [text])
    )


def _is_amount(slot: Slot, span: Span) -> bool:
    """Whether a text is meant for numbers: its name tells, or is beside the number, or is the plural that it counts."""
    counted = slot.said.endswith("s") and span.unit in slot.words
    return counted or not {*slot.words}.isdisjoint(_AMOUNTS.union(word for word in span.near if word != span.unit))


def _allows(argument: _OpenArgument, value: object) -> bool:
    return argument.profile.schemas.problem(argument.slot.node, value) is None  # type: ignore[arg-type]


def _nearness(slot: Slot, span: Span) -> float:
    """How likely the value is meant for this argument: by its name near the value, or a name that takes any text."""
    words = {*slot.words}
    named = len(words & {*span.near, span.unit})
    body = _IN_BODY * (slot.parameter.location is Location.BODY)
    text = _QUOTED_TEXT * (span.kind == "quoted" and "string" in slot.kinds)
    called = _CALLED_TEXT * bool(words & _TEXTS)
    return named + body + text + called + _REQUIRED * slot.required


def _question(best: _OpenArgument, span: Span, takers: Iterable[_OpenArgument]) -> Question:
    said = span.text if span.kind == "number" else f"“{span.text[:_MAX_TEXT]}”"
    listed = _listed([best, *takers])
    text = f"The request says {said}, and “{_purpose(best)}” would be called without it. What is it for? "
    text += f"It could be: {listed}."
    return _asked(best, text)


def _asked(argument: _OpenArgument, text: str) -> Question:
    return Question(
        step=argument.step.id,
        api=argument.profile.api.id,
        argument=argument.slot.name,
        text=text,
        json_schema=argument.slot.parameter.json_schema,
    )


def _purpose(argument: _OpenArgument) -> str:
    return (argument.profile.api.summary or argument.profile.api.name)[:200].rstrip(".")


def _listed(arguments: Iterable[_OpenArgument]) -> str:
    names = list(dict.fromkeys(argument.slot.name for argument in arguments))
    return ", ".join(names[:_MAX_LISTED]) + (", ..." if len(names) > _MAX_LISTED else "")


def _folded(text: str) -> str:
    return " ".join(text.casefold().replace("\\n", " ").split())
