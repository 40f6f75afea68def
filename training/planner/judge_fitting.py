"""Fits the judge of a planner's answers to the results of whole requests that the planner was not trained on.

The judge is :mod:`planner_svc.judging.judge`. ``nestor eval plan --predictions`` writes the answers of the compact
planner or of a language model, their features, and whether they were right. All figures are from judges that had seen
no request to the same vendor. Otherwise features that a vendor's requests share would make the figures too good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evals.data import DataError
from planner_svc.backends.compact.second_stage import Judge
from planner_svc.judging.judge import AnswerJudge
from planner_svc.judging.signs import SIGNS
from services.trees import Floats
from training.planner.predictions import read_predictions
from training.planner.recalibrate import LEAST, calibration_error
from training.shared.boosting import TreeOptions, fit_trees

THRESHOLDS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.64)
_TREE_OPTIONS: Final = TreeOptions(trees=60, leaves=5, depth=None, rate=0.06, least=20)
"""Small, because there are only some hundred right answers to learn from."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ThresholdCounts:
    """The result of withholding plans whose likelihood is below a threshold; counts of requests.

    Attributes:
        threshold: 0 to 1.
        plans: number of shown plans.
        right: of these, the right ones.
        changes: of the shown plans, those that may change something.
        right_changes: of those, the right ones.
    """

    threshold: float
    plans: int
    right: int
    changes: int
    right_changes: int


@dataclass(frozen=True, slots=True)
class AnswerJudgeFit:
    """What a fit does on a file of predictions, measured with judges that had not seen the vendor.

    Attributes:
        requests: number of requests in the file.
        vendors: of these.
        right: number of requests with a right answer.
        before: expected calibration error of the planner's own confidence, 0 to 1.
        error: expected calibration error of the judge, 0 to 1.
        thresholds: results by threshold.
    """

    requests: int
    vendors: int
    right: int
    before: float
    error: float
    thresholds: tuple[ThresholdCounts, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """(n,) vendors, the planner's confidence, (n, signs); (n,) whether the answer is right, a plan, a change."""

    vendors: NDArray[np.str_]
    sure: NDArray[np.float64]
    signs: Floats
    right: Flags
    plans: Flags
    changes: Flags

    def only(self, which: NDArray[np.int_]) -> _Rows:
        """The rows with these numbers."""
        return _Rows(*(getattr(self, one.name)[which] for one in fields(self)))


def fit_answer_judge(model: Path, predictions: Sequence[Path]) -> tuple[AnswerJudgeFit, ...]:
    """Fit the judge of a planner's folder, and write it there.

    Args:
        model: the folder of the compact planner, or of the language model.
        predictions: files of ``nestor eval plan --predictions``, made with this model.

    Returns:
        The fit to all files as it does on each of them, in their order.

    Raises:
        DataError: a file is not valid, or all of them hold too little data.
    """
    read = [read_predictions(model, [file], _row) for file in predictions]
    rows = _rows([row for one in read for row in one])
    judge = _fit(rows, np.ones(len(rows.vendors), np.bool_))
    likely = np.zeros(len(rows.vendors))
    for vendor in sorted(set(rows.vendors.tolist())):
        mine = rows.vendors == vendor
        likely[mine] = _fit(rows, ~mine).trees(rows.signs[mine])
    judge.save(model)
    ends = np.cumsum([len(one) for one in read])[:-1]
    parts = np.split(np.arange(len(rows.vendors)), ends)
    return tuple(_fit_result(rows.only(part), likely[part]) for part in parts if len(part))


def _fit_result(rows: _Rows, likely: NDArray[np.float64]) -> AnswerJudgeFit:
    thresholds = []
    for threshold in THRESHOLDS:
        shown = rows.plans & (likely >= threshold)
        masks = (shown, shown & rows.right, shown & rows.changes, shown & rows.changes & rows.right)
        thresholds.append(ThresholdCounts(threshold, *(int(which.sum()) for which in masks)))
    return AnswerJudgeFit(
        requests=len(rows.vendors),
        vendors=len(set(rows.vendors.tolist())),
        right=int(rows.right.sum()),
        before=calibration_error(rows.sure, rows.right),
        error=calibration_error(likely, rows.right),
        thresholds=tuple(thresholds),
    )


def _fit(rows: _Rows, which: Flags) -> AnswerJudge:
    right = rows.right[which]
    if right.all() or not right.any():
        raise DataError(f"of {len(right)} words all are right or none is: nothing can be learnt")
    return AnswerJudge(Judge(SIGNS, fit_trees(rows.signs[which], right, _TREE_OPTIONS)))


def _rows(read: Sequence[tuple[str, float, list[float], bool, bool, bool]]) -> _Rows:
    if len(read) < LEAST or len({vendor for vendor, *_ in read}) < 2:
        raise DataError(f"{len(read)} requests are too few to fit a judge to: {LEAST} are needed, to several vendors")
    vendors, sure, signs, *flags = zip(*read, strict=True)
    return _Rows(
        np.array(vendors), np.array(sure), np.array(signs, np.float32), *(np.array(flag, np.bool_) for flag in flags)
    )


def _row(told: dict[str, Any]) -> tuple[str, float, list[float], bool, bool, bool] | None:
    """A request's vendor, confidence and signs, and whether the answer is right, a plan, a change."""
    if told["status"] == "failed" or told["signs"] is None:  # no answer, or a wish for further operations
        return None
    if told["signs"].keys() != set(SIGNS):
        raise DataError("the predictions tell other signs than this version's: measure again")
    signs = {name: float(value) for name, value in told["signs"].items()}
    return (
        str(told["vendor"]),
        float(told["sure"]),
        [signs[sign] for sign in SIGNS],
        bool(told["full_match_any_order"]),
        told["status"] == "planned",
        signs["calls that change something"] > 0,
    )
