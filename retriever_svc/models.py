"""What the retriever works with: catalogue rows without their documents, and ranked hits."""

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
    """An API as the index knows it: everything about it but its document.

    Attributes:
        number: its id in the vector index; never used again for another API.
        content_hash: of the document; tells whether a document read later is still the one that was indexed.
        text_hash: SHA-256 of the text that was embedded.
        lexical: the words it is found by, separated by blanks.
        inputs: the words of each parameter (:func:`fields.input_lines`).
        outputs: the words of what it answers; empty where a call may change state, since none is made for its output.
        open: whether a person can call it with words alone: no required parameter wants a code, a number or a date.
        tenants: whose it is; empty: everyone's.
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
    """How the catalogue at one version differs from what is known of it.

    Attributes:
        version: of the catalogue.
        stamps: by number, of every API there is: what was made of a row with another stamp is out of date.
        changed: those that are new or have another stamp.
    """

    version: int
    stamps: Mapping[int, str]
    changed: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """An API on its way into the catalogue, with the texts it is found by.

    Attributes:
        operation_key: the same for the same operation of other providers and other versions; empty: not known.
        content_key: the same for the same API of other providers.
        revision: its version as far as its path and its document tell, to be compared by ``identity.precedence``.
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
class Pin:
    """The document a provider's APIs come from, and how it was read.

    Attributes:
        importer: version of the code that read it; empty where its APIs were edited by hand since.
        server: what the document's servers were replaced with.
        named: whether the provider's name was given, not made from the title.
        version: what the document calls its version.
        notes: what was skipped and warned of, as JSON.
        tenants: whose its APIs are; empty: everyone's.
        owner: the tenant that imported it, and alone changes it; None: the operator.
        constants: what calls send where a plan gives no value, by the parameter's name; kept from import to import.
    """

    provider: str
    document_hash: str
    format: str
    importer: str
    server: str | None
    named: bool
    version: str
    notes: str
    imported_at: datetime
    tenants: tuple[str, ...] = ()
    owner: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What the import of a document does to its provider's APIs: ids, and states before and after.

    Attributes:
        before: the provider's APIs that are there, by id: content hash and tenants, as :func:`state_of` writes them.
        after: the document's, likewise.
        document_hash: of the document.
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
        """Ids that the document does not have any more."""
        return [key for key in self.before if key not in self.after]

    @property
    def hash(self) -> str:
        """SHA-256 of the document and of each API before and after: what was shown is what this names."""
        keys = sorted(self.before.keys() | self.after.keys())
        lines = (f"{key} {self.before.get(key, '')} {self.after.get(key, '')}" for key in keys)
        return hashlib.sha256("\n".join([self.document_hash, *lines]).encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked API. ``clause`` is the clause that ranks it best; ``dense`` and ``lexical`` are its signals there.

    A supplier matches no clause by itself: its scores are 0.
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
        """An API that is there for what it answers with, or for its provider's sake."""
        return cls(entry, 0.0, 0.0, 0.0, 0, (0.0,) * clauses, "supplier", found_by=found_by)

    def candidate(self, api: Api) -> Candidate:
        """The hit as it is answered, with its API."""
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
    """What a change of an API is told by: its content, and whose it is."""
    return " ".join((content_hash, *tenants))


def is_seen(tenants: tuple[str, ...], tenant: str | None) -> bool:
    """Whether what is these tenants' (none: everyone's) is shown to this one (None: to whoever runs the catalogue)."""
    return tenant is None or not tenants or tenant in tenants


def fingerprint(entry: Entry) -> str:
    """A stamp of an entry that comes from no database."""
    return stamp(getattr(entry, one.name) for one in fields(entry))


def stamp(values: Iterable[object]) -> str:
    """32 hexadecimal digits of a digest of these values, in their order."""
    return hashlib.sha256(repr(list(values)).encode("utf-8", "backslashreplace")).hexdigest()[:32]
