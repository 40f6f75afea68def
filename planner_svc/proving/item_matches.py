"""Which item of a result list a plan means: the plan stores the request's words for it, and the executor uses them."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from pydantic import JsonValue

from planner_svc.reading.text import STOP, without, words_of
from planner_svc.reading.unused_names import unused_names
from planner_svc.reading.withdrawn import EXCEPT, excepted
from services.contracts.api import Api
from services.contracts.base import before_every
from services.contracts.plan import (
    ListValue,
    LiteralValue,
    Match,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    scalars,
    step_references,
    step_values,
)

_ANY: Final = re.compile(
    r"\b(?:(?:any|first|random|whichever|whatever)|(?P<extreme>cheapest|nearest|closest|best|latest|newest|oldest"
    r"|earliest|largest|biggest|smallest|highest|lowest|longest|shortest|fastest|top|most|least))\b",
    re.IGNORECASE,
)
"""Words that show that the request does not mean an item by its name."""
_SORTS: Final = re.compile(r"sort|order_?by|ordering|^order$", re.IGNORECASE)
_NO_VALUES: Final[Mapping[str, JsonValue]] = MappingProxyType({})
_MAX_SAID: Final = 8
_MAX_WORDS: Final = 32
_MAX_CHARS: Final = 200
_MAX_READ: Final = 4_000


def with_matches(
    plan: Plan, query: str, values: Mapping[str, JsonValue] = _NO_VALUES, *, changes: Collection[str] = ()
) -> Plan:
    """The plan with a match at every reference to the first item of a list that was searched with words of the request.

    A list that was searched with no words, such as all rooms, is matched with the names and ids that no call uses:
    "book the Aurora room". An index other than 0 already says which item is meant. So does a word such as "any" or
    "cheapest" if the plan only reads. A change needs more than such a word: the list may be in any order, unless the
    call sorts it. If the request has no word at all for the item, the match of a change has none: then it is asked for,
    unless there is only one.

    Args:
        plan: the plan.
        query: the request.
        values: the application's values by argument, such as answers to questions about items.
        changes: the steps that may change something.
    """
    read = query[:_MAX_READ]
    loose = _loose(_without_literals(plan, read))
    if loose is not None and not changes:
        return plan
    names = _names(plan, read, bool(changes))[:_MAX_SAID] if loose is None else []
    matches = {step.id: match for step in plan.steps if (match := _match(step, read, loose, names)) is not None}
    if changes and loose is None:
        lists = (step.id for step in plan.steps if step.id not in changes and not step.foreach and not _sorts(step))
        matches = dict.fromkeys(lists, Match(said=())) | matches
    if not matches:
        return plan
    steps = tuple(_matched_step(step, matches, values) for step in plan.steps)
    answer = tuple(one.model_copy(update={"value": _of(one.value, matches)}) for one in plan.answer)
    return Plan(steps=steps, answer=answer)


def _names(plan: Plan, query: str, changes: bool) -> list[str]:
    """The names and ids that no call uses, without those that the request excepts.

    A change of what only an exception tells apart is asked for: no item has its words.
    """
    names = unused_names(plan, without(query, excepted(query)))
    return names or [found[0].strip() for found in EXCEPT.finditer(query) if changes]


def unordered(plan: Plan, query: str, apis: Mapping[str, Api]) -> str:
    """A word such as "cheapest", if the plan takes the first item of a list that nothing orders by it; else empty.

    A call orders its list if it is told how to sort it, or if the API's own texts have the word.
    """
    loose = _loose(_without_literals(plan, query[:_MAX_READ]))
    extreme: str | None = loose["extreme"] if loose is not None else None
    if extreme is None:
        return ""
    firsts = {ref.step for step in plan.steps for ref in step_references(step) if _is_first(ref)}
    firsts |= {output.value.step for output in plan.answer if _is_first(output.value)}
    for step in plan.steps:
        if step.id in firsts and step.foreach is None and not _sorts(step):
            api = apis[step.api]
            if extreme.casefold() not in f"{api.name} {api.summary} {api.description}".casefold():
                return extreme
    return ""


def _loose(query: str) -> re.Match[str] | None:
    """The word that means an extreme item, or else any; None if there is no such word."""
    found = list(_ANY.finditer(query))
    return next((one for one in found if one["extreme"]), found[0] if found else None)


def _is_first(reference: Reference) -> bool:
    return next((part for part in before_every(reference.path) if isinstance(part, int)), None) == 0


def _sorts(step: Step) -> bool:
    """Whether the call is told how to sort its list."""
    return any(_SORTS.search(name) for name in step.arguments)


def _without_literals(plan: Plan, query: str) -> str:
    """The request without the texts that the plan takes from it: words inside them do not say which item is meant."""
    texts = {text for step in plan.steps for value in step_values(step) for text in scalars(value)}
    for text in sorted((one for one in texts if isinstance(one, str) and " " in one), key=len, reverse=True)[
        :_MAX_WORDS
    ]:
        query = query.replace(text, " ")
    return query


def _match(step: Step, query: str, loose: re.Match[str] | None, names: Sequence[str]) -> Match | None:
    """What the item of this step's list must match; None if anything may.

    Args:
        step: the step.
        query: the request.
        loose: the word that means any item, or an extreme one, if there is one.
        names: names and ids that no call uses.
    """
    extreme = loose["extreme"] if loose is not None else None
    if step.foreach is not None or (extreme and _sorts(step)):
        return None
    said, words = _said(step, query)
    if not said and extreme:
        said = [extreme]  # no item has this word, so that a change asks which one is meant
    if not said and not any(isinstance(one, str) for value in step_values(step) for one in scalars(value)):
        said = [*names]
    pick: Literal["any", "extreme"] | None = "extreme" if extreme else "any" if loose is not None else None
    return Match(said=tuple(said), words=tuple(words), pick=pick) if said else None


def _said(step: Step, query: str) -> tuple[list[str], list[str]]:
    """The texts of the request that this step searches for, and the request's other words."""
    texts = [value.value for value in step.arguments.values() if isinstance(value, LiteralValue)]
    folded = query.casefold()
    said = [
        text
        for text in texts
        if isinstance(text, str)
        and len(text) <= _MAX_CHARS
        and any(char.isalpha() for char in text)
        and text.casefold() in folded
    ][:_MAX_SAID]
    known = {word.text.casefold() for text in said for word in words_of(text)}
    others = (word.text.casefold() for word in words_of(without(query, excepted(query))))
    words = [word for word in dict.fromkeys(others) if 2 < len(word) <= _MAX_CHARS and word not in known | STOP]
    return said, words[:_MAX_WORDS]


