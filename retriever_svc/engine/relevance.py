"""The model that weighs the evidence: how likely is it that a candidate is needed?

Gradient-boosted trees, trained by ``training.retriever`` on requests with the APIs that solve them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.evidence import COLUMNS
from services.encoder import Vectors
from services.trees import Trees, TreesError, read_arrays

SHIPPED = "shipped"
_FIRST = 10


class RelevanceError(ValueError):
    """A file is no model, or one for other evidence."""


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceModel:
    """Trees over the evidence.

    Attributes:
        columns: (c,) names of the evidence, as they were when it was trained.
        encoder: name of the one that gave the evidence then: another's scores mean something else.
        threshold: a request is one that nothing fits where it is less likely than this that :func:`any_needed`.
        trees: over the columns.
    """

    columns: NDArray[np.str_]
    encoder: NDArray[np.str_]
    threshold: NDArray[np.float32]
    trees: Trees

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model.

        Raises:
            RelevanceError: it is none, or weighs other evidence than this version gathers.
        """
        try:
            arrays = read_arrays(path)
            columns, encoder, threshold = arrays["columns"], arrays["encoder"], arrays["threshold"]
        except (KeyError, TreesError) as error:
            raise RelevanceError(f"{path} is not a relevance model: {error}") from None
        if tuple(columns.tolist()) != COLUMNS:
            raise RelevanceError(f"{path} uses other evidence than this version: train it again")
        if threshold.dtype.kind not in "fi" or threshold.shape != ():
            raise RelevanceError(f"{path} is damaged: its threshold is not a number")
        try:
            return cls(columns, encoder, threshold, Trees.of(arrays, len(COLUMNS)))
        except TreesError as error:
            raise RelevanceError(f"{path} is damaged: {error}") from None

    def save(self, path: Path) -> None:
        """Write it."""
        own: dict[str, Any] = {"columns": self.columns, "encoder": self.encoder, "threshold": self.threshold}
        with path.open("wb") as file:
            np.savez_compressed(file, **own | self.trees.arrays())

    def probabilities(self, evidence: Vectors) -> Vectors:
        """How likely each candidate is needed: (m,), from (m, c)."""
        return self.trees.probabilities(evidence)


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
