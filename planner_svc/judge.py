"""The judge of two planners: how likely each one's word is right as a whole, given what both say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner_svc.cascade import PAIR, Word
from planner_svc.signs import BOTH, OWN, signs_of
from services.contracts.planning import PlanRequest
from services.contracts.trace import PlannerAsked
from services.errors import ServiceError

JUDGE: Final = "judge.json"
SIGNS: Final = (*(f"{name} {sign}" for name in PAIR for sign in OWN), *BOTH)
"""The names of what :func:`~planner_svc.signs.signs_of` tells of the pair."""
_MAX_BYTES: Final = 1_000_000

Weigh = Callable[[PlanRequest, Sequence[Word | None]], Sequence[float]]
"""Tells how likely each word of ``PAIR``, in its order, is right, 0 to 1. None: that planner failed."""


class WordJudgeError(ValueError):
    """The file is no judge of these planners; the message names it."""


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
    """A logistic regression over ``SIGNS`` for each planner of the pair.

    Attributes:
        weights: by planner, one for each of ``SIGNS``; empty: nothing was learnt, each word counts as its planner says.
        bias: by planner.
    """

    weights: Mapping[str, tuple[float, ...]]
    bias: Mapping[str, float]

    def weigh(self, request: PlanRequest, words: Sequence[Word | None]) -> list[float]:
        """How likely each word is right; see :data:`Weigh`. Takes a millisecond or two."""
        if not self.weights:
            return [0.0 if word is None else word.response.confidence for word in words]
        signs = signs_of(request, words)
        return [
            0.0 if word is None else self.probability(name, signs) for name, word in zip(PAIR, words, strict=True)
        ]

    def probability(self, name: str, signs: Sequence[float]) -> float:
        """How likely the word of one of the pair is right."""
        odds = self.bias[name] + math.fsum(w * sign for w, sign in zip(self.weights[name], signs, strict=True))
        return 1 / (1 + math.exp(-min(max(odds, -30.0), 30.0)))

    def save(self, directory: Path) -> None:
        """Write it beside the model."""
        content = {
            name: {"bias": self.bias[name], "weights": dict(zip(SIGNS, self.weights[name], strict=True))}
            for name in self.weights
        }
        (directory / JUDGE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> WordJudge:
        """Read it from beside the model; one that has learnt nothing where there is no such file.

        Raises:
            WordJudgeError: it is damaged, or weighs other signs than this version's.
        """
        file = directory / JUDGE
        try:
            with file.open("rb") as text:
                read = text.read(_MAX_BYTES + 1)
            content = json.loads(read if len(read) <= _MAX_BYTES else b"")
            if any(content[name]["weights"].keys() != set(SIGNS) for name in PAIR):
                raise WordJudgeError(f"{file} weighs other signs than this version: fit it anew (nestor train judge)")
            weights = {name: tuple(float(content[name]["weights"][sign]) for sign in SIGNS) for name in PAIR}
            bias = {name: float(content[name]["bias"]) for name in PAIR}
        except FileNotFoundError:
            return cls({}, {})
        except WordJudgeError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WordJudgeError(f"{file} cannot be used: {error}") from None
        if not all(map(math.isfinite, (*bias.values(), *(w for own in weights.values() for w in own)))):
            raise WordJudgeError(f"{file} cannot be used: a weight is no number")
        return cls(weights, bias)
