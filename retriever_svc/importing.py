"""The way of a document into the catalogue: known already? read, compared, shown or embedded and stored."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

import services.contracts.api
from retriever_svc import differences
from retriever_svc.constants import with_constants
from retriever_svc.engine.texts import record
from retriever_svc.importers import Imported, Limits, import_document
from retriever_svc.models import Change, Pin, Record
from retriever_svc.storage import CatalogueStorage, refuse_unexpected
from retriever_svc.twins import find_twins
from services.compute import ComputePool, checkpoint
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
from services.errors import Conflict, Forbidden, InvalidDocument

T = TypeVar("T")
_REASONS = 3
_SKIPPED = 20
_MAX_DETAIL = 600
_BATCH = 32
"""Texts that a worker embeds at a time."""
_SENSITIVE = 100
"""Sensitive changes that are reported."""
_DIFFERENCES = 200
"""Updated APIs that are read at a time to be shown."""
_NOTES: TypeAdapter[tuple[tuple[SkippedOperation, ...], tuple[str, ...]]] = TypeAdapter(
    tuple[tuple[SkippedOperation, ...], tuple[str, ...]]
)


@functools.cache
def importer_version() -> str:
    """A digest of the code that decides what becomes of a document.

    A number in a source file would be forgotten; this changes by itself, and a document is read again once too often
    rather than once too seldom.
    """
    here = Path(__file__).parent
    sources = [Path(services.contracts.api.__file__), *here.glob("importers/**/*.py"), *here.glob("engine/**/*.py")]
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that was read and compared, on its way into the catalogue.

    Attributes:
        imported: what the document holds.
        pin: the document, and how it was read.
        records: its APIs.
        change: what they change.
        sensitive: what of it somebody has to accept.
        apply: whether it is to be done, or only shown.
        tenant: who imports it; None: whoever runs the catalogue.
    """

    imported: Imported
    pin: Pin
    records: tuple[Record, ...]
    change: Change
    sensitive: tuple[SensitiveChange, ...]
    apply: bool
    tenant: str | None


