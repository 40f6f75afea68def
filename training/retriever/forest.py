"""Fits the relevance model: gradient-boosted trees over the evidence."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.features import COLUMNS
from retriever_svc.engine.relevance import RelevanceModel
from services.encoder import Vectors
from training.shared.boosting import TreeOptions, fit_trees

TREES: Final = 150
_TREE_OPTIONS: Final = TreeOptions(TREES, leaves=8, depth=5, rate=0.08, least=80)
"""Many candidates per leaf, so that the model learns the evidence and does not overfit the catalogues."""


def fit(evidence: Vectors, needed: NDArray[np.bool_], encoder: str, threshold: float, seed: int = 0) -> RelevanceModel:
    """Fit a model that predicts whether a candidate is needed.

    Args:
        evidence: (m, ``COLUMNS``) of the candidates of all requests.
        needed: (m,) whether each is needed.
        encoder: name of the encoder that the evidence was gathered with.
        threshold: if the best candidate is below it, a request gets no candidates.
        seed: of the sample for binning if there are very many candidates.
    """
    return RelevanceModel(
        columns=np.array(COLUMNS),
        encoder=np.array(encoder),
        threshold=np.array(threshold, np.float32),
        trees=fit_trees(evidence, needed, _TREE_OPTIONS, seed=seed),
    )
