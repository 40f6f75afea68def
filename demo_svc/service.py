"""The rules of the knowledge base: which demos are valid, when texts are encoded, and when a snapshot is stale."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

import numpy as np

from demo_svc.models import Entry, Listing, Match, Page, Snapshot, key_of, text_hash
from demo_svc.selector import nearest, select, similarly_worded
from demo_svc.storage import MAX_DEMO_APIS, MAX_DEMO_BYTES, DemoStorage, document_of
from services.compute import ComputePool, checkpoint, with_checkpoints
from services.contracts.demo import MAX_SELECTED_BYTES, Demo, demo_id
from services.contracts.plan import scalars, step_values
from services.encoder import Encoder, Vectors
from services.errors import NotFound, NotReady, Overloaded, ValidationFailed
from services.storage.embeddings import VectorsRemoved

_BATCH = 64
"""Texts encoded together. After a change of the encoder their vectors are stored together, too."""
_AT_ONCE = 4
"""Texts encoded before another tenant may have its turn."""
_ATTEMPTS = 3
"""How often texts are encoded again whose vectors others remove before their demos are stored."""
_AT_ONCE_BYTES = 64_000
"""Demos of more bytes together are parsed beside the event loop."""
_NEAR = 40
"""Number of the most similar demos that are searched for similar wording."""
_SAME = 20
"""Demos of one text that are looked at."""
_MAX_VALUES = 5_000
"""Most values in a demo's plan, as in a given plan."""
_MAX_TEXTS = 2_000
"""Requests of demos that are cached in memory."""


