"""A size limit on the responses of earlier calls that are copied into requests and plans, or compared.

In memory a value exists once, however often it is referenced. In a request it is written once per reference.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import JsonValue
from pydantic_core import to_json

from services.compute import checkpoint

T = TypeVar("T")
_UNLIMITED: Final = -1
_SMALL: Final = 8
"""Bytes counted for a number, a boolean or null."""
MAX_LOOKED_AT: Final = 1_000_000
"""Most items of lists of which the plan of one run takes something."""


class SizeExceeded(Exception):
    """The values exceed the limit. The message states the limit."""


@dataclass(slots=True)
class Known:
    """What the budgets of one run share.

    Attributes:
        results: what was computed from values, by the value's identity and the kind of result.
        looked_at: items of lists so far of which something was taken.
    """

    results: dict[tuple[int, Hashable], tuple[JsonValue, Any]] = field(default_factory=dict)
    looked_at: int = 0


@dataclass(slots=True)
class SizeBudget:
    """A budget of JSON bytes.

    Attributes:
        limit: maximum number of bytes.
        taken: bytes so far; a value counts each time it is taken.
        counted: values so far that were counted with :meth:`count`.
        repeated: bytes so far that were counted with :meth:`repeat`.
        known: what is shared between the budgets of one run.
    """

    limit: int
    taken: int = 0
    counted: int = 0
    repeated: int = 0
    known: Known = field(default_factory=Known)

    def uncounted(self) -> SizeBudget:
        """A budget without a limit that shares what is known: for values that are looked at, but not copied."""
        return SizeBudget(_UNLIMITED, known=self.known)

    def take(self, value: JsonValue) -> None:
        """Count a value once more. Raises SizeExceeded."""
        if self.limit == _UNLIMITED:
            return
        if isinstance(value, str):
            self.take_bytes(len(value) if value.isascii() else self.cached(value, "size", lambda: _bytes(value)))
        elif isinstance(value, dict | list):
            self.take_bytes(self.cached(value, "size", lambda: len(to_json(value))))
        else:
            self.take_bytes(_SMALL)

    def take_bytes(self, size: int) -> None:
        """Count so many bytes. Raises SizeExceeded."""
        self.taken += size
        if self.taken > self.limit:
            raise SizeExceeded(f"more than {self.limit} bytes of earlier answers")

    def count(self, values: int, most: int) -> None:
        """Count values, whatever their size. Raises SizeExceeded if there are more than ``most`` with all before."""
        self.counted += values
        if self.counted > most:
            raise SizeExceeded(f"more than {most} values in loops")

    def repeat(self, size: int, most: int) -> None:
        """Count bytes of a plan that its loops repeat. Raises SizeExceeded if there are more than ``most`` in all."""
        self.repeated += size
        if self.repeated > most:
            raise SizeExceeded(f"more than {most} bytes of the plan itself, repeated in loops")

    def look(self, items: int) -> None:
        """Count items of a list, of each of which something is taken. Raises SizeExceeded if the run takes of too many.

        Others have turns before it.
        """
        checkpoint()
        self.known.looked_at += items
        if self.known.looked_at > MAX_LOOKED_AT:
            raise SizeExceeded(f"something of more than {MAX_LOOKED_AT} items of lists")

    def cached(self, value: JsonValue, what: Hashable, work: Callable[[], T]) -> T:
        """The result of ``work`` for a value, computed once and then cached. The value must not change."""
        key, results = (id(value), what), self.known.results
        if key not in results:
            results[key] = (value, work())  # keeps a reference to the value, so that its id is not reused
        found: T = results[key][1]
        return found


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
