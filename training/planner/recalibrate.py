"""Fits a planner's confidence to the results of whole requests, including retrieval and drafts that did not compile.

The calibration in training only sees candidates that include all needed APIs. Real requests may lack some. The output
of ``nestor eval plan --predictions`` on requests that nothing was trained on shows how much to lower the confidence:
the log-odds are scaled and shifted (Platt scaling), which keeps their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from evals.data import DataError
from planner_svc.backends.compact.confidence import Calibration
from planner_svc.judging.fingerprint import JUDGE
from training.planner.predictions import read_predictions

LEAST: Final = 50
"""The minimum number of plans."""
_SURE: Final = 1e-6
_BINS: Final = 10
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The result of a recalibration.

    Attributes:
        plans: number of plans it was fitted to.
        right: share of fully right plans, 0 to 1.
        before: expected calibration error before, 0 to 1.
        after: expected calibration error of cross-validated fits, 0 to 1.
    """

    plans: int
    right: float
    before: float
    after: float


def recalibrate(model: Path, predictions: Sequence[Path]) -> Recalibration:
    """Fit the calibration of a planner's folder, in place. Removes its judge, which was fitted to another confidence.

    Args:
        model: the folder, with ``calibration.json``.
        predictions: files of ``nestor eval plan --planner compact --predictions``, made with this model.

    Raises:
        CalibrationError: the model has no calibration.
        DataError: a file is not valid, or all of them hold fewer than :data:`LEAST` plans.
    """
    known = Calibration.load(model)
    rows = read_predictions(model, predictions, _row)
    odds = np.array([[_odds(confidence)] for confidence, _ in rows])
    right = np.array([is_right for _, is_right in rows])
    if len(rows) < LEAST or right.all() or not right.any():
        raise DataError(
            f"{len(rows)} plans are too few to fit a confidence to: {LEAST} are needed, right ones and wrong"
        )
    unseen = np.zeros(len(rows))
    for fold in range(_FOLDS):
        mine = np.arange(len(rows)) % _FOLDS == fold
        unseen[mine] = _fit(odds[~mine], right[~mine]).predict_proba(odds[mine])[:, 1]
    fitted = _fit(odds, right)
    stretch, shift = float(fitted.coef_[0][0]), float(fitted.intercept_[0])
    Calibration(tuple(stretch * one for one in known.weights), stretch * known.bias + shift).save(model)
    (model / JUDGE).unlink(missing_ok=True)
    before = calibration_error(np.array([confidence for confidence, _ in rows]), right)
    return Recalibration(len(rows), float(right.mean()), before, calibration_error(unseen, right))


def calibration_error(confidences: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Expected calibration error: the mean gap of confidence and accuracy over ten equal bins, weighted by size."""
    bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    gaps = [abs(float((confidences[bins == b] - right[bins == b]).sum())) for b in range(_BINS) if (bins == b).any()]
    return math.fsum(gaps) / len(confidences)


def _fit(odds: NDArray[np.float64], right: NDArray[np.bool_]) -> LogisticRegression:
    return LogisticRegression(C=10.0).fit(odds, right)


def _row(told: dict[str, Any]) -> tuple[float, bool] | None:
    """The planner's own confidence in a plan, or a plan with questions, and whether it was right."""
    if told["status"] not in ("planned", "needs_input"):
        return None
    return float(told["sure"]), bool(told["full_match_any_order"])


def _odds(confidence: float) -> float:
    sure = min(max(confidence, _SURE), 1 - _SURE)
    return math.log(sure / (1 - sure))
