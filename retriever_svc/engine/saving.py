"""Saves a snapshot for the next start, so that a service is ready as soon as it has mapped a file.

There are two files: ``catalogue`` with everything except the vectors, and the vectors in a file named by the
catalogue's digest. The catalogue is written last, so the two always match, even after a crash and with other processes
writing to the folder. A snapshot may be older than the database: the service then updates it.
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from retriever_svc.engine.entries import Entries
from retriever_svc.engine.index import files
from retriever_svc.engine.lexical import LexicalIndex
from retriever_svc.engine.snapshot import Facts, Snapshot
from retriever_svc.engine.vectors import Indexes, Source, VectorIndex
from services.telemetry import get_logger

FORMAT = 6
"""Increased whenever files of an older version would be misread."""
_KIND = "catalogue"
_SPARED_S = 60.0
_VECTORS = re.compile(r"[0-9a-f]{32}\.vectors")
_log = get_logger(__name__)

Array = NDArray[Any]


class SnapshotFiles:
    """The files of one catalogue. Several processes may use the same folder.

    Args:
        folder: the folder; it is created by the first save.
        dimension: length of the vectors.
    """

    def __init__(self, folder: Path, dimension: int) -> None:
        self._folder, self._dimension = folder, dimension
        self._catalogue = folder / "catalogue"
        self._kept = ""
        self._failed = False
        self._saving = threading.Lock()

    def load(self, encoder: str, indexes: Indexes) -> Snapshot | None:
        """The snapshot that was saved last, or None if there is none that can be used. Blocks."""
        saved = files.load(self._catalogue, _KIND, self._source(encoder), memory_mapped=True)
        if saved is None:
            return None
        arrays = {name: np.asarray(array) for name, array in saved.arrays.items()}  # slices of memmaps are slow to make
        facts, version = _facts(arrays), saved.notes["version"]
        digest = facts.digest(version)
        index = indexes.load(self._vectors(digest), self._source(encoder, digest))
        if index is None:
            _log.warning("snapshot_ignored", reason="it lacks its vectors")
            return None
        self._kept = digest
        return _snapshot(arrays, version, facts, index)

    def save(self, snapshot: Snapshot, encoder: str) -> None:
        """Save a snapshot, unless it is the one saved last. Blocks. If the folder cannot be written, it only warns."""
        with self._saving:
            if snapshot.digest != self._kept and len(snapshot.entries):
                self._save(snapshot, encoder)

    def _save(self, snapshot: Snapshot, encoder: str) -> None:
        try:
            source = self._source(encoder, snapshot.digest)
            snapshot.vectors.save(self._vectors(snapshot.digest), source)
            notes = {"version": snapshot.version}
            files.save(self._catalogue, _KIND, self._source(encoder), _arrays(snapshot), notes)
        except OSError as error:
            if not self._failed:
                _log.warning("snapshot_not_saved", reason=str(error))
            self._failed = True
            return
        self._kept, self._failed = snapshot.digest, False
        self._sweep()

    def _vectors(self, digest: str) -> Path:
        return self._folder / f"{digest[:32]}.vectors"

    def _source(self, encoder: str, digest: str = "") -> Source:
        """What a file must have been made from: this encoder and this version of Nestor, whose code makes the texts."""
        return Source(encoder, self._dimension, f"{FORMAT} {importlib.metadata.version('nestor')} {digest}")

    def _sweep(self) -> None:
        """Remove the vectors of other snapshots, except new ones, whose catalogue another process may be writing."""
        for path in self._folder.glob("*.vectors"):
            if _VECTORS.fullmatch(path.name) and path != self._vectors(self._kept):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _SPARED_S:
                        path.unlink()


def _arrays(snapshot: Snapshot) -> dict[str, Array]:
    facts, entries = snapshot.facts, snapshot.entries
    arrays: dict[str, Array] = {
        "ids": _packed([key.encode() for key in entries.ids]),
        "rows": _packed(entries.rows),
        "names": np.frombuffer(orjson.dumps(snapshot.names), np.uint8),
        "audiences": np.frombuffer(orjson.dumps(snapshot.audiences), np.uint8),
    }
    arrays |= {f"facts.{name}": getattr(facts, name) for name in Facts.__dataclass_fields__}
    for part, index in (("lexical", snapshot.lexical), ("outputs", snapshot.outputs)):
        arrays |= {f"{part}.{name}": array for name, array in index.arrays().items()}
    return arrays


def _facts(arrays: Mapping[str, Array]) -> Facts:
    return Facts(**{name: arrays[f"facts.{name}"] for name in Facts.__dataclass_fields__})


def _snapshot(arrays: Mapping[str, Array], version: int, facts: Facts, vectors: VectorIndex) -> Snapshot:
    def index(part: str) -> LexicalIndex:
        prefix = f"{part}."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        return LexicalIndex.of_arrays(own)

    names = tuple(orjson.loads(arrays["names"].tobytes()))
    audiences = tuple(map(tuple, orjson.loads(arrays["audiences"].tobytes())))
    entries = Entries(tuple(line.decode() for line in _unpacked(arrays["ids"])), _unpacked(arrays["rows"]))
    return Snapshot(version, entries, facts, names, audiences, vectors, index("lexical"), index("outputs"))


def _packed(lines: Iterable[bytes]) -> Array:
    """Lines, none of which contains a line feed, as one array."""
    return np.frombuffer(b"\n".join(lines), np.uint8)


def _unpacked(array: Array) -> tuple[bytes, ...]:
    joined = array.tobytes()
    return tuple(joined.split(b"\n")) if joined else ()