class DemoService:
    """Adds, finds, lists and removes demos, and selects those worth showing.

    Args:
        storage: the knowledge base.
        encoder: turns requests into vectors.
        pool: where encoding runs.
        threshold: cosine that a task-level demo must exceed; callers can give another one.
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
        return self._snapshot.size if self._snapshot else 0

    async def check_snapshot(self) -> None:
        """Raise NotReady if no snapshot has been loaded yet."""
        if self._snapshot is None:
            raise NotReady("The knowledge base is not loaded yet.")

    async def select(
        self,
        query: str,
        apis: Sequence[str],
        k: int,
        threshold: float | None = None,
        alike: int = 0,
        tenant: str | None = None,
    ) -> list[tuple[Demo, Match]]:
        """Choose at most k demos for a request, and others of similar wording; see :mod:`demo_svc.selector`.

        Only everyone's demos and this tenant's own are considered.
        A demo that is deleted during the selection is left out. So are the last ones if all are too large together.

        Raises:
            Overloaded: too many texts wait to be encoded.
            ServiceUnavailable: the database cannot be reached.
        """
        snapshot = await self.refresh()
        if not (k or alike) or not snapshot.entries:
            return []
        limit = self._threshold if threshold is None else threshold
        choose = partial(self._choose, snapshot, query, apis, tenant)
        matches, near = await self._pool.run(choose, k, limit, _NEAR if alike else 0)
        if near:
            matches += similarly_worded(query, near, await self._texts_of(near), alike)
        demos = await self._read([match.entry.id for match in matches], MAX_SELECTED_BYTES)
        # A tenant's demo may equal one that was later added for everyone: only the first of the two is returned.
        found = dict[str, tuple[Demo, Match]]()
        for match in matches:
            if (demo := demos.get(match.entry.id)) is not None:
                found.setdefault(demo.id, (demo, match))
        return list(found.values())

    async def apis_of_same(self, query: str, tenant: str | None = None) -> list[tuple[str, ...]]:
        """The APIs of each of the demos that :meth:`same` selects from; no plan is read."""
        return [apis for _, apis in await self._same(query, tenant)]

    async def same(self, query: str, apis: Set[str], k: int, tenant: str | None = None) -> list[Demo]:
        """At most k demos of this very text whose APIs are all among these, the tenant's own first, then everyone's.

        The last ones are left out if all are too large together. Nothing is encoded.

        Raises:
            ServiceUnavailable: the database cannot be reached.
        """
        fitting = [key for key, used in await self._same(query, tenant) if apis >= {*used}][:k]
        found = await self._read(fitting, MAX_SELECTED_BYTES)
        return [found[key] for key in fitting if key in found]

    async def _same(self, query: str, tenant: str | None) -> list[tuple[str, tuple[str, ...]]]:
        """Key and APIs of the demos of this text. Of equal ones of the tenant and of everyone, the tenant's."""
        found = await self._storage.of_text(text_hash(query), _SAME, tenant)
        keys = {key for key, _ in found}
        return [(key, apis) for key, apis in found if tenant is None or key_of(key, tenant) not in keys]

    async def add(self, demos: Sequence[Demo], tenant: str | None = None) -> tuple[list[Demo], set[str]]:
        """Add demos, as this tenant's or (None) everyone's.

        Returns:
            The demos with their ids set, and the ids of the new ones.

        Raises:
            ValidationFailed: an id is wrong, an API-level demo uses several APIs, or a demo is too large. Nothing is
                added.
            Conflict: the tenant would have too many demos.
            Overloaded: others removed vectors of the demos' texts, again and again.
        """
        checked = [_checked(demo, index) for index, demo in enumerate(demos)]
        await self._storage.check_room(checked, tenant)
        added = await self._add(checked, tenant)
        await self.refresh()
        return checked, added

    async def _add(self, demos: Sequence[Demo], tenant: str | None) -> set[str]:
        """Encode and store demos. Others may remove demos of the same texts meanwhile, and their vectors with them."""
        texts = {text_hash(demo.query): demo.query for demo in demos}
        vectors: dict[str, Vectors] = {}
        for _ in range(_ATTEMPTS):
            async for some in self._missing({key: text for key, text in texts.items() if key not in vectors}):
                vectors |= some
            with suppress(VectorsRemoved):
                return await self._storage.add(demos, tenant, self._encoder.name, vectors)
        raise Overloaded("Others remove the same texts again and again.", retry_after_s=1)

    async def get(self, demo_id: str, tenant: str | None = None) -> Demo:
        """The tenant's own demo with that id, or else everyone's. Raises NotFound if there is neither."""
        found = await self._read([key_of(demo_id, tenant), demo_id])
        demo = found.get(key_of(demo_id, tenant)) or found.get(demo_id)
        if demo is None or demo.id != demo_id:
            raise NotFound(f"There is no demo {demo_id}.")
        return demo

    async def page(
        self, limit: int, after: int, apis: Sequence[str] = (), tenant: str | None = None, *, own: bool = False
    ) -> Page:
        """A page of demos, oldest first.

        Args:
            limit: demos on the page.
            after: `next` of the page before; 0: the first page.
            apis: only demos that use one of these APIs; empty: all.
            tenant: the tenant whose demos are listed.
            own: leave out everyone's demos.
        """
        return await self._storage.page(limit, after, apis, tenant, own=own)

    async def delete(self, demo_id: str, tenant: str | None = None) -> None:
        """Remove the tenant's own demo with that id, or (None) everyone's. Raises NotFound if there is none."""
        if not await self._storage.delete(key_of(demo_id, tenant), tenant):
            raise NotFound(f"There is no demo {demo_id}.")
        await self.refresh()

    async def refresh(self) -> Snapshot:
        """The snapshot of the current version in SQL; it takes over what has changed."""
        version = await self._storage.version()
        if self._snapshot is not None and self._snapshot.version >= version:
            return self._snapshot
        async with self._refreshing:
            if self._snapshot is None or self._snapshot.version < version:
                self._snapshot = await self._continued(self._snapshot) or await self._load()
            return self._snapshot

    def _choose(
        self,
        snapshot: Snapshot,
        query: str,
        apis: Sequence[str],
        tenant: str | None,
        k: int,
        threshold: float,
        near: int,
    ) -> tuple[list[Match], list[Match]]:
        """The chosen demos, and the ``near`` nearest ones without them."""
        vector = self._encoder.encode([query])[0]
        chosen = select(snapshot, vector, apis, k, threshold, tenant)
        taken = {match.entry.id for match in chosen}
        others = nearest(snapshot, vector, apis, near, tenant)
        return chosen, [match for match in others if match.entry.id not in taken]

    async def _texts_of(self, matches: Sequence[Match]) -> Mapping[str, str]:
        """The requests of demos, by id. They never change, so they are cached."""
        ids = [match.entry.id for match in matches]
        unknown = [one for one in ids if one not in self._texts]
        if len(self._texts) + len(unknown) > _MAX_TEXTS:
            self._texts, unknown = {}, ids
        if unknown:
            self._texts |= await self._storage.queries(unknown)
        return self._texts

    async def _read(self, keys: Sequence[str], most_bytes: int | None = None) -> dict[str, Demo]:
        """The demos that exist, by key; the first of them that have at most so many bytes together.

        Large ones are parsed on the pool, in the tenant's turn.
        """
        documents = await self._storage.get(keys)
        if most_bytes is not None:
            documents = _first(documents, keys, most_bytes)
        if sum(map(len, documents.values())) <= _AT_ONCE_BYTES:
            return _parsed(documents)
        return await self._pool.run(_parsed, documents)

    async def _load(self) -> Snapshot:
        listing = await self._storage.listing()
        entries, vectors = await self._with_vectors(listing.entries)
        return Snapshot.build(Listing(listing.version, entries), vectors)

    async def _continued(self, snapshot: Snapshot | None) -> Snapshot | None:
        """The snapshot with what has changed since, at the cost of the changes. None: all must be loaded."""
        if snapshot is None:
            return None
        changes = await self._storage.changes(snapshot.version)
        if changes is None:
            return None
        entries, vectors = await self._with_vectors(changes.entries)
        newer = snapshot.after(replace(changes, entries=entries), vectors)
        return newer.compacted() if newer.is_sparse else newer

    async def _with_vectors(self, entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], Vectors]:
        """The entries that still exist, and their vectors, (n, d) float32."""
        hashes = [entry.text_hash for entry in entries]
        vectors = await self._storage.vectors(self._encoder.name, hashes)
        missing = [entry.id for entry in entries if entry.text_hash not in vectors]
        if missing:  # they were added with another encoder
            await self._encode_demos(missing)
            vectors = await self._storage.vectors(self._encoder.name, hashes)
            # A newer version lacks the others.
            entries = tuple(entry for entry in entries if entry.text_hash in vectors)
        rows = [vectors[entry.text_hash] for entry in entries]
        matrix = np.stack(rows) if rows else np.empty((0, self._encoder.dimension), np.float32)
        return entries, matrix.astype(np.float32, copy=False)

    async def _encode_demos(self, ids: Sequence[str]) -> None:
        for chunk in _chunks(ids):
            queries = (await self._storage.queries(chunk)).values()
            async for vectors in self._missing({text_hash(query): query for query in queries}):
                await self._storage.keep_vectors(self._encoder.name, vectors)

    async def _missing(self, texts: Mapping[str, str]) -> AsyncIterator[dict[str, Vectors]]:
        """The vectors of those texts that have none of this encoder yet, by their hashes, some at a time."""
        there = await self._storage.embedded(self._encoder.name, list(texts))
        for chunk in _chunks([key for key in texts if key not in there]):
            vectors = await self._pool.run(self._encode, [texts[key] for key in chunk])
            yield dict(zip(chunk, vectors, strict=True))

    def _encode(self, texts: Sequence[str]) -> Vectors:
        parts = []
        for few in _chunks(texts, _AT_ONCE):
            checkpoint()
            parts.append(self._encoder.encode(few))
        return np.concatenate(parts)


