"""Boosted trees as arrays: what they say of rows, and that arrays which are none are refused."""

from typing import Any

import numpy as np
import pytest

from services.trees import Trees, TreesError


def one_question(**changed: Any) -> dict[str, Any]:
    """One tree: column 1 above 0.5 is likely."""
    return {
        "base": np.array(1.0, np.float32),
        "feature": np.array([[1, 0, 0]], np.int32),
        "split": np.array([[0.5, 0, 0]], np.float32),
        "children": np.array([[[1, 2], [1, 1], [2, 2]]], np.int32),
        "value": np.array([[0, -3, 2]], np.float32),
        "depth": np.array(1, np.int16),
    } | changed


def test_all_trees_are_added_to_the_base() -> None:
    both = {name: np.concatenate([array, array]) if array.ndim else array for name, array in one_question().items()}
    rows = np.array([[9, 0.5], [-9, 0.6]], np.float32)
    assert Trees.of(one_question(), 2).probabilities(rows).tolist() == pytest.approx([0.1192, 0.9526], abs=1e-4)
    assert Trees.of(both, 2).probabilities(rows).tolist() == pytest.approx([0.0067, 0.9933], abs=1e-4)
    assert Trees.of(both, 2).probabilities(rows[:0]).shape == (0,)


def test_what_is_kept_is_what_was_fitted() -> None:
    trees = Trees.of(one_question(), 2)
    again = Trees.of(trees.arrays(), 2)
    assert all((array == again.arrays()[name]).all() for name, array in trees.arrays().items())


@pytest.mark.parametrize(
    "changed",
    [
        {"feature": np.array([[2, 0, 0]], np.int32)},
        {"feature": np.array([[-1, 0, 0]], np.int32)},
        {"children": np.array([[[1, 3], [1, 1], [2, 2]]], np.int32)},
        {"children": np.array([[[1, -1], [1, 1], [2, 2]]], np.int32)},
        {"depth": np.array(10_000, np.int16)},
        {"depth": np.array(0, np.int16)},
        {"split": np.array([[0.5, 0]], np.float32)},
        {"value": np.array([["a", "b", "c"]])},
        {"base": np.array([1.0, 2.0], np.float32)},
    ],
)
def test_arrays_that_contradict_each_other_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(TreesError, match="contradict"):
        Trees.of(one_question(**changed), 2)


def test_a_missing_array_is_named() -> None:
    arrays = one_question()
    del arrays["split"]
    with pytest.raises(TreesError, match="'split' is missing"):
        Trees.of(arrays, 2)
