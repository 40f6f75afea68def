"""Requests that state plainly what a body must hold: ``title "Spring sale", price 12.5, address city "Oslo"``."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.text import split_name
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import JsonPath
from services.media_types import is_json
from twin.values import example_of

MAX_VALUES: Final = 20
"""The most values that a request states. Operations that need more are counted separately."""
_MAX_DEPTH: Final = 6
_FEW: Final = 3
"""How many fields to state for a body without required fields."""
_TEXTS: Final = ("Spring sale", "Blue door", "Harbour 12", "north-4711", "Anna Berg", "weekly report", "plan B")
_DATES: Final = {"date": "2024-05-17", "date-time": "2024-05-17T10:30:00Z"}
_NUMBERS: Final = (12.5, 7, 40, 3, 250, 1, 2, 10, 60, 100, 0, 1_000, 10_000, 100_000)


class NotExpressible(Exception):
    """A sentence cannot state the operation's body. The message names the class of reason."""


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value that a request states, and its place: the parameter, then the path inside it."""

    path: JsonPath
    value: JsonValue

    @property
    def text(self) -> str:
        """Its name and its value."""
        parts = [part for part in self.path if isinstance(part, str)]
        named = parts[1:] if parts[0] == "body" and len(parts) > 1 else parts  # users do not say "body"
        name = " ".join(word for part in named for word in split_name(part))
        return f"{name} {_written(self.value)}"


def _written(value: JsonValue) -> str:
    if isinstance(value, list):
        return " and ".join(map(_written, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def stated_values(api: Api, chance: random.Random) -> tuple[StatedValue, ...]:
    """Every required value of the operation, those of its body last. If the body requires none, a few optional ones.

    A required object contributes its own required members, a list of objects one item, and alternatives the first
    one.

    Raises:
        NotExpressible: a sentence cannot state the body.
    """
    maker = _Maker(api, chance)
    elsewhere = [one for one in api.parameters if one.location is not Location.BODY and one.required]
    found = (*(value for one in elsewhere for value in maker.values(one)), *maker.body())
    if len(found) > MAX_VALUES:
        raise NotExpressible(f"needs more than {MAX_VALUES} values")
    maker.check(found)
    return found


def arguments_of(values: Sequence[StatedValue]) -> dict[str, JsonValue]:
    """The arguments that hold exactly these values."""
    tree: dict[str, JsonValue] = {}
    for one in values:
        place: Any = tree
        for part, following in pairwise([*one.path, None]):
            if isinstance(part, int):
                place += [None] * (part + 1 - len(place))
                held = place[part]
            else:
                held = place.get(part)
            if following is None:
                held = one.value
            elif held is None:
                held = [] if isinstance(following, int) else {}
            place[part] = held
            place = held
    return tree


def request_of(api: Api, values: Sequence[StatedValue]) -> str:
    """The operation's summary or name, followed by the values."""
    does = (api.summary or " ".join(split_name(api.name))).strip().rstrip(".")[:150]
    return f"{does}: {', '.join(one.text for one in values)}."


