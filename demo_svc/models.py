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


@dataclass(frozen=True, slots=True)
class Entry:
    """A demo without its plan: what is needed to choose it. ``apis`` are the ids of the APIs its plan uses."""

    id: str
    level: Level
    text_hash: str
    apis: frozenset[str]


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
    """

    version: int
    entries: tuple[Entry, ...]
    vectors: Vectors
    tasks: np.ndarray[tuple[int], np.dtype[np.intp]]
    by_api: Mapping[str, tuple[int, ...]]

    @classmethod
    def build(cls, listing: Listing, vectors: Vectors) -> Self:
        """Group the entries by level and API. ``vectors`` is (n, d), in the order of the entries."""
        by_api: dict[str, list[int]] = {}
        tasks: list[int] = []
        for row, entry in enumerate(listing.entries):
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
