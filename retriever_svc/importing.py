"""Importing a document: skip it if it is known; else read, compare, then show the change, or embed and store it."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

import services.contracts.api
from retriever_svc import differences
from retriever_svc.constants import with_constants
from retriever_svc.engine.texts import record
from retriever_svc.importers import Imported, Limits, import_document
from retriever_svc.models import Change, ImportedDocumentRecord, Record
from retriever_svc.related import find_related
from retriever_svc.storage import CatalogueStorage, refuse_unexpected
from services.compute import ComputePool, with_checkpoints
from services.contracts.api import (
    DocumentPage,
    ImportChange,
    ImportedDocument,
    ImportEvent,
    ImportProgress,
    ImportReport,
    ImportRequest,
    SkippedOperation,
)
from services.contracts.review import SensitiveChange
from services.encoder import Encoder, Vectors
from services.errors import Conflict, Forbidden, Overloaded
from services.storage.embeddings import VectorsRemoved

_SKIPPED = 20
"""Skipped operations that a page of documents shows of each."""
_BATCH = 32
"""Texts that a worker embeds at a time."""
_ATTEMPTS = 3
"""How often an import embeds again what others remove meanwhile."""
_SENSITIVE = 100
"""Most sensitive changes that a report lists."""
_DIFFERENCES = 200
"""Updated APIs that are read at a time for comparison."""
_NOTES: TypeAdapter[tuple[tuple[SkippedOperation, ...], tuple[str, ...]]] = TypeAdapter(
    tuple[tuple[SkippedOperation, ...], tuple[str, ...]]
)
_SHOWN: TypeAdapter[tuple[SkippedOperation, ...]] = TypeAdapter(tuple[SkippedOperation, ...])


@functools.cache
def importer_version() -> str:
    """A digest of the code that reads documents.

    A version number in a source file is easily forgotten. A digest changes by itself. It may cause a document to be
    read again without need, but never lets an outdated reading stay.
    """
    here = Path(__file__).parent
    folders = (*here.glob("importers/**/*.py"), *here.glob("engine/**/*.py"))
    sources = [Path(services.contracts.api.__file__), here / "opening.py", *folders]
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class PreparedImport:
    """A document that was read and compared, but not stored yet.

    Attributes:
        imported: the content of the document.
        document_record: the document, and how it was read.
        records: its APIs.
        change: how they change the catalogue.
        sensitive: the changes that a person must confirm.
        apply: whether to apply the change, or only show it.
        tenant: the tenant that imports it; None: the operator.
    """

    imported: Imported
    document_record: ImportedDocumentRecord
    records: tuple[Record, ...]
    change: Change
    sensitive: tuple[SensitiveChange, ...]
    apply: bool
    tenant: str | None


class DocumentImporter:
    """Imports documents.

    Args:
        storage: the catalogue's database.
        encoder: turns texts into vectors.
        pool: where documents are read and embedded, a batch on each of its workers.
        limits: limits on size and number of operations.
        refresh: makes stored changes searchable.
    """

    def __init__(
        self,
        storage: CatalogueStorage,
        encoder: Encoder,
        pool: ComputePool,
        limits: Limits,
        refresh: Callable[[], Awaitable[object]],
    ) -> None:
        self._storage, self._records = storage, storage.document_records
        self._encoder = encoder
        self._pool = pool
        self._limits = limits
        self._refresh = refresh
        self._importer = hashlib.sha256(f"{importer_version()}{limits!r}".encode()).hexdigest()

    async def open(self, request: ImportRequest, tenant: str | None = None) -> AsyncGenerator[ImportEvent, None]:
        """Begin an import. All errors are raised before the first event.

        Args:
            request: what to import.
            tenant: the tenant that imports it, for itself only and without seeing other tenants'; None: the operator.

        Raises:
            InvalidDocument: it cannot be imported.
            Forbidden: a tenant imports for others.
            Conflict: an id belongs to another provider, the provider belongs to another owner, or the change differs
                from the one that was reviewed.
        """
        request = _for_tenant(request, tenant)
        known = await self._known(request, tenant)
        if known is not None:
            return _single(known)
        imported = await self._pool.run(
            functools.partial(
                import_document,
                request.document,
                request.provider,
                request.server,
                self._limits,
                origin=request.origin,
            )
        )
        imported.refuse_empty()
        return self.apply(await self.prepare(imported, request, tenant))

    async def prepare(self, imported: Imported, request: ImportRequest, tenant: str | None = None) -> PreparedImport:
        """Compare the document with the catalogue and change nothing. Raises Conflict, as :meth:`open` does."""
        known = await self._records.of(imported.provider)
        imported = _with_tenants(imported, request, known)
        constants = known.constants if known is not None else {}
        imported = await self._pool.run(with_constants, imported, constants)
        records = await self._pool.run(
            lambda: tuple(record(api, imported.version) for api in with_checkpoints(imported.apis))
        )
        document_record = dataclasses.replace(self._document_record(imported, request, tenant), constants=constants)
        change = await self._storage.change(document_record, records, tenant)
        earlier = known.places if known is not None and known.places else await self._stored_places(change)
        places = await self._pool.run(differences.remembered, with_checkpoints(imported.apis), earlier)
        document_record = dataclasses.replace(document_record, places=places)
        await self._refuse_taken_ids(imported.provider, change.added)
        refuse_unexpected(change, request.confirm or request.expected_change)
        _refuse_unrelated(imported, change, request)
        sensitive = await self._sensitive(imported, change, earlier)
        is_held = request.hold_changes and await self._is_new_content(change, document_record)
        applies = not (request.dry_run or is_held or (sensitive and not request.confirm))
        # _store() passes this change's hash: if the provider is changed in the meantime, the import is refused.
        return PreparedImport(imported, document_record, records, change, sensitive, applies, tenant)

    async def apply(self, prepared: PreparedImport) -> AsyncGenerator[ImportEvent, None]:
        """Replace the provider's APIs with the document's, or show what that would change. The report comes last.

        Raises:
            Conflict: an id belongs to another provider, or the provider was changed since the comparison.
            Overloaded: vectors that it relied on were removed again and again.
        """
        total = len(prepared.records)
        yield ImportProgress(phase="reading", done=total, total=total)
        if prepared.apply:
            vectors = dict[str, Vectors]()
            for _ in range(_ATTEMPTS):
                known = await self._storage.embedded(self._encoder.name, [new.text_hash for new in prepared.records])
                texts = _unembedded(prepared.records, known | vectors.keys())
                wanted = len(vectors) + len(texts)
                for group in _groups(list(texts), _BATCH * self._pool.workers):
                    vectors |= await self._embed({key: texts[key] for key in group})
                    yield ImportProgress(phase="embedding", done=len(vectors), total=wanted)
                yield ImportProgress(phase="storing", done=0, total=total)
                try:
                    version = await self._store(prepared, vectors, sorted(known - vectors.keys()))
                    break
                except VectorsRemoved:  # with another provider that had the same texts
                    continue
            else:
                raise Overloaded("Others remove the same texts again and again.", retry_after_s=1)
            yield ImportProgress(phase="storing", done=total, total=total)
        else:
            for group in _groups(prepared.change.updated, _DIFFERENCES):
                for change in await self._updates(prepared, group):
                    yield change
            for change in _added_and_removed(prepared):
                yield change
            version = await self._storage.version()
        yield await self._report(prepared, version)

    async def documents(self, limit: int, after: str = "", tenant: str | None = None) -> DocumentPage:
        """The imported documents of the providers after this one: all, or those that this tenant sees."""
        records, total, further = await self._records.page(limit, after, tenant)
        shown = (self._document(one, tenant) for one in records)
        return DocumentPage(documents=tuple(shown), total=total, next=further)

    def _document(self, stored: ImportedDocumentRecord, tenant: str | None) -> ImportedDocument:
        return ImportedDocument(
            provider=stored.provider,
            document_hash=stored.document_hash,
            format=stored.format,
            version=stored.version,
            server=stored.server,
            tenants=tuple(name for name in stored.tenants if tenant in (None, name)),
            imported_at=stored.imported_at,
            constants=dict(stored.constants),
            skipped=_SHOWN.validate_json(stored.skipped),
            skipped_total=stored.skipped_total,
            current=stored.importer == self._importer,
        )

    async def _known(self, request: ImportRequest, tenant: str | None) -> ImportReport | None:
        """The report for a document that is imported already, by the same code, and whose APIs were not edited since.

        None: it must be read.
        """
        digest = hashlib.sha256(request.document.encode("utf-8", "replace")).hexdigest()
        found = await self._records.find(digest, request.server or request.origin, request.provider)
        if found is None or found[0].importer != self._importer:
            return None
        document_record, apis, version = found
        if document_record.owner != tenant or _ordered(request.tenants) not in (None, document_record.tenants):
            return None
        skipped, warnings = _NOTES.validate_json(document_record.notes)
        return ImportReport(
            provider=document_record.provider,
            format=document_record.format,
            document_hash=document_record.document_hash,
            added=0,
            updated=0,
            unchanged=apis,
            removed=0,
            skipped=skipped,
            skipped_total=document_record.skipped_total,
            warnings=warnings,
            applied=not request.dry_run,
            catalogue_version=version,
        )

    def _document_record(
        self, imported: Imported, request: ImportRequest, tenant: str | None
    ) -> ImportedDocumentRecord:
        return ImportedDocumentRecord(
            provider=imported.provider,
            document_hash=imported.document_hash,
            format=imported.format,
            importer=self._importer,
            server=request.server or request.origin,
            named=request.provider is not None,
            version=imported.version,
            notes=_NOTES.dump_json((imported.skipped, imported.warnings), ensure_ascii=True).decode(),
            skipped=_SHOWN.dump_json(imported.skipped[:_SKIPPED], ensure_ascii=True).decode(),
            skipped_total=imported.skipped_total,
            imported_at=datetime.now(UTC),
            tenants=imported.apis[0].tenants if imported.apis else _ordered(request.tenants) or (),
            owner=tenant,
        )

    async def _stored_places(self, change: Change) -> tuple[str, ...]:
        """The places of the provider's stored APIs."""
        found: tuple[str, ...] = ()
        for group in _groups(list(change.before), _DIFFERENCES):
            stored = (await self._storage.get(group)).values()
            found = await self._pool.run(differences.remembered, with_checkpoints(stored), found)
        return found

    async def _sensitive(
        self, imported: Imported, change: Change, earlier: Sequence[str]
    ) -> tuple[SensitiveChange, ...]:
        """Changes of host, effect or credentials in stored operations, and added operations at new places.

        A renamed operation is recognised by its method and path. One that is renamed beyond that, or left out of one
        import and added by the next, counts as added. ``earlier``: the places that the provider ever had.
        """
        new = {api.id: api for api in imported.apis}
        renamed = {(new[key].method, new[key].path): new[key] for key in change.added}
        found = list[SensitiveChange]()
        added = dict.fromkeys(change.added)
        for group in _groups([*change.updated, *(change.removed if renamed else ())], _DIFFERENCES):
            for old in (await self._storage.get(group)).values():
                after = new.get(old.id) or renamed.get((old.method, old.path))
                if after is not None:
                    added.pop(after.id, None)
                    found += differences.sensitive(old, after)
        if earlier:  # nothing of a new provider is in use
            apis = with_checkpoints(new[key] for key in added)
            found += await self._pool.run(differences.new_places, apis, frozenset(earlier))
        return tuple(found)

    async def _refuse_taken_ids(self, provider: str, ids: Sequence[str]) -> None:
        for api_id, owner in (await self._storage.owners(ids)).items():
            if owner != provider:
                raise Conflict(f"The id {api_id!r} belongs to another provider.")

    async def _is_new_content(self, change: Change, document_record: ImportedDocumentRecord) -> bool:
        """Whether a stored API is updated or removed, and the document differs from the one imported last."""
        touched = bool(change.updated or change.removed)
        return touched and await self._records.hash_of(document_record.provider) != document_record.document_hash

    async def _embed(self, texts: Mapping[str, str]) -> dict[str, Vectors]:
        """Embed on all workers at once."""
        keys = list(texts)
        shares = [keys[first :: self._pool.workers] for first in range(min(self._pool.workers, len(keys)))]
        encode = self._encoder.encode
        runs = [self._pool.run(encode, [texts[key] for key in share]) for share in shares]
        vectors = await asyncio.gather(*runs)
        return {k: v for share, rows in zip(shares, vectors, strict=True) for k, v in zip(share, rows, strict=True)}

    async def _store(self, prepared: PreparedImport, vectors: Mapping[str, Vectors], embedded: Sequence[str]) -> int:
        """Store, make searchable, and return the catalogue's version. Raises VectorsRemoved."""
        _, version = await self._storage.replace_provider(
            prepared.document_record,
            prepared.records,
            self._encoder.name,
            vectors,
            prepared.change.hash,
            prepared.tenant,
            embedded,
        )
        await self._refresh()
        return version

    async def _updates(self, prepared: PreparedImport, ids: Sequence[str]) -> list[ImportChange]:
        """How these APIs would change. APIs that were removed in the meantime are left out."""
        new = {api.id: api for api in prepared.imported.apis}
        old = await self._storage.get(ids)
        pairs = [(old[key], new[key]) for key in ids if key in old]
        return await self._pool.run(lambda: [differences.updated(*pair) for pair in with_checkpoints(pairs)])

    async def _report(self, prepared: PreparedImport, version: int) -> ImportReport:
        imported, change = prepared.imported, prepared.change
        related, related_total = await find_related(self._storage, imported.provider, prepared.records, prepared.tenant)
        added, updated = len(change.added), len(change.updated)
        return ImportReport(
            provider=imported.provider,
            format=imported.format,
            document_hash=imported.document_hash,
            added=added,
            updated=updated,
            unchanged=len(change.after) - added - updated,
            removed=len(change.removed),
            skipped=imported.skipped,
            skipped_total=imported.skipped_total,
            warnings=imported.warnings,
            related=related,
            related_total=related_total,
            sensitive=prepared.sensitive[:_SENSITIVE],
            sensitive_total=len(prepared.sensitive),
            applied=prepared.apply,
            change_hash=change.hash,
            catalogue_version=version,
        )


