"""The planner's second stage: trees that combine the network's outputs with signs that it does not see."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from planner_svc.backends.compact.calls import CALL_SIGNS
from planner_svc.backends.compact.links import LINK_SIGNS
from planner_svc.backends.compact.sets import SET_SIGNS
from planner_svc.backends.compact.spans import SPAN_SIGNS
from services.errors import UnusableSettings
from services.trees import Floats, Trees, TreesError, read_arrays

_CALLS: Final = "calls.npz"
_SETS: Final = "sets.npz"
_SPANS: Final = "spans.npz"
_LINKS: Final = "links.npz"


class JudgeError(UnusableSettings):
    """A file holds no valid trees, or its trees weigh other signs; the message names the file."""


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Trees over named signs.

    Attributes:
        signs: their names.
        trees: their input is a value for each sign.
        model: fingerprint of the model that they were fitted to; empty if it is not checked.
    """

    signs: tuple[str, ...]
    trees: Trees
    model: str = ""

    @classmethod
    def load(cls, path: Path, signs: tuple[str, ...]) -> Self | None:
        """Read a judge; None if the file does not exist: then the network decides alone.

        Raises:
            JudgeError: the file is damaged, or its trees weigh other signs.
        """
        if not path.exists():
            return None
        try:
            arrays = read_arrays(path)
            if "signs" not in arrays or tuple(arrays["signs"].tolist()) != signs:
                raise JudgeError(f"{path} uses other signs than this version: fit it again")
            return cls(signs, Trees.of(arrays, len(signs)), str(arrays.get("model", "")))
        except TreesError as error:
            raise JudgeError(f"{path} contains no trees: {error}") from None

    def save(self, path: Path) -> None:
        """Write the trees, the names of their signs, and the model they were fitted to."""
        arrays: dict[str, Any] = {"signs": np.array(self.signs), **self.trees.arrays()}
        if self.model:
            arrays["model"] = np.array(self.model)
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def __call__(self, rows: Floats) -> Floats:
        """(m,) probability that each of the (m, signs) rows is right."""
        return self.trees.probabilities(rows)


@dataclass(frozen=True, slots=True)
class Judges:
    """The four judges; None for one that is not there.

    Attributes:
        calls: how likely each candidate is called.
        spans: which words are a parameter's value.
        links: which other call's output is a parameter's value.
        sets: which candidates are called together.
    """

    calls: Judge | None = None
    spans: Judge | None = None
    links: Judge | None = None
    sets: Judge | None = None

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the judges in a planner's directory.

        Raises:
            JudgeError: one is damaged.
        """
        return cls(
            Judge.load(directory / _CALLS, CALL_SIGNS),
            Judge.load(directory / _SPANS, SPAN_SIGNS),
            Judge.load(directory / _LINKS, LINK_SIGNS),
            Judge.load(directory / _SETS, SET_SIGNS),
        )

    def save(self, directory: Path) -> None:
        """Write the judges to the network's directory."""
        stages = ((_CALLS, self.calls), (_SPANS, self.spans), (_LINKS, self.links), (_SETS, self.sets))
        for name, judge in stages:
            if judge is not None:
                judge.save(directory / name)
