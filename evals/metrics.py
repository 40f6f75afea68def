"""Metrics of a ranked list for a request that needs a set of APIs. Every value is between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray


def recall_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """The share of the needed APIs among the first ``k``. ``needed`` must not be empty."""
    return len(set(ranked[:k]) & set(needed)) / len(set(needed))


def all_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """1 if every needed API is among the first ``k``, else 0: a single missing API makes the plan fail."""
    return float(set(needed) <= set(ranked[:k]))


def ndcg_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """Normalised discounted cumulative gain with gain 1 for a needed API (Järvelin and Kekäläinen 2002).

    A hit at rank r, counted from 1, adds 1 / log2(r + 1). The result is 1 for the best possible order.
    """
    wanted = set(needed)
    gain = sum(_discount(rank) for rank, name in enumerate(ranked[:k]) if name in wanted)
    return gain / sum(_discount(rank) for rank in range(min(k, len(wanted))))


def auroc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """The share of (positive, negative) pairs with the positive value higher; ties count half (Hanley and McNeil 1982).

    Args:
        positive: (n,) values, at least one.
        negative: (m,) values, at least one.
    """
    order = np.sort(negative)
    below = np.searchsorted(order, positive, side="left") + np.searchsorted(order, positive, side="right")
    return float(below.mean() / 2 / len(negative))


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)