def _unembedded(records: Sequence[Record], known: Set[str]) -> dict[str, str]:
    """Texts without a vector, by hash. They are sorted by length, so that all workers get similar work."""
    texts = {new.text_hash: new.embedded for new in records if new.text_hash not in known}
    return dict(sorted(texts.items(), key=lambda item: -len(item[1])))


def _with_tenants(imported: Imported, request: ImportRequest, known: ImportedDocumentRecord | None) -> Imported:
    """The document with the tenants of its APIs set: those of the request, else those of the provider's last import."""
    tenants = _ordered(request.tenants)
    if tenants is None and known is not None:
        tenants = known.tenants
    if not tenants:
        return imported
    apis = tuple(api.model_copy(update={"tenants": tenants}) for api in imported.apis)
    return dataclasses.replace(imported, apis=apis)


def _added_and_removed(prepared: PreparedImport) -> list[ImportChange]:
    """The APIs that would be removed and added."""
    new = {api.id: api for api in prepared.imported.apis}
    removed = [ImportChange(action="removed", id=key) for key in prepared.change.removed]
    return removed + [ImportChange(action="added", id=key, summary=new[key].summary) for key in prepared.change.added]


def _for_tenant(request: ImportRequest, tenant: str | None) -> ImportRequest:
    """The request, restricted to this tenant.

    Raises:
        Forbidden: it names other tenants.
    """
    if tenant is None:
        return request
    if request.tenants not in (None, (tenant,)):
        raise Forbidden(f"Only the operator's administrators can import for others. Your imports are for {tenant!r}.")
    return request.model_copy(update={"tenants": (tenant,)})


def _refuse_unrelated(imported: Imported, change: Change, request: ImportRequest) -> None:
    """Refuse an unreviewed document whose title names a provider that has entirely different operations.

    Raises:
        Conflict: none of the provider's APIs is in it, so all of them would be removed.
    """
    confirmed = request.confirm or request.expected_change
    looked_at = request.provider or confirmed or request.hold_changes or request.dry_run
    if not looked_at and change.removed and len(change.added) == len(change.after):
        raise Conflict(
            f"Another document is imported as {imported.provider!r}, and this one has none of its operations. "
            f"Import it with its own `provider`, or with `provider` {imported.provider!r} to replace the other "
            "document."
        )


def _ordered(tenants: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The tenants without duplicates, sorted, so that their order in the request makes no change."""
    return None if tenants is None else tuple(sorted(set(tenants)))


def _groups(keys: Sequence[str], size: int) -> list[Sequence[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


async def _single(report: ImportReport) -> AsyncGenerator[ImportEvent, None]:
    yield report
