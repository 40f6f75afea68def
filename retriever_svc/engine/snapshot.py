"""The catalogue at one version, ready to be searched. Immutable: a new version is a new snapshot, swapped in whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.lexical import LexicalIndex
from retriever_svc.engine.vectors import FlatIndex, Ids, VectorIndex, as_ids
from retriever_svc.models import Entry, Listing
from services.encoder import Vectors


@dataclass(frozen=True)
class Snapshot:
    """What a search reads.

    Attributes:
        version: of the catalogue.
        entries: in order of id; positions in it are what the lexical index counts by.
        numbers: (n,) the entries' numbers.
        positions: from a number to a position.
        vectors: by number.
        lexical: by position.
        outputs: what each API answers with, by position.
        open: (n,) whether each API can be called with words alone.
        providers: (m,) positions of each provider's APIs.
        exact: positions by exact name, path and id, as :func:`exact_key` writes them.
    """

    version: int
    entries: tuple[Entry, ...]
    numbers: Ids
    positions: Mapping[int, int]
    vectors: VectorIndex
    lexical: LexicalIndex
    outputs: LexicalIndex
    open: NDArray[np.bool_]
    providers: Mapping[str, Ids]
    exact: Mapping[str, tuple[int, ...]]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the version and every document: catalogues of two databases may both be at version 7."""
        content = "\n".join(f"{entry.id} {entry.content_hash}" for entry in self.entries)
        return hashlib.sha256(f"{self.version}\n{content}".encode()).hexdigest()

    @classmethod
    def empty(cls, dimension: int) -> Snapshot:
        """Nothing, older than any version of a catalogue."""
        nothing = LexicalIndex([])
        return cls(-1, (), as_ids([]), {}, FlatIndex(dimension), nothing, nothing, np.zeros(0, dtype=bool), {}, {})

    def missing(self, listing: Listing) -> set[str]:
        """Hashes of the texts whose vectors this snapshot cannot hand on to the listing's."""
        known = {entry.number: entry.text_hash for entry in self.entries}
        return {entry.text_hash for entry in listing.entries if known.get(entry.number) != entry.text_hash}

    def advance(self, listing: Listing, vectors: Mapping[str, Vectors]) -> Snapshot:
        """The snapshot of another version, made from this one: only what changed is touched in the vector index.

        Args:
            listing: the catalogue at that version.
            vectors: for every hash in ``missing(listing)``.
        """
        known = {entry.number: entry.text_hash for entry in self.entries}
        changed = [entry for entry in listing.entries if known.get(entry.number) != entry.text_hash]
        gone = known.keys() - {entry.number for entry in listing.entries}
        index = self.vectors
        if changed or gone:
            index = index.copy()
            index.delete(as_ids(sorted(gone)))
        if changed:
            index.upsert(as_ids([e.number for e in changed]), np.stack([vectors[e.text_hash] for e in changed]))
        texts = [entry.lexical for entry in listing.entries]
        same_texts = texts == [entry.lexical for entry in self.entries]
        outputs = [entry.outputs for entry in listing.entries]
        same_outputs = outputs == [entry.outputs for entry in self.entries]
        return Snapshot(
            version=listing.version,
            entries=listing.entries,
            numbers=as_ids([entry.number for entry in listing.entries]),
            positions={entry.number: position for position, entry in enumerate(listing.entries)},
            vectors=index,
            lexical=self.lexical if same_texts else LexicalIndex(texts),
            outputs=self.outputs if same_outputs else LexicalIndex(outputs),
            open=np.array([entry.open for entry in listing.entries], dtype=bool),
            providers=_by_provider(listing.entries),
            exact=_by_key(listing.entries),
        )


def exact_key(text: str) -> str:
    """How a name, a path or an id is compared: without case, any run of other characters as one underscore.

    A path keeps its slashes, so that ``/users/{id}`` is not the same as an operation called ``users_id``.
    """
    kept = r"[^\w/]+" if text.startswith("/") else r"\W+"
    return re.sub(kept, "_", text.casefold()).strip("_")


def _by_provider(entries: tuple[Entry, ...]) -> dict[str, Ids]:
    found: dict[str, list[int]] = {}
    for position, entry in enumerate(entries):
        found.setdefault(entry.provider, []).append(position)
    return {provider: as_ids(positions) for provider, positions in found.items()}


def _by_key(entries: tuple[Entry, ...]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for position, entry in enumerate(entries):
        for key in {exact_key(entry.id), exact_key(entry.name), exact_key(entry.path)} - {"", "/"}:
            found.setdefault(key, []).append(position)
    return {key: tuple(positions) for key, positions in found.items()}