class DocumentImporter:
    """Imports documents.

    Args:
        storage: the record.
        encoder: turns texts into vectors.
        pool: where documents are read and embedded, a batch on each of its workers.
        limits: what a document may cost.
        refresh: makes what was stored searchable.
    """

    def __init__(
        self,
        storage: CatalogueStorage,
        encoder: Encoder,
        pool: ComputePool,
        limits: Limits,
        refresh: Callable[[], Awaitable[object]],
    ) -> None:
        self._storage = storage
        self._encoder = encoder
        self._pool = pool
        self._limits = limits
        self._refresh = refresh
        self._importer = hashlib.sha256(f"{importer_version()}{limits!r}".encode()).hexdigest()

    async def open(self, request: ImportRequest, tenant: str | None = None) -> AsyncGenerator[ImportEvent, None]:
        """Begin an import: what is refused is refused before the first event.

        Args:
            request: what to import.
            tenant: who imports it for itself, and is shown nothing of other tenants; None: whoever runs the catalogue.

        Raises:
            InvalidDocument: it cannot be imported.
            Forbidden: a tenant imports for others.
            Conflict: an id belongs to another provider, the provider to somebody else, or it is not the change that
                was looked at.
        """
        request = _for_itself(request, tenant)
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
        _refuse_nothing(imported)
        return self.apply(await self.prepare(imported, request, tenant))

    async def prepare(self, imported: Imported, request: ImportRequest, tenant: str | None = None) -> Prepared:
        """Compare what was read with what is there, changing nothing. Raises Conflict, as :meth:`open` does."""
        known = await self._storage.pin_for(imported.provider)
        imported = _owned(imported, request, known)
        constants = known.constants if known is not None else {}
        imported = await self._pool.run(with_constants, imported, constants)
        records = await self._pool.run(lambda: tuple(record(api, imported.version) for api in _paced(imported.apis)))
        pin = dataclasses.replace(self._pin(imported, request, tenant), constants=constants)
        change = await self._storage.change(pin, records, tenant)
        await self._refuse_foreign(imported.provider, change.added)
        refuse_unexpected(change, request.confirm or request.expected_change)
        _refuse_stranger(imported, change, request)
        sensitive = await self._sensitive(imported, change)
        held = (request.hold_changes and await self._is_news(change, pin)) or (sensitive and not request.confirm)
        # What was found harmless must still be what is done when the provider is changed by someone else meanwhile.
        return Prepared(imported, pin, records, change, sensitive, not (request.dry_run or held), tenant)

    async def apply(self, prepared: Prepared) -> AsyncGenerator[ImportEvent, None]:
        """Make what was read the provider's APIs, or show what that would do; the report comes last.

        Raises:
            Conflict: an id belongs to another provider, or the provider was changed since it was compared.
        """
        total = len(prepared.records)
        yield ImportProgress(phase="reading", done=total, total=total)
        version = None
        if prepared.apply:
            vectors = dict[str, Vectors]()
            texts = await self._unembedded(prepared.records)
            for group in _groups(list(texts), _BATCH * self._pool.workers):
                vectors |= await self._embed({key: texts[key] for key in group})
                yield ImportProgress(phase="embedding", done=len(vectors), total=len(texts))
            yield ImportProgress(phase="storing", done=0, total=total)
            version = await self._store(prepared, vectors)
            yield ImportProgress(phase="storing", done=total, total=total)
        else:
            for group in _groups(prepared.change.updated, _DIFFERENCES):
                for change in await self._shown(prepared, group):
                    yield change
            for change in _others(prepared):
                yield change
            version = await self._storage.version()
        yield await self._report(prepared, version)

    async def documents(self, limit: int, offset: int, tenant: str | None = None) -> DocumentPage:
        """A page of the imported documents: all, or those that this tenant sees."""
        pins, total = await self._storage.pins(limit, offset, tenant)
        shown = (self._document(pin, tenant) for pin in pins)
        return DocumentPage(documents=tuple(shown), total=total)

    def _document(self, pin: Pin, tenant: str | None) -> ImportedDocument:
        skipped = _NOTES.validate_json(pin.notes)[0] if pin.notes.startswith("[") else ()  # "{}" of early versions
        return ImportedDocument(
            provider=pin.provider,
            document_hash=pin.document_hash,
            format=pin.format,
            version=pin.version,
            server=pin.server,
            tenants=tuple(name for name in pin.tenants if tenant in (None, name)),
            imported_at=pin.imported_at,
            constants=dict(pin.constants),
            skipped=skipped[:_SKIPPED],
            skipped_total=len(skipped),
            current=pin.importer == self._importer,
        )

    async def _known(self, request: ImportRequest, tenant: str | None) -> ImportReport | None:
        """The report of a document that is the one imported last, read by this very code, and never edited since."""
        digest = hashlib.sha256(request.document.encode("utf-8", "replace")).hexdigest()
        found = await self._storage.pin_of(digest, request.server or request.origin, request.provider)
        if found is None or found[0].importer != self._importer:
            return None
        pin, apis, version = found
        if pin.owner != tenant or _ordered(request.tenants) not in (None, pin.tenants):
            return None
        skipped, warnings = _NOTES.validate_json(pin.notes)
        return ImportReport(
            provider=pin.provider,
            format=pin.format,
            document_hash=pin.document_hash,
            added=0,
            updated=0,
            unchanged=apis,
            removed=0,
            skipped=skipped,
            warnings=warnings,
            applied=not request.dry_run,
            catalogue_version=version,
        )

    def _pin(self, imported: Imported, request: ImportRequest, tenant: str | None) -> Pin:
        return Pin(
            provider=imported.provider,
            document_hash=imported.document_hash,
            format=imported.format,
            importer=self._importer,
            server=request.server or request.origin,
            named=request.provider is not None,
            version=imported.version,
            notes=_NOTES.dump_json((imported.skipped, imported.warnings), ensure_ascii=True).decode(),
            imported_at=datetime.now(UTC),
            tenants=imported.apis[0].tenants if imported.apis else _ordered(request.tenants) or (),
            owner=tenant,
        )

    async def _sensitive(self, imported: Imported, change: Change) -> tuple[SensitiveChange, ...]:
        """Where calls of operations that are there would go elsewhere, do something else, or show another credential.

        An operation that has another name now is known by its method and path.
        """
        new = {api.id: api for api in imported.apis}
        renamed = {(new[key].method, new[key].path): new[key] for key in change.added}
        found = list[SensitiveChange]()
        for group in _groups([*change.updated, *(change.removed if renamed else ())], _DIFFERENCES):
            for old in (await self._storage.get(group)).values():
                after = new.get(old.id) or renamed.get((old.method, old.path))
                found += differences.sensitive(old, after) if after is not None else ()
        return tuple(found)

    async def _refuse_foreign(self, provider: str, ids: Sequence[str]) -> None:
        for api_id, owner in (await self._storage.owners(ids)).items():
            if owner != provider:
                raise Conflict(f"The id {api_id!r} belongs to another provider.")

    async def _is_news(self, change: Change, pin: Pin) -> bool:
        """Whether an API that is there changes or goes, by another text than the one imported last."""
        touched = bool(change.updated or change.removed)
        return touched and await self._storage.hash_of(pin.provider) != pin.document_hash

    async def _unembedded(self, records: Sequence[Record]) -> dict[str, str]:
        """Texts that have no vector yet, by hash; like lengths together, so that workers are busy alike."""
        hashes = [new.text_hash for new in records]
        known = await self._storage.vectors(self._encoder.name, hashes)
        texts = {new.text_hash: new.embedded for new in records if new.text_hash not in known}
        return dict(sorted(texts.items(), key=lambda item: -len(item[1])))

    async def _embed(self, texts: Mapping[str, str]) -> dict[str, Vectors]:
        """Embed on all workers at once."""
        keys = list(texts)
        shares = [keys[first :: self._pool.workers] for first in range(min(self._pool.workers, len(keys)))]
        encode = self._encoder.encode
        runs = [self._pool.run(encode, [texts[key] for key in share]) for share in shares]
        vectors = await asyncio.gather(*runs)
        return {k: v for share, rows in zip(shares, vectors, strict=True) for k, v in zip(share, rows, strict=True)}

    async def _store(self, prepared: Prepared, vectors: Mapping[str, Vectors]) -> int:
        """Store, make searchable, and return the catalogue's version."""
        _, version = await self._storage.replace_provider(
            prepared.pin, prepared.records, self._encoder.name, vectors, prepared.change.hash, prepared.tenant
        )
        await self._refresh()
        return version

    async def _shown(self, prepared: Prepared, ids: Sequence[str]) -> list[ImportChange]:
        """What would become of these APIs; those that someone else has removed meanwhile are left out."""
        new = {api.id: api for api in prepared.imported.apis}
        old = await self._storage.get(ids)
        pairs = [(old[key], new[key]) for key in ids if key in old]
        return await self._pool.run(lambda: [differences.updated(*pair) for pair in _paced(pairs)])

    async def _report(self, prepared: Prepared, version: int) -> ImportReport:
        imported, change = prepared.imported, prepared.change
        related, related_total = await find_twins(self._storage, imported.provider, prepared.records, prepared.tenant)
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
            warnings=imported.warnings,
            related=related,
            related_total=related_total,
            sensitive=prepared.sensitive[:_SENSITIVE],
            sensitive_total=len(prepared.sensitive),
            applied=prepared.apply,
            change_hash=change.hash,
            catalogue_version=version,
        )


