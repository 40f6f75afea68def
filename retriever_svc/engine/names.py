"""Exact names: finds APIs by their id, name or path."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from retriever_svc.models import Entry

KEYS = 3
"""Most names of an API."""
NO_NAMES = frozenset({"", "/"})

Keys = NDArray[np.uint64]


def exact_key(text: str) -> str:
    """A name, path or id in the form that is compared: case folded, any run of other characters as one underscore.

    A path keeps its slashes, so that ``/users/{id}`` differs from an operation called ``users_id``.
    """
    kept = r"[^\w/]+" if text.startswith("/") else r"\W+"
    return re.sub(kept, "_", text.casefold()).strip("_")


def keys_of(entry: Entry) -> list[int]:
    """The digests of an API's names, padded with 0 to ``KEYS``."""
    names = {exact_key(entry.id), exact_key(entry.name), exact_key(entry.path)} - NO_NAMES
    digests = sorted(map(_digest, names))
    return digests + [0] * (KEYS - len(digests))


class ExactNames:
    """Positions by name, as sorted digests of 64 bits. They take 2 MB; a table of texts would take 20 MB.

    Args:
        keys: (n, ``KEYS``) the result of :func:`keys_of` for each position.
    """

    def __init__(self, keys: Keys) -> None:
        flat = keys.reshape(-1)
        order = np.argsort(flat, kind="stable")  # positions of one name stay in their order
        order = order[np.count_nonzero(flat == 0) :]
        self._digests, self._positions = flat[order], (order // KEYS).astype(np.int32)

    def get(self, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Positions of the APIs with this name, in the form of :func:`exact_key`."""
        if key in NO_NAMES:
            return default
        digest = np.uint64(_digest(key))
        first, end = np.searchsorted(self._digests, digest), np.searchsorted(self._digests, digest, "right")
        return tuple(self._positions[first:end].tolist()) or default


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()) or 1
