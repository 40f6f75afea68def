"""Fits the judge of two planners to what became of whole requests that neither learnt from.

The judge is :mod:`planner_svc.judging.judge`.
``nestor eval plan --planner judged --predictions`` writes what both said, the signs of it, and whether each was right.
All figures are of judges that had seen no request to the same vendor: what a vendor's requests have in common would
otherwise pass for what can be seen of any request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evals.data import DataError
from planner_svc.backends.compact.judging import Judge
from planner_svc.cascade import PAIR
from planner_svc.judging.judge import QUESTION, SIGNS, WordJudge
from services.trees import Floats
from training.planner.recalibrate import LEAST, calibration_error
from training.shared.boosting import Growth, boosted

THRESHOLDS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
_GROWTH: Final = Growth(trees=60, leaves=5, depth=None, rate=0.06, least=20)
"""Small: there are some hundred right words to learn from."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is answered with where plans less likely than a threshold are withheld; counts of requests.

    Attributes:
        threshold: 0 to 1.
        plans: that are answered with.
        right: of these.
        changes: of these, plans that may change something.
        right_changes: of those.
    """

    threshold: float
    plans: int
    right: int
    changes: int
    right_changes: int


@dataclass(frozen=True, slots=True)
class FittedJudge:
    """What came of it, by judges that had not seen the vendor.

    Attributes:
        requests: so many it was fitted to.
        vendors: of these.
        alone: for how many each planner's word is right.
        best: for how many one of both is.
        right: for how many the word that stands is.
        error: expected calibration error of that word, 0 to 1.
        kept: by threshold.
    """

    requests: int
    vendors: int
    alone: Mapping[str, int]
    best: int
    right: int
    error: float
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """(n,) vendors, (n, signs); (n, planners) whether the word is right, a plan, a question, changes something."""

    vendors: NDArray[np.str_]
    signs: Floats
    right: Flags
    plans: Flags
    asks: Flags
    changes: Flags


def fit_judge(model: Path, predictions: Sequence[Path]) -> FittedJudge:
    """Fit the judge of a planner's folder, and write it there.

    Args:
        model: the folder.
        predictions: files of ``nestor eval plan --planner judged --predictions``, made with this very model.

    Raises:
        DataError: a file is something else, or all of them say too little.
    """
    rows = _rows([row for file in predictions for row in _read(file)])
    judge = _fit(rows, np.ones(len(rows.vendors), np.bool_))
    likely = np.zeros(rows.right.shape, np.float32)
    for vendor in sorted(set(rows.vendors.tolist())):
        mine = rows.vendors == vendor
        likely[mine] = _likely(_fit(rows, ~mine), rows.signs[mine])
    judge.save(model)
    return _summed(rows, likely)


def _summed(rows: _Rows, likely: Floats) -> FittedJudge:
    each, chosen = np.arange(len(likely)), (likely * np.where(rows.asks, QUESTION, 1.0)).argmax(axis=1)
    sure, right = likely[each, chosen].astype(np.float64), rows.right[each, chosen]
    plans, changes = rows.plans[each, chosen], rows.changes[each, chosen]
    kept = []
    for threshold in THRESHOLDS:
        shown = plans & (sure >= threshold)
        told = (shown, shown & right, shown & changes, shown & changes & right)
        kept.append(Kept(threshold, *(int(which.sum()) for which in told)))
    return FittedJudge(
        requests=len(rows.vendors),
        vendors=len(set(rows.vendors.tolist())),
        alone={name: int(rows.right[:, place].sum()) for place, name in enumerate(PAIR)},
        best=int(rows.right.any(axis=1).sum()),
        right=int(right.sum()),
        error=calibration_error(sure, right),
        kept=tuple(kept),
    )


def _likely(judge: WordJudge, signs: Floats) -> Floats:
    return np.stack([judge.trees[name](signs) for name in PAIR], axis=1)


def _fit(rows: _Rows, which: Flags) -> WordJudge:
    trees: dict[str, Judge] = {}
    for place, name in enumerate(PAIR):
        right = rows.right[which, place]
        if right.all() or not right.any():
            raise DataError(f"of {len(right)} words of {name}, all are right or none is: nothing can be learnt")
        trees[name] = Judge(SIGNS, boosted(rows.signs[which], right, _GROWTH))
    return WordJudge(trees)


def _rows(read: Sequence[tuple[str, list[float], list[tuple[bool, bool, bool, bool]]]]) -> _Rows:
    vendors = np.array([vendor for vendor, _, _ in read])
    if len(read) < LEAST or len(set(vendors.tolist())) < 2:
        raise DataError(f"{len(read)} requests are too few to fit a judge to: {LEAST} are needed, to several vendors")
    told = np.array([words for *_, words in read], np.bool_)
    return _Rows(
        vendors, np.array([signs for _, signs, _ in read], np.float32), *(told[:, :, place] for place in range(4))
    )


def _read(file: Path) -> Iterator[tuple[str, list[float], list[tuple[bool, bool, bool, bool]]]]:
    """Of each request its vendor and signs, and of both words whether it is right, a plan, a question, a change."""
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            if told["words"].keys() != set(PAIR):
                continue  # one of them failed
            if told["signs"].keys() != set(SIGNS):
                raise DataError(f"{file} tells other signs than this version's: measure again")
            signs = {name: float(value) for name, value in told["signs"].items()}
            words = [
                (
                    bool(told["words"][name]["right"]),
                    told["words"][name]["outcome"] == "planned",
                    told["words"][name]["outcome"] == "needs_input",
                    signs[f"{name} calls that change something"] > 0,
                )
                for name in PAIR
            ]
            yield str(told["vendor"]), [signs[sign] for sign in SIGNS], words
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{file} holds no predictions of `nestor eval plan --planner judged`: {type(error).__name__} {error}"
        ) from None
