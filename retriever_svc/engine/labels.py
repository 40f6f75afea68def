"""Tags and methods as digests of a fixed width, so that filters compare arrays instead of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

TAGS: Final = 8
"""An API is found by its first ``TAGS`` tags; few have more than two."""

Labels = NDArray[np.uint64]


def label_key(text: str) -> int:
    """A digest of 64 bits, ignoring case; never 0."""
    content = text.strip().casefold().encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) or 1


def label_keys(texts: Iterable[str]) -> Labels:
    """The digests of these texts: (n,)."""
    return np.array([label_key(text) for text in texts], np.uint64)


def tag_row(tags: Iterable[str]) -> list[int]:
    """The digests of an API's tags, padded with 0 to ``TAGS``."""
    return [*[label_key(tag) for tag in tags][:TAGS], *[0] * TAGS][:TAGS]
