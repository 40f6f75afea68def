"""Aligned examples: a request, its candidates, and for each argument of each call the source of its value.

The trained planner learns from them. Its heads choose APIs. For each parameter they choose one of: left out, a span of
the request's characters, one of its options, its default, an output of another call. So each argument has a label:

- :class:`Span`: characters ``start`` to ``end`` of the query state it; ``value`` is what the call needs;
- :class:`Option`: a listed value of the parameter or a boolean, with the characters that state it, if known;
- :class:`Default`: the default in its schema; the request does not state it;
- :class:`Ref`: an output field of an earlier call (NESTful's ``$var1.field$``);
- :class:`Unstated`: a value that is in neither. It is noise of the recorded data: mask its loss;
- :class:`ListLabel`: a list of these, in order.

A parameter without a label is left out. Offsets count Python characters, ``end`` is exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.contracts.api import Api
from services.contracts.base import JsonPath


class InvalidExample(ValueError):
    """An example is inconsistent: a span outside its query, a reference to a later call, an unknown parameter."""


@dataclass(frozen=True, slots=True)
class Span:
    """``query[start:end]`` states the value."""

    start: int
    end: int
    value: JsonValue
    kind: Literal["span"] = "span"


@dataclass(frozen=True, slots=True)
class Option:
    """A listed value or a boolean. If no characters state it literally (``"cheap"`` for "low"), both ends are None."""

    value: JsonValue
    start: int | None = None
    end: int | None = None
    kind: Literal["option"] = "option"


@dataclass(frozen=True, slots=True)
class Default:
    """The default of the parameter's schema."""

    value: JsonValue
    kind: Literal["default"] = "default"


@dataclass(frozen=True, slots=True)
class Ref:
    """The response of call number ``call`` of the example, counted from 0, at ``path``; an empty path is all of it.

    ``start`` and ``end``: the words that refer to it ("that customer"), if known.
    """

    call: int
    path: JsonPath
    start: int | None = None
    end: int | None = None
    kind: Literal["ref"] = "ref"


@dataclass(frozen=True, slots=True)
class Unstated:
    """A recorded value that the request does not state and no call returns."""

    value: JsonValue
    kind: Literal["unsaid"] = "unsaid"


Item = Span | Option | Default | Ref | Unstated


@dataclass(frozen=True, slots=True)
class ListLabel:
    """The items of a list, each with its own label."""

    items: tuple[Item, ...]
    kind: Literal["many"] = "many"


Label = Item | ListLabel


@dataclass(frozen=True, slots=True)
class LabelledCall:
    """A call of the solution.

    Attributes:
        api: id of one of the candidates.
        arguments: labels by parameter name, or by path for a value inside an object: ``metadata.name``.
        clause: the characters of the query that ask for it, if known; calls may share them.
        missing: required parameters whose values the request does not state: the plan needs input.
    """

    api: str
    arguments: dict[str, Label] = field(default_factory=dict)
    clause: tuple[int, int] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """An output that answers the request (NESTful's ``var_result``)."""

    call: int
    path: JsonPath


@dataclass(frozen=True, slots=True)
class Example:
    """A request with its labels.

    Attributes:
        id: unique within the source.
        source: the data set or catalogue it comes from.
        query: the request.
        candidates: the offered APIs, including the right ones; the order reveals nothing.
        calls: each comes after those it refers to; empty if no candidate fits.
        answer: the requested outputs; None if they are not known, empty if none is asked for by name.
        now: the time that "tomorrow" refers to; None if it is not known.
        scores: the retriever's features of each candidate (see ``backends.compact.inputs``); None: it was not asked.
    """

    id: str
    source: str
    query: str
    candidates: tuple[Api, ...]
    calls: tuple[LabelledCall, ...] = ()
    answer: tuple[Output, ...] | None = None
    now: datetime | None = None
    scores: tuple[tuple[float, ...], ...] | None = None

    @property
    def needs_input(self) -> bool:
        """Whether something is missing that only the user can tell."""
        return any(call.missing for call in self.calls)

    def api(self, identifier: str) -> Api:
        """The candidate with that id.

        Raises:
            InvalidExample: there is none.
        """
        found = next((api for api in self.candidates if api.id == identifier), None)
        if found is None:
            raise InvalidExample(f"{self.id}: {identifier!r} is not among the candidates")
        return found


@dataclass(frozen=True, slots=True)
class TrainingData:
    """All training data, and the held-out examples by folder."""

    recorded: list[Example]
    made: list[Example]
    held_out: dict[str, list[Example]]

    def examples(self) -> list[Example]:
        """All examples."""
        return [*self.recorded, *self.made, *(one for held in self.held_out.values() for one in held)]


def items(label: Label) -> tuple[Item, ...]:
    """A label's parts: a list's items, or the label itself."""
    return label.items if isinstance(label, ListLabel) else (label,)


def labels(example: Example) -> Iterator[tuple[int, str, Item]]:
    """Every single label, with the index of its call and its parameter's name."""
    for index, call in enumerate(example.calls):
        for name, label in call.arguments.items():
            for item in items(label):
                yield index, name, item


def check(example: Example) -> None:
    """Check that an example can be used for training.

    Raises:
        InvalidExample: it cannot; the message says why.
    """
    if len({api.id for api in example.candidates}) != len(example.candidates):
        raise InvalidExample(f"{example.id}: a candidate is offered twice")
    for index, call in enumerate(example.calls):
        api = example.api(call.api)
        _check_place(example, call.clause)
        for name in (*call.arguments, *call.missing):
            if not _takes(api, name):
                raise InvalidExample(f"{example.id}, call {index}: {api.id} takes no {name!r}")
        if set(call.missing) & set(call.arguments):
            raise InvalidExample(f"{example.id}, call {index}: an argument cannot be missing and there")
    for index, name, item in labels(example):
        _check_item(example, index, name, item)
    for output in example.answer or ():
        _check_output(example, len(example.calls), output.call, output.path)


def has_output(api: Api, path: JsonPath) -> bool:
    """Whether the API declares such a response field."""
    schemas = Schemas()
    node = Node(api.response.json_schema, api.definitions)
    for part in path:
        child = schemas.child(node, part, strict=True)
        if not isinstance(child, Node):
            return False
        node = child
    return True


def _check_item(example: Example, index: int, name: str, item: Item) -> None:
    if isinstance(item, Span):
        _check_place(example, (item.start, item.end))
    elif isinstance(item, Option | Ref) and (item.start is not None or item.end is not None):
        if item.start is None or item.end is None:
            raise InvalidExample(f"{example.id}, call {index}, {name}: half a span")
        _check_place(example, (item.start, item.end))
    if isinstance(item, Ref):
        _check_output(example, index, item.call, item.path)


def _takes(api: Api, name: str) -> bool:
    """Whether a parameter has this name, or contains a value with it (see ``planner_svc.reading.leaves``)."""
    return any(name == one.name or name.startswith((f"{one.name}.", f"{one.name}[")) for one in api.parameters)


def _check_place(example: Example, place: tuple[int, int] | None) -> None:
    if place is None:
        return
    start, end = place
    said = example.query[start:end] if 0 <= start < end <= len(example.query) else ""
    if not said or said != said.strip():
        raise InvalidExample(f"{example.id}: characters {start} to {end} are no words of the query")


def _check_output(example: Example, before: int, call: int, path: JsonPath) -> None:
    if not 0 <= call < before:
        raise InvalidExample(f"{example.id}: call {call} is not there yet")
    if not has_output(example.api(example.calls[call].api), path):
        raise InvalidExample(f"{example.id}: {example.calls[call].api} does not answer {path}")
