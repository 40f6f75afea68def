"""Arranges a request and its candidates as the network's input arrays, for training and for serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.items import SHAPES, Item, Kind, matches
from planner_svc.backends.compact.surface_features import surface_features_of
from planner_svc.reading.text import WORD as WORD_PATTERN
from planner_svc.reading.text import stem
from services.contracts.retrieval import Candidate

FEATURES: Final = 5
"""The retriever's features of an API: score, best clause's score, relevance, reciprocal rank, whether it is a
supplier."""

RELEVANCE: Final = 2
"""The index of the relevance among them."""
WORD: Final = len(Kind)
"""The kind of a unit that is a token of an API's own words rather than an item."""
NOWHERE: Final = -1
"""Marks an empty entry in arrays of places."""
_NONE: Final = 1e-9


class Origin(IntEnum):
    """The source of a parameter's value: none, characters of the request, an option, ... another call."""

    ABSENT = 0
    SPAN = 1
    OPTION = 2
    TRUE = 3
    FALSE = 4
    REFERENCE = 5


Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """One request of t tokens with m items, and u units of a APIs; see ``training.planner.network.Inputs``.

    Attributes:
        first: place of each candidate's first item.
    """

    looks: Floats
    units: Floats
    unit_kind: Ints
    unit_shape: Floats
    rows: Ints
    place: Ints
    kind: Ints
    shape: Floats
    owner: Ints
    parent: Ints
    features: Floats
    matches: Floats
    first: tuple[int, ...]

    @property
    def vectors(self) -> Floats:
        """(m, d) the items' vectors, normalized to length 1."""
        own = self.units[self.place]
        result: Floats = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), _NONE)
        return result


class ItemsOfApi(Protocol):
    """An API's items with their (m, d) vectors, and the (h, d) tokens of its own words."""

    @property
    def items(self) -> tuple[Item, ...]:
        """The API itself first."""
        ...

    @property
    def vectors(self) -> NDArray[np.float16]:
        """One row per item."""
        ...

    @property
    def head(self) -> NDArray[np.float16]:
        """One row per token."""
        ...


def features_of(candidate: Candidate, rank: int) -> tuple[float, ...]:
    """The retriever's features of a candidate; ``rank`` counts from 0."""
    told = (
        candidate.score,
        max(candidate.clause_scores, default=candidate.score),
        candidate.relevance or 0.0,
        1 / (1 + rank),
        float(candidate.role == "supplier"),
    )
    assert len(told) == FEATURES
    return told


def arrange(
    query: str, offsets: Sequence[tuple[int, int]], apis: Sequence[ItemsOfApi], features: Sequence[Sequence[float]]
) -> Inputs:
    """Build the network's inputs for a request and its candidates.

    Args:
        query: the request.
        offsets: start and end characters of each token. Both are equal for the special tokens at the ends.
        apis: the candidates.
        features: ``FEATURES`` numbers for each candidate.
    """
    items = [item for api in apis for item in api.items]
    sizes = np.array([len(api.items) for api in apis], np.int64)
    heads = np.array([len(api.head) for api in apis], np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    starts = np.concatenate([[0], np.cumsum(sizes + heads)])
    kind = np.array([item.kind for item in items], np.int64)
    shape = (np.array([item.shape for item in items], np.int64)[:, None] >> np.arange(SHAPES) & 1).astype(np.float32)
    owner = np.repeat(np.arange(len(apis)), sizes)
    told = np.zeros((len(items), FEATURES), np.float32)
    told[first[:-1]] = np.asarray(features, np.float32).reshape(-1, FEATURES)
    # An API's units: itself, its words, its other items.
    within = np.arange(len(items)) - first[owner]
    place = starts[owner] + within + np.where(within > 0, heads[owner], 0)
    unit_kind = np.full(starts[-1], WORD, np.int64)
    unit_kind[place] = kind
    unit_shape = np.zeros((starts[-1], SHAPES), np.float32)
    unit_shape[place] = shape
    columns = np.arange(int((sizes + heads).max()))
    rows = np.where(columns < (sizes + heads)[:, None], starts[:-1, None] + columns, NOWHERE)
    return Inputs(
        looks=surface_features_of(query, offsets),
        units=np.concatenate([part for api in apis for part in (api.vectors[:1], api.head, api.vectors[1:])]).astype(
            np.float32
        ),
        unit_kind=unit_kind,
        unit_shape=unit_shape,
        rows=rows,
        place=place,
        kind=kind,
        shape=shape,
        owner=owner.astype(np.int64),
        parent=_parents(items),
        features=told,
        matches=matches(items, token_stems(query, offsets)),
        first=tuple(first[:-1].tolist()),
    )


def token_stems(query: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """For each token, the stem of its word; empty for a token that is no word."""
    by_character: dict[int, str] = {}
    for match in WORD_PATTERN.finditer(query):
        root = stem(match[0])
        by_character.update(dict.fromkeys(range(match.start(), match.end()), root))
    return [by_character.get(start, "") if end > start else "" for start, end in offsets]


def _parents(items: Sequence[Item]) -> Ints:
    """For an option, the place of its parameter, which precedes it; for other items, their own place."""
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
