"""The model that weighs the evidence: how likely is it that a candidate is needed?

Gradient-boosted trees, trained by ``retriever_svc.training`` on requests with the APIs that solve them. Few and small:
all trees take one step for all candidates at a time, in numpy, so serving needs no library for them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.evidence import COLUMNS
from services.encoder import Vectors

SHIPPED = "shipped"
_LONGEST_WAY = 64
_FIRST = 10


class RelevanceError(ValueError):
    """A file is no model, or one for other evidence."""


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """(t trees, n nodes) each; a leaf leads to itself.

    Attributes:
        columns: (c,) names of the evidence, as they were when it was trained.
        encoder: name of the one that gave the evidence then: another's scores mean something else.
        threshold: a request is one that nothing fits where it is less likely than this that :func:`any_needed`.
        base: of the log-odds.
        feature: which column a node asks.
        split: values up to it go left.
        children: (t, n, 2) the next node of the same tree: the left one, and the right one.
        value: of a leaf, in log-odds; 0 elsewhere.
        depth: the longest way to a leaf.
    """

    columns: NDArray[np.str_]
    encoder: NDArray[np.str_]
    threshold: NDArray[np.float32]
    base: NDArray[np.float32]
    feature: NDArray[np.int32]
    split: NDArray[np.float32]
    children: NDArray[np.int32]
    value: NDArray[np.float32]
    depth: NDArray[np.int16]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model.

        Raises:
            RelevanceError: it is none, or weighs other evidence than this version gathers.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                model = cls(**{field.name: arrays[field.name] for field in fields(cls)})
        except (OSError, KeyError, ValueError) as error:
            raise RelevanceError(f"{path} is no relevance model: {error}") from None
        model._check(path)
        return model

    def save(self, path: Path) -> None:
        """Write it."""
        with path.open("wb") as file:
            np.savez_compressed(file, **{field.name: getattr(self, field.name) for field in fields(self)})

    def probabilities(self, evidence: Vectors) -> Vectors:
        """How likely each candidate is needed: (m,), from (m, c)."""
        trees, nodes = self.feature.shape
        first = np.arange(trees, dtype=np.int32) * nodes
        children = (self.children + first[:, None, None]).ravel()  # nodes of all trees in one row: `take` is fast
        feature, split = self.feature.ravel(), self.split.ravel()
        rows = np.arange(len(evidence), dtype=np.int32)[:, None] * evidence.shape[1]
        values, at = np.ascontiguousarray(evidence).ravel(), np.tile(first, (len(evidence), 1))
        for _ in range(int(self.depth)):
            right = values.take(rows + feature.take(at)) > split.take(at)
            at = children.take(2 * at + right)
        odds = self.base + self.value.ravel().take(at).sum(axis=1)
        result: Vectors = 1 / (1 + np.exp(-odds))
        return result

    def _check(self, path: Path) -> None:
        if tuple(self.columns.tolist()) != COLUMNS:
            raise RelevanceError(f"{path} weighs other evidence than this version gathers: train it anew")
        if not (self._fits_together() and self._leads_nowhere_else()):
            raise RelevanceError(f"{path} is damaged")

    def _fits_together(self) -> bool:
        shape = self.feature.shape
        numbers = (self.threshold, self.base, self.feature, self.split, self.children, self.value, self.depth)
        return (
            all(array.dtype.kind in "fi" for array in numbers)
            and self.threshold.shape == self.base.shape == self.depth.shape == ()
            and len(shape) == 2
            and self.split.shape == self.value.shape == shape
            and self.children.shape == (*shape, 2)
        )

    def _leads_nowhere_else(self) -> bool:
        inside = (self.children >= 0) & (self.children < self.feature.shape[1])
        known = (self.feature >= 0) & (self.feature < len(COLUMNS))
        return bool(inside.all() and known.all() and 0 < int(self.depth) <= _LONGEST_WAY)


def any_needed(relevance: Vectors) -> float:
    """How likely any of the ten likeliest candidates is needed, as if each were needed or not by itself.

    It tells requests that nothing fits better than the likeliest candidate alone does: where something fits, it is
    seldom one API only.
    """
    return 1 - float(np.prod(1 - np.sort(relevance)[-_FIRST:].astype(np.float64)))


@lru_cache(maxsize=4)
def load_relevance(name: str) -> RelevanceModel:
    """The model that ships, or one from a file.

    Raises:
        RelevanceError: it cannot be used.
    """
    if name != SHIPPED:
        return RelevanceModel.load(Path(name))
    with as_file(files("retriever_svc.engine") / "relevance.npz") as path:
        return RelevanceModel.load(path)
