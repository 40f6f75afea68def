"""Batches for a ranking loss with in-batch negatives.

Neighbours (same provider, and same tag or path) come in runs: they are hard to tell apart, and so they are hard
negatives at no extra cost. No document in a batch is right for the query of another pair.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from training.retriever.examples import Document, Pair

_PASSES = 50
_SMALLEST = 0.25  # of the size; a loss over one pair has no effect


@dataclass(slots=True)
class Batch:
    """Pairs, and documents that are wrong for all of them."""

    pairs: list[Pair] = field(default_factory=list)
    negatives: list[str] = field(default_factory=list)


def make_batches(
    pairs: Sequence[Pair],
    documents: Mapping[str, Document],
    size: int,
    run: int,
    negatives: float,
    rng: random.Random,
) -> list[Batch]:
    """Batches that hold every pair at most once, in random order.

    Args:
        pairs: the training pairs.
        documents: all documents of the pairs, by id.
        size: pairs per batch.
        run: number of neighbours that stay together.
        negatives: share of the pairs with mined documents that add one: 0 to 1.
        rng: shuffles.
    """
    waiting = _runs(pairs, documents, run, rng)
    batches: list[Batch] = []
    for _ in range(_PASSES):  # a pair that collides waits for a later batch; in the end it is left out
        filled, waiting = _fill(waiting, documents, size)
        batches += filled
        if not filled:
            break
    for batch in batches:
        batch.negatives = list(_wrong(batch, documents, negatives, rng))
    rng.shuffle(batches)
    return batches


def _runs(pairs: Sequence[Pair], documents: Mapping[str, Document], run: int, rng: random.Random) -> list[Pair]:
    order = {id(pair): rng.random() for pair in pairs}
    ordered = sorted(pairs, key=lambda pair: (documents[pair.document].place, order[id(pair)]))
    runs = [ordered[start : start + run] for start in range(0, len(ordered), run)]
    rng.shuffle(runs)
    return [pair for one in runs for pair in one]


def _fill(waiting: list[Pair], documents: Mapping[str, Document], size: int) -> tuple[list[Batch], list[Pair]]:
    """One pass over the pairs: full batches, a last one that is not too small, and the pairs that collided."""
    batches, collided, current = [], [], _OpenBatch()
    for pair in waiting:
        if not current.take(pair, documents):
            collided.append(pair)
        if len(current.pairs) == size:
            batches.append(Batch(current.pairs))
            current = _OpenBatch()
    if len(current.pairs) >= max(2, size * _SMALLEST):
        batches.append(Batch(current.pairs))
    else:
        collided += current.pairs
    return batches, collided


class _OpenBatch:
    """A batch that is being filled."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._queries: set[str] = set()
        self._present: set[str] = set()
        self._twins: set[str] = set()
        self._right: set[str] = set()

    def take(self, pair: Pair, documents: Mapping[str, Document]) -> bool:
        """Add the pair, unless a right document would then count as wrong."""
        twin = documents[pair.document].twin
        if pair.query in self._queries or twin in self._twins or pair.document in self._right:
            return False
        if not pair.right.isdisjoint(self._present):
            return False
        self.pairs.append(pair)
        self._queries.add(pair.query)
        self._present.add(pair.document)
        self._twins.add(twin)
        self._right |= pair.right
        return True


def _wrong(batch: Batch, documents: Mapping[str, Document], share: float, rng: random.Random) -> Iterator[str]:
    """A mined document for some pairs, unless it is right, or equivalent to a right one, for any pair."""
    right = {one for pair in batch.pairs for one in pair.right}
    twins = {documents[one].twin for one in right}
    for pair in batch.pairs:
        if pair.negatives and rng.random() < share:
            chosen = rng.choice(pair.negatives)
            if chosen not in right and documents[chosen].twin not in twins:
                twins.add(documents[chosen].twin)
                yield chosen
