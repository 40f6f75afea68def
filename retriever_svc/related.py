"""Finds the same operation in other documents, and other versions of it in the same document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from retriever_svc.engine.identity import precedence
from retriever_svc.models import Record
from retriever_svc.storage import CatalogueStorage
from services.contracts.api import RelatedApi

MAX_RELATED = 50

_KEYS: dict[str, Callable[[Record], str]] = {
    "operation_key": lambda record: record.operation_key,
    "content_key": lambda record: record.content_key,
}


async def find_related(
    storage: CatalogueStorage, provider: str, records: Sequence[Record], tenant: str | None = None
) -> tuple[tuple[RelatedApi, ...], int]:
    """The provider's APIs that are the same operation as another API: at most ``MAX_RELATED``, and their total number.

    APIs that the tenant does not see are not named.
    """
    found = dict[str, RelatedApi]()
    for relation in await asyncio.to_thread(lambda: list(_within(records))):
        found.setdefault(relation.api, relation)
    for column, key in _KEYS.items():
        keyed = {key(record): record for record in records if key(record)}
        for shared, other, revision in await storage.related(provider, column, list(keyed), tenant):
            record = keyed[shared]
            found.setdefault(record.api.id, _related(record, other, revision))
    related = sorted(found.values(), key=lambda relation: relation.api)
    return tuple(related[:MAX_RELATED]), len(related)


def _within(records: Sequence[Record]) -> Iterator[RelatedApi]:
    """Versions of one operation in one document: each is related to the newest of them."""
    newest = dict[str, Record]()
    for record in sorted(records, key=lambda record: precedence(record.revision)):
        newest[record.operation_key] = record
    for record in records:
        best = newest[record.operation_key]
        if record.operation_key and best is not record:
            yield _related(record, best.api.id, best.revision)


def _related(record: Record, other: str, revision: str) -> RelatedApi:
    own, theirs = precedence(record.revision), precedence(revision)
    relation: Literal["duplicate_of", "newer_than", "older_than"] = "duplicate_of"
    if own != theirs:
        relation = "newer_than" if own > theirs else "older_than"
    return RelatedApi(api=record.api.id, relation=relation, other=other)