class _Maker:
    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api, self._chance, self._schemas = api, chance, Schemas()
        self._texts = chance.sample(_TEXTS, len(_TEXTS))
        self._whole = api.body is not None and api.body.whole  # such a body states some fields even if none is required

    def values(self, parameter: Parameter) -> list[StatedValue]:
        node = Node(parameter.json_schema, self._api.definitions)
        return list(self._required((parameter.name,), node))

    def check(self, found: Sequence[StatedValue]) -> None:
        """Raise NotExpressible if the schemas reject these values as a whole."""
        made = arguments_of(found)
        for parameter in self._api.parameters:
            node = Node(parameter.json_schema, self._api.definitions)
            if parameter.name in made and self._schemas.problem(node, made[parameter.name]) is not None:
                raise NotExpressible("is not valid with what it needs alone")

    def body(self) -> list[StatedValue]:
        api = self._api
        body = [one for one in api.parameters if one.location is Location.BODY]
        if api.body is not None and api.body.whole and not is_json(api.body.media_type):
            raise NotExpressible("is a file or text as a whole")
        needed = [one for one in body if one.required]
        found = [value for one in needed for value in self.values(one)]
        if found:
            return found
        for parameter in body:
            for value in self._some((parameter.name,), Node(parameter.json_schema, api.definitions)):
                found.append(value)
                if len(found) == _FEW:
                    return found
        if not found:
            raise NotExpressible("declares no fields")
        return found

    def _required(self, path: JsonPath, node: Node) -> Iterator[StatedValue]:
        """The required values at this place; the value itself if it is neither an object nor a list of objects."""
        holder = self._holder(path, node)
        if holder is None:
            yield StatedValue(path, self._value(path, node))
            return
        inside, item = holder
        if len(inside) > _MAX_DEPTH:
            raise NotExpressible("is nested too deeply")
        needed = self._needed(item)
        members = [(name, child) for name, child in self._schemas.properties(item).items() if name in needed]
        for name, child in members:
            if not _read_only(child):
                yield from self._required((*inside, name), child)
        if not members and (len(path) > 1 or not self._whole):
            yield from list(self._some(path, node))[:1]

    def _needed(self, node: Node) -> frozenset[str]:
        """The names that the first alternative of an object requires."""
        branches = self._schemas.branches(node)
        listed = (schema.get("required") for schema in (branches[0] if branches else ()))
        return frozenset(name for names in listed if isinstance(names, list) for name in names if isinstance(name, str))

    def _some(self, path: JsonPath, node: Node) -> Iterator[StatedValue]:
        """Values that could be stated here; scalars at most two objects deep."""
        holder = self._holder(path, node)
        if holder is None:
            try:
                yield StatedValue(path, self._value(path, node))
            except NotExpressible:
                return
            return
        inside, item = holder
        for name, child in self._schemas.properties(item).items():
            if not _read_only(child) and sum(isinstance(part, str) for part in inside) < _FEW:
                yield from self._some((*inside, name), child)

    def _holder(self, path: JsonPath, node: Node) -> tuple[JsonPath, Node] | None:
        """The object at this place, or the first item of a list of objects; None for anything else."""
        kinds = self._schemas.kinds(node) - {"null"}
        if kinds == {"array"}:
            item = self._schemas.child(node, 0, strict=False)
            if not isinstance(item, Node) or self._schemas.kinds(item) - {"null"} != {"object"}:
                return None
            path, node, kinds = (*path, 0), item, frozenset({"object"})
        if kinds != {"object"}:
            return None
        if not self._schemas.properties(node):
            raise NotExpressible("has an object of which nothing is declared")
        return path, node

    def _value(self, path: JsonPath, node: Node) -> JsonValue:
        """A value that the schema accepts and that a sentence can state."""
        schemas, kinds = self._schemas, self._schemas.kinds(node) - {"null"}
        if schemas.is_anything(node):
            raise NotExpressible("has a field of which nothing is declared")
        listed = kinds == {"array"}
        item = schemas.child(node, 0, strict=False) if listed else node
        if not isinstance(item, Node):
            raise NotExpressible("has a list of which nothing is declared")
        inside = schemas.kinds(item) - {"null"}
        if not inside & {"string", "integer", "number", "boolean"} or len(inside) > 4 or schemas.is_anything(item):
            raise NotExpressible("has lists in lists, or a list of which nothing is declared")
        for value in self._offered(path, item, inside):
            made = [value] if listed else value
            if not isinstance(value, list | dict | None) and schemas.problem(node, made) is None:
                return made
        raise NotExpressible("has a value that could not be made")

    def _offered(self, path: JsonPath, node: Node, kinds: frozenset[str]) -> Iterator[JsonValue]:
        schemas = self._schemas
        choices = schemas.enumeration(node)
        if choices:
            yield from self._chance.sample(choices, len(choices))
            return
        formats = schemas.formats(node) or frozenset()
        if "string" in kinds:
            yield from (text for form, text in _DATES.items() if form in formats)
            if not formats:
                text = self._texts.pop() if self._texts else self._chance.choice(_TEXTS)
                yield text
        if kinds & {"number"}:
            yield from _NUMBERS
        if "integer" in kinds:
            yield from (number for number in self._chance.sample(_NUMBERS, len(_NUMBERS)) if isinstance(number, int))
        if "boolean" in kinds:
            yield self._chance.random() < 0.5
        for number in (1, 2):
            schema = node.schema if isinstance(node.schema, dict) else {}
            yield example_of(schema, str(path[-1]), node.definitions, number=number)


def _read_only(node: Node) -> bool:
    return isinstance(node.schema, dict) and node.schema.get("readOnly") is True
