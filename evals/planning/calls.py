"""Solutions in one form: the data's calls and a planner's plan, both as a graph in which labels have no meaning.

References are ``$label.field$`` in the data. A label is the call's own label, or ``var_N`` or ``varN`` with N counting
calls from 1. A name that matches no call is plain text. A reference inside a longer text (``"5 * $var1.rate$"``) is
plain text too: neither the notation (NESTFUL, section 3) nor a plan supports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from evals.data import EACH, Call
from services.codecs.calls import decode_argument
from services.codecs.text import CodecError, canonical
from services.contracts.base import JsonPath
from services.contracts.plan import (
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Value,
    dependencies,
    references,
)

_MENTION = re.compile(r"\$(\w+)(?:[.\[][^$]*)?\$")
_NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Link:
    """A reference: the referenced call, by its place in the graph from 0, and the path in its output. None: no call."""

    place: int | None
    path: JsonPath


@dataclass(frozen=True, slots=True)
class Node:
    """One call: the API's id and its arguments. In a reference, ``step`` is the place of the call as text.

    ``needs`` are the places of the calls that must finish before this one can start.
    """

    api: str
    arguments: Mapping[str, Value]
    needs: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Calls in the order in which they are written."""

    nodes: tuple[Node, ...] = ()


def graph_of_calls(calls: Sequence[Call]) -> CallGraph:
    """Convert the data's solution of a request."""
    labels = _labels(calls)
    nodes = []
    for call in calls:
        arguments = {name: _read(value, labels) for name, value in call.args.items()}
        used = (link_of(reference).place for value in arguments.values() for reference in references(value))
        nodes.append(Node(call.api, arguments, frozenset(place for place in used if place is not None)))
    return CallGraph(tuple(nodes))


def is_nested(calls: Sequence[Call]) -> bool:
    """Whether a call of the data takes the output of another one, even in the middle of a text."""
    labels = _labels(calls)
    texts = (text for call in calls for value in call.args.values() for text in _texts(value))
    return any(match[1] in labels for text in texts for match in _MENTION.finditer(text))


def graph_of_plan(plan: Plan | None) -> CallGraph:
    """Convert a planner's plan; None gives no calls. A loop's item stands for every item of its list."""
    if plan is None:
        return CallGraph()
    steps = canonical(plan).steps
    places = {step.id: place for place, step in enumerate(steps)}
    nodes = []
    for step in steps:
        items = step.foreach.items if step.foreach is not None else None
        arguments = {name: _placed(value, places, items) for name, value in step.arguments.items()}
        needs = frozenset(places[name] for name in dependencies(step) if name in places)
        nodes.append(Node(step.api, arguments, needs))
    return CallGraph(tuple(nodes))


def links_of_answer(answer: Sequence[str], calls: Sequence[Call]) -> list[Link]:
    """The outputs that the data's answer names. Names that match no call's output are left out."""
    labels = _labels(calls)
    read = (_read(text, labels) for text in answer)
    return [link_of(value) for value in read if isinstance(value, Reference)]


def links_of_outputs(plan: Plan) -> list[Link]:
    """The outputs in a plan's answer."""
    places = {step.id: place for place, step in enumerate(plan.steps)}
    return [link_of(one) for output in plan.answer for one in references(_placed(output.value, places, None))]


def bare_label(label: str) -> str:
    """The label without the ``$`` signs that NESTFUL's second version adds (``$var_1$``)."""
    return label.removeprefix("$").removesuffix("$")


def step_id(place: int) -> str:
    """The name that references in a graph use for the call at this place."""
    return f"c{place}"


def link_of(reference: Reference) -> Link:
    """The target of a reference in a graph."""
    return Link(None if reference.step == _NOWHERE else int(reference.step[1:]), reference.path)


def links_of(node: Node) -> Iterator[tuple[JsonPath, Link]]:
    """Every reference of a call with its position: the argument's name, then the path inside its value."""
    for name, value in node.arguments.items():
        yield from _links(value, (name,))


def _links(value: Value, place: JsonPath) -> Iterator[tuple[JsonPath, Link]]:
    if isinstance(value, Reference):
        yield place, link_of(value)
    elif isinstance(value, ListValue):
        for index, item in enumerate(value.items):
            yield from _links(item, (*place, index))
    elif isinstance(value, ObjectValue):
        for name, field in value.fields.items():
            yield from _links(field, (*place, name))


def _labels(calls: Sequence[Call]) -> dict[str, int]:
    """The places of the calls by every possible label. A call's own label takes precedence over a position."""
    labels = {f"var_{number}": number - 1 for number in range(1, len(calls) + 1)}
    labels |= {f"var{number}": number - 1 for number in range(1, len(calls) + 1)}
    return labels | {bare_label(call.label): place for place, call in enumerate(calls) if call.label}


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else value.values():
            yield from _texts(item)


def _read(value: JsonValue, labels: Mapping[str, int]) -> Value:
    """An argument of the data with references by place; a literal of the whole value if it cannot be decoded."""
    try:
        return _known(decode_argument(value), labels)
    except CodecError:
        return LiteralValue(value=value)


def _known(value: Value, labels: Mapping[str, int]) -> Value:
    if isinstance(value, Reference):
        if value.step not in labels:
            raise CodecError("no call has this label")
        return Reference(step=step_id(labels[value.step]), path=value.path)
    if isinstance(value, ItemReference):
        raise CodecError("an item is written as `*` in the path of its list")
    if isinstance(value, ListValue):
        return ListValue(items=tuple(_known(item, labels) for item in value.items))
    if isinstance(value, ObjectValue):
        return ObjectValue(fields={name: _known(field, labels) for name, field in value.fields.items()})
    return value


def _placed(value: Value, places: Mapping[str, int], items: Value | None) -> Value:
    if isinstance(value, ItemReference):
        if not isinstance(items, Reference):
            return Reference(step=_NOWHERE, path=value.path)
        return _placed(Reference(step=items.step, path=(*items.path, EACH, *value.path)), places, None)
    if isinstance(value, Reference):
        place = places.get(value.step)
        return Reference(step=_NOWHERE if place is None else step_id(place), path=value.path)
    if isinstance(value, ListValue):
        return ListValue(items=tuple(_placed(item, places, items) for item in value.items))
    if isinstance(value, ObjectValue):
        return ObjectValue(fields={name: _placed(field, places, items) for name, field in value.fields.items()})
    return value
