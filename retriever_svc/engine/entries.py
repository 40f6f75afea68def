"""The catalogue's entries in packed form. As objects, 33,000 of them would take 60 MB and seconds to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import overload

import orjson

from retriever_svc.models import Entry

_INDEXED = frozenset({"lexical", "tags", "tenants"})
"""Fields that only the word indexes and the filters need. They are read before packing."""
_MAX_OUTPUTS = 40
_PACKED = tuple(field.name for field in fields(Entry) if field.name not in _INDEXED)


class Entries(Sequence[Entry]):
    """Immutable, in order of id. An entry is unpacked on access.

    Its fields for the indexes are empty then, and of its outputs only names are left.

    Args:
        ids: the ids of all entries, in order.
        rows: each entry as :func:`pack` returns it, in the same order.
    """

    def __init__(self, ids: Sequence[str] = (), rows: Sequence[bytes] = ()) -> None:
        self.ids = ids
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, position: int) -> Entry: ...

    @overload
    def __getitem__(self, position: slice) -> list[Entry]: ...

    def __getitem__(self, position: int | slice) -> Entry | list[Entry]:
        if isinstance(position, slice):
            return [unpack(row) for row in self.rows[position]]
        return unpack(self.rows[position])


def pack(entry: Entry) -> bytes:
    """An entry as one line. Of its outputs, only names are kept."""
    names = dict.fromkeys(line.partition("\t")[0] for line in entry.outputs.splitlines())
    kept = replace(entry, outputs="\n".join(islice(names, _MAX_OUTPUTS)))
    return orjson.dumps([getattr(kept, name) for name in _PACKED])


def unpack(row: bytes) -> Entry:
    """The entry of a line that :func:`pack` wrote."""
    return Entry(**dict(zip(_PACKED, orjson.loads(row), strict=True)), lexical="")
