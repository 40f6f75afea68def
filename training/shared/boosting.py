"""Fits gradient-boosted trees with scikit-learn, and converts them to plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from services.trees import Floats, Trees


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Options of the trees.

    Attributes:
        trees: number of trees.
        leaves: maximum per tree.
        depth: maximum per tree; None: no limit.
        rate: learning rate.
        least: minimum number of rows per leaf.
        regularisation: L2, of a leaf's value.
    """

    trees: int
    leaves: int
    depth: int | None
    rate: float
    least: int
    regularisation: float = 5.0


def fit_trees(
    rows: Floats,
    right: NDArray[np.bool_],
    options: TreeOptions,
    weights: NDArray[np.float64] | None = None,
    seed: int = 0,
) -> Trees:
    """Fit trees that predict how likely a row is right.

    Args:
        rows: (m, columns).
        right: (m,) whether each is right.
        options: options of the trees.
        weights: (m,) sample weights; None: all equal.
        seed: of the sample for binning if there are very many rows.
    """
    model = HistGradientBoostingClassifier(
        max_iter=options.trees,
        learning_rate=options.rate,
        max_leaf_nodes=options.leaves,
        max_depth=options.depth,
        min_samples_leaf=options.least,
        l2_regularization=options.regularisation,
        early_stopping=False,
        random_state=seed,
    ).fit(rows, right, sample_weight=weights)
    trees = _as_arrays(model)
    sample = rows[:1_000]
    if not np.allclose(trees.probabilities(sample), model.predict_proba(sample)[:, 1], atol=1e-4):
        raise RuntimeError("the arrays do not say what the trees say: scikit-learn keeps them in another form by now")
    return trees


def _as_arrays(model: Any) -> Trees:
    grown = [predictor[0].nodes for predictor in model._predictors]
    width = max(map(len, grown))
    shape = (len(grown), width)
    feature = np.zeros(shape, np.int32)
    children = np.tile(np.arange(width, dtype=np.int32)[:, None], (len(grown), 1, 2))
    splits, value = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for number, nodes in enumerate(grown):
        inner, leaf = np.flatnonzero(nodes["is_leaf"] == 0), np.flatnonzero(nodes["is_leaf"])
        feature[number, inner] = nodes["feature_idx"][inner]
        splits[number, inner] = nodes["num_threshold"][inner]
        children[number, inner] = np.stack([nodes["left"][inner], nodes["right"][inner]], axis=1)
        value[number, leaf] = nodes["value"][leaf]
    return Trees(
        base=np.array(model._baseline_prediction.item(), np.float32),
        feature=feature,
        split=splits,
        children=children,
        value=value,
        depth=np.array(max(int(nodes["depth"].max()) for nodes in grown), np.int16),
    )
