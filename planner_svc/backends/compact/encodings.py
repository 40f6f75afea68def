"""APIs as the planner reads them, kept between requests: reading one costs an encoder pass, using it nothing."""

from __future__ import annotations

import hashlib

from planner_svc.backends.compact.items import Encoded, encode
from planner_svc.reading.kept import Kept
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
        most_items: kept at most; an API has one, and one for each parameter, option and field of its answer. What
            APIs weigh is bounded too (see :class:`Kept`).
    """

    def __init__(self, encoder: Encoder, most_items: int = MOST_ITEMS) -> None:
        self._encoder = encoder
        self._kept: Kept[Encoded] = Kept(most_items)

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors; read now where they are not known."""
        key = f"{api.id}\n{api.content_hash or hashlib.sha256(api.model_dump_json().encode()).hexdigest()}"
        found = self._kept.get(key)
        if found is None:
            found = encode(flat(read_profile(api)), self._encoder)
            self._kept.put(key, found, api, len(found.items))
        return found
