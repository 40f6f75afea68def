"""A drawing of a run's plan: boxes, edges with the values that they carried, and groups if there are many steps."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.console.flow import ANSWER, Binding, Flow, State
from gateway.console.layout import NODE_W, Point, curve, place
from gateway.console.pages import cut, written_json
from services.contracts.plan import Step

MOST_BOXES: Final = 60
"""With more steps than this, similar steps are drawn as one box."""
_MOST_LABELS: Final = 60
_MOST_EDGES: Final = 300
"""With more edges than this, only the shortest are drawn. Sixty boxes may have 1,770."""
_LEAST_GROUP: Final = 3
_LABEL_CHARS: Final = 14
_LABEL_H: Final = 21
_CHAR_W: Final = 6.4
_TITLE_CHARS: Final = 19
_PLACES: Final = tuple(0.5 + side * 0.06 * step for step in range(7) for side in ((1, -1) if step else (1,)))
_WORST: Final[tuple[State, ...]] = ("failed", "in_doubt", "running", "waiting", "skipped", "succeeded")


@dataclass(frozen=True, slots=True)
class Box:
    """A step, a group of steps, or the answer.

    Attributes:
        step: the step it shows; empty for a group.
        count: how many steps it represents.
        api: the API of these steps; empty if there are several.
    """

    x: float
    y: float
    title: str
    below: str
    state: State
    step: str = ""
    count: int = 1
    api: str = ""
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one box to another, with the values it carries."""

    name: str
    path: str
    label: str
    label_at: Point
    label_width: float
    state: State
    bindings: Sequence[Binding]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The whole drawing, in pixels.

    Attributes:
        left_out: how many edges are not drawn.
    """

    width: float
    height: float
    boxes: Sequence[Box]
    edges: Sequence[Edge]
    grouped: bool
    left_out: int


def draw(flow: Flow) -> Drawing:
    """Draw a run's plan."""
    group_of = _groups(flow)
    depth: dict[str, int] = {}
    for at, layer in enumerate(flow.layers):
        for name in layer:
            depth.setdefault(group_of[name], at)
    layers = [[name for name in depth if depth[name] == at] for at in sorted(set(depth.values()))]
    bindings: dict[tuple[str, str], list[Binding]] = {}
    for (source, target), taken in flow.bindings.items():
        if source in group_of:
            edge = group_of[source], group_of.get(target, target)
            bindings.setdefault(edge, []).extend(taken)
    answers = [[ANSWER]] if any(target == ANSWER for _, target in bindings) else []
    shown = _shortest(list(bindings), layers + answers)
    layout = place(layers + answers, shown)
    members: dict[str, list[Step]] = {}
    for step in flow.steps:
        members.setdefault(group_of[step.id], []).append(step)
    boxes = [_box(flow, members[name], layout.places[name]) for name in members]
    if answers:
        boxes.append(_answer(flow, layout.places[ANSWER]))
    labelled = len(layout.paths) <= _MOST_LABELS
    labels: list[tuple[float, float, float]] = []
    edges = [
        _edge(edge, points, bindings[edge], members, flow, labels if labelled else None)
        for edge, points in layout.paths.items()
    ]
    grouped, left_out = len(members) < len(flow.steps), len(bindings) - len(shown)
    return Drawing(layout.width, layout.height, boxes, edges, grouped, left_out)


