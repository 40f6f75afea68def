"""Exact names: which APIs have an id, a name or a path that is written like this."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from retriever_svc.models import Entry

KEYS = 3
"""Names an API has at most."""
NO_NAMES = frozenset({"", "/"})

Keys = NDArray[np.uint64]


def exact_key(text: str) -> str:
    """How a name, a path or an id is compared: without case, any run of other characters as one underscore.

    A path keeps its slashes, so that ``/users/{id}`` is not the same as an operation called ``users_id``.
    """
    kept = r"[^\w/]+" if text.startswith("/") else r"\W+"
    return re.sub(kept, "_", text.casefold()).strip("_")


def keys_of(entry: Entry) -> list[int]:
    """The digests of an API's names, ``KEYS`` of them, 0 where there are fewer."""
    names = {exact_key(entry.id), exact_key(entry.name), exact_key(entry.path)} - NO_NAMES
    digests = sorted(map(_digest, names))
    return digests + [0] * (KEYS - len(digests))


class ExactNames:
    """Positions by name, kept as sorted digests of 64 bits: as a table of texts they would take 20 MB and not 2.

    Args:
        keys: (n, ``KEYS``) what :func:`keys_of` gives for each position.
    """

    def __init__(self, keys: Keys) -> None:
        flat = keys.reshape(-1)
        order = np.argsort(flat, kind="stable")  # positions of one name stay in their order
        order = order[np.count_nonzero(flat == 0) :]
        self._digests, self._positions = flat[order], (order // KEYS).astype(np.int32)

    def get(self, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Positions of the APIs that have this name, as :func:`exact_key` writes it."""
        if key in NO_NAMES:
            return default
        digest = np.uint64(_digest(key))
        first, end = np.searchsorted(self._digests, digest), np.searchsorted(self._digests, digest, "right")
        return tuple(self._positions[first:end].tolist()) or default


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()) or 1
