"""Metrics against values worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.metrics import all_at, ndcg_at, recall_at

RANKED = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("k", "needed", "recall", "complete"),
    [
        (1, {"a"}, 1.0, 1.0),
        (1, {"b"}, 0.0, 0.0),
        (3, {"a", "c"}, 1.0, 1.0),
        (3, {"a", "c", "e", "x"}, 0.5, 0.0),
        (5, {"a", "c", "e", "x"}, 0.75, 0.0),
        (2, {"a", "b", "c"}, 2 / 3, 0.0),
        (9, {"e"}, 1.0, 1.0),
    ],
)
def test_recall_and_all(k: int, needed: set[str], recall: float, complete: float) -> None:
    assert recall_at(k, RANKED, needed) == pytest.approx(recall)
    assert all_at(k, RANKED, needed) == complete


def test_ndcg_by_hand() -> None:
    # Hits at ranks 2 and 4 of 5, two needed: (1/log2 3 + 1/log2 5) / (1/log2 2 + 1/log2 3).
    assert ndcg_at(5, RANKED, {"b", "d"}) == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    )
    assert ndcg_at(5, RANKED, {"b", "d"}) == pytest.approx(0.6509, abs=1e-4)
    assert ndcg_at(1, RANKED, {"a", "b", "c"}) == 1.0  # no list of one can do better
    assert ndcg_at(3, RANKED, {"d"}) == 0.0
    assert ndcg_at(5, [], {"d"}) == 0.0


def test_needed_twice_counts_once() -> None:
    needed = ["a", "a", "x"]
    assert recall_at(5, RANKED, needed) == 0.5
    assert ndcg_at(5, RANKED, needed) == pytest.approx(1 / (1 + 1 / math.log2(3)))


@given(st.permutations(range(8)), st.sets(st.integers(0, 9), min_size=1), st.integers(1, 12))
def test_bounds_and_growth(order: list[int], wanted: set[int], k: int) -> None:
    ranked, needed = [str(n) for n in order], {str(n) for n in wanted}
    recall, complete, ndcg = (measure(k, ranked, needed) for measure in (recall_at, all_at, ndcg_at))
    assert 0 <= recall <= recall_at(k + 1, ranked, needed) <= 1
    assert complete == (recall == 1)
    assert 0 <= ndcg <= 1 + 1e-9
    assert (ndcg > 0) == (recall > 0)
