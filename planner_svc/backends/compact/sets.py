"""How many candidates are called: of the likeliest, the two likeliest, and so on, the set most likely to be right.

Probabilities of single candidates are not enough. If two operations do nearly the same, each may be unlikely although
one of them is certainly needed. A call that another one needs is called with it or not at all. Trees weigh each set:
its last member, the first candidate outside, which required arguments its members lack, and how similar they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planner_svc.backends.compact.calls import CALL_SIGNS
from planner_svc.backends.compact.inputs import Floats, Ints

_OF_ONE: Final = (
    "odds", "relevance", "clause_score", "supplier", "several_times", "named", "changes", "most_unsaid", "most_said",
    "fed_sure", "most_asked", "feeds", "fed", "titled",
)  # fmt: skip
"""Signs used for the last member and for the first candidate outside."""
_WORST: Final = ("most_unsaid", "fed_sure", "several_times", "changes")
"""Signs whose largest value in the set is used."""
SET_SIGNS: Final = (
    "size", "first", "last", "next", "step", "inside", "outside", "expected", "over_expected",
    "likely", "smaller", "larger", "words", "change_asked", "asked_inside", "asked_outside", "last_like", "next_like",
    *(f"last_{sign}" for sign in _OF_ONE), *(f"next_{sign}" for sign in _OF_ONE), *(f"most_{sign}" for sign in _WORST),
)  # fmt: skip
"""What the trees weigh of a set."""
MOST: Final = 6
"""Most candidates in a set. Their suppliers are called in addition."""
_LEAST: Final = 1e-4


def set_evidence(rows: Floats, called: Floats, likeness: Floats, order: Sequence[int], sizes: Floats) -> Floats:
    """(sizes, SET_SIGNS): the evidence for and against calling the first 0, 1, 2 ... candidates.

    Args:
        rows: (candidates, CALL_SIGNS).
        called: (candidates,) how likely each is called.
        likeness: (candidates, candidates) cosines of their encodings.
        order: the candidates that may be called, likeliest first.
        sizes: (MOST + 1,) the network's probabilities that 0, 1, 2 ... candidates are called.
    """
    likely = np.clip(called[list(order)], _LEAST, 1 - _LEAST)
    told = rows[list(order)]
    among = likeness[np.ix_(list(order), list(order))]
    inside = np.concatenate([[0.0], np.cumsum(np.log(likely))])
    outside = np.log(1 - likely).sum() - np.concatenate([[0.0], np.cumsum(np.log(1 - likely))])
    found = [
        _signs(size, likely, told, among, float(inside[size]), float(outside[size]), sizes)
        for size in range(min(len(order), MOST) + 1)
    ]
    return np.asarray(found, np.float32).reshape(-1, len(SET_SIGNS))


def _signs(
    size: int, likely: Floats, told: Floats, among: Floats, inside: float, outside: float, sizes: Floats
) -> list[float]:
    last, after = size - 1, size if size < len(likely) else -1
    nobody = np.zeros(len(_OF_ONE), np.float32)
    expected = float(likely.sum())
    asked = told[:, _place("most_asked")]
    return [
        size,
        float(likely[0]) if len(likely) else 0.0,
        float(likely[last]) if size else 1.0,
        float(likely[after]) if after >= 0 else 0.0,
        (float(likely[last]) if size else 1.0) - (float(likely[after]) if after >= 0 else 0.0),
        inside,
        outside,
        expected,
        size - expected,
        float(sizes[size]),
        float(sizes[:size].sum()),
        float(sizes[size + 1 :].sum()),
        *(float(told[0, _place(sign)]) if len(told) else 0.0 for sign in ("words", "change_asked")),
        float(asked[:size].max(initial=0.0)),
        float(asked[size:].max(initial=0.0)),
        float(among[last, :last].max(initial=0.0)) if size else 0.0,
        float(among[after, :size].max(initial=0.0)) if after >= 0 else 0.0,
        *(told[last, _PLACES] if size else nobody).tolist(),
        *(told[after, _PLACES] if after >= 0 else nobody).tolist(),
        *(float(told[:size, _place(sign)].max(initial=0.0)) for sign in _WORST),
    ]


def _place(sign: str) -> int:
    return CALL_SIGNS.index(sign)


_PLACES: Final[Ints] = np.array([_place(sign) for sign in _OF_ONE], np.int64)
