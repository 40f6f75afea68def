"""Names of operations and definitions."""

from __future__ import annotations

import re
from collections import Counter

from retriever_svc.importers.limits import MAX_NAME

_READ = 20 * MAX_NAME
"""Characters of a text that are looked at: a document may be a single name, and a pattern lets no other thread run."""
_ROOM = 7
"""Characters reserved for a number at the end of a name."""


def slug(text: str) -> str:
    """Letters, digits, dots, dashes and underscores; everything else becomes one underscore."""
    return re.sub(r"[^\w.-]+", "_", text[:_READ]).strip("_")[:MAX_NAME]


class Names:
    """Gives unique names. The time for a name does not grow with the number of its duplicates."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        """Whether this name is taken."""
        return name in self._taken

    def take(self, name: str) -> str:
        """The name itself, or if it is taken, the name with the next free number."""
        free, stem = name, name[: MAX_NAME - _ROOM]
        while free in self._taken:
            self._numbers[stem] += 1
            free = f"{stem}_{self._numbers[stem] + 1}"
        self._taken.add(free)
        return free
