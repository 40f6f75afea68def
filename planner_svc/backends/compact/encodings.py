"""A cache of encoded APIs: encoding one takes an encoder pass."""

from __future__ import annotations

import hashlib

from planner_svc.backends.compact.items import Encoded, encode
from planner_svc.reading.api_cache import ApiCache
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import profile_of
from services.compute import checkpoint
from services.contracts.api import Api
from services.encoder import Encoder

MOST_UNITS = 120_000
"""Units in the cache, over all APIs: each is a vector of 768 bytes, and the items take about as much again."""


class Encodings:
    """Encoded APIs, in a cache that drops the least recently used. It is safe to use from several threads.

    Args:
        encoder: encodes APIs.
        most_units: size of the cache. An API takes one unit for itself, and one for each of its words, parameters,
            options and answer fields. The memory of the APIs themselves is bounded too (see :class:`ApiCache`).
    """

    def __init__(self, encoder: Encoder, most_units: int = MOST_UNITS) -> None:
        self._encoder = encoder
        self._cache: ApiCache[Encoded] = ApiCache(most_units)

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors; encoded on a cache miss. A checkpoint comes before each API."""
        checkpoint()
        key = f"{api.id}\n{api.content_hash or hashlib.sha256(api.model_dump_json().encode()).hexdigest()}"
        found = self._cache.get(key)
        if found is None:
            found = encode(flat(profile_of(api)), self._encoder)
            self._cache.put(key, found, api, len(found.items) + len(found.head))
        return found
