"""Fits the relevance model: gradient-boosted trees over the evidence."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.evidence import COLUMNS
from retriever_svc.engine.relevance import RelevanceModel
from services.encoder import Vectors
from training.shared.boosting import Growth, boosted

TREES: Final = 150
_GROWTH: Final = Growth(TREES, leaves=8, depth=5, rate=0.08, least=80)
"""Of many candidates in a leaf: the model is to learn what evidence means, not the catalogues it was shown with."""


def fit(evidence: Vectors, needed: NDArray[np.bool_], encoder: str, threshold: float, seed: int = 0) -> RelevanceModel:
    """A model of whether a candidate is needed.

    Args:
        evidence: (m, ``COLUMNS``) of the candidates of all requests.
        needed: (m,) whether each is.
        encoder: name of the one that the evidence was gathered with.
        threshold: below it the best candidate of a request is none.
        seed: of the draw of bins where there are very many candidates.
    """
    return RelevanceModel(
        columns=np.array(COLUMNS),
        encoder=np.array(encoder),
        threshold=np.array(threshold, np.float32),
        trees=boosted(evidence, needed, _GROWTH, seed=seed),
    )
