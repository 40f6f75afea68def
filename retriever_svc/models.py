"""The retriever's data: catalogue rows without their documents, and ranked hits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal

from services.contracts.api import Api
from services.contracts.retrieval import Candidate, FoundBy, Signals


@dataclass(frozen=True, slots=True)
class Entry:
    """An API in the index, without its document.

    Attributes:
        number: its id in the vector index; never reused for another API.
        content_hash: hash of the document. It shows whether a document read later is the one that was indexed.
        text_hash: SHA-256 of the text that was embedded.
        lexical: the words it is found by, separated by blanks.
        inputs: the words of each parameter (:func:`fields.input_lines`).
        outputs: the words of its response; empty if a call may change state, since no plan makes one for its output.
        open: whether words alone suffice to call it: no required parameter needs a code, a number or a date.
        tenants: the tenants that see it; empty: everyone.
    """

    number: int
    id: str
    provider: str
    name: str
    method: str
    path: str
    summary: str
    content_hash: str
    text_hash: str
    lexical: str
    inputs: str = ""
    outputs: str = ""
    open: bool = False
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The catalogue at one version, in order of id."""

    version: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """How the catalogue at one version differs from a snapshot.

    Attributes:
        version: version of the catalogue.
        stamps: the stamp of each API by number. Data derived from a row with another stamp is out of date.
        changed: the APIs that are new or have another stamp.
    """

    version: int
    stamps: Mapping[int, str]
    changed: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """An API to be stored, with the texts it is found by.

    Attributes:
        operation_key: equal for the same operation of other providers and other versions; empty: not known.
        content_key: equal for the same API of other providers.
        revision: its version according to its path and its document; compared by ``identity.precedence``.
    """

    api: Api
    embedded: str
    text_hash: str
    lexical: str
    inputs: str
    outputs: str
    open: bool
    operation_key: str = ""
    content_key: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ImportedDocumentRecord:
    """The document a provider's APIs come from, and how it was read.

    Attributes:
        importer: version of the code that read it; empty if its APIs were edited since.
        server: the URL that replaces the document's servers.
        named: whether the request named the provider; otherwise the name comes from the title.
        version: the version that the document states.
        notes: skipped operations and warnings, as JSON; empty where only what a page shows was read.
        tenants: the tenants that see its APIs; empty: everyone.
        owner: the tenant that imported it, the only one that may change it; None: the operator.
        constants: values that calls send if a plan gives none, by parameter name; kept from import to import.
        skipped: the first skipped operations, which a page shows, as JSON.
        skipped_total: how many were skipped.
        places: digests (:func:`differences.places`) of where calls go and went; empty in records of early versions.
    """

    provider: str
    document_hash: str
    format: str
    importer: str
    server: str | None
    named: bool
    version: str
    imported_at: datetime
    notes: str = ""
    skipped: str = "[]"
    skipped_total: int = 0
    tenants: tuple[str, ...] = ()
    owner: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What the import of a document does to its provider's APIs: ids, and states before and after.

    Attributes:
        before: the states (:func:`state_of`) of the provider's stored APIs, by id.
        after: the states of the document's APIs, by id.
        document_hash: hash of the document.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    document_hash: str

    @property
    def added(self) -> list[str]:
        """Ids that are new."""
        return [key for key in self.after if key not in self.before]

    @property
    def updated(self) -> list[str]:
        """Ids whose content or tenants differ."""
        return [key for key, content in self.after.items() if self.before.get(key, content) != content]

    @property
    def removed(self) -> list[str]:
        """Ids that the document no longer has."""
        return [key for key in self.before if key not in self.after]

    @property
    def hash(self) -> str:
        """SHA-256 of the document and of each API before and after. It identifies the change that was shown."""
        keys = sorted(self.before.keys() | self.after.keys())
        lines = (f"{key} {self.before.get(key, '')} {self.after.get(key, '')}" for key in keys)
        return hashlib.sha256("\n".join([self.document_hash, *lines]).encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked API. ``clause`` is the clause that ranks it best; ``dense`` and ``lexical`` are its scores for it.

    A supplier matches no clause itself: its scores are 0.
    """

    entry: Entry
    score: float
    dense: float
    lexical: float
    clause: int
    clause_scores: tuple[float, ...]
    role: Literal["match", "supplier"] = "match"
    relevance: float | None = None
    found_by: FoundBy = "meaning"

    @classmethod
    def further(cls, entry: Entry, clauses: int, found_by: FoundBy) -> Hit:
        """An API that is added for its output or for its provider, not because it matches."""
        return cls(entry, 0.0, 0.0, 0.0, 0, (0.0,) * clauses, "supplier", found_by=found_by)

    def candidate(self, api: Api) -> Candidate:
        """The hit with its API, as a response contains it."""
        return Candidate(
            api=api,
            score=self.score,
            signals=Signals(dense=self.dense, lexical=self.lexical),
            clause=self.clause,
            clause_scores=self.clause_scores,
            role=self.role,
            found_by=self.found_by,
            relevance=self.relevance,
        )


def state_of(content_hash: str, tenants: tuple[str, ...]) -> str:
    """The content and the tenants of an API as one string: if it differs, the API has changed."""
    return " ".join((content_hash, *tenants))


def is_seen(tenants: tuple[str, ...], tenant: str | None) -> bool:
    """Whether this tenant (None: the operator) sees an object of these tenants (empty: everyone's)."""
    return tenant is None or not tenants or tenant in tenants


def fingerprint(entry: Entry) -> str:
    """A stamp for an entry that comes from no database."""
    return stamp(getattr(entry, one.name) for one in fields(entry))


def stamp(values: Iterable[object]) -> str:
    """The first 32 hexadecimal digits of a digest of these values, in their order."""
    return hashlib.sha256(repr(list(values)).encode("utf-8", "backslashreplace")).hexdigest()[:32]
