"""The retriever's training data: documents (APIs as the encoder reads them), requests, and pairs of the two."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever_svc.engine.clauses import split_clauses
from retriever_svc.engine.texts import embedding_text
from services.contracts.api import Api
from services.encoder import Encoder, Vectors
from services.words import words
from training.retriever.phrasing import name_provider

_PLACE_SEGMENTS = 4


@dataclass(frozen=True, slots=True)
class Document:
    """An API in the form that the API tower reads.

    Attributes:
        id: unique over all sources.
        api: the API that it describes.
        text: the encoder's input, the same text as in service.
        twin: equal for documents that a request cannot distinguish, such as one operation in two versions.
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
    """A query and a document that should be close. ``right`` are the ids of all documents that fit the query."""

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
    """The document of an API. ``source`` distinguishes catalogues with equal ids."""
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
    """The id of an API's document."""
    return f"{source}/{api}"


def request_pairs(source: Source, encoder: Encoder, rng: random.Random) -> list[Pair]:
    """The pairs of a source's requests: the whole request, clauses with their APIs, steps, and with the provider named.

    Args:
        source: catalogue and requests.
        encoder: an untrained encoder, used to assign clauses to APIs.
        rng: decides where and how a provider is named.
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
    """The pairs with the negatives mined for their requests; see :func:`mining.mine`."""
    return [replace(pair, negatives=negatives.get(pair.right, ())) for pair in pairs]


def _step(text: str, one: str, source: Source, request: Request, rng: random.Random) -> Pair:
    """A step alone, or with the provider named, as in a clause with its context."""
    named = name_provider(text, source.documents[one].api.provider, rng) if rng.random() < 0.5 else ""
    return Pair(named or text, one, request.documents)


def _clause_pairs(source: Source, encoder: Encoder) -> list[Pair]:
    """Each API of a request with its nearest clause; no clause is used twice."""
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
    """Greedy pairs of rows and columns, the closest first; no row or column is used twice."""
    chosen: dict[int, int] = {}
    for place in np.argsort(-near, axis=None):
        row, column = divmod(int(place), near.shape[1])
        if row not in chosen and column not in chosen.values():
            chosen[row] = column
    return sorted(chosen.items())


class _Vectors:
    """Vectors of texts that are all known in advance, encoded together."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        unique = list(dict.fromkeys(texts))
        self._rows = {text: row for row, text in enumerate(unique)}
        self._vectors = encoder.encode(unique)

    def of(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._rows[text] for text in texts]]
