"""The judge of a planner's word: how likely it is right as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from planner_svc.backends.compact.judging import Judge
from planner_svc.cascade import Word
from planner_svc.judging.signs import SIGNS, signs_of
from services.contracts.planning import PlanRequest

JUDGE: Final = "judge.npz"
"""The file beside the model."""

Weigh = Callable[[PlanRequest, Word], float]
"""Tells how likely a word is right, 0 to 1."""


@dataclass(frozen=True, slots=True)
class WordJudge:
    """Small trees over ``SIGNS``."""

    trees: Judge

    def weigh(self, request: PlanRequest, word: Word) -> float:
        """How likely the word is right, 0 to 1. Takes a millisecond."""
        return float(self.trees(np.array([signs_of(request, word)], np.float32))[0])

    def save(self, directory: Path) -> None:
        """Write it beside the model."""
        self.trees.save(directory / JUDGE)

    @classmethod
    def load(cls, directory: Path) -> WordJudge | None:
        """Read it from beside the model; None where there is none.

        Raises:
            JudgeError: the file is damaged, or weighs other signs than this version's.
        """
        trees = Judge.load(directory / JUDGE, SIGNS)
        return None if trees is None else cls(trees)
