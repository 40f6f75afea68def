"""The judge of two planners: how likely each one's word is right as a whole, given what both say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from planner_svc.backends.compact.judging import Judge, JudgeError
from planner_svc.cascade import PAIR, Word
from planner_svc.judging.signs import BOTH, OWN, signs_of
from services.contracts.planning import PlanRequest
from services.contracts.trace import PlannerAsked
from services.errors import ServiceError

SIGNS: Final = (*(f"{name} {sign}" for name in PAIR for sign in OWN), *BOTH)
"""The names of what :func:`~planner_svc.judging.signs.signs_of` tells of the pair."""

QUESTION: Final = 0.5
"""So much of how likely a question is right counts beside a plan or a refusal: it answers nothing yet, and most
questions ask for what the request has said."""

Weigh = Callable[[PlanRequest, Sequence[Word | None]], Sequence[float]]
"""Tells how likely each word of ``PAIR``, in its order, is right, 0 to 1. None: that planner failed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """How asking a planner, or a pair of them, went.

    Attributes:
        asked: for the run's trace.
        word: what it says; None where it failed.
        error: how it failed.
    """

    asked: tuple[PlannerAsked, ...]
    word: Word | None = None
    error: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class WordJudge:
    """Small trees over ``SIGNS`` for each planner of the pair.

    Attributes:
        trees: by planner; empty: nothing was learnt, each word counts as its planner says.
    """

    trees: Mapping[str, Judge]

    def weigh(self, request: PlanRequest, words: Sequence[Word | None]) -> Sequence[float]:
        """How likely each word is right; see :data:`Weigh`. Takes a millisecond or two."""
        if not self.trees:
            return [0.0 if word is None else word.response.confidence for word in words]
        signs = np.array([signs_of(request, words)], np.float32)
        return [
            0.0 if word is None else float(self.trees[name](signs)[0]) for name, word in zip(PAIR, words, strict=True)
        ]

    def save(self, directory: Path) -> None:
        """Write it beside the model."""
        for name, trees in self.trees.items():
            trees.save(directory / file_of(name))

    @classmethod
    def load(cls, directory: Path) -> WordJudge:
        """Read it from beside the model; one that has learnt nothing where there are no such files.

        Raises:
            JudgeError: a file is damaged, is missing beside the other one, or weighs other signs than this version's.
        """
        found = {name: Judge.load(directory / file_of(name), SIGNS) for name in PAIR}
        trees = {name: one for name, one in found.items() if one is not None}
        if len(trees) == 1:
            missing = next(name for name in PAIR if name not in trees)
            raise JudgeError(f"{directory / file_of(missing)} is missing: fit the judge anew (nestor train judge)")
        return cls(trees)


def file_of(name: str) -> str:
    """The name of the file that holds the trees of one planner's word."""
    return f"judge-{name}.npz"
