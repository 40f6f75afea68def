"""A request and its candidates as the arrays that the network takes: the same for training and for serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.items import SHAPES, Item, Kind, matches
from planner_svc.backends.compact.looks import looks_of
from planner_svc.reading.text import WORD, stem
from services.contracts.retrieval import Candidate

FEATURES: Final = 5
"""What the retriever says of an API: score, best clause's score, relevance, one over its rank, supplier or not."""

RELEVANCE: Final = 2
"""Which of them is the relevance."""


class Origin(IntEnum):
    """Where a parameter's value comes from: nowhere, characters of the request, an option, ... another call."""

    ABSENT = 0
    SPAN = 1
    OPTION = 2
    TRUE = 3
    FALSE = 4
    REFERENCE = 5


Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Tokens(Protocol):
    """A tokenised request, as ``tokenizers`` gives it."""

    @property
    def ids(self) -> list[int]:
        """Of the vocabulary."""
        ...

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Characters, start and end; the same for special tokens."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """One request of t tokens with m items; see ``training.planner.network.Inputs`` for what they mean.

    Attributes:
        first: of each candidate the place of its first item.
    """

    ids: Ints
    looks: Floats
    vectors: Floats
    kind: Ints
    shape: Floats
    owner: Ints
    parent: Ints
    features: Floats
    matches: Floats
    first: tuple[int, ...]


class ItemsOfApi(Protocol):
    """An API's items and their (m, d) vectors."""

    @property
    def items(self) -> tuple[Item, ...]:
        """The API itself first."""
        ...

    @property
    def vectors(self) -> NDArray[np.float16]:
        """One row an item."""
        ...


def features_of(candidate: Candidate, rank: int) -> tuple[float, ...]:
    """What the retriever says of a candidate; ``rank`` from 0."""
    told = (
        candidate.score,
        max(candidate.clause_scores, default=candidate.score),
        candidate.relevance or 0.0,
        1 / (1 + rank),
        float(candidate.role == "supplier"),
    )
    assert len(told) == FEATURES
    return told


def arrange(query: str, tokens: Tokens, apis: Sequence[ItemsOfApi], features: Sequence[Sequence[float]]) -> Inputs:
    """Put a request and its candidates side by side.

    Args:
        query: the request.
        tokens: of the request.
        apis: the candidates.
        features: ``FEATURES`` numbers for each of them.
    """
    items = [item for api in apis for item in api.items]
    first = np.concatenate([[0], np.cumsum([len(api.items) for api in apis])]).astype(int)
    kind = np.array([item.kind for item in items], np.int64)
    shapes = np.array([item.shape for item in items], np.int64)
    told = np.zeros((len(items), FEATURES), np.float32)
    told[first[:-1]] = np.asarray(features, np.float32).reshape(-1, FEATURES)
    return Inputs(
        ids=np.asarray(tokens.ids, np.int64),
        looks=looks_of(query, tokens.offsets),
        vectors=np.concatenate([api.vectors for api in apis]).astype(np.float32),
        kind=kind,
        shape=(shapes[:, None] >> np.arange(SHAPES) & 1).astype(np.float32),
        owner=np.repeat(np.arange(len(apis)), np.diff(first)).astype(np.int64),
        parent=_parents(items),
        features=told,
        matches=matches(items, token_stems(query, tokens.offsets)),
        first=tuple(first[:-1].tolist()),
    )


def token_stems(query: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """For each token the stem of the word it is part of; empty for what is no word."""
    by_character: dict[int, str] = {}
    for match in WORD.finditer(query):
        root = stem(match[0])
        by_character.update(dict.fromkeys(range(match.start(), match.end()), root))
    return [by_character.get(start, "") if end > start else "" for start, end in offsets]


def _parents(items: Sequence[Item]) -> Ints:
    """Of an option the place of the parameter before it, of others their own."""
    places, parent = [], 0
    for place, item in enumerate(items):
        if item.kind is Kind.PARAMETER:
            parent = place
        places.append(parent if item.kind is Kind.OPTION else place)
    return np.asarray(places, np.int64)


def softmax(logits: Floats) -> Floats:
    """Probabilities along the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return result
