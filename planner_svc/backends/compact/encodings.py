"""APIs as the planner reads them, kept between requests: reading one costs an encoder pass, using it nothing."""

from __future__ import annotations

import hashlib

from planner_svc.backends.compact.items import Encoded, encode
from planner_svc.reading.kept import Kept
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api
from services.encoder import Encoder

MOST_UNITS = 120_000
"""Units kept, of all APIs together: each is a vector of 768 bytes; items have about as much beside it."""


class Encodings:
    """Encoded APIs, the least recently used dropped first. Several threads may use it.

    Args:
        encoder: reads them.
        most_units: kept at most; an API has one, and one for each of its words, parameters, options and fields of its
            answer. What APIs weigh is bounded too (see :class:`Kept`).
    """

    def __init__(self, encoder: Encoder, most_units: int = MOST_UNITS) -> None:
        self._encoder = encoder
        self._kept: Kept[Encoded] = Kept(most_units)

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors; read now where they are not known."""
        key = f"{api.id}\n{api.content_hash or hashlib.sha256(api.model_dump_json().encode()).hexdigest()}"
        found = self._kept.get(key)
        if found is None:
            found = encode(flat(read_profile(api)), self._encoder)
            self._kept.put(key, found, api, len(found.items) + len(found.head))
        return found