def _matched_step(step: Step, matches: Mapping[str, Match], values: Mapping[str, JsonValue]) -> Step:
    arguments = {name: _matched(v, _with_given(matches, values.get(name))) for name, v in step.arguments.items()}
    updates: dict[str, object] = {"arguments": arguments}
    if step.foreach is not None:
        updates["foreach"] = step.foreach.model_copy(update={"items": _matched(step.foreach.items, matches)})
    if step.when is not None:
        left, right = _matched(step.when.left, matches), _matched(step.when.right, matches)
        updates["when"] = step.when.model_copy(update={"left": left, "right": right})
    return step.model_copy(update=updates)


def _with_given(matches: Mapping[str, Match], value: JsonValue) -> Mapping[str, Match]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return matches
    return {step: match.model_copy(update={"given": value}) for step, match in matches.items()}


def _matched(value: Value, matches: Mapping[str, Match]) -> Value:
    match value:
        case Reference():
            return _of(value, matches)
        case ListValue():
            return ListValue(items=tuple(_matched(item, matches) for item in value.items))
        case ObjectValue():
            return ObjectValue(fields={name: _matched(field, matches) for name, field in value.fields.items()})
    return value


def _of(reference: Reference, matches: Mapping[str, Match]) -> Reference:
    if not _is_first(reference) or reference.match is not None or reference.step not in matches:
        return reference
    return reference.model_copy(update={"match": matches[reference.step]})
