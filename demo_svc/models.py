"""What the selector works on: entries, a snapshot of them all, and what was chosen."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from services.contracts.demo import Demo
from services.encoder import Vectors

Level = Literal["task", "api"]


def text_hash(text: str) -> str:
    """SHA-256, in hex, of a text: the name its vector is kept under."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def key_of(demo_id: str, tenant: str | None) -> str:
    """The name under which a demo is kept. A tenant's own is another one than everyone's (None), though it is equal."""
    return demo_id if tenant is None else text_hash(f"{tenant} {demo_id}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A demo without its plan: what is needed to choose it.

    Attributes:
        id: the name under which it is kept (:func:`key_of`).
        apis: ids of the APIs its plan uses.
        tenant: whose it is; None: everyone's.
    """

    id: str
    level: Level
    text_hash: str
    apis: frozenset[str]
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of one version of the knowledge base, oldest first."""

    version: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of the knowledge base, ready to be searched. Never changed after it is made.

    Attributes:
        version: the version in SQL that this is a copy of.
        entries: n demos, oldest first.
        vectors: (n, d) float32, L2-normalised; row i is the vector of entry i's request.
        tasks: (t,) rows of the task-level demos.
        by_api: for each API id, the rows of its API-level demos.
        by_tenant: for each tenant, and for None, the rows that are its own, or everyone's.
    """

    version: int
    entries: tuple[Entry, ...]
    vectors: Vectors
    tasks: np.ndarray[tuple[int], np.dtype[np.intp]]
    by_api: Mapping[str, tuple[int, ...]]
    by_tenant: Mapping[str | None, list[int]]

    def seen(self, tenant: str | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(n,) whether each row is this tenant's or everyone's."""
        mask = np.zeros(len(self.entries), np.bool_)
        for owner in {None, tenant}:
            mask[self.by_tenant.get(owner, [])] = True
        return mask

    @classmethod
    def build(cls, listing: Listing, vectors: Vectors) -> Self:
        """Group the entries by level and API. ``vectors`` is (n, d), in the order of the entries."""
        by_api: dict[str, list[int]] = {}
        by_tenant: dict[str | None, list[int]] = {}
        tasks: list[int] = []
        for row, entry in enumerate(listing.entries):
            by_tenant.setdefault(entry.tenant, []).append(row)
            if entry.level == "task":
                tasks.append(row)
            else:
                for api in entry.apis:
                    by_api.setdefault(api, []).append(row)
        return cls(
            version=listing.version,
            entries=listing.entries,
            vectors=vectors,
            tasks=np.asarray(tasks, dtype=np.intp),
            by_api={api: tuple(rows) for api, rows in by_api.items()},
            by_tenant=by_tenant,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A demo that was chosen: its entry, the cosine between its request and the one asked, and on which level."""

    entry: Entry
    similarity: float
    level: Level


@dataclass(frozen=True, slots=True)
class Page:
    """Some demos, oldest first, and how many there are in all."""

    demos: tuple[Demo, ...]
    total: int
