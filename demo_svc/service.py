"""The rules of the knowledge base: what a demo must be, when texts are encoded, when a snapshot is stale."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from demo_svc.models import Listing, Match, Page, Snapshot, text_hash
from demo_svc.selector import nearest, select, worded_alike
from demo_svc.storage import DemoStorage
from services.compute import ComputePool
from services.contracts.demo import Demo, demo_id
from services.encoder import Encoder, Vectors
from services.errors import NotFound, NotReady, ValidationFailed

_BATCH = 64
"""Texts encoded and stored together, so that an import that is interrupted keeps what it has encoded."""
_NEAR = 40
"""Demos, the most similar ones, among which those of like wording are looked for."""
_MAX_TEXTS = 2_000
"""Requests of demos that are kept in memory."""


class DemoService:
    """Adds, finds, lists and removes demos, and selects those worth showing.

    Args:
        storage: the knowledge base.
        encoder: turns requests into vectors.
        pool: where encoding runs.
        threshold: cosine that a task-level demo must exceed where the caller names none.
    """

    def __init__(self, storage: DemoStorage, encoder: Encoder, pool: ComputePool, threshold: float) -> None:
        self._storage = storage
        self._encoder = encoder
        self._pool = pool
        self._threshold = threshold
        self._snapshot: Snapshot | None = None
        self._refreshing = asyncio.Lock()
        self._texts: dict[str, str] = {}

    @property
    def size(self) -> int:
        """Demos in the snapshot."""
        return len(self._snapshot.entries) if self._snapshot else 0

    async def check_snapshot(self) -> None:
        """Raise NotReady where no snapshot has been loaded yet."""
        if self._snapshot is None:
            raise NotReady("The knowledge base is not loaded yet.")

    async def select(
        self, query: str, apis: Sequence[str], k: int, threshold: float | None = None, alike: int = 0
    ) -> list[tuple[Demo, Match]]:
        """Choose at most k demos for a request, and others of like wording; :mod:`demo_svc.selector` says how.

        A demo that is deleted while it is being chosen is left out.

        Raises:
            Overloaded: too many texts wait to be encoded.
            ServiceUnavailable: the database cannot be reached.
        """
        snapshot = await self.refresh()
        if not (k or alike) or not snapshot.entries:
            return []
        limit = self._threshold if threshold is None else threshold
        matches, near = await self._pool.run(self._choose, snapshot, query, apis, k, limit, _NEAR if alike else 0)
        if near:
            matches += worded_alike(query, near, await self._texts_of(near), alike)
        demos = await self._storage.get([match.entry.id for match in matches])
        return [(demos[match.entry.id], match) for match in matches if match.entry.id in demos]

    async def add(self, demos: Sequence[Demo]) -> tuple[list[Demo], set[str]]:
        """Add demos and return them with their ids set, and the ids of those that were not there before.

        Raises:
            ValidationFailed: an id is not its demo's, or an API-level demo uses several APIs. Nothing is added.
        """
        checked = [_checked(demo, index) for index, demo in enumerate(demos)]
        await self._encode_missing({text_hash(demo.query): demo.query for demo in checked})
        added = await self._storage.add(checked)
        await self.refresh()
        return checked, added

    async def get(self, demo_id: str) -> Demo:
        """The demo of that id, or NotFound."""
        demo = (await self._storage.get([demo_id])).get(demo_id)
        if demo is None:
            raise NotFound(f"There is no demo {demo_id}.")
        return demo

    async def page(self, limit: int, offset: int, api: str | None) -> Page:
        """A page of the knowledge base, oldest first, only demos using ``api`` where one is given."""
        return await self._storage.page(limit, offset, api)

    async def delete(self, demo_id: str) -> None:
        """Remove a demo, or raise NotFound."""
        if not await self._storage.delete(demo_id):
            raise NotFound(f"There is no demo {demo_id}.")
        await self.refresh()

    async def refresh(self) -> Snapshot:
        """The snapshot of the version now in SQL, loaded again where it has changed."""
        version = await self._storage.version()
        if self._snapshot is not None and self._snapshot.version >= version:
            return self._snapshot
        async with self._refreshing:
            if self._snapshot is None or self._snapshot.version < version:
                self._snapshot = await self._load()
            return self._snapshot

    def _choose(
        self, snapshot: Snapshot, query: str, apis: Sequence[str], k: int, threshold: float, near: int
    ) -> tuple[list[Match], list[Match]]:
        """The demos chosen, and the nearest of the others."""
        vector = self._encoder.encode([query])[0]
        chosen = select(snapshot, vector, apis, k, threshold)
        taken = {match.entry.id for match in chosen}
        return chosen, [match for match in nearest(snapshot, vector, apis, near) if match.entry.id not in taken]

    async def _texts_of(self, matches: Sequence[Match]) -> Mapping[str, str]:
        """The requests of demos, by id; each is read from SQL once, for it never changes."""
        ids = [match.entry.id for match in matches]
        unknown = [one for one in ids if one not in self._texts]
        if len(self._texts) + len(unknown) > _MAX_TEXTS:
            self._texts, unknown = {}, ids
        if unknown:
            self._texts |= {demo.id: demo.query for demo in (await self._storage.get(unknown)).values()}
        return self._texts

    async def _load(self) -> Snapshot:
        listing = await self._storage.listing()
        hashes = [entry.text_hash for entry in listing.entries]
        vectors = await self._storage.vectors(self._encoder.name, hashes)
        missing = [entry.id for entry in listing.entries if entry.text_hash not in vectors]
        if missing:  # another encoder than the one they were added with
            await self._encode_demos(missing)
            vectors = await self._storage.vectors(self._encoder.name, hashes)
            known = tuple(entry for entry in listing.entries if entry.text_hash in vectors)
            listing = Listing(listing.version, known)  # what is gone by now was deleted: a newer version follows
        rows = [vectors[entry.text_hash] for entry in listing.entries]
        matrix = np.stack(rows) if rows else np.empty((0, self._encoder.dimension), np.float32)
        return Snapshot.build(listing, matrix.astype(np.float32, copy=False))

    async def _encode_demos(self, ids: Sequence[str]) -> None:
        for chunk in _chunks(ids):
            demos = (await self._storage.get(chunk)).values()
            await self._encode_missing({text_hash(demo.query): demo.query for demo in demos})

    async def _encode_missing(self, texts: Mapping[str, str]) -> None:
        """Encode and store those of the texts, named by their hashes, that have no vector of this encoder yet."""
        there = await self._storage.embedded(self._encoder.name, list(texts))
        for chunk in _chunks([key for key in texts if key not in there]):
            vectors: Vectors = await self._pool.run(self._encoder.encode, [texts[key] for key in chunk])
            await self._storage.keep_vectors(self._encoder.name, dict(zip(chunk, vectors, strict=True)))


def _checked(demo: Demo, index: int) -> Demo:
    expected = demo_id(demo)
    if demo.id not in {"", expected}:
        raise _invalid(index, "id", "The id is not the hash of the demo's query and plan; leave it empty.")
    if demo.level == "api" and len(demo.apis) != 1:
        raise _invalid(index, "plan", "An API-level demo shows one API; this plan uses several.")
    return demo.model_copy(update={"id": expected})


def _invalid(index: int, field: str, message: str) -> ValidationFailed:
    errors = [{"field": f"body.demos.{index}.{field}", "message": message, "kind": "value_error"}]
    return ValidationFailed(f"Demo {index}: {message}", errors=errors)


def _chunks(values: Sequence[str]) -> Iterable[Sequence[str]]:
    return (values[start : start + _BATCH] for start in range(0, len(values), _BATCH))
