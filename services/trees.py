"""Gradient-boosted trees as plain arrays. Serving a few small trees needs no library.

All trees advance one level for all rows at a time, in numpy. :mod:`training.shared.boosting` fits them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MAX_DEPTH: Final = 64


class TreesError(ValueError):
    """The arrays are not trees, or contradict each other."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an ``.npz`` file.

    Raises:
        TreesError: the file is not one.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, AttributeError, BadZipFile, zlib.error) as error:
        raise TreesError(f"it holds no arrays: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """An ensemble of trees. Arrays are (t trees, n nodes) unless noted. A leaf is its own child.

    Attributes:
        base: () base of the log-odds.
        feature: the column that a node tests.
        split: values up to this threshold go left.
        children: (t, n, 2) index of the left and the right child in the same tree.
        value: value of a leaf, in log-odds; 0 in other nodes.
        depth: () length of the longest path to a leaf.
    """

    base: NDArray[np.float32]
    feature: NDArray[np.int32]
    split: NDArray[np.float32]
    children: NDArray[np.int32]
    value: NDArray[np.float32]
    depth: NDArray[np.int16]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], columns: int) -> Self:
        """Build trees from the arrays of a file.

        Raises:
            TreesError: an array is missing, or the arrays are not valid trees over ``columns`` columns.
        """
        try:
            trees = cls(**{field.name: arrays[field.name] for field in fields(cls)})
        except KeyError as error:
            raise TreesError(f"{error} is missing") from None
        if not (trees._has_valid_shapes() and trees._has_valid_indices(columns)):
            raise TreesError("the arrays contradict each other")
        return trees

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, to save them in a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def probabilities(self, rows: Floats) -> Floats:
        """Predict probabilities, (m,), for rows, (m, columns)."""
        trees, nodes = self.feature.shape
        first = np.arange(trees, dtype=np.int32) * nodes
        children = (self.children + first[:, None, None]).ravel()  # one array of all nodes: `take` is fast
        feature, split = self.feature.ravel(), self.split.ravel()
        starts = np.arange(len(rows), dtype=np.int32)[:, None] * rows.shape[1]
        values, at = np.ascontiguousarray(rows).ravel(), np.tile(first, (len(rows), 1))
        for _ in range(int(self.depth)):
            right = values.take(starts + feature.take(at)) > split.take(at)
            at = children.take(2 * at + right)
        odds = self.base + self.value.ravel().take(at).sum(axis=1)
        result: Floats = 1 / (1 + np.exp(-odds))
        return result

    def _has_valid_shapes(self) -> bool:
        shape = self.feature.shape
        numbers = (self.base, self.feature, self.split, self.children, self.value, self.depth)
        return (
            all(array.dtype.kind in "fi" for array in numbers)
            and self.base.shape == self.depth.shape == ()
            and len(shape) == 2
            and self.split.shape == self.value.shape == shape
            and self.children.shape == (*shape, 2)
        )

    def _has_valid_indices(self, columns: int) -> bool:
        inside = (self.children >= 0) & (self.children < self.feature.shape[1])
        known = (self.feature >= 0) & (self.feature < columns)
        return bool(inside.all() and known.all() and 0 < int(self.depth) <= _MAX_DEPTH)
