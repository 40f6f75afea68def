"""Resolves the values of a plan with the outputs of earlier steps. Works on native JSON types.

There are no string templates, and substituted values are not resolved again. Outputs are shared, not copied, and never
changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.choosing import best, label
from services.contracts.base import JsonPath
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Reference, Value, When
from services.size_budget import SizeBudget


class Unresolved(Exception):
    """A reference points to a missing value. The message names the step and the path."""


class Several(Unresolved):
    """Several items with different values match equally well. ``choices``: the values, each with its item's label."""

    def __init__(self, message: str, choices: list[tuple[JsonValue, str]]) -> None:
        super().__init__(message)
        self.choices = choices


class Incomparable(Exception):
    """A `when` compares values that have no order, for example a string with a number."""


@dataclass(frozen=True, slots=True)
class Item:
    """The current element of a `foreach`."""

    value: JsonValue


MAX_CHOICES: Final = 10
_MAX_CHOICE_CHARS: Final = 200
_ORDERINGS: Final = {
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
}


def resolve(
    value: Value, outputs: Mapping[str, JsonValue], item: Item | None = None, budget: SizeBudget | None = None
) -> JsonValue:
    """The JSON value of ``value``. The size of referenced values is taken from ``budget``, if given.

    Raises:
        Unresolved: a step gave no output, a path does not exist, or there is no current item.
        Several: several items with different values match equally well.
        SizeExceeded: the referenced values are larger than the budget that is left.
    """
    match value:
        case LiteralValue():
            return value.value
        case Reference():
            if value.step not in outputs:
                raise Unresolved(f"step {value.step} has no output")
            output, what = outputs[value.step], f"the output of {value.step}"
            found = walk(output, value.path if value.match is None else chosen(output, value, budget=budget), what)
        case ItemReference():
            if item is None:
                raise Unresolved("there is no current item outside a foreach")
            found = walk(item.value, value.path, "the current item")
        case ListValue():
            return [resolve(element, outputs, item, budget) for element in value.items]
        case ObjectValue():
            return {name: resolve(field, outputs, item, budget) for name, field in value.fields.items()}
    if budget is not None:
        budget.take(found)
    return found


def parts(value: Value | JsonValue, *, literals: bool) -> int:
    """The number of values in a plan's value, itself included. ``literals``: count the values inside literals, too."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, ListValue):
            waiting += one.items
        elif isinstance(one, ObjectValue):
            waiting += one.fields.values()
        elif isinstance(one, LiteralValue) and literals:
            waiting.append(one.value)
        elif isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
    return count


def chosen(output: JsonValue, reference: Reference, *, sure: bool = True, budget: SizeBudget | None = None) -> JsonPath:
    """The path to the item that the reference's match selects; the path as written if no item matches.

    Args:
        output: the step's output.
        reference: a reference with a match.
        sure: whether the match must be unique. Otherwise the first of the best matches is used.
        budget: caches the result: comparing the words of a list is slow, and a plan may need it a thousand times.

    Raises:
        Several: ``sure`` is set, and several best matches have different values.
    """

    def choose() -> JsonPath | Several:
        try:
            return _chosen(output, reference, sure=sure)
        except Several as several:
            return several

    found = choose() if budget is None else budget.cached(output, (reference, sure), choose)
    if isinstance(found, Several):
        raise found
    return found


def _chosen(output: JsonValue, reference: Reference, *, sure: bool) -> JsonPath:
    path, match = reference.path, reference.match
    at = next(at for at, part in enumerate(path) if isinstance(part, int))
    try:
        items = walk(output, path[:at], reference.step)
    except Unresolved:
        return path  # following this path raises the error later
    if match is None or not isinstance(items, list) or not (alike := best(items, match)):
        return path
    paths: list[JsonPath] = [(*path[:at], index, *path[at + 1 :]) for index in alike]
    if sure and len(alike) > 1:
        found: list[tuple[JsonValue, str]] = []
        for index, one in zip(alike, paths, strict=True):
            value = walk(output, one, f"the output of {reference.step}")
            if len(found) < MAX_CHOICES and not any(equal(value, other) for other, _ in found):
                found.append((value, label(items[index])))
        if len(found) > 1:
            where = render(path[:at]) or "the answer"
            choices = [(value if _is_small(value) else None, text) for value, text in found]
            raise Several(f"several items of {where} of {reference.step} match equally well", choices)
    return paths[0]


def _is_small(value: JsonValue) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= _MAX_CHOICE_CHARS


def walk(value: JsonValue, path: JsonPath, what: str) -> JsonValue:
    """Follow a path: strings are members of objects, integers (from 0) are indices of lists.

    Raises:
        Unresolved: the path does not exist. The message names ``what``, the whole path, and where it ended.
    """
    current = value
    for depth, key in enumerate(path):
        if isinstance(current, dict) and isinstance(key, str) and key in current:
            current = current[key]
            continue
        if isinstance(current, list) and isinstance(key, int) and 0 <= key < len(current):
            current = current[key]
            continue
        found = f"{type_name(current)} of {len(current)}" if isinstance(current, list) else type_name(current)
        where = render(path[:depth]) or "it"
        why = f"{where} is empty" if current == [] else f"{where} is {found}, which has no {key!r}"
        raise Unresolved(f"{what} has no {render(path)}: {why}")
    return current


def render(path: JsonPath) -> str:
    """A path as readable text: ``items[0].name``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def type_name(value: JsonValue) -> str:
    """The JSON type of a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "a string", list: "a list", dict: "an object"}[type(value)]


def holds(
    when: When, outputs: Mapping[str, JsonValue], item: Item | None = None, budget: SizeBudget | None = None
) -> bool:
    """Whether the condition holds. ``exists`` is true for a value that is present and not null.

    Raises:
        Unresolved: a side refers to a missing value. Not raised for ``exists``.
        Incomparable: the values have no order.
        SizeExceeded: the compared values are larger than the budget that is left.
    """
    if when.op == "exists":
        try:
            return resolve(when.left, outputs, item) is not None
        except Unresolved:
            return False
    left, right = (_compared(side, outputs, item, budget) for side in (when.left, when.right))
    if when.op in ("eq", "ne"):
        return equal(left, right) is (when.op == "eq")
    if when.op == "in":
        return _contains(right, left)
    if not (_both_numbers(left, right) or (isinstance(left, str) and isinstance(right, str))):
        raise Incomparable(f"`when` cannot order {type_name(left)} and {type_name(right)}")
    return bool(_ORDERINGS[when.op](left, right))


def _compared(side: Value, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget | None) -> JsonValue:
    if budget is not None and isinstance(side, LiteralValue):
        budget.take(side.value)
    return resolve(side, outputs, item, budget)


def equal(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values. Unlike in Python, true is not equal to 1."""
    if left is right or left != right:  # Python's comparison takes a fraction of the time
        return left is right
    return (isinstance(left, dict | list) and to_json(left) == to_json(right)) or _equal(left, right)


def _equal(left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return isinstance(left, bool) is isinstance(right, bool) and left == right


def _contains(container: JsonValue, element: JsonValue) -> bool:
    if isinstance(container, list):
        return element in container and any(equal(element, other) for other in container)
    if isinstance(container, (str, dict)) and isinstance(element, str):
        return element in container
    raise Incomparable(f"`when` cannot look for {type_name(element)} in {type_name(container)}")


def _both_numbers(left: JsonValue, right: JsonValue) -> bool:
    return all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
