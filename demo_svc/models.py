"""The selector's data: entries, a snapshot of all entries, and matches."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TypeVar

import numpy as np

from services.contracts.demo import Demo
from services.encoder import Vectors

K = TypeVar("K")
Level = Literal["task", "api"]
_SPARE = 1_000
"""Rows of removed demos that a snapshot may hold besides as many as it has demos."""


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex: the key of its vector."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def key_of(demo_id: str, tenant: str | None) -> str:
    """The key under which a demo is stored. Equal demos of a tenant and of everyone (None) have different keys."""
    return demo_id if tenant is None else text_hash(f"{tenant} {demo_id}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A demo without its plan: the data that selection needs.

    Attributes:
        id: the key under which it is stored (:func:`key_of`).
        apis: ids of the APIs its plan uses.
        tenant: the tenant that owns it; None: everyone.
    """

    id: str
    level: Level
    text_hash: str
    apis: frozenset[str]
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of one version of the knowledge base, oldest first.

    Of demos that later versions change, some may be missing or there already. Their changes bring about the same then.
    """

    version: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed since a version of the knowledge base.

    Attributes:
        version: the version that they lead to.
        keys: the demos that were added or removed.
        entries: those of them that exist now, oldest first.
    """

    version: int
    keys: frozenset[str]
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class _Rows:
    """Rows of entries by what they are looked up by."""

    tasks: list[int] = field(default_factory=list)
    by_api: dict[str, list[int]] = field(default_factory=dict)
    by_tenant: dict[str | None, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, numbered: Iterable[tuple[int, Entry]]) -> Self:
        """The rows of these entries, in their order."""
        rows = cls()
        for row, entry in numbered:
            rows.by_tenant.setdefault(entry.tenant, []).append(row)
            if entry.level == "task":
                rows.tasks.append(row)
            else:
                for api in entry.apis:
                    rows.by_api.setdefault(api, []).append(row)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of the knowledge base, ready to be searched. Immutable.

    Attributes:
        version: the version in SQL that it copies.
        entries: n demos, oldest first. Removed ones stay, but nothing below leads to them.
        vectors: (n, d) float32, L2-normalised; row i is the vector of entry i's request.
        room: array that begins with the vectors; the next snapshot's further ones are written behind them.
        tasks: (t,) rows of the task-level demos.
        by_api: for each API id, the rows of its API-level demos.
        by_tenant: the rows of each tenant; under None everyone's.
    """

    version: int
    entries: tuple[Entry, ...]
    vectors: Vectors
    room: Vectors
    tasks: np.ndarray[tuple[int], np.dtype[np.intp]]
    by_api: Mapping[str, list[int]]
    by_tenant: Mapping[str | None, list[int]]

    @property
    def size(self) -> int:
        """The number of demos."""
        return sum(map(len, self.by_tenant.values()))

    @property
    def is_sparse(self) -> bool:
        """Whether so many of the entries are removed that the snapshot should be compacted."""
        return len(self.entries) > 2 * self.size + _SPARE

    def visible_rows(self, tenant: str | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """A mask (n,): whether each row is this tenant's or everyone's."""
        mask = np.zeros(len(self.entries), np.bool_)
        for owner in {None, tenant}:
            mask[self.by_tenant.get(owner, [])] = True
        return mask

    @classmethod
    def build(cls, listing: Listing, vectors: Vectors) -> Self:
        """Group the entries by level and API. ``vectors`` is (n, d), in the order of the entries."""
        rows = _Rows.of(enumerate(listing.entries))
        tasks = np.asarray(rows.tasks, dtype=np.intp)
        return cls(listing.version, listing.entries, vectors, vectors, tasks, rows.by_api, rows.by_tenant)

    def after(self, changes: Changes, vectors: Vectors) -> Self:
        """The snapshot after changes. Only the newest snapshot may be continued. ``vectors``: of ``changes.entries``.

        The vectors are not copied, unless the array behind them is full.
        """
        first = len(self.entries)
        entries = self.entries + changes.entries
        gone = [(row, entry) for row, entry in enumerate(self.entries) if entry.id in changes.keys]
        old, new = _Rows.of(gone), _Rows.of(enumerate(changes.entries, first))
        room = self.room
        if len(entries) > len(room):
            spare = np.empty((max(len(vectors), first // 4), room.shape[1]), np.float32)
            room = np.concatenate([self.vectors, spare])
        room[first : len(entries)] = vectors
        tasks = np.setdiff1d(self.tasks, old.tasks, assume_unique=True)
        return type(self)(
            version=changes.version,
            entries=entries,
            vectors=room[: len(entries)],
            room=room,
            tasks=np.concatenate([tasks, np.asarray(new.tasks, dtype=np.intp)]),
            by_api=_replaced(self.by_api, old.by_api, new.by_api),
            by_tenant=_replaced(self.by_tenant, old.by_tenant, new.by_tenant),
        )

    def compacted(self) -> Self:
        """The snapshot without the rows of removed demos."""
        rows = np.sort(np.concatenate([np.asarray(own, dtype=np.intp) for own in self.by_tenant.values()]))
        return self.build(Listing(self.version, tuple(self.entries[row] for row in rows)), self.vectors[rows])


def _replaced(
    rows: Mapping[K, list[int]], gone: Mapping[K, Sequence[int]], new: Mapping[K, Sequence[int]]
) -> dict[K, list[int]]:
    """The rows without some and with others, which are higher."""
    replaced = dict(rows)
    for key in gone.keys() | new.keys():
        without = set(gone.get(key, ()))
        replaced[key] = [row for row in rows.get(key, ()) if row not in without] + list(new.get(key, ()))
    return replaced


@dataclass(frozen=True, slots=True)
class Match:
    """A chosen demo: its entry, the cosine between its request and the user's, and the level it was chosen on."""

    entry: Entry
    similarity: float
    level: Level


@dataclass(frozen=True, slots=True)
class Page:
    """Some demos, oldest first, and the total number.

    Attributes:
        next: the position after which the following page begins; None: there is none.
    """

    demos: tuple[Demo, ...]
    total: int
    next: int | None
