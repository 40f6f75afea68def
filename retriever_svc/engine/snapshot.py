"""The catalogue at one version, ready to be searched. Immutable: a new version is a new snapshot, swapped as a whole.

A snapshot consists of arrays: texts are indexed and not stored, entries are packed, names are digests. So for 33,000
APIs, the next version is made from this one in milliseconds by moving rows, and a restart maps the arrays from a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine import supply_index
from retriever_svc.engine.entries import Entries, pack, unpack
from retriever_svc.engine.labels import TAGS, Labels, label_keys, tag_row
from retriever_svc.engine.lexical import LexicalIndex
from retriever_svc.engine.names import KEYS, ExactNames, Keys, exact_key, keys_of
from retriever_svc.engine.providers import ProviderNames
from retriever_svc.engine.traits import WIDTH, Traits, traits_of
from retriever_svc.engine.vectors import FlatIndex, Ids, VectorIndex, as_ids
from retriever_svc.models import Delta, Entry, Listing, fingerprint
from services.encoder import Vectors

__all__ = ["Audience", "Facts", "Snapshot", "exact_key"]

Audience = tuple[str, ...]
"""The tenants that see an API; empty: everyone."""
Edge = tuple[int, int, int]
"""Position of an API, number of one of its inputs, and position of an API that may supply it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The data of fixed size of each position.

    Attributes:
        numbers: (n,) the entries' numbers.
        stamps: (n,) stamps of the rows they were made from; a row with another stamp has changed.
        owners: (n,) index of the provider in the snapshot's ``names``.
        open: (n,) whether each API can be called with words alone.
        keys: (n, ``KEYS``) digests of exact names.
        traits: (n, ``WIDTH``) features of each API for ranking (see :mod:`traits`).
        supplies: (n, ``supply_index.KEYS``) digests of what each API supplies (see :mod:`supply_index`).
        methods: (n,) digests of HTTP methods.
        tags: (n, ``TAGS``) digests of tags.
        deprecated: (n,) whether each API's document says so.
        audiences: (n,) index of its tenants in the snapshot's ``audiences``. These are not digests: a collision would
            show a tenant's API to another tenant.
    """

    numbers: Ids
    stamps: NDArray[np.bytes_]
    owners: NDArray[np.int32]
    open: NDArray[np.bool_]
    keys: Keys
    traits: Traits
    supplies: supply_index.Keys
    methods: Labels
    tags: Labels
    deprecated: NDArray[np.bool_]
    audiences: NDArray[np.int32]

    @classmethod
    def of(
        cls, entries: Sequence[Entry], stamps: Mapping[int, str], names: dict[str, int], audiences: dict[Audience, int]
    ) -> Facts:
        """The facts of some entries. New providers and audiences are added to ``names`` and ``audiences``."""
        groups = [audiences.setdefault(entry.tenants, len(audiences)) for entry in entries]
        return cls(
            numbers=as_ids([entry.number for entry in entries]),
            stamps=np.array([stamps[entry.number] for entry in entries], dtype="S32"),
            owners=np.array([names.setdefault(entry.provider, len(names)) for entry in entries], np.int32),
            open=np.array([entry.open for entry in entries], bool),
            keys=np.array([keys_of(entry) for entry in entries], np.uint64).reshape(-1, KEYS),
            traits=np.array([traits_of(entry) for entry in entries], np.int32).reshape(-1, WIDTH),
            supplies=np.array([supply_index.keys_of(entry) for entry in entries], np.int32).reshape(
                -1, supply_index.KEYS
            ),
            methods=label_keys(entry.method for entry in entries),
            tags=np.array([tag_row(entry.tags) for entry in entries], np.uint64).reshape(-1, TAGS),
            deprecated=np.array([entry.deprecated for entry in entries], bool),
            audiences=np.array(groups, np.int32),
        )

    def with_changes(self, origins: Ids, added: Facts) -> Facts:
        """These facts at their new positions, together with the added ones (see :meth:`LexicalIndex.with_changes`)."""
        kept, new = np.flatnonzero(origins >= 0), np.flatnonzero(origins < 0)

        def joined(name: str) -> NDArray[np.generic]:
            old, fresh = getattr(self, name), getattr(added, name)
            both = np.empty((len(origins), *old.shape[1:]), old.dtype)
            both[kept], both[new] = old[origins[kept]], fresh
            return both

        return Facts(**{field.name: joined(field.name) for field in fields(Facts)})  # type: ignore[arg-type]

    def digest(self, version: int) -> str:
        """SHA-256 of a version and of every row, since catalogues of two databases may have the same version."""
        content = self.numbers.tobytes() + self.stamps.tobytes()
        return hashlib.sha256(f"{version}\n".encode() + content).hexdigest()


class Snapshot:
    """The data that a search reads.

    Attributes:
        version: version of the catalogue.
        entries: the entries in order of id; all other data refers to positions in this list.
        facts: the data of each position.
        names: the providers that ``facts.owners`` refers to.
        audiences: the tenants that ``facts.audiences`` refers to.
        vectors: the vector index, by number.
        lexical: the word index, by position.
        outputs: the word index of what each API answers with, by position.
        numbers: (n,) the entries' numbers.
        positions: from a number to a position.
        open: (n,) whether each API can be called with words alone.
        supply_index: which APIs of a provider supply what.
        edges: how likely an API feeds another's parameter, as far as searches have asked.
        providers: (m,) positions of each provider's APIs.
        exact: positions by exact name, path and id, in the form of :func:`exact_key`.
        provider_names: the providers by the words of their names.
        sizes: (p,) number of APIs of each provider.
        digest: digest of the version and every row.
    """

    def __init__(
        self,
        version: int,
        entries: Entries,
        facts: Facts,
        names: tuple[str, ...],
        audiences: tuple[Audience, ...],
        vectors: VectorIndex,
        lexical: LexicalIndex,
        outputs: LexicalIndex,
    ) -> None:
        self.version, self.entries, self.facts = version, entries, facts
        self.names, self.audiences = names, audiences
        self.vectors, self.lexical, self.outputs = vectors, lexical, outputs
        self.numbers, self.open = facts.numbers, facts.open
        self.positions: Mapping[int, int] = {number: place for place, number in enumerate(facts.numbers.tolist())}
        self.providers = _by_provider(facts.owners, names)
        self.exact = ExactNames(facts.keys)
        self.provider_names = ProviderNames(names)
        self.supply_index = supply_index.SupplyIndex(facts.supplies, facts.owners)
        self.edges: dict[Edge, float] = {}
        self.sizes = np.bincount(facts.owners, minlength=len(names))
        self.digest = facts.digest(version)

    @classmethod
    def empty(cls, dimension: int, vectors: VectorIndex | None = None) -> Snapshot:
        """An empty snapshot with version -1, older than any version of a catalogue."""
        nothing = Facts.of((), {}, {}, {})
        index = FlatIndex(dimension) if vectors is None else vectors
        return cls(-1, Entries(), nothing, (), (), index, LexicalIndex(), LexicalIndex())

    def reading(self, position: int) -> supply_index.Reading:
        """What the names of the API at a position tell of its inputs and outputs."""
        return _reading(self.entries.rows[position])

    @property
    def stamps(self) -> dict[int, str]:
        """The stamp of the row that each entry was made from, by number."""
        return dict(zip(self.numbers.tolist(), self.facts.stamps.astype(str).tolist(), strict=True))

    def removed(self, delta: Delta) -> Ids:
        """The numbers that are no longer in the catalogue."""
        return as_ids(sorted(self.positions.keys() - delta.stamps.keys()))

    def unembedded(self, delta: Delta) -> list[Entry]:
        """The changed entries whose vectors this snapshot does not have."""

        def is_new(entry: Entry) -> bool:
            position = self.positions.get(entry.number)
            return position is None or self.entries[position].text_hash != entry.text_hash

        return [entry for entry in delta.changed if is_new(entry)]

    def advance(self, listing: Listing, vectors: Mapping[str, Vectors]) -> Snapshot:
        """The snapshot of a whole catalogue, made from this one.

        Args:
            listing: the catalogue at the new version.
            vectors: vectors by text hash, for every text that this snapshot does not hold.
        """
        stamps, known = {entry.number: fingerprint(entry) for entry in listing.entries}, self.stamps
        changed = (entry for entry in listing.entries if known.get(entry.number) != stamps[entry.number])
        delta = Delta(listing.version, stamps, tuple(changed))
        index, new = self.vectors.copy(), self.unembedded(delta)
        index.delete(self.removed(delta))
        if new:
            index.upsert(as_ids([e.number for e in new]), np.stack([vectors[e.text_hash] for e in new]))
        return self.with_changes(delta, index)

    def with_changes(self, delta: Delta, vectors: VectorIndex) -> Snapshot:
        """The snapshot of another version, made from this one: only changes are read. Blocks: run it on a pool.

        Args:
            delta: the differences of that version.
            vectors: this snapshot's vectors, without those that are ``removed`` and with those that are ``unembedded``.
        """
        origins, added = self._order(delta)
        names = {name: number for number, name in enumerate(self.names)}
        audiences = {group: number for number, group in enumerate(self.audiences)}
        facts = self.facts.with_changes(origins, Facts.of(added, delta.stamps, names, audiences))
        return Snapshot(
            version=delta.version,
            entries=_entries(self.entries, origins, added),
            facts=facts,
            names=tuple(names),
            audiences=tuple(audiences),
            vectors=vectors,
            lexical=self.lexical.with_changes(origins, [entry.lexical for entry in added]),
            outputs=self.outputs.with_changes(origins, [entry.outputs for entry in added]),
        )

    def _order(self, delta: Delta) -> tuple[Ids, list[Entry]]:
        """For each new position its position here or -1 if it is added, and the added entries in their order."""
        changed = {entry.number: entry for entry in delta.changed}
        kept = [
            (self.entries.ids[place], place)
            for place, number in enumerate(self.numbers.tolist())
            if number in delta.stamps and number not in changed
        ]
        by_id = {entry.id: entry for entry in delta.changed}
        order = sorted(kept + [(key, -1) for key in by_id])
        return as_ids([place for _, place in order]), [by_id[key] for key, place in order if place < 0]


@lru_cache(maxsize=4_000)
def _reading(row: bytes) -> supply_index.Reading:
    return supply_index.reading_of(unpack(row))


def _entries(old: Entries, origins: Ids, added: Sequence[Entry]) -> Entries:
    new = iter([(entry.id, pack(entry)) for entry in added])
    both = [(old.ids[place], old.rows[place]) if place >= 0 else next(new) for place in origins.tolist()]
    return Entries(tuple(key for key, _ in both), tuple(row for _, row in both))


def _by_provider(owners: NDArray[np.int32], names: Sequence[str]) -> dict[str, Ids]:
    order = np.argsort(owners, kind="stable")  # positions of one provider stay in their order
    ends = np.cumsum(np.bincount(owners, minlength=len(names)))
    groups = np.split(order, ends[:-1]) if len(ends) else []
    return {name: group for name, group in zip(names, groups, strict=True) if len(group)}
