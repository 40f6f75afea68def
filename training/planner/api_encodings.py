"""Encodes the APIs of all examples and caches the vectors in a file: tens of thousands of APIs take minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.items import Encoded, encode, items_of
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Profile, read_profile
from services.contracts.api import Api
from services.encoder import Encoder

_RECENT: Final = 30_000


class ApiEncodings:
    """Encoded APIs.

    Args:
        encoder: the encoder that reads items when serving.
        file: cache of vectors between runs (``.npz``); None: no cache.
    """

    def __init__(self, encoder: Encoder, file: Path | None = None) -> None:
        self._encoder, self._file = encoder, file
        self._profiles: dict[int, Profile] = {}
        self._known: dict[int, Encoded] = {}
        self._kept: list[Api] = []  # keeps APIs alive, so that their ids are not reused
        self._read_before: dict[str, tuple[NDArray[np.float16], NDArray[np.float16]]] = {}
        self._unsaved = 0
        if file is not None and file.exists():
            with np.load(file, allow_pickle=False) as saved:
                ends = np.cumsum(saved["sizes"])[:-1]
                parts = np.split(saved["rows"], ends)
                both = zip(parts[::2], parts[1::2], strict=True)
                self._read_before = dict(zip(saved["keys"].tolist(), both, strict=True))

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return self._encoder.dimension

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors."""
        found = self._known.get(id(api))
        if found is None:
            found = self._read(api)
            self._known[id(api)] = found
            self._kept.append(api)
        return found

    def save(self) -> None:
        """Write new vectors to the file."""
        if self._file is None or not self._unsaved:
            return
        part = self._file.with_suffix(".part.npz")
        rows = [part for both in self._read_before.values() for part in both]
        keys = np.array(list(self._read_before))
        np.savez(part, keys=keys, sizes=np.array([len(r) for r in rows]), rows=np.concatenate(rows))
        part.replace(self._file)
        self._unsaved = 0

    def fill(self, apis: Iterable[Api]) -> None:
        """Encode these APIs now."""
        for api in apis:
            self.of(api)
            if self._unsaved >= _RECENT:
                self.save()
        self.save()

    def _read(self, api: Api) -> Encoded:
        profile = flat(read_profile(api))
        items = items_of(profile)
        text = "\n".join(item.text for item in items)
        key = hashlib.sha256(f"{self._encoder.name}\n{text}".encode("utf-8", "replace")).hexdigest()
        known = self._read_before.get(key)
        if known is None or len(known[0]) != len(items):
            read = encode(profile, self._encoder)
            known = self._read_before[key] = read.vectors, read.head
            self._unsaved += 1
        return Encoded(profile, items, *known)
