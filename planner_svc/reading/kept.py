"""What was read of APIs, kept between requests: by what it weighs, not only by how many there are."""

from threading import Lock
from typing import Final, Generic, TypeVar

from services.contracts.api import Api

T = TypeVar("T")

MOST_CHARACTERS: Final = 20_000_000
"""Characters of JSON of all APIs kept together: 4,000 operations of 5,000. Memory takes several times that."""
MOST_CHARACTERS_EACH: Final = 1_000_000
"""Characters of JSON of an API that is kept; a larger one is read for each request that has it."""


class Kept(Generic[T]):
    """Something for each API, the least recently used dropped first. Several threads may use it.

    Args:
        most: kept at most, in whatever the caller counts.
        most_characters: of the JSON of all APIs that something is kept for.
        most_characters_each: of the JSON of one of them.
    """

    def __init__(
        self, most: int, most_characters: int = MOST_CHARACTERS, most_characters_each: int = MOST_CHARACTERS_EACH
    ) -> None:
        self._most, self._most_characters, self._most_each = most, most_characters, most_characters_each
        self._known: dict[str, tuple[T, int, int]] = {}
        self._count = 0
        self._characters = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """APIs that something is kept for."""
        return len(self._known)

    def get(self, key: str) -> T | None:
        """What is kept under the key, used now."""
        with self._lock:
            found = self._known.pop(key, None)
            if found is None:
                return None
            self._known[key] = found
            return found[0]

    def put(self, key: str, value: T, api: Api, count: int = 1) -> None:
        """Keep a value that was read of an API, in place of what the key had, unless the API is too large for that."""
        characters = len(api.model_dump_json())
        with self._lock:
            self._drop(key)
            if characters > self._most_each:
                return
            self._known[key] = (value, count, characters)
            self._count += count
            self._characters += characters
            while self._count > self._most or self._characters > self._most_characters:
                self._drop(next(iter(self._known)))

    def _drop(self, key: str) -> None:
        """Forget a key, where it is known. The lock is held."""
        if (found := self._known.pop(key, None)) is not None:
            self._count -= found[1]
            self._characters -= found[2]