def _shortest(edges: list[tuple[str, str]], layers: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The edges that are drawn: all, or those over the fewest layers."""
    if len(edges) <= _MOST_EDGES:
        return edges
    at = {name: index for index, layer in enumerate(layers) for name in layer}
    return sorted(edges, key=lambda edge: abs(at[edge[1]] - at[edge[0]]))[:_MOST_EDGES]


def _groups(flow: Flow) -> Mapping[str, str]:
    """The name of each step's box.

    A step has its own box. If there are too many steps, boxes group the steps of the same depth and API, else of the
    same depth, else of several neighbouring depths.
    """
    depth = {step: at for at, layer in enumerate(flow.layers) for step in layer}
    apis = {step.id: step.api for step in flow.steps}
    width = -(-len(flow.layers) // MOST_BOXES)
    ways: tuple[Callable[[str], str], ...] = (
        lambda step: step,
        lambda step: f"{depth[step]} {apis[step]}",
        lambda step: f"{depth[step]}",
        lambda step: f"{depth[step] // width}-",
    )
    found: dict[str, str] = {}
    for way in ways:
        sizes = Counter(way(step) for step in apis)
        least = _LEAST_GROUP if way is not ways[-1] else 1
        found = {step: name if sizes[name := way(step)] >= least else step for step in apis}
        if len(set(found.values())) <= MOST_BOXES:
            break
    return found


def _box(flow: Flow, steps: Sequence[Step], at: Point) -> Box:
    states = Counter(flow.state(step.id) for step in steps)
    worst = next(state for state in _WORST if states[state])
    apis = {step.api for step in steps}
    first = steps[0]
    changes = bool(flow.run.proof and {step.id for step in steps} & set(flow.run.proof.mutating))
    if len(steps) > 1:
        title = _name(first.api) if len(apis) == 1 else f"{len(apis)} operations"
        below = ", ".join(f"{states[state]} {state.replace('_', ' ')}" for state in _WORST if states[state])
        api = first.api if len(apis) == 1 else ""
        return Box(
            *at, cut(title, _TITLE_CHARS - len(f" *{len(steps)}")), cut(below, 30), worst, "", len(steps), api, changes
        )
    record = flow.records.get(first.id)
    took = f" · {record.duration_ms:.0f} ms" if record is not None and record.outcome.kind != "skipped" else ""
    each = " · for each" if first.foreach is not None else ""
    below = cut(f"{first.id}{each}{took}", 30)
    return Box(*at, cut(_name(first.api), _TITLE_CHARS), below, worst, first.id, 1, first.api, changes)


def _answer(flow: Flow, at: Point) -> Box:
    names = [output.name for output in flow.run.plan.answer] if flow.run.plan is not None else []
    state: State = "succeeded" if flow.run.answer.values else "waiting"
    return Box(*at, "answer", cut(", ".join(names), 22), state, ANSWER)


def _edge(
    edge: tuple[str, str],
    points: Sequence[Point],
    bindings: Sequence[Binding],
    members: Mapping[str, Sequence[Step]],
    flow: Flow,
    labels: list[tuple[float, float, float]] | None,
) -> Edge:
    """An edge. It gets a label if ``labels`` is given: the middles and widths of the existing labels."""
    source, target = edge
    states = {flow.state(step.id) for step in members[source]}
    state: State = "succeeded" if states == {"succeeded"} else "waiting"
    label = _label(bindings) if labels is not None else ""
    width = len(label) * _CHAR_W + 16
    x, y = _free(points[-2:], width, labels) if label and labels is not None else points[-1]
    if label and labels is not None:
        labels.append((x, y, width))
    one = len(members[source]) == 1 and len(members.get(target, ("",))) == 1
    return Edge(f"{source}.{target}" if one else "", curve(points), label, (x, y), width, state, bindings)


def _free(last: Sequence[Point], width: float, labels: Sequence[tuple[float, float, float]]) -> Point:
    """A free place for a label on an edge's last bend, as near to the middle as possible; else the freest one."""
    (x, y), (to_x, to_y) = last
    if to_x - x >= NODE_W:
        return (x + to_x) / 2, (y + to_y) / 2
    places = [(_bend(x, to_x, t), y + (to_y - y) * t * t * (3 - 2 * t)) for t in _PLACES]

    def room(at: Point) -> float:
        apart = (max(abs(at[0] - a) - (width + w) / 2, abs(at[1] - b) - _LABEL_H) for a, b, w in labels)
        return min(0.0, min(apart, default=0.0))

    return max(places, key=room)


def _bend(x: float, to_x: float, t: float) -> float:
    """The horizontal position on a curve of :func:`curve`, at the parameter ``t``."""
    middle = (x + to_x) / 2
    return (1 - t) ** 3 * x + 3 * t * (1 - t) * middle + t**3 * to_x


def _label(taken: Sequence[Binding]) -> str:
    """The first value in a few characters, and the number of further values."""
    if not taken:
        return ""
    more = f" +{len(taken) - 1}" if len(taken) > 1 else ""
    found = taken[0].found
    most = _LABEL_CHARS - len(more)
    if found.known:
        return written_json(found.value, most, indented=False) + more
    return cut(taken[0].path.lstrip(".") or "all", most) + more


def _name(api: str) -> str:
    return api.partition(".")[2] or api
