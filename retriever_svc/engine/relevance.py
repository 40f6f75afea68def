"""The relevance model: it computes from the features how likely a candidate is needed.

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

from retriever_svc.engine.features import COLUMNS
from services.encoder import Vectors
from services.errors import UnusableSettings
from services.trees import Trees, TreesError, read_arrays

SHIPPED = "shipped"
_FIRST = 10


class RelevanceError(UnusableSettings):
    """A file is not a model, or is a model for other features."""


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceModel:
    """Trees over the features.

    Attributes:
        columns: (c,) names of the features that it was trained on.
        encoder: name of the encoder that it is for; scores of other encoders are not comparable.
        threshold: if :func:`any_needed` is less than this, no API fits the request.
        trees: the trees over the columns.
    """

    columns: NDArray[np.str_]
    encoder: NDArray[np.str_]
    threshold: NDArray[np.float32]
    trees: Trees

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model.

        Raises:
            RelevanceError: the file is not a model, or its features are not those of this version.
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
        """Write the model to a file."""
        own: dict[str, Any] = {"columns": self.columns, "encoder": self.encoder, "threshold": self.threshold}
        with path.open("wb") as file:
            np.savez_compressed(file, **own | self.trees.arrays())

    def probabilities(self, features: Vectors) -> Vectors:
        """How likely each candidate is needed: (m,), from the features (m, c)."""
        return self.trees.probabilities(features)


def any_needed(relevance: Vectors) -> float:
    """How likely at least one of the ten likeliest candidates is needed, if they were independent.

    It detects requests that no API fits better than the likeliest candidate alone: if any API fits, several usually do.
    """
    return 1 - float(np.prod(1 - np.sort(relevance)[-_FIRST:].astype(np.float64)))


@lru_cache(maxsize=4)
def load_relevance(name: str) -> RelevanceModel:
    """The model that ships with Nestor, or one from a file.

    Raises:
        RelevanceError: it cannot be used.
    """
    if name != SHIPPED:
        return RelevanceModel.load(Path(name))
    with as_file(files("retriever_svc.engine") / "relevance.npz") as path:
        return RelevanceModel.load(path)
