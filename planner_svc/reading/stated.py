"""Arguments that a request states by name, directly followed by the value: ``title "Spring sale", price 12.50``.

A stated value is unambiguous, so it overrides the planner's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import orjson
from pydantic import JsonValue

from planner_svc.reading.leaves import flat, held_at, put
from planner_svc.reading.profile import Profile, Slot, profile_of
from planner_svc.reading.readings import NO_CLOCK, TRUTHS, moment_of, number_in, readings
from planner_svc.reading.text import MAX_CHARS, QUOTED, STOP, Word, name_parts, split_name, stem, stem_set
from services.compute import checkpoint
from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.plan import LiteralValue, Plan, Reference, Step, Value, dependencies, scalars

_JSON: Final = json.JSONDecoder()
_MAX_LEAVES: Final = 120
_MAX_ITEMS: Final = 50
_MAX_COMPARED: Final = 20_000
"""Most enumeration values compared with words of the request, for one API."""
_IS: Final = re.compile(
    r"\s*(?:[:=]\s*|(?:is|are|as|to|of|equals|set\s+to|should\s+be|named|called)\s+)?(?=\S)", re.IGNORECASE
)
_JOINED: Final = re.compile(r"\s*(?:\[\d{1,3}\])?[\s_./-]*(?:['\u2019]s\s+)?")
"""The text between the words of one name."""
_BREAK: Final = re.compile(r"[,;:.!?()\[\]{}\n]\s*$")
_END: Final = re.compile(r"\s*(?:$|[,;.!?)\]}\n](?!\d)|(?:and|or|with|for|in|on|to|at|by|from|as|using|then|plus)\b)")
"""What follows an unquoted value. A word after a number is its unit, which other modules interpret."""
_BARE: Final = re.compile(r"[^\s,;!?()\"]+")
_AND: Final = re.compile(r"\s*(?:,\s*(?:and\s+)?|and\s+|&\s*)(?=[\"'`“«\d])")
_VALUED: Final = re.compile(rf"[\"'`“«\d@_]|\b(?:{'|'.join(TRUTHS)})\b", re.IGNORECASE)
_ISO: Final = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ][\d:.,+Z-]+)?)?")
_BEFORE: Final = STOP | {"set", "given", "change", "add", "update", "put", "new"}
_GOAL: Final = re.compile(r"\b(?:to|into)\s+(?:the\s+)?$", re.IGNORECASE)
_VAGUE: Final = stem_set("body value data item object")
"""Names that mean nothing by themselves."""


@dataclass(frozen=True, slots=True)
class _Label:
    """A name of an argument: the end of its path, or all of it."""

    words: tuple[str, ...]
    slot: Slot
    whole: bool


@dataclass(frozen=True, slots=True)
class Stated:
    """A value stated for an argument: its path, its characters, and ``named``, where its name begins.

    ``chosen``: whether the argument takes only listed values.
    """

    path: JsonPath
    value: JsonValue
    start: int
    end: int
    named: int = 0
    chosen: bool = False


def stated(query: str, profile: Profile) -> list[Stated]:
    """The values that a request states for an API's arguments, in order; the schema allows each of them.

    A name that fits several arguments is ignored. Members of objects in a list belong to the next object once one of
    them is stated again.
    """
    query = query[:MAX_CHARS]
    slots = (*flat(profile, _MAX_LEAVES).slots, *profile.constant_slots)
    parts = _unquoted(query)
    labels = _labels(slots)
    in_json = _labels((*slots, *(slot for slot in profile.slots if slot.name not in {leaf.name for leaf in slots})))
    found: list[Stated] = []
    items: dict[JsonPath, set[JsonPath]] = {}
    counts: dict[JsonPath, int] = {}
    given: set[str] = set()
    taken, left = 0, _MAX_COMPARED
    for index in range(len(parts)):
        checkpoint()  # a name may occur hundreds of times, each time with JSON that is slow to check
        if parts[index].start < taken or (opening := _IS.match(query, parts[index].end)) is None:
            continue
        known = in_json if query[opening.end()] in "{[" else labels  # an object as a whole is written as JSON only
        named = _label_at(query, parts, index, known, profile)
        named.sort(key=lambda label: label.slot.name in given)  # a repeated name is meant for the next one
        for label in named:
            slot = label.slot
            if left <= 0:
                return _unambiguous(found)
            value = _value(query, opening.end(), profile, slot)
            left -= len(slot.choices) * _parts(value)
            if value is not None:
                begins = parts[index + 1 - len(label.words)].start
                place = _place(slot, items, counts)
                found.append(Stated(place, value[0], opening.end(), value[1], begins, bool(slot.choices)))
                given.add(slot.name)
                taken = value[1]
                break
    return _unambiguous(found)


def may_state(query: str) -> bool:
    """Whether a request may state anything: most contain no value at all."""
    return _VALUED.search(query[:MAX_CHARS]) is not None


def without_constants(query: str, apis: Sequence[Api]) -> str:
    """The request with blanks in place of what it states for arguments with a constant, of whichever API.

    Backends cannot fill these arguments (:func:`with_stated` does) and would use the words for others.
    """
    if not may_state(query):
        return query
    open_names = {one.name for api in apis for one in api.parameters if one.constant is None}
    for api in apis:
        constants = {one.name for one in api.parameters if one.constant is not None} - open_names
        if constants:
            query = _without_stated(query, [one for one in stated(query, profile_of(api)) if one.path[0] in constants])
    return query


def _without_stated(query: str, found: Sequence[Stated]) -> str:
    """The request with blanks in place of these values and their names."""
    for one in found:
        query = query[: one.named] + " " * (one.end - one.named) + query[one.end :]
    return query


def with_stated(plan: Plan, query: str, apis: Mapping[str, Api]) -> Plan:
    """The plan with the stated values of its arguments, and without calls that only looked these up.

    An API that is called several times is skipped: it is unknown which of the calls is meant. So is an argument that
    has another value where a further call has the stated one: "title "A" ... rename it to "B"", or another listed value
    that the request says: "if the status is open, set it to closed".
    """
    called = [step.api for step in plan.steps]
    steps, changed = [], False
    for step in plan.steps:
        api = apis.get(step.api)
        single = called.count(step.api) == 1 and step.foreach is None
        given = _given(step, query, api, plan) if api is not None and single else step
        changed |= given is not step
        steps.append(given)
    if not changed:
        return plan
    return without_needless_reads(Plan(steps=tuple(steps), answer=plan.answer), apis)


def _given(step: Step, query: str, api: Api, plan: Plan) -> Step:
    found = stated(query, profile_of(api))
    rest = _without_stated(query, found)
    found = [one for one in found if not (_is_anothers(query, one, step, plan) or _is_a_condition(one, step, rest))]
    own = {str(one.path[0]) for one in found}
    taken = {one.value for one in found if _is_said_once(query, one)}
    arguments: dict[str, Value] = {}
    for name, value in step.arguments.items():
        kept = value if name in own else _without(value, taken)
        if kept is not None:
            arguments[name] = kept
    for one in found:
        arguments = put(arguments, one.path, one.value)
    return step if arguments == step.arguments else step.model_copy(update={"arguments": arguments})


def _is_anothers(query: str, one: Stated, step: Step, plan: Plan) -> bool:
    """Whether a further step has this value under the same name, and this step has another value where it belongs.

    A reference is no such value: its call may only have looked up what is stated. Without a value, it is of the
    step that this one feeds if something is to go there: "move all bins to yard 5" lists all bins.
    """
    name, value = next(part for part in reversed(one.path) if isinstance(part, str)), LiteralValue(value=one.value)
    own = step.arguments.get(str(one.path[0]))
    further = [other for other in plan.steps if other is not step]
    if own is None:
        further = (
            [other for other in further if step.id in dependencies(other)] if _GOAL.search(query[: one.named]) else []
        )
    elif isinstance(own, Reference) or own == value:
        return False
    return any(other.arguments.get(name) == value for other in further)


def _is_a_condition(one: Stated, step: Step, rest: str) -> bool:
    """Whether the step has another listed value, which the rest of the request says."""
    held = held_at(step.arguments, one.path)
    value = held.value if isinstance(held, LiteralValue) else held
    if not one.chosen or not isinstance(value, str) or value == one.value or len(value) > len(rest):
        return False
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", rest, re.IGNORECASE) is not None


def _is_said_once(query: str, one: Stated) -> bool:
    """Whether the words of the value occur only once in the request, so that no other argument has them."""
    return _is_plain(one.value) and query.count(query[one.start : one.end]) == 1


def _is_plain(value: JsonValue) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _without(value: Value, taken: Set[JsonValue]) -> Value | None:
    """The value without parts that are stated for other arguments; None if nothing is left."""
    if not isinstance(value, LiteralValue) or not any(_is_plain(one) and one in taken for one in scalars(value)):
        return value
    kept = _pruned(value.value, taken)
    return None if kept is None else LiteralValue(value=kept)


def _pruned(value: JsonValue, taken: Set[JsonValue]) -> JsonValue:
    if isinstance(value, dict):
        return {name: held for name, one in value.items() if (held := _pruned(one, taken)) is not None} or None
    if isinstance(value, list):
        return [held for one in value if (held := _pruned(one, taken)) is not None] or None
    return None if _is_plain(value) and value in taken else value


def without_needless_reads(plan: Plan, apis: Mapping[str, Api]) -> Plan:
    """The plan without reading calls that are no longer needed."""
    steps = list(plan.steps)
    while True:
        used = {name for step in steps for name in dependencies(step)} | {one.value.step for one in plan.answer}
        kept = [one for one in steps if one.id in used or one.api not in apis or apis[one.api].mutating]
        if len(kept) == len(steps) or not kept:
            return Plan(steps=tuple(steps), answer=plan.answer)
        steps = kept


def _unquoted(query: str) -> list[Word]:
    """The words outside quotation marks, with names split."""
    quoted = [match.span() for match in QUOTED.finditer(query)]
    return [part for part in name_parts(query) if not any(a <= part.start < b for a, b in quoted)]


def _labels(slots: Sequence[Slot]) -> dict[str, list[_Label]]:
    """The names of all arguments by their last word, longest first."""
    found: dict[str, list[_Label]] = {}
    for slot in slots:
        names = [part for part in (slot.path or (slot.name,)) if isinstance(part, str)]
        named = names[1:] if names[0] == "body" and len(names) > 1 else names  # requests do not say "body"
        words = [tuple(stem(word) for word in split_name(name)) for name in named]
        for first in range(len(words)):
            label = _Label(tuple(word for name in words[first:] for word in name), slot, first == 0)
            if label.words and not (first and _VAGUE.issuperset(label.words)):
                found.setdefault(label.words[-1], []).append(label)
    for labels in found.values():
        labels.sort(key=lambda one: (-len(one.words), not one.whole, bool(one.slot.path), not one.slot.required))
    return found


def _label_at(
    query: str, parts: Sequence[Word], index: int, labels: Mapping[str, Sequence[_Label]], profile: Profile
) -> list[_Label]:
    """The longest names that end with this word; empty if it is part of other words.

    Several arguments may have the same whole name: in the path, in the query and in the body.
    """
    best: list[_Label] = []
    for label in labels.get(parts[index].stem, ()):
        first = index + 1 - len(label.words)
        if best and (len(label.words) < len(best[0].words) or (best[0].whole and not label.whole)):
            break
        if first >= 0 and _says(query, parts[first : index + 1], label) and _begins(query, parts, first, profile):
            best.append(label)
    if len(best) > 1 and not best[0].whole:
        best = [label for label in best if label.slot.required]
        return best if len(best) == 1 else []
    return best


def _says(query: str, parts: Sequence[Word], label: _Label) -> bool:
    if any(part.stem != word for part, word in zip(parts, label.words, strict=True)):
        return False
    gaps = ((one.end, other.start) for one, other in pairwise(parts))
    return all(_JOINED.fullmatch(query, start, end) for start, end in gaps)


def _begins(query: str, parts: Sequence[Word], first: int, profile: Profile) -> bool:
    """Whether a name begins here: "billing city" is not "city", but "the task's title" is the title of a task."""
    start = parts[first].start
    if not first or _BREAK.search(query[max(start - 4, 0) : start]) or query[max(start - 1, 0)] in "\"'”»`":
        return True
    before = parts[first - 1]
    return (
        before.text.lower() in _BEFORE
        or before.stem in profile.title
        or QUOTED.search(query, before.end, start) is not None
    )


def _parts(value: tuple[JsonValue, int] | None) -> int:
    """The number of values that were compared."""
    return len(value[0]) + 1 if value is not None and isinstance(value[0], list) else 1


def _value(query: str, start: int, profile: Profile, slot: Slot) -> tuple[JsonValue, int] | None:
    """The value that begins here, and the end of its characters."""
    if query[start] in "{[":
        return _json(query, start, profile, slot)
    listed = slot.kinds == {"array"}
    one = _single(query, start, profile, slot)
    if one is None or not listed:
        return one
    values, end = [one[0]], one[1]
    while len(values) < _MAX_ITEMS and (joint := _AND.match(query, end)) is not None:
        further = _single(query, joint.end(), profile, slot)
        if further is None:
            break
        values.append(further[0])
        end = further[1]
    if profile.schemas.problem(slot.node, list(values)) is not None:
        return None
    return list(values), end


def _json(query: str, start: int, profile: Profile, slot: Slot) -> tuple[JsonValue, int] | None:
    """An object or a list written as JSON; a single object is wrapped if the argument is a list of objects."""
    try:
        end = _JSON.raw_decode(query, start)[1]
        value = orjson.loads(query[start:end])  # rejects NaN, infinities and lone surrogates
    except (ValueError, RecursionError):
        return None
    for meant in (value, [value]):
        if profile.schemas.problem(slot.node, meant) is None:
            return meant, end
    return None


def _single(query: str, start: int, profile: Profile, slot: Slot) -> tuple[JsonValue, int] | None:
    quoted = QUOTED.match(query, start)
    if quoted is not None:
        text = next(group for group in quoted.groups() if group is not None)
        return _said(text, quoted.end(), profile, slot, quoted=True)
    for choice in sorted((str(one) for one in slot.choices), key=len, reverse=True):
        if (
            choice
            and query[start : start + len(choice)].lower() == choice.lower()
            and _END.match(query, start + len(choice))
        ):
            return _said(query[start : start + len(choice)], start + len(choice), profile, slot, quoted=False)
    bare = _BARE.match(query, start)
    if bare is None:
        return None
    text = bare[0].rstrip(".:'")
    end = start + len(text)
    is_value = text.lower() in TRUTHS or any(char.isdigit() or char in "@_" for char in text)
    return _said(text, end, profile, slot, quoted=False) if is_value and _END.match(query, end) else None


def _said(text: str, end: int, profile: Profile, slot: Slot, *, quoted: bool) -> tuple[JsonValue, int] | None:
    """The words as a value. Quoted texts are taken literally, except dates."""
    listed = slot.kinds == {"array"}

    def allowed(value: JsonValue) -> bool:
        return profile.schemas.problem(slot.node, [value] if listed else value) is None

    if "boolean" in slot.kinds and text.lower() in TRUTHS:
        return TRUTHS[text.lower()], end
    is_number = not quoted and number_in(text) is not None and bool(slot.kinds & {"integer", "number"})
    if slot.temporal and not is_number and not _ISO.fullmatch(text) and moment_of(text, NO_CLOCK) is not None:
        return None  # a day in words depends on the request's clock
    if not is_number and text.lower() not in TRUTHS and allowed(text):
        return text, end
    meant = readings(profile, slot, text)
    return (meant[0], end) if meant else None


def _place(slot: Slot, items: dict[JsonPath, set[JsonPath]], counts: dict[JsonPath, int]) -> JsonPath:
    """The path of a value. In a list of objects, it is that of the first object that lacks the value."""
    path: JsonPath = slot.path or (slot.name,)
    at = next((index for index, part in enumerate(path) if isinstance(part, int)), None)
    if at is None:
        return path
    holder = path[:at]
    said = items.setdefault(holder, set())
    if path in said:
        said.clear()
        counts[holder] = counts.get(holder, 0) + 1
    said.add(path)
    return (*holder, counts.get(holder, 0), *path[at + 1 :])


def _unambiguous(found: Sequence[Stated]) -> list[Stated]:
    """The values, without places for which different values are stated."""
    values: dict[JsonPath, list[JsonValue]] = {}
    for one in found:
        values.setdefault(one.path, []).append(one.value)
    return [one for one in found if all(value == one.value for value in values[one.path])]
