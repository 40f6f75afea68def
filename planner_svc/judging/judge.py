"""The judge of a planner's answer: how likely it is right as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from planner_svc.backends.compact.second_stage import Judge
from planner_svc.cascade import BackendAnswer
from planner_svc.judging.signs import SIGNS, signs_of
from services.contracts.planning import PlanRequest

JUDGE: Final = "judge.npz"
"""The judge's file in the model's directory."""

Weigh = Callable[[PlanRequest, BackendAnswer], float]
"""Returns how likely an answer is right, 0 to 1."""


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """Small trees over ``SIGNS``."""

    trees: Judge

    def weigh(self, request: PlanRequest, answer: BackendAnswer) -> float:
        """How likely the answer is right, 0 to 1. Takes about a millisecond."""
        return float(self.trees(np.array([signs_of(request, answer)], np.float32))[0])

    def save(self, directory: Path) -> None:
        """Write the judge to the model's directory."""
        self.trees.save(directory / JUDGE)

    @classmethod
    def load(cls, directory: Path) -> AnswerJudge | None:
        """Read the judge from the model's directory; None if there is none.

        Raises:
            JudgeError: the file is damaged, or weighs other signs than this version.
        """
        trees = Judge.load(directory / JUDGE, SIGNS)
        return None if trees is None else cls(trees)
