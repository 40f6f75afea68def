"""The catalogue's consistency: a search that starts after the answer to a change sees the change.

A change does not wait for the index. The background task (:mod:`sync`) or the next search updates it, whichever
comes first. So a thousand small imports in a row do not build a thousand indexes.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from retriever_svc.constants import ConstantsService
from retriever_svc.engine.filters import NO_FILTERS, Filters
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.saving import SnapshotFiles
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import embedding_text, record
from retriever_svc.engine.vectors import Indexes, VectorIndex, as_ids, open_indexes
from retriever_svc.importers import Limits, with_content_hash
from retriever_svc.importing import DocumentImporter
from retriever_svc.models import Delta, Entry, Hit, Record
from retriever_svc.opening import MAX_API_BYTES, opened
from retriever_svc.secrets import SecretsReader
from retriever_svc.storage import CatalogueStorage
from retriever_svc.whole_reads import WholeReads
from services.compute import ComputePool
from services.contracts.api import Api, CatalogueStatus, NeededSecrets
from services.contracts.retrieval import Clause
from services.encoder import Encoder, Vectors
from services.errors import Conflict, NotFound, NotReady
from services.memory import trim_memory
from services.telemetry import get_logger

_BATCH = 32
"""Texts embedded at a time."""
_VECTORS = 2_000
"""Vectors read at a time. All vectors of a large catalogue at once would take hundreds of megabytes."""
_CACHED_BYTES = 64_000_000
"""Most bytes of the APIs that are kept in memory."""
_ATTEMPTS = 5
_READY_S = 10.0
"""Seconds beyond ``version_check_s`` for which the readiness check relies on the last check of the version."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search, at one version of the catalogue.

    Attributes:
        version: version of the catalogue.
        clauses: the request's clauses.
        ranked: each hit with its API as JSON, which answers contain unparsed.
    """

    version: int
    clauses: tuple[Clause, ...]
    ranked: tuple[tuple[Hit, bytes], ...]

    @property
    def hits(self) -> tuple[tuple[Hit, Api], ...]:
        """Each hit with its API."""
        return tuple((hit, Api.model_validate_json(document)) for hit, document in self.ranked)


class CatalogueService:
    """The catalogue of one replica.

    Args:
        storage: the catalogue's database.
        encoder: turns texts into vectors.
        searches: pool where requests are encoded and searched.
        imports: pool where documents are read and embedded, so that a large one does not delay requests.
        options: how hits are ranked.
        limits: limits on size and number of operations of a document.
        version_check_s: seconds for which the catalogue's version is not checked again.
        cached_apis: number of APIs whose documents are kept in memory.
        indexes: the vector index; by default exact and in memory.
        files: where snapshots are stored between two starts; None: nowhere.

    Attributes:
        documents: imports documents into this catalogue.
        constants: sets the constants of providers.
        changed: set when this replica changes the catalogue; cleared by the task that signals other replicas.
    """

    def __init__(
        self,
        storage: CatalogueStorage,
        encoder: Encoder,
        searches: ComputePool,
        imports: ComputePool,
        *,
        options: RankingOptions,
        limits: Limits,
        version_check_s: float = 1.0,
        cached_apis: int = 2_000,
        indexes: Indexes | None = None,
        files: SnapshotFiles | None = None,
    ) -> None:
        self.documents = DocumentImporter(storage, encoder, imports, limits, self.refresh)
        self._whole = WholeReads()
        self.constants = ConstantsService(storage, encoder.name, imports, self._whole, self.refresh)
        self._storage = storage
        self._encoder = encoder
        self._searches = searches
        self._imports = imports
        self._options = options
        self._ranking = f"{encoder.name}\n{options!r}\n{importlib.metadata.version('nestor')}"
        self._version_check_s = version_check_s
        self._cached = _Documents(cached_apis)
        self._indexes = indexes or open_indexes("flat", encoder.name, encoder.dimension)
        self._files = files
        self._snapshot = Snapshot.empty(encoder.dimension, self._indexes.empty())
        self.changed = asyncio.Event()
        self._sync_lock = asyncio.Lock()
        self._checked_at = self._changed_at = -1e9

    @property
    def size(self) -> int:
        """APIs in the snapshot that searches read."""
        return len(self._snapshot.entries)

    async def check_index(self) -> None:
        """Raise unless the catalogue's version was checked lately, or the index can be updated to it now.

        In the first case the check does not wait for an update in progress.
        """
        if time.monotonic() - self._checked_at >= self._version_check_s + _READY_S:
            await self.sync()
        if self._snapshot.version < 0:
            raise NotReady("the index is not loaded")

    async def refresh(self) -> None:
        """Make this replica's change visible to its next search, and have the other replicas signalled."""
        self._changed_at = time.monotonic()
        self.changed.set()

    async def sync(self) -> Snapshot:
        """Update the snapshot to the catalogue's version and return it. Stored vectors are read, missing ones computed.

        Changes that are made during an update are applied together by the next one.
        """
        return await self._checked_since(time.monotonic())

    async def _checked_since(self, moment: float) -> Snapshot:
        """The snapshot after a check of the version that began later than this moment.

        One update serves all who came before it began, so each waits for two at most: the one that it finds, and its
        own. Otherwise, while others keep changing the catalogue, it would wait for one of each that came before it.
        """
        if self._checked_at > moment:
            return self._snapshot
        async with self._sync_lock:
            return self._snapshot if self._checked_at > moment else await self._sync()

    async def _sync(self) -> Snapshot:
        asked_at = time.monotonic()
        if await self._storage.version() != self._snapshot.version:
            if self._snapshot.version < 0:
                await self.load()
            delta = await self._storage.changes(self._snapshot.stamps)
            delta, vectors = await self._changed_vectors(delta)
            self._snapshot = await asyncio.to_thread(self._snapshot.with_changes, delta, vectors)
            del delta, vectors
            await asyncio.to_thread(trim_memory)
        self._checked_at = asked_at
        return self._snapshot

    async def load(self) -> None:
        """Load the snapshot that was saved last. It may be of an old version: :meth:`sync` updates it."""
        if self._files is not None:
            saved = await asyncio.to_thread(self._files.load, self._encoder.name, self._indexes)
            self._snapshot = saved or self._snapshot

    async def save(self) -> None:
        """Save the snapshot for the next start, unless it is saved already."""
        if self._files is not None:
            await asyncio.to_thread(self._files.save, self._snapshot, self._encoder.name)

    async def catalogue(self) -> tuple[int, str]:
        """The version that searches use now, and a digest of everything their answers depend on."""
        snapshot = await self._current()
        return snapshot.version, hashlib.sha256(f"{snapshot.digest}\n{self._ranking}".encode()).hexdigest()

    async def find(self, query: str, k: int, suppliers: int = 0, filters: Filters = NO_FILTERS) -> Found:
        """The best ``k`` APIs for a request, and up to ``suppliers`` more that supply their inputs."""
        for _ in range(_ATTEMPTS):
            snapshot = await self._current()
            clauses, hits = await self._rank(snapshot, query, k, suppliers, filters)
            documents = await self._documents([hit.entry for hit in hits])
            if documents is not None:
                return Found(snapshot.version, clauses, tuple(zip(hits, documents, strict=True)))
            # A document is not the one that was indexed: another replica has changed the catalogue.
            await self.sync()
        raise NotReady("the catalogue changes faster than it can be read")

    async def search(self, query: str, filters: Filters, limit: int, offset: int) -> tuple[int, int, Sequence[Hit]]:
        """A page of entries, best first.

        Returns:
            The catalogue's version, the number of entries that pass the filters, and the page.
        """
        snapshot = await self._current()
        allowed = filters.allowed(snapshot)
        total = len(snapshot.entries) if allowed is None else len(allowed)
        _, hits = await self._rank(snapshot, query, offset + limit, 0, filters)
        return snapshot.version, total, hits[offset:]

    async def listing(
        self, filters: Filters, limit: int, after: str = ""
    ) -> tuple[int, int, Sequence[Entry], str | None]:
        """The entries after this id, in order of id.

        Returns:
            The catalogue's version, the number of entries that pass the filters, the page, and the id after which the
            next page begins, if there is one.
        """
        snapshot = await self._current()
        allowed = filters.allowed(snapshot)
        passing: Sequence[int] = range(len(snapshot.entries)) if allowed is None else allowed.tolist()
        first = bisect_left(passing, bisect_right(snapshot.entries.ids, after))
        page = [snapshot.entries[position] for position in passing[first : first + limit]]
        return snapshot.version, len(passing), page, page[-1].id if first + limit < len(passing) else None

    async def status(self) -> CatalogueStatus:
        """Size and version of the catalogue and of the index."""
        snapshot = await self._current()
        version = await self._storage.version()
        return CatalogueStatus(
            catalogue_version=version,
            index_version=max(snapshot.version, 0),
            apis=len(snapshot.entries),
            providers={name: len(positions) for name, positions in sorted(snapshot.providers.items())},
            encoder=self._encoder.name,
        )

    async def lookup(
        self, ids: Sequence[str], filters: Filters = NO_FILTERS, most_bytes: int | None = None
    ) -> list[Api]:
        """The APIs that exist and pass the filters, in the order of ``ids``; the first with so many bytes at most."""
        unique = list(dict.fromkeys(ids))
        found = await self._storage.get(unique, filters.tenant, bounded=True, most_bytes=most_bytes)
        passing = set(found)
        if filters != Filters(tenant=filters.tenant):  # the tenant was checked by the storage
            passing = filters.passing(await self._current(), found)
        return [found[key] for key in unique if key in passing]

    async def get(self, api_id: str, tenant: str | None = None) -> Api:
        """One API.

        Raises:
            NotFound: there is no API with that id, or the tenant does not see it.
        """
        apis = await self._storage.get([api_id], tenant)
        if api_id not in apis:
            raise NotFound(f"There is no API {api_id!r}.")
        return apis[api_id]

    async def secrets(self, provider: str, tenant: str | None = None) -> NeededSecrets:
        """The credentials that the provider's APIs need, of the APIs that the tenant sees."""
        reader = SecretsReader()
        async with self._whole.turn(tenant), aclosing(self._storage.of_provider(provider, tenant)) as parts:
            async for documents in parts:
                await self._searches.run(reader.read, documents)
            return NeededSecrets(secrets=await self._searches.run(lambda: reader.needed))

    async def create(self, api: Api) -> Api:
        """Add an API; its content hash is computed here.

        Raises:
            Conflict: the id is taken.
        """
        new = record(with_content_hash(api))
        await self._storage.create(new, self._encoder.name, await self._embed([new]))
        await self.refresh()
        return new.api

    async def update(self, api_id: str, api: Api) -> Api:
        """Replace an API.

        Raises:
            Conflict: the API's own id differs from ``api_id``.
            NotFound: there is no API with that id.
        """
        if api.id != api_id:
            raise Conflict(f"The API in the body has the id {api.id!r}, not {api_id!r}.")
        new = record(with_content_hash(api))
        await self._storage.update(new, self._encoder.name, await self._embed([new]))
        await self.refresh()
        return new.api

    async def delete(self, api_id: str) -> None:
        """Remove an API. Raises NotFound if there is no API with that id."""
        await self._storage.delete(api_id)
        await self.refresh()

    async def delete_provider(self, provider: str, tenant: str | None = None) -> None:
        """Remove a provider with all its APIs.

        Raises:
            NotFound: it has no API that this tenant sees.
            Conflict: it belongs to another owner.
        """
        await self._storage.delete_provider(provider, tenant)
        await self.refresh()

    async def _current(self) -> Snapshot:
        """The snapshot, updated first if this replica changed the catalogue or the last check is too old."""
        return await self._checked_since(max(self._changed_at, time.monotonic() - self._version_check_s))

    async def _rank(
        self, snapshot: Snapshot, query: str, k: int, suppliers: int, filters: Filters
    ) -> tuple[tuple[Clause, ...], list[Hit]]:
        return await self._searches.run(find, snapshot, self._encoder, query, k, suppliers, filters, self._options)

    async def _documents(self, entries: Sequence[Entry]) -> list[bytes] | None:
        """The entries' APIs as JSON, or None if one of them has changed since it was indexed."""
        unknown = [entry.number for entry in entries if self._cached.get(entry) is None]
        loaded = await self._storage.documents(unknown) if unknown else {}
        for key, stored in loaded.items():
            if len(stored) > MAX_API_BYTES:  # of an earlier version
                loaded[key] = (await self._searches.run(opened, stored))[0]
        documents = []
        for entry in entries:
            document = self._cached.get(entry) or loaded.get((entry.number, entry.content_hash))
            if document is None:
                return None
            self._cached.keep(entry, document)
            documents.append(document)
        return documents

    async def _embed(self, records: Sequence[Record]) -> dict[str, Vectors]:
        """Compute the vectors of the texts that have no stored one."""
        known = await self._storage.vectors(self._encoder.name, [new.text_hash for new in records])
        texts = {new.text_hash: new.embedded for new in records if new.text_hash not in known}
        if not texts:
            return {}
        encoded = await self._imports.run(self._encoder.encode, list(texts.values()))
        return dict(zip(texts, encoded, strict=True))

    async def _changed_vectors(self, delta: Delta) -> tuple[Delta, VectorIndex]:
        """The snapshot's vectors, without those of removed APIs and with those of new ones, and the changes to apply.

        What was removed or replaced since the changes were read may have no vector any more. It is left out of the
        changes, and the next update, at a later version, finds what became of it: all searches wait for this one.
        """
        before = self._snapshot
        removed, new = before.removed(delta), await asyncio.to_thread(before.unembedded, delta)
        if not len(removed) and not new:
            return delta, before.vectors
        gone = set[int]()
        index = await asyncio.to_thread(before.vectors.copy)
        await asyncio.to_thread(index.delete, removed)
        for start in range(0, len(new), _VECTORS):
            entries = new[start : start + _VECTORS]
            vectors = await self._vectors(entries)
            there = [entry for entry in entries if entry.text_hash in vectors]
            gone.update(entry.number for entry in entries if entry.text_hash not in vectors)
            if there:
                rows = np.stack([vectors[entry.text_hash] for entry in there])
                await asyncio.to_thread(index.upsert, as_ids([entry.number for entry in there]), rows)
        changed = tuple(entry for entry in delta.changed if entry.number not in gone)
        return replace(delta, changed=changed), index

    async def _vectors(self, entries: Sequence[Entry]) -> dict[str, Vectors]:
        """The vectors of these entries' texts, by hash.

        Missing ones are computed (after a change of encoder), but for texts that are no longer in the catalogue.
        """
        vectors = await self._storage.vectors(self._encoder.name, list({entry.text_hash for entry in entries}))
        pending = [entry for entry in entries if entry.text_hash not in vectors]
        embedded = 0
        for start in range(0, len(pending), _BATCH):
            batch = [entry for entry in pending[start : start + _BATCH] if entry.text_hash not in vectors]
            stored = await self._storage.documents([entry.number for entry in batch])
            same = ((entry.text_hash, stored.get((entry.number, entry.content_hash))) for entry in batch)
            documents = {key: document for key, document in same if document is not None}
            if documents:
                encoded = await self._imports.run(self._encode, list(documents.values()))
                new = dict(zip(documents, encoded, strict=True))
                await self._storage.keep_vectors(self._encoder.name, new)
                vectors |= new
                embedded += len(new)
        if embedded:
            _log.info("catalogue_embedded", texts=embedded, encoder=self._encoder.name)
        return vectors

    def _encode(self, documents: Sequence[bytes]) -> Vectors:
        """The vectors of APIs in JSON."""
        return self._encoder.encode([embedding_text(Api.model_validate_json(document)) for document in documents])


class _Documents:
    """An LRU cache of APIs as JSON, by id and content hash: of ``size`` APIs, and ``_CACHED_BYTES``, at most."""

    def __init__(self, size: int) -> None:
        self._size, self._bytes = size, 0
        self._documents: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def get(self, entry: Entry) -> bytes | None:
        """The API this entry was made from, or None if it is not cached."""
        key = (entry.id, entry.content_hash)
        if key in self._documents:
            self._documents.move_to_end(key)
        return self._documents.get(key)

    def keep(self, entry: Entry, document: bytes) -> None:
        """Add an API to the cache."""
        key = (entry.id, entry.content_hash)
        self._bytes += len(document) - len(self._documents.get(key, b""))
        self._documents[key] = document
        while len(self._documents) > self._size or self._bytes > _CACHED_BYTES:
            self._bytes -= len(self._documents.popitem(last=False)[1])
