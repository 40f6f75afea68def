"""Fits the relevance model: scikit-learn's gradient-boosted trees over the evidence, as plain arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from retriever_svc.engine.evidence import COLUMNS
from retriever_svc.engine.relevance import RelevanceModel
from services.encoder import Vectors

TREES: Final = 150
_LEAVES: Final = 8
_DEPTH: Final = 5
_LEARNING_RATE: Final = 0.08
_LEAST: Final = 80
"""Candidates in a leaf, at least: the model is to learn what evidence means, not the catalogues it was shown with."""
_REGULARIZATION: Final = 5.0


def fit(evidence: Vectors, needed: NDArray[np.bool_], encoder: str, threshold: float, seed: int = 0) -> RelevanceModel:
    """A model of whether a candidate is needed.

    Args:
        evidence: (m, ``COLUMNS``) of the candidates of all requests.
        needed: (m,) whether each is.
        encoder: name of the one that the evidence was gathered with.
        threshold: below it the best candidate of a request is none.
        seed: of the draw of bins where there are very many candidates.
    """
    boosted = HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=_LEARNING_RATE,
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=_LEAST,
        l2_regularization=_REGULARIZATION,
        early_stopping=False,
        random_state=seed,
    ).fit(evidence, needed)
    model = _as_arrays(boosted, encoder, threshold)
    sample = evidence[:1_000]
    if not np.allclose(model.probabilities(sample), boosted.predict_proba(sample)[:, 1], atol=1e-4):
        raise RuntimeError("the arrays do not say what the trees say: scikit-learn keeps them in another form by now")
    return model


def _as_arrays(boosted: Any, encoder: str, threshold: float) -> RelevanceModel:
    trees = [predictor[0].nodes for predictor in boosted._predictors]
    width = max(map(len, trees))
    shape = (len(trees), width)
    feature = np.zeros(shape, np.int32)
    children = np.tile(np.arange(width, dtype=np.int32)[:, None], (len(trees), 1, 2))
    splits, value = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for number, nodes in enumerate(trees):
        inner, leaf = np.flatnonzero(nodes["is_leaf"] == 0), np.flatnonzero(nodes["is_leaf"])
        feature[number, inner] = nodes["feature_idx"][inner]
        splits[number, inner] = nodes["num_threshold"][inner]
        children[number, inner] = np.stack([nodes["left"][inner], nodes["right"][inner]], axis=1)
        value[number, leaf] = nodes["value"][leaf]
    return RelevanceModel(
        columns=np.array(COLUMNS),
        encoder=np.array(encoder),
        threshold=np.array(threshold, np.float32),
        base=np.array(boosted._baseline_prediction.item(), np.float32),
        feature=feature,
        split=splits,
        children=children,
        value=value,
        depth=np.array(max(int(nodes["depth"].max()) for nodes in trees), np.int16),
    )
