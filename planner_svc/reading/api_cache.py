"""A cache of what was read from APIs, limited by size as well as by number."""

from threading import Lock
from typing import Final, Generic, TypeVar

from services.contracts.api import Api

T = TypeVar("T")

MOST_CHARACTERS: Final = 20_000_000
"""Most characters of JSON of all cached APIs: enough for 4,000 operations of 5,000. Memory takes several times that."""
MOST_CHARACTERS_EACH: Final = 1_000_000
"""Most characters of JSON of one cached API. A larger one is read again for each request."""


class ApiCache(Generic[T]):
    """An LRU cache of a value for each API. It is safe to use from several threads.

    Args:
        most: limit on the sum of the entries' counts, in the caller's unit.
        most_characters: limit on the JSON of all cached APIs.
        most_characters_each: limit on the JSON of one API.
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
        """The number of cached APIs."""
        with self._lock:
            return len(self._known)

    def get(self, key: str) -> T | None:
        """The value under the key, which becomes the most recently used; None if there is none."""
        with self._lock:
            found = self._known.pop(key, None)
            if found is None:
                return None
            self._known[key] = found
            return found[0]

    def put(self, key: str, value: T, api: Api, count: int = 1) -> None:
        """Cache a value that was read from an API in place of the old one. An API that is too large is not cached."""
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
        """Remove a key if it is cached. The caller holds the lock."""
        if (found := self._known.pop(key, None)) is not None:
            self._count -= found[1]
            self._characters -= found[2]
