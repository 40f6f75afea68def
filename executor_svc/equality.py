"""Equality of JSON values. Unlike in Python, true is not equal to 1."""

from itertools import repeat
from operator import is_
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

_NESTED: Final = frozenset({bool, list, dict})
"""Types in a list whose kinds have to be compared one by one."""


def equal(left: JsonValue, right: JsonValue) -> bool:
    """Whether two JSON values are equal."""
    if left is right or left != right:  # Python's comparison takes a fraction of the time
        return left is right
    return (isinstance(left, dict | list) and to_json(left) == to_json(right)) or _same_kinds(left, right)


def _same_kinds(left: JsonValue, right: JsonValue) -> bool:
    """Whether values that are equal in Python have their booleans at the same places."""
    if isinstance(left, list) and isinstance(right, list):
        if not {*map(type, left), *map(type, right)} & _NESTED:
            return True  # also for a million numbers within a few milliseconds
        return all(_same_kinds(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same_kinds(left[key], right[key]) for key in left)
    return isinstance(left, bool) is isinstance(right, bool)


def is_among(element: JsonValue, container: list[JsonValue]) -> bool:
    """Whether one of the values is equal to the element. Python takes true and 1 for equal, so it only looks first."""
    if element not in container:
        return False
    if isinstance(element, dict | list):
        return any(equal(element, other) for other in container if other == element)
    if isinstance(element, bool):
        return any(map(is_, container, repeat(element)))
    if not isinstance(element, int | float) or element not in (0, 1):
        return True
    return container.count(element) > sum(map(is_, container, repeat(bool(element))))