def _first(documents: Mapping[str, str], keys: Sequence[str], most_bytes: int) -> dict[str, str]:
    """The documents of the first keys that have at most so many bytes together."""
    found = [key for key in keys if key in documents]
    sizes = accumulate(len(documents[key]) for key in found)  # they are in ASCII
    return {key: documents[key] for key, size in zip(found, sizes, strict=True) if size <= most_bytes}


def _parsed(documents: Mapping[str, str]) -> dict[str, Demo]:
    return {key: Demo.model_validate_json(document) for key, document in with_checkpoints(documents.items())}


def _checked(demo: Demo, index: int) -> Demo:
    expected = demo_id(demo)
    if demo.id not in {"", expected}:
        raise _invalid(index, "id", "The id must be the hash of the demo's query and plan, or empty.")
    if demo.level == "api" and len(demo.apis) != 1:
        raise _invalid(index, "plan", "An API-level demo must use one API; this plan uses several.")
    if len(demo.apis) > MAX_DEMO_APIS:
        raise _invalid(index, "plan", f"The plan calls more than {MAX_DEMO_APIS} APIs.")
    values = (one for step in demo.plan.steps for value in step_values(step) for one in scalars(value))
    if sum(1 for _ in islice(values, _MAX_VALUES + 1)) > _MAX_VALUES:
        raise _invalid(index, "plan", f"The plan has more than {_MAX_VALUES} values.")
    checked = demo.model_copy(update={"id": expected})
    if len(document_of(checked)) > MAX_DEMO_BYTES:
        raise _invalid(index, "plan", f"The demo is larger than {MAX_DEMO_BYTES} bytes.")
    return checked


def _invalid(index: int, field: str, message: str) -> ValidationFailed:
    errors = [{"field": f"body.demos.{index}.{field}", "message": message, "kind": "value_error"}]
    return ValidationFailed(f"Demo {index}: {message}", errors=errors)


def _chunks(values: Sequence[str], size: int = _BATCH) -> Iterable[Sequence[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))
