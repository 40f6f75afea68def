"""The judge of a planner's answer: how likely it is right as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner_svc.backends.compact.second_stage import Judge, JudgeError
from planner_svc.cascade import COMPACT, MODEL, BackendAnswer
from planner_svc.judging.fingerprint import JUDGE, fingerprint
from planner_svc.judging.signs import SIGNS, signs_of
from services.contracts.planning import PlanRequest

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
        """Write the judge to the model's directory, with the fingerprint of that model."""
        replace(self.trees, model=fingerprint(directory)).save(directory / JUDGE)

    @classmethod
    def load(cls, directory: Path) -> AnswerJudge | None:
        """Read the judge from the model's directory; None if there is none.

        Raises:
            JudgeError: the file is damaged, weighs other signs than this version, or was fitted to another model.
        """
        file = directory / JUDGE
        trees = Judge.load(file, SIGNS)
        if trees is None:
            return None
        here = fingerprint(directory)  # empty where only the judge was copied, as in the planner's container
        if here and trees.model not in ("", here):
            raise JudgeError(f"{file} was fitted to other weights: fit it again (`nestor train judge`), or delete it")
        return cls(trees)


def load_judges(compact: Path, served: Path | None) -> dict[str, AnswerJudge]:
    """The judges by backend. Each was fitted to answers of the model in its own folder.

    Args:
        compact: the trained planner's directory, which may have no judge.
        served: the directory with the judge of the language model's answers; None: they are not judged.

    Raises:
        JudgeError: a judge is damaged or weighs other signs than this version, or ``served`` has none.
    """
    found = {COMPACT: AnswerJudge.load(compact), MODEL: AnswerJudge.load(served) if served is not None else None}
    if served is not None and found[MODEL] is None:
        raise JudgeError(f"NESTOR_PLANNER_SERVED_JUDGE: {served} holds no {JUDGE} (`nestor train judge` writes one)")
    return {name: judge for name, judge in found.items() if judge is not None}
