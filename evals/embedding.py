"""Caches the vectors of a catalogue's texts in a file: embedding tens of thousands of texts takes minutes."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.progress import Progress

from evals.data import DataError
from services.encoder import Encoder, Vectors

_BATCH = 32


def embed(
    texts: Mapping[str, str], encoder: Encoder, progress: Progress, cache: Path | None = None
) -> dict[str, Vectors]:
    """The (d,) vectors of texts by hash. Vectors in the cache are read; the others are computed and added to it.

    Args:
        texts: by hash.
        encoder: makes the vectors. One cache may hold the vectors of several encoders.
        progress: shows a bar.
        cache: an ``.npz`` file, created if missing. An interrupted run keeps the vectors computed so far.

    Raises:
        DataError: the cache is not such a file.
    """
    arrays = _load(cache) if cache is not None else {}
    vectors = _known(arrays, encoder)
    pending = [key for key in texts if key not in vectors]
    task = progress.add_task("embedding", total=len(pending))
    try:
        for start in range(0, len(pending), _BATCH):
            batch = pending[start : start + _BATCH]
            vectors.update(zip(batch, encoder.encode([texts[key] for key in batch]), strict=True))
            progress.advance(task, len(batch))
    finally:
        if cache is not None and pending and vectors:
            arrays[f"{encoder.name}:hashes"] = np.array(list(vectors))
            arrays[f"{encoder.name}:vectors"] = np.stack(list(vectors.values()))
            _save(cache, arrays)
    return {key: vectors[key] for key in texts}


def _known(arrays: Mapping[str, np.ndarray], encoder: Encoder) -> dict[str, Vectors]:
    hashes, rows = arrays.get(f"{encoder.name}:hashes"), arrays.get(f"{encoder.name}:vectors")
    if hashes is None or rows is None:
        return {}
    if rows.shape != (len(hashes), encoder.dimension) or rows.dtype != np.float32:
        raise DataError(f"the cache holds no vectors of {encoder.name}: remove it")
    return dict(zip(hashes.tolist(), rows, strict=True))


def _load(cache: Path) -> dict[str, np.ndarray]:
    if not cache.exists():
        return {}
    try:
        with np.load(cache, allow_pickle=False) as file:
            return dict(file)
    except (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{cache} is no cache of vectors: {error}") from None


def _save(cache: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a temporary file and rename it, so that a reader never sees a partial file."""
    part = cache.with_name(f".{cache.name}.{os.getpid()}")
    with part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    part.replace(cache)
