"""What the retriever works with: catalogue rows without their documents, and ranked hits."""

from __future__ import annotations

from dataclasses import dataclass

from services.contracts.api import Api


@dataclass(frozen=True, slots=True)
class Entry:
    """An API as the index knows it: everything about it but its document.

    Attributes:
        number: its id in the vector index; never used again for another API.
        content_hash: of the document; tells whether a document read later is still the one that was indexed.
        text_hash: SHA-256 of the text that was embedded.
        lexical: the words it is found by, separated by blanks.
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


@dataclass(frozen=True, slots=True)
class Listing:
    """The catalogue at one version, in order of id."""

    version: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """An API on its way into the catalogue, with the texts it is found by."""

    api: Api
    embedded: str
    text_hash: str
    lexical: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a replacement of a provider's APIs did, and the version it made."""

    added: int
    updated: int
    unchanged: int
    removed: int
    version: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked API. ``clause`` is the clause that ranks it best; ``dense`` and ``lexical`` are its signals there."""

    entry: Entry
    score: float
    dense: float
    lexical: float
    clause: int
    clause_scores: tuple[float, ...]
