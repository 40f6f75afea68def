"""APIs as the planner reads them, kept between requests: reading one costs an encoder pass, using it nothing."""

from __future__ import annotations

import hashlib
from threading import Lock

from planner_svc.backends.compact.items import Encoded, encode
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api
from services.encoder import Encoder

MOST_ITEMS = 80_000
"""Items kept, of all APIs together: each is a vector of 768 bytes and about as much beside it."""


class Encodings:
    """Encoded APIs, the least recently used dropped first. Several threads may use it.

    Args:
        encoder: reads them.
        most_items: kept at most; an API has one, and one for each parameter, option and field of its answer.
    """

    def __init__(self, encoder: Encoder, most_items: int = MOST_ITEMS) -> None:
        self._encoder, self._most = encoder, most_items
        self._known: dict[str, Encoded] = {}
        self._items = 0
        self._lock = Lock()

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors; read now where they are not known."""
        key = f"{api.id}\n{api.content_hash or hashlib.sha256(api.model_dump_json().encode()).hexdigest()}"
        with self._lock:
            found = self._known.pop(key, None)
            if found is not None:
                self._known[key] = found
                return found
        found = encode(flat(read_profile(api)), self._encoder)
        with self._lock:
            self._items += len(found.items) if key not in self._known else 0
            self._known[key] = found
            while self._items > self._most and len(self._known) > 1:
                self._items -= len(self._known.pop(next(iter(self._known))).items)
        return found
