"""Bounds how much of what calls answered is written into requests and plans, or compared.

In memory a value is there once, however often it is referred to. In a request it stands as often as that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import JsonValue
from pydantic_core import to_json

T = TypeVar("T")
_SMALL: Final = 8
"""What a number, a truth or null counts."""


class NoRoomLeft(Exception):
    """More is referred to than there is room for. The message says how much there is."""


@dataclass(slots=True)
class Room:
    """Room for so many bytes of JSON.

    Attributes:
        limit: of all that is taken.
        taken: bytes so far, each value as often as it was taken.
        known: what was worked out of values, by their identity and by what it is; share it between rooms of one run.
    """

    limit: int
    taken: int = 0
    known: dict[tuple[int, Hashable], tuple[JsonValue, Any]] = field(default_factory=dict)

    def take(self, value: JsonValue) -> None:
        """Take a value once more. Raises NoRoomLeft."""
        if isinstance(value, str):
            self.taken += len(value)
        elif isinstance(value, dict | list):
            self.taken += self.once(value, "size", lambda: len(to_json(value)))
        else:
            self.taken += _SMALL
        if self.taken > self.limit:
            raise NoRoomLeft(f"more than {self.limit} bytes of earlier answers")

    def once(self, value: JsonValue, what: Hashable, work: Callable[[], T]) -> T:
        """What is worked out of a value, which nobody changes, by the work of the first time."""
        key = (id(value), what)
        if key not in self.known:
            self.known[key] = (value, work())  # with the value, so that its identity stays its own
        found: T = self.known[key][1]
        return found
