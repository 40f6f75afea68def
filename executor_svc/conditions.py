"""Decides the conditions of steps (`when`), before an approval and in the run."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from executor_svc.equality import equal, is_among
from executor_svc.references import Item, Several, Unmatched, Unresolved, Use, resolve, type_name
from services.compute import checkpoint
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Reference, Value, When
from services.size_budget import SizeBudget

_THERE: Final = LiteralValue(value=True)
_NULL: Final = LiteralValue(value=None)
_ORDERINGS: Final = {
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
}


class Incomparable(Exception):
    """A `when` compares values that have no order, for example a string with a number."""


def presence(
    value: Value,
    outputs: Mapping[str, JsonValue],
    item: Item | None = None,
    budget: SizeBudget | None = None,
    use: Use = "change",
) -> Value:
    """True for a value that is known, null for null, and else the parts that are not known yet. Copies none.

    A value is there if several items match equally well, although none is chosen, unlike where nothing matches. What
    is decided before an approval stays so in its run: a missing part counts whatever the others are.

    Raises:
        Unresolved: a known output, or the item, lacks a part.
    """
    match value:
        case ListValue() | ObjectValue():
            inner = value.items if isinstance(value, ListValue) else value.fields.values()
            found = [presence(part, outputs, item, budget, use) for part in inner]
            unknown = tuple(part for part in found if not isinstance(part, LiteralValue))
            return ListValue(items=unknown) if unknown else _THERE
        case LiteralValue():
            return value
        case Reference() if value.step not in outputs:
            return value
        case ItemReference() if item is None:
            return value
    try:
        return _NULL if resolve(value, outputs, item, budget, use) is None else _THERE
    except Unmatched:
        raise
    except Several:
        return _THERE


def holds(
    when: When,
    outputs: Mapping[str, JsonValue],
    item: Item | None = None,
    budget: SizeBudget | None = None,
    use: Use = "change",
) -> bool:
    """Whether the condition holds. ``exists`` is true for a value that is present and not null.

    Raises:
        Unresolved: a side refers to a missing value. Not raised for ``exists``.
        Incomparable: the values have no order.
        SizeExceeded: the compared values are larger than the budget that is left.
    """
    checkpoint()
    if when.op == "exists":
        try:
            found = presence(when.left, outputs, item, None if budget is None else budget.uncounted(), use)
        except Unresolved:
            return False
        return isinstance(found, LiteralValue) and found.value is not None
    left, right = (_compared(side, outputs, item, budget, use) for side in (when.left, when.right))
    if when.op in ("eq", "ne"):
        return equal(left, right) is (when.op == "eq")
    if when.op == "in":
        return _contains(right, left)
    if not (_both_numbers(left, right) or (isinstance(left, str) and isinstance(right, str))):
        raise Incomparable(f"`when` cannot order {type_name(left)} and {type_name(right)}")
    return bool(_ORDERINGS[when.op](left, right))


def _compared(
    side: Value, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget | None, use: Use
) -> JsonValue:
    if budget is not None and isinstance(side, LiteralValue):
        budget.take(side.value)
    return resolve(side, outputs, item, budget, use)


def _contains(container: JsonValue, element: JsonValue) -> bool:
    if isinstance(container, list):
        return is_among(element, container)
    if isinstance(container, (str, dict)) and isinstance(element, str):
        return element in container
    raise Incomparable(f"`when` cannot look for {type_name(element)} in {type_name(container)}")


def _both_numbers(left: JsonValue, right: JsonValue) -> bool:
    return all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
