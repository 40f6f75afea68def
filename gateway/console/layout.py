"""Lays out a layered graph: layers from left to right, few crossings, and edges that go around nodes.

The method is Sugiyama's. An edge over several layers passes through a point in each of them. The order within a layer
follows the mean position of the neighbours. Each layer is centred vertically.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

NODE_W: Final = 196
NODE_H: Final = 56
COLUMN_GAP: Final = 124
ROW_GAP: Final = 22
LANE_H: Final = 14
MARGIN: Final = 14
_SWEEPS: Final = 4
_MOST_LANES: Final = 2_000
"""Maximum number of points for long edges in all layers. With more, long edges are drawn straight."""

Node = str
Point = tuple[float, float]
_Slot = tuple[str, int]
"""A node with its layer; or the point where the edges of a node pass through another layer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of nodes and edges, in pixels.

    Attributes:
        places: the upper left corner of each node.
        paths: the points of each edge, from the right side of its source to the left side of its target.
        width: of the drawing.
        height: of the drawing.
    """

    places: Mapping[Node, Point]
    paths: Mapping[tuple[Node, Node], tuple[Point, ...]]
    width: float
    height: float


def place(layers: Sequence[Sequence[Node]], edges: Sequence[tuple[Node, Node]]) -> Layout:
    """Lay out the graph.

    Args:
        layers: the nodes by layer, each node once.
        edges: pairs of nodes. Edges that do not lead from a layer to a later one are left out.
    """
    layer_of = {node: index for index, layer in enumerate(layers) for node in layer}
    kept = [edge for edge in dict.fromkeys(edges) if layer_of.get(edge[0], 1) < layer_of.get(edge[1], -1)]
    furthest: dict[Node, int] = {}
    for source, target in kept:
        furthest[source] = max(furthest.get(source, 0), layer_of[target])
    lanes = sum(last - layer_of[node] - 1 for node, last in furthest.items())
    straight = lanes > _MOST_LANES
    columns: list[list[_Slot]] = [[(node, index) for node in layer] for index, layer in enumerate(layers)]
    if not straight:
        for node, last in furthest.items():
            for index in range(layer_of[node] + 1, last):
                columns[index].append((node, index))
    neighbours = _neighbours(kept, layer_of, straight=straight)
    _order(columns, neighbours)
    centres, height = _heights(columns, layer_of)
    places = {node: (_left(index), centres[node, index] - NODE_H / 2) for node, index in layer_of.items()}
    paths = {edge: _path(edge, layer_of, centres, straight=straight) for edge in kept}
    return Layout(places, paths, _left(max(len(layers), 1)) - COLUMN_GAP + MARGIN, height)


def _left(index: int) -> float:
    return MARGIN + index * (NODE_W + COLUMN_GAP)


def _neighbours(
    edges: Sequence[tuple[Node, Node]], layer_of: Mapping[Node, int], *, straight: bool
) -> tuple[Mapping[_Slot, list[_Slot]], Mapping[_Slot, list[_Slot]]]:
    """The neighbours of each slot on its left, and on its right."""
    left: defaultdict[_Slot, list[_Slot]] = defaultdict(list)
    right: defaultdict[_Slot, list[_Slot]] = defaultdict(list)
    for source, target in edges:
        first, last = layer_of[source], layer_of[target]
        chain = [(source, first), (target, last)]
        if not straight:
            chain[1:1] = [(source, index) for index in range(first + 1, last)]
        for one, other in pairwise(chain):
            left[other].append(one)
            right[one].append(other)
    return left, right


def _order(columns: list[list[_Slot]], neighbours: tuple[Mapping[_Slot, list[_Slot]], ...]) -> None:
    """Sort each column by the mean position of its neighbours, in a few sweeps in alternating directions."""
    rank = {slot: float(at) for column in columns for at, slot in enumerate(column)}
    for sweep in range(_SWEEPS):
        joined = neighbours[sweep % 2]
        for column in columns if sweep % 2 == 0 else reversed(columns):
            mean = {
                slot: sum(rank[one] for one in there) / len(there) if (there := joined.get(slot)) else rank[slot]
                for slot in column
            }
            column.sort(key=mean.__getitem__)
            rank.update((slot, float(at)) for at, slot in enumerate(column))


def _heights(columns: Sequence[Sequence[_Slot]], layer_of: Mapping[Node, int]) -> tuple[dict[_Slot, float], float]:
    """The vertical centre of each slot, and the total height."""

    def size(slot: _Slot) -> float:
        return NODE_H if layer_of[slot[0]] == slot[1] else LANE_H

    totals = [sum(size(slot) + ROW_GAP for slot in column) - ROW_GAP for column in columns if column]
    height = max(totals, default=0.0) + 2 * MARGIN
    centres: dict[_Slot, float] = {}
    for column in columns:
        y = (height - sum(size(slot) + ROW_GAP for slot in column) + ROW_GAP) / 2
        for slot in column:
            centres[slot] = y + size(slot) / 2
            y += size(slot) + ROW_GAP
    return centres, height


def _path(
    edge: tuple[Node, Node], layer_of: Mapping[Node, int], centres: Mapping[_Slot, float], *, straight: bool
) -> tuple[Point, ...]:
    source, target = edge
    first, last = layer_of[source], layer_of[target]
    points: list[Point] = [(_left(first) + NODE_W, centres[source, first])]
    for index in range(first + 1, last) if not straight else ():
        y = centres[source, index]
        points += [(_left(index), y), (_left(index) + NODE_W, y)]
    return (*points, (_left(last), centres[target, last]))


def curve(points: Sequence[Point]) -> str:
    """The points as an SVG path: horizontal through columns of nodes, curved between them."""
    said = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (x + to_x) / 2
        level = abs(y - to_y) < 1
        said.append(f"H{to_x:.0f}" if level else f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}")
    return "".join(said)