def _owned(imported: Imported, request: ImportRequest, known: Pin | None) -> Imported:
    """With whose the APIs are to be: as asked for, or else as the provider's last import said."""
    tenants = _ordered(request.tenants)
    if tenants is None and known is not None:
        tenants = known.tenants
    if not tenants:
        return imported
    apis = tuple(api.model_copy(update={"tenants": tenants}) for api in imported.apis)
    return dataclasses.replace(imported, apis=apis)


def _others(prepared: Prepared) -> list[ImportChange]:
    """What would be removed and added."""
    new = {api.id: api for api in prepared.imported.apis}
    removed = [ImportChange(action="removed", id=key) for key in prepared.change.removed]
    return removed + [ImportChange(action="added", id=key, summary=new[key].summary) for key in prepared.change.added]


def _for_itself(request: ImportRequest, tenant: str | None) -> ImportRequest:
    """The request as this tenant may ask it.

    Raises:
        Forbidden: it is for others, too.
    """
    if tenant is None:
        return request
    if request.tenants not in (None, (tenant,)):
        raise Forbidden(f"Only the operator's administrators can import for others. Your imports are for {tenant!r}.")
    return request.model_copy(update={"tenants": (tenant,)})


def _refuse_stranger(imported: Imported, change: Change, request: ImportRequest) -> None:
    """A document that gave itself the name of another is not taken for its next version, unless somebody looks.

    Raises:
        Conflict: none of the provider's APIs is in it, and all of them would go.
    """
    confirmed = request.confirm or request.expected_change
    looked_at = request.provider or confirmed or request.hold_changes or request.dry_run
    if not looked_at and change.removed and len(change.added) == len(change.after):
        raise Conflict(
            f"Another document is imported as {imported.provider!r}, and this one has none of its operations. "
            f"Import it with its own `provider`, or with `provider` {imported.provider!r} to replace the other "
            "document."
        )


def _refuse_nothing(imported: Imported) -> None:
    """An import that adds nothing would only remove what is there.

    Raises:
        InvalidDocument: no operation could be imported; the commonest reasons are named.
    """
    if imported.apis:
        return
    reasons = Counter(skipped.reason for skipped in imported.skipped).most_common(_REASONS)
    told = "; ".join(f"{reason} ({times} operations)" for reason, times in reasons)
    raise InvalidDocument(
        f"none of the document's {len(imported.skipped)} operations can be imported: {told}"[:_MAX_DETAIL]
        if reasons
        else "the document has no operations, so there is nothing to import"
    )


def _ordered(tenants: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Each once, in an order of their own: another order is no change."""
    return None if tenants is None else tuple(sorted(set(tenants)))


def _paced(items: Iterable[T]) -> Iterator[T]:
    """The same, with a checkpoint before each."""
    for item in items:
        checkpoint()
        yield item


def _groups(keys: Sequence[str], size: int) -> list[Sequence[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


async def _single(report: ImportReport) -> AsyncGenerator[ImportEvent, None]:
    yield report
