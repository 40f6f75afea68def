"""A file that holds an index. It is written atomically, and read only if its digest matches.

FAISS maps a file that begins with its own data, so the header is at the end:

    FAISS's data (or nothing) · arrays · header as JSON · magic, length of the header · SHA-256 of all before it

The digest detects damage, not forgery: the file is part of the service's own data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.index.protocol import Source
from services.telemetry import get_logger

FORMAT = 1
"""Increased whenever an older reader would misread the new format."""
_MAGIC = b"NESTORVX"
_TRAILER = struct.Struct("<8sQ")
_DIGEST_BYTES = 32
_ALIGNMENT = 64
_CHUNK = 1 << 20
_ABANDONED_S = 3_600
_log = get_logger(__name__)

Array = NDArray[Any]


@dataclass(frozen=True)
class Saved:
    """The content of a file.

    Attributes:
        arrays: arrays by name; read-only if they are memory-mapped.
        notes: small numbers by name.
        faiss: FAISS's index, or None if the file has none.
        faiss_bytes: the bytes of a memory-mapped FAISS index, which FAISS itself cannot write.
    """

    arrays: Mapping[str, Array]
    notes: Mapping[str, int]
    faiss: Any
    faiss_bytes: Array | None


def save(
    path: Path,
    kind: str,
    source: Source,
    arrays: Mapping[str, Array],
    notes: Mapping[str, int] | None = None,
    faiss_part: Any = None,
) -> None:
    """Write a temporary file beside the path, then rename it to the path.

    Args:
        path: the file.
        kind: kind of the index.
        source: what the index was made from.
        arrays: arrays by name.
        notes: small numbers by name.
        faiss_part: FAISS's index, or its bytes.

    Raises:
        OSError: it cannot be written; an existing file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    try:
        if faiss_part is not None:
            _write_faiss(faiss_part, name)
        with open(name, "r+b") as file:
            _append(file, {"format": FORMAT, "kind": kind, "source": asdict(source), "notes": notes or {}}, arrays)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def load(path: Path, kind: str, source: Source, *, memory_mapped: bool) -> Saved | None:
    """The content of the file, or None if it cannot be used: see ``Indexes.load``."""
    try:
        with path.open("rb") as file:
            header = _header(file)
            expected = {"format": FORMAT, "kind": kind, "source": asdict(source)}
            if {name: header.get(name) for name in expected} != expected:
                raise _Unusable("made from something else")
            arrays = {name: _array(file, memory_mapped, **place) for name, place in header["arrays"].items()}
            size = header["faiss_size"]
            index = _read_faiss(path, file, memory_mapped) if size else None
            mapped = _array(file, True, 0, "|u1", [size]) if size and memory_mapped else None
            return Saved(arrays, header["notes"], index, mapped)
    except FileNotFoundError:
        return None
    except (OSError, _Unusable) as error:
        _log.warning("index_file_ignored", file=path.name, reason=str(error))
        return None


class _Unusable(Exception):
    """The file is not what was expected."""


def _append(file: BinaryIO, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write everything after FAISS's data."""
    faiss_size = file.seek(0, os.SEEK_END)
    places = {}
    for name, array in arrays.items():
        file.write(bytes(-file.tell() % _ALIGNMENT))
        places[name] = {"offset": file.tell(), "dtype": array.dtype.str, "shape": array.shape}
        file.write(np.ascontiguousarray(array).data)
    header = json.dumps({**about, "faiss_size": faiss_size, "arrays": places}).encode()
    file.write(header)
    file.write(_TRAILER.pack(_MAGIC, len(header)))
    file.write(_digest(file, file.tell()))


def _header(file: BinaryIO) -> dict[str, Any]:
    """The header. Raises _Unusable if the file is incomplete or damaged."""
    size = file.seek(0, os.SEEK_END)
    end = size - _TRAILER.size - _DIGEST_BYTES
    if end < 0:
        raise _Unusable("too short")
    file.seek(end)
    magic, length = _TRAILER.unpack(file.read(_TRAILER.size))
    if magic != _MAGIC or length > end:
        raise _Unusable("no index")
    if _digest(file, size - _DIGEST_BYTES) != file.read(_DIGEST_BYTES):
        raise _Unusable("damaged")
    file.seek(end - length)
    header: dict[str, Any] = json.loads(file.read(length))
    return header


def _digest(file: BinaryIO, end: int) -> bytes:
    """SHA-256 of the first bytes; leaves the file at their end."""
    digest, left = hashlib.sha256(), end
    file.seek(0)
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise OSError("the file has become shorter")
        digest.update(chunk)
        left -= len(chunk)
    return digest.digest()


def _array(file: BinaryIO, memory_mapped: bool, offset: int, dtype: str, shape: list[int]) -> Array:
    if memory_mapped and np.prod(shape):  # an empty array cannot be mapped
        return np.memmap(file, dtype, "r", offset, tuple(shape))
    file.seek(offset)
    return np.fromfile(file, dtype, int(np.prod(shape))).reshape(shape)


def _write_faiss(part: Any, name: str) -> None:
    if isinstance(part, np.ndarray):
        Path(name).write_bytes(part.data)
        return
    try:
        faiss.write_index(part, name)
    except RuntimeError as error:  # FAISS reports a full disk this way
        raise OSError(f"FAISS cannot write the index: {error}") from error


def _read_faiss(path: Path, file: BinaryIO, memory_mapped: bool) -> Any:
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP if memory_mapped else 0)
    except RuntimeError as error:
        raise _Unusable(f"FAISS cannot read it: {error}") from error
    # FAISS has opened the path again: the digest was checked for its content only if the file was not replaced.
    if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
        raise _Unusable("replaced while it was read")
    return index


def _sweep(path: Path) -> None:
    """Remove temporary files of processes that were killed while writing."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name survives a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
