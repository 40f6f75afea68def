"""The selector's data: entries, a snapshot of all entries, and matches."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from services.contracts.demo import Demo
from services.encoder import Vectors

Level = Literal["task", "api"]


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
    """The entries of one version of the knowledge base, oldest first."""

    version: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of the knowledge base, ready to be searched. Immutable.

    Attributes:
        version: the version in SQL that it copies.
        entries: n demos, oldest first.
        vectors: (n, d) float32, L2-normalised; row i is the vector of entry i's request.
        tasks: (t,) rows of the task-level demos.
        by_api: for each API id, the rows of its API-level demos.
        by_tenant: the rows of each tenant; under None everyone's.
    """

    version: int
    entries: tuple[Entry, ...]
    vectors: Vectors
    tasks: np.ndarray[tuple[int], np.dtype[np.intp]]
    by_api: Mapping[str, tuple[int, ...]]
    by_tenant: Mapping[str | None, list[int]]

    def visible_rows(self, tenant: str | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """A mask (n,): whether each row is this tenant's or everyone's."""
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
