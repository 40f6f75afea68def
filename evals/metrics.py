"""How well a ranked list serves a request that needs a set of APIs. Every value is between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray


def recall_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """The share of the needed APIs among the first ``k``; ``needed`` holds at least one."""
    return len(set(ranked[:k]) & set(needed)) / len(set(needed))


def all_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """1 where every needed API is among the first ``k``, else 0: one that is missing makes the plan fail."""
    return float(set(needed) <= set(ranked[:k]))


def ndcg_at(k: int, ranked: Sequence[str], needed: Collection[str]) -> float:
    """Normalised discounted cumulative gain with gain 1 for a needed API (Järvelin and Kekäläinen 2002).

    A hit at rank r, from 1, is worth 1 / log2(r + 1); 1 is what the best order of as many APIs gets.
    """
    wanted = set(needed)
    gain = sum(_discount(rank) for rank, name in enumerate(ranked[:k]) if name in wanted)
    return gain / sum(_discount(rank) for rank in range(min(k, len(wanted))))


def auroc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """The share of pairs of one of each in which the positive one is higher; ties count half (Hanley and McNeil 1982).

    Args:
        positive: (n,) values, at least one.
        negative: (m,) likewise.
    """
    order = np.sort(negative)
    below = np.searchsorted(order, positive, side="left") + np.searchsorted(order, positive, side="right")
    return float(below.mean() / 2 / len(negative))


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)
