"""Which item of a result list a plan means: the plan stores the request's words for it, and the executor uses them."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.text import STOP, words_of
from services.contracts.plan import (
    ListValue,
    LiteralValue,
    Match,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
)

_ANY: Final = re.compile(
    r"\b(?:any|first|random|whichever|whatever|cheapest|nearest|closest|best|latest|newest|oldest|earliest|largest"
    r"|biggest|smallest|highest|lowest|longest|shortest|fastest|top|most|least)\b",
    re.IGNORECASE,
)
"""Words that show that the request does not mean an item by its name."""
_NO_VALUES: Final[Mapping[str, JsonValue]] = MappingProxyType({})
_MAX_SAID: Final = 8
_MAX_WORDS: Final = 32
_MAX_CHARS: Final = 200
_MAX_READ: Final = 4_000


def with_matches(plan: Plan, query: str, values: Mapping[str, JsonValue] = _NO_VALUES) -> Plan:
    """The plan with a match at every reference to the first item of a list that was searched with words of the request.

    An index other than 0, or a word such as "any" or "cheapest", already says which item is meant.

    Args:
        plan: the plan.
        query: the request.
        values: the application's values by argument, such as answers to questions about items.
    """
    if _ANY.search(query[:_MAX_READ]) is not None:
        return plan
    matches = {step.id: match for step in plan.steps if (match := _match(step, query[:_MAX_READ])) is not None}
    if not matches:
        return plan
    steps = tuple(_matched_step(step, matches, values) for step in plan.steps)
    answer = tuple(one.model_copy(update={"value": _of(one.value, matches)}) for one in plan.answer)
    return Plan(steps=steps, answer=answer)


def _match(step: Step, query: str) -> Match | None:
    """The words that this step searches for; None if the request does not contain them."""
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
    if not said or step.foreach is not None:
        return None
    known = {word.text.casefold() for text in said for word in words_of(text)}
    others = (word.text.casefold() for word in words_of(query))
    words = [word for word in dict.fromkeys(others) if 2 < len(word) <= _MAX_CHARS and word not in known | STOP]
    return Match(said=tuple(said), words=tuple(words[:_MAX_WORDS]))


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
    index = next((part for part in reference.path if isinstance(part, int)), None)
    if index != 0 or reference.match is not None or reference.step not in matches:
        return reference
    return reference.model_copy(update={"match": matches[reference.step]})
