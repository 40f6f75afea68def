"""The Demo Selector's rules, on vectors whose cosines are known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo_svc.models import Entry, Listing, Match, Snapshot
from demo_svc.selector import nearest, select, similarly_worded

QUERY = np.array([1.0, 0.0], np.float32)


def snapshot(*demos: tuple[str, str, set[str], float]) -> Snapshot:
    """A snapshot of (id, level, apis, cosine to QUERY)."""
    entries = tuple(Entry(name, level, "", frozenset(apis)) for name, level, apis, _ in demos)  # type: ignore[arg-type]
    cosines = np.array([cosine for *_, cosine in demos], np.float32)
    vectors = np.stack([cosines, np.sqrt(1 - cosines.astype(np.float64) ** 2).astype(np.float32)], axis=1)
    return Snapshot.build(Listing(1, entries), vectors.reshape(-1, 2))


def ids(matches: list[Match]) -> list[str]:
    return [match.entry.id for match in matches]


def test_the_most_similar_task_level_demos_come_first() -> None:
    base = snapshot(
        ("low", "task", {"a"}, 0.81),
        ("none", "task", {"a"}, 0.5),
        ("high", "task", {"a"}, 0.95),
        ("mid", "task", {"a"}, 0.9),
    )
    assert ids(select(base, QUERY, ["a"], 2, 0.8)) == ["high", "mid"]
    assert ids(select(base, QUERY, ["a"], 5, 0.8)) == ["high", "mid", "low"]


def test_equally_similar_demos_come_in_the_order_they_were_added() -> None:
    base = snapshot(*((name, "task", {"a"}, 0.9) for name in "zyx"))
    assert ids(select(base, QUERY, ["a"], 3, 0.8)) == ["z", "y", "x"]


@pytest.mark.parametrize(("threshold", "found"), [(0.5, []), (0.4999, ["half"])])
def test_the_threshold_must_be_exceeded(threshold: float, found: list[str]) -> None:
    base = snapshot(("half", "task", {"a"}, 0.5))
    assert ids(select(base, QUERY, ["a"], 3, threshold)) == found


def test_missing_places_are_filled_in_the_order_of_the_apis() -> None:
    base = snapshot(
        ("task", "task", {"b"}, 0.9),
        ("of_a", "api", {"a"}, 0.99),
        ("of_b", "api", {"b"}, 0.1),
        ("of_c", "api", {"c"}, 0.2),
    )
    chosen = select(base, QUERY, ["c", "b", "a"], 3, 0.8)
    assert [(m.entry.id, m.level) for m in chosen] == [("task", "task"), ("of_c", "api"), ("of_b", "api")]


def test_an_api_gives_a_second_demo_only_when_every_api_has_given_one() -> None:
    base = snapshot(
        ("a_far", "api", {"a"}, 0.1),
        ("a_near", "api", {"a"}, 0.7),
        ("b_only", "api", {"b"}, 0.3),
        ("a_mid", "api", {"a"}, 0.4),
    )
    assert ids(select(base, QUERY, ["a", "b"], 10, 0.8)) == ["a_near", "b_only", "a_mid", "a_far"]
    assert ids(select(base, QUERY, ["b", "a", "b"], 2, 0.8)) == ["b_only", "a_near"]


def test_a_demo_with_an_api_that_was_not_offered_is_left_out_before_counting() -> None:
    base = snapshot(("leak", "task", {"a", "secret"}, 0.99), ("fits", "task", {"a"}, 0.85))
    assert ids(select(base, QUERY, ["a"], 1, 0.8)) == ["fits"]
    assert ids(select(base, QUERY, [], 1, 0.8)) == ["leak"]


def test_without_apis_there_is_no_fallback() -> None:
    assert select(snapshot(("of_a", "api", {"a"}, 0.9)), QUERY, [], 3, 0.8) == []


def test_an_empty_knowledge_base_and_no_places() -> None:
    assert select(snapshot(), QUERY, ["a"], 3, 0.8) == []
    assert select(snapshot(("x", "task", {"a"}, 0.9)), QUERY, ["a"], 0, 0.8) == []


APIS = st.sampled_from(["a", "b", "c", "d"])
COSINES = st.integers(-20, 20).map(lambda n: n / 20)
TASKS = st.tuples(st.just("task"), st.sets(APIS, min_size=1, max_size=3), COSINES)
EXAMPLES = st.tuples(st.just("api"), st.sets(APIS, min_size=1, max_size=1), COSINES)


@given(
    st.lists(TASKS | EXAMPLES, max_size=12),
    st.lists(APIS, max_size=6),
    st.integers(0, 8),
    st.sampled_from([-1.0, 0.02, 0.5, 0.8, 1.0]),
)
def test_invariants(rows: list[Any], offered: list[str], k: int, threshold: float) -> None:
    base = snapshot(*((str(n), *row) for n, row in enumerate(rows)))
    chosen = select(base, QUERY, offered, k, threshold)
    tasks = [m for m in chosen if m.level == "task"]
    examples = [m for m in chosen if m.level == "api"]

    assert len(chosen) <= k
    assert len(set(ids(chosen))) == len(chosen)
    assert chosen == tasks + examples
    assert all(m.similarity > threshold for m in tasks)
    assert [m.similarity for m in tasks] == sorted((m.similarity for m in tasks), reverse=True)
    assert all(m.entry.level == m.level for m in chosen)
    if offered:
        assert all(m.entry.apis <= set(offered) for m in chosen)

    # Nothing that should have been chosen is missing: the weakest chosen beats every task-level demo left out.
    similarities = base.vectors @ QUERY
    fit = [
        (float(s), e.id)
        for s, e in zip(similarities, base.entries, strict=True)
        if e.level == "task" and float(s) > threshold and (not offered or e.apis <= set(offered))
    ]
    assert len(tasks) == min(k, len(fit))
    left = [s for s, name in fit if name not in ids(tasks)]
    assert not left or tasks == [] or min(m.similarity for m in tasks) >= max(left)

    # Fallback: each round walks the APIs in the order offered, and an API's own demos come nearest first.
    available = sum(len(base.by_api.get(api, ())) for api in set(offered))
    assert len(examples) == min(k - len(tasks), available)
    order = {api: n for n, api in enumerate(dict.fromkeys(offered))}
    seen: dict[str, int] = {}
    rounds = []
    for match in examples:
        (api,) = match.entry.apis
        rounds.append((seen.get(api, 0), order[api]))
        seen[api] = seen.get(api, 0) + 1
    assert rounds == sorted(rounds)


def test_the_nearest_use_what_is_offered_whatever_their_level_and_threshold() -> None:
    base = snapshot(
        ("far", "task", {"a"}, 0.1),
        ("other", "task", {"a", "b"}, 0.9),
        ("one", "api", {"a"}, 0.4),
        ("none", "task", {"a"}, -0.5),
    )
    assert ids(nearest(base, QUERY, ["a"], 2)) == ["one", "far"]
    assert ids(nearest(base, QUERY, ["a", "b"], 9)) == ["other", "one", "far", "none"]
    assert nearest(base, QUERY, [], 9) == []


def test_worded_alike_is_what_shares_most_words() -> None:
    base = snapshot(
        *((name, "task", {"a"}, cosine) for name, cosine in (("x", 0.9), ("y", 0.2), ("z", 0.1), ("gone", 0)))
    )
    near = nearest(base, QUERY, ["a"], 9)
    texts = {"x": "when is rain due", "y": "turn 4 miles into feet", "z": "Turn 9 yards into metres!"}
    assert ids(similarly_worded("turn 3 feet into metres", near, texts, 2)) == ["y", "z"]
    assert ids(similarly_worded("turn 3 feet into metres", near, texts, 1)) == ["y"]
    assert similarly_worded("hello there", near, texts, 9) == []
