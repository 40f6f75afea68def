"""The layout of plans as graphs."""

import itertools

import pytest

from gateway.console.layout import NODE_H, NODE_W, Layout, place


def _overlaps(layout: Layout) -> list[tuple[str, str]]:
    def touch(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return abs(one[0] - other[0]) < NODE_W and abs(one[1] - other[1]) < NODE_H

    return [(a, b) for (a, p), (b, q) in itertools.combinations(layout.places.items(), 2) if touch(p, q)]


def test_a_chain_is_a_line_from_left_to_right() -> None:
    layout = place([["a"], ["b"], ["c"]], [("a", "b"), ("b", "c")])
    xs, ys = zip(*(layout.places[node] for node in "abc"), strict=True)
    assert list(xs) == sorted(set(xs))
    assert len(set(ys)) == 1


def test_a_long_edge_goes_around_what_lies_between() -> None:
    layout = place([["a"], ["b"], ["c"]], [("a", "b"), ("b", "c"), ("a", "c")])
    left, top = layout.places["b"]
    (y,) = [y for x, y in layout.paths["a", "c"] if x == left]
    assert not top < y < top + NODE_H


def test_crossings_that_need_not_be_are_not() -> None:
    layout = place([["a", "b"], ["x", "y"]], [("a", "y"), ("b", "x")])
    above = layout.places["a"][1] < layout.places["b"][1]
    assert (layout.places["y"][1] < layout.places["x"][1]) == above


@pytest.mark.parametrize(
    ("layers", "edges"),
    [
        ([], []),
        ([["a"]], [("a", "a"), ("a", "gone"), ("gone", "a")]),
        ([[f"n{n}" for n in range(250)]], []),
        ([[f"n{n}"] for n in range(250)], [(f"n{a}", f"n{b}") for a in range(0, 250, 9) for b in range(a + 1, 250, 7)]),
    ],
)
def test_nothing_overlaps(layers: list[list[str]], edges: list[tuple[str, str]]) -> None:
    layout = place(layers, edges)
    assert _overlaps(layout) == []
    assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in layout.places.values())


def test_a_plan_of_250_steps_is_laid_out() -> None:
    layers = [[f"n{depth}_{n}" for n in range(25)] for depth in range(10)]
    edges = [(f"n{d}_{n}", f"n{d + 1}_{(n * 7) % 25}") for d in range(9) for n in range(25)]
    edges += [(f"n0_{n}", f"n9_{n}") for n in range(25)]
    layout = place(layers, edges)
    assert len(layout.places) == 250
    assert _overlaps(layout) == []
    assert len(layout.paths["n0_3", "n9_3"]) == 2 * 8 + 2
