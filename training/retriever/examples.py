"""What the retriever learns from: documents (APIs as the encoder reads them), requests, and pairs of the two."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever_svc.engine.clauses import split_clauses
from retriever_svc.engine.texts import embedding_text
from retriever_svc.engine.words import words
from services.contracts.api import Api
from services.encoder import Encoder, Vectors
from training.retriever.phrasing import name_provider

_PLACE_SEGMENTS = 4


@dataclass(frozen=True, slots=True)
class Document:
    """An API as the API tower reads it.

    Attributes:
        id: unique over all sources.
        api: what it describes.
        text: what the encoder reads, the very text that serves.
        twin: equal for documents that cannot be told apart by a request, such as one operation in two versions.
        place: sorts neighbours next to each other: provider, tag, path.
    """

    id: str
    api: Api
    text: str
    twin: str
    place: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the documents that solve it together.

    Attributes:
        query: the request.
        documents: their ids, at least one.
        steps: descriptions of single steps, each with the id of its document.
    """

    query: str
    documents: frozenset[str]
    steps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a document that should be close; ``right`` are the ids of all that would be."""

    query: str
    document: str
    right: frozenset[str]
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A catalogue with requests to learn from.

    Attributes:
        name: of the folder it came from; prefix of its documents' ids.
        documents: by id.
        requests: to train on.
    """

    name: str
    documents: dict[str, Document]
    requests: tuple[Request, ...]


def document(source: str, api: Api) -> Document:
    """The document of an API; ``source`` tells catalogues with equal ids apart."""
    saying = " ".join(words(f"{api.name} {api.summary} {api.description[:200]}"))
    segments = api.path.strip("/").split("/")[:_PLACE_SEGMENTS]
    return Document(
        id=document_id(source, api.id),
        api=api,
        text=embedding_text(api),
        twin=saying or api.id,
        place=(api.provider, next(iter(api.tags), ""), *segments, api.name),
    )


def document_id(source: str, api: str) -> str:
    """How the document of an API is called."""
    return f"{source}/{api}"


def request_pairs(source: Source, encoder: Encoder, rng: random.Random) -> list[Pair]:
    """The pairs of a source's requests: each whole, each clause with its API, each step, and with the provider named.

    Args:
        source: catalogue and requests.
        encoder: an untrained one; it says which clause is nearest to which API.
        rng: decides where a provider is named, and how.
    """
    pairs = []
    for request in source.requests:
        providers = {source.documents[one].api.provider for one in request.documents}
        pairs += [Pair(request.query, one, request.documents) for one in sorted(request.documents)]
        if len(providers) == 1 and (named := name_provider(request.query, next(iter(providers)), rng)):
            pairs += [Pair(named, one, request.documents) for one in sorted(request.documents)]
        pairs += [_step(text, one, source, request, rng) for text, one in request.steps]
    return list(dict.fromkeys(pairs + _clause_pairs(source, encoder)))


def with_negatives(pairs: Iterable[Pair], negatives: Mapping[frozenset[str], tuple[str, ...]]) -> list[Pair]:
    """The pairs with what was mined for the requests they come from: see :func:`mining.mine`."""
    return [replace(pair, negatives=negatives.get(pair.right, ())) for pair in pairs]


def _step(text: str, one: str, source: Source, request: Request, rng: random.Random) -> Pair:
    """A step by itself, or, as a clause with its context would be, with the provider named."""
    named = name_provider(text, source.documents[one].api.provider, rng) if rng.random() < 0.5 else ""
    return Pair(named or text, one, request.documents)


def _clause_pairs(source: Source, encoder: Encoder) -> list[Pair]:
    """Each API of a request with the clause it is nearest to, no clause twice."""
    split = [(request, [clause.text for clause in split_clauses(request.query)]) for request in source.requests]
    split = [(request, clauses) for request, clauses in split if clauses]
    if not split:
        return []
    texts = {source.documents[one].text for request, _ in split for one in request.documents}
    vectors = _Vectors(encoder, [*texts, *(clause for _, clauses in split for clause in clauses)])
    pairs = []
    for request, clauses in split:
        needed = sorted(request.documents)
        near = vectors.of(clauses) @ vectors.of([source.documents[one].text for one in needed]).T
        pairs += [Pair(clauses[row], needed[column], request.documents) for row, column in _assign(near)]
    return pairs


def _assign(near: Vectors) -> list[tuple[int, int]]:
    """Rows and columns paired off, the closest two first; no row or column twice."""
    chosen: dict[int, int] = {}
    for place in np.argsort(-near, axis=None):
        row, column = divmod(int(place), near.shape[1])
        if row not in chosen and column not in chosen.values():
            chosen[row] = column
    return sorted(chosen.items())


class _Vectors:
    """Vectors of texts that are known beforehand, encoded together."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        unique = list(dict.fromkeys(texts))
        self._rows = {text: row for row, text in enumerate(unique)}
        self._vectors = encoder.encode(unique)

    def of(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._rows[text] for text in texts]]
