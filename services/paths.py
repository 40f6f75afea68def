"""Follows paths into JSON values."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import JsonValue

from services.contracts.base import EVERY, JsonPath

MISSING: Final = object()
MAX_EVERY: Final = 100_000
"""Most items of a list of which a path takes something. Each such path makes a new list."""


class TooMany(Exception):
    """Something of more items of lists is taken than may be looked at."""


def looking_at(most: int) -> Callable[[int], None]:
    """What paths may look at together: ``most`` items of lists; it raises TooMany before there are more."""
    left = most

    def look(items: int) -> None:
        nonlocal left
        left -= items
        if left < 0:
            raise TooMany

    return look


def _uncounted(_: int) -> None:
    """Let any number of items be looked at."""


def value_at(value: JsonValue, path: JsonPath, *, gaps: bool = True, look: Callable[[int], None] = _uncounted) -> Any:
    """The value at a path; ``MISSING`` where there is none.

    Of every item of a list: the list of what they have there. If no item has it, it is missing.

    Args:
        value: the value that the path begins at.
        path: the path.
        gaps: items that lack it give None; otherwise it is missing if any item lacks it.
        look: told the length of each list before every item of it is looked at. What it raises ends the work.
    """
    current: Any = value
    for depth, part in enumerate(path):
        if isinstance(current, dict):
            there = isinstance(part, str) and part in current
        elif isinstance(current, list) and part == EVERY:
            return _of_every(current, path[depth + 1 :], gaps, look)
        else:
            there = isinstance(current, list) and isinstance(part, int) and 0 <= part < len(current)
        if not there:
            return MISSING
        current = current[part]
    return current


def _of_every(items: list[JsonValue], path: JsonPath, gaps: bool, look: Callable[[int], None]) -> Any:
    if len(items) > MAX_EVERY:
        return MISSING
    look(len(items))
    found = [value_at(item, path, gaps=gaps, look=look) for item in items]
    lacking = sum(one is MISSING for one in found)
    if lacking and (not gaps or lacking == len(found)):
        return MISSING
    return [None if one is MISSING else one for one in found]
