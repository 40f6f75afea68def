"""Follows paths into JSON values."""

from typing import Any, Final

from pydantic import JsonValue

from services.contracts.base import EVERY, JsonPath

MISSING: Final = object()
MAX_EVERY: Final = 100_000
"""Most items of a list of which a path takes something. Each such path makes a new list."""


def value_at(value: JsonValue, path: JsonPath, *, gaps: bool = True) -> Any:
    """The value at a path; ``MISSING`` where there is none.

    Of every item of a list: the list of what they have there. If no item has it, it is missing.

    Args:
        value: the value that the path begins at.
        path: the path.
        gaps: items that lack it give None; otherwise it is missing if any item lacks it.
    """
    current: Any = value
    for depth, part in enumerate(path):
        if isinstance(current, dict):
            there = isinstance(part, str) and part in current
        elif isinstance(current, list) and part == EVERY:
            return _of_every(current, path[depth + 1 :], gaps)
        else:
            there = isinstance(current, list) and isinstance(part, int) and 0 <= part < len(current)
        if not there:
            return MISSING
        current = current[part]
    return current


def _of_every(items: list[JsonValue], path: JsonPath, gaps: bool) -> Any:
    if len(items) > MAX_EVERY:
        return MISSING
    found = [value_at(item, path, gaps=gaps) for item in items]
    lacking = sum(one is MISSING for one in found)
    if lacking and (not gaps or lacking == len(found)):
        return MISSING
    return [None if one is MISSING else one for one in found]
