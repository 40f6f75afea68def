"""The values inside objects, as separate arguments: ``metadata.name`` beside ``owner``.

Requests say an object's values, not the object as a whole. Paths are written as in the compiler's findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.profile import Profile, Slot, member_of, slot_of
from planner_svc.reading.text import split_name, word_set
from services.compute import checkpoint
from services.contracts.base import JsonPath
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Value

MAX_LEAVES: Final = 24
"""Most values of an API: as many as the trained planner reads."""
MAX_DEPTH: Final = 5
"""Most parts of a path, including the parameter and indexes of lists."""
_MAX_MEMBERS: Final = 40
_MAX_SEEN: Final = 200
_WRAPPERS: Final = word_set(
    "attributes body content data fields input item items object params payload properties request"
)
"""Names of objects that do not describe their content."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: JsonPath
    node: Node
    required: bool
    slot: Slot

    @property
    def name(self) -> str:
        return str(next(part for part in reversed(self.path) if isinstance(part, str)))

    @property
    def depth(self) -> int:
        return len(self.path)


def flat(profile: Profile, most: int = MAX_LEAVES) -> Profile:
    """The profile with objects replaced by the values inside them, at most ``most``.

    An object in a list is represented by the list's first item. An object without known members is kept. The other
    slots come first, in their order. A profile without such objects is returned unchanged.
    """
    plain, found = [], []
    for slot in profile.slots:
        checkpoint()
        top = _Place((slot.name,), slot.node, slot.required, slot)
        leaves = list(_leaves(profile.schemas, top)) if _members(profile.schemas, top) else []
        found += leaves
        if not leaves:
            plain.append(slot)
    if not found:
        return profile
    kept = {id(leaf) for leaf in sorted(found, key=lambda leaf: (not leaf.required, leaf.depth))[:most]}
    return replace(profile, slots=(*plain, *(_slot(profile, leaf) for leaf in found if id(leaf) in kept)))


def place_of(path: JsonPath) -> str:
    """A path as text: ``items[0].title``."""
    head, *rest = path
    return str(head) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def nested(profile: Profile, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Arguments named by a flat profile's slots, assembled into the objects that the API takes.

    An optional object that lacks a required member is left out. If an object has alternatives, the first one with all
    its required members is used.
    """
    paths = {slot.name: slot.path for slot in profile.slots if slot.path}
    given: dict[str, Value] = {}
    trees: dict[str, list[tuple[JsonPath, Value]]] = {}
    for name, value in arguments.items():
        path = paths.get(name, ())
        if not path:
            given[name] = value
        else:
            trees.setdefault(str(path[0]), []).append((path[1:], value))
    for parameter in profile.api.parameters:
        if parameter.name in trees:
            node = Node(parameter.json_schema, profile.api.definitions)
            built = _built(profile.schemas, node, trees[parameter.name], required=parameter.required)
            if built is not None:
                given[parameter.name] = built
    return given


def has(arguments: Mapping[str, Value], path: JsonPath) -> bool:
    """Whether there is a value at the path, or a reference in place of an object that would contain it."""
    return held_at(arguments, path) is not None


def held_at(arguments: Mapping[str, Value], path: JsonPath) -> Value | JsonValue:
    """The value at the path, or a reference in place of an object that would contain it; None if there is none."""
    value: Value | JsonValue = arguments.get(str(path[0]))
    for part in path[1:]:
        if isinstance(value, LiteralValue):
            value = value.value
        if isinstance(value, ObjectValue):
            value = value.fields.get(str(part))
        elif isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, ListValue | list):
            items = value.items if isinstance(value, ListValue) else value
            value = items[part] if isinstance(part, int) and part < len(items) else None
        else:
            break
    return value


def put(arguments: Mapping[str, Value], path: JsonPath, value: JsonValue) -> dict[str, Value]:
    """The arguments with a value added at a path that has none (see :func:`has`)."""
    name = str(path[0])
    return {**arguments, name: _put(arguments.get(name), path[1:], value)}


def _put(held: Value | None, path: JsonPath, value: JsonValue) -> Value:
    if not path:
        return LiteralValue(value=value)
    part = path[0]
    inside = held.value if isinstance(held, LiteralValue) else None
    if isinstance(part, int):
        items = (
            list(held.items) if isinstance(held, ListValue) else _literals(inside if isinstance(inside, list) else [])
        )
        items[part : part + 1] = [_put(items[part] if part < len(items) else None, path[1:], value)]
        return _list(items)
    fields = dict(held.fields) if isinstance(held, ObjectValue) else {}
    if isinstance(inside, dict):
        fields = dict(zip(inside, _literals(inside.values()), strict=True))
    fields[part] = _put(fields.get(part), path[1:], value)
    return _object(fields)


def _literals(values: Iterable[JsonValue]) -> list[Value]:
    return [LiteralValue(value=value) for value in values]


def _object(fields: Mapping[str, Value]) -> Value:
    """A literal if all fields are literals, otherwise an object value."""
    literals = {name: value.value for name, value in fields.items() if isinstance(value, LiteralValue)}
    return LiteralValue(value=literals) if len(literals) == len(fields) else ObjectValue(fields=dict(fields))


def _list(items: Sequence[Value]) -> Value:
    literals = [value.value for value in items if isinstance(value, LiteralValue)]
    return LiteralValue(value=literals) if len(literals) == len(items) else ListValue(items=tuple(items))


def _leaves(schemas: Schemas, top: _Place) -> Iterator[_Place]:
    """Places without members, breadth first; objects deeper than ``MAX_DEPTH`` are left out."""
    waiting = [top]
    for _ in range(_MAX_SEEN):
        if not waiting:
            return
        place = waiting.pop(0)
        members = _members(schemas, place)
        if not members:
            yield place
        elif place.depth < MAX_DEPTH:
            waiting += members


def _members(schemas: Schemas, place: _Place) -> list[_Place]:
    """The members of an object, or of the objects in a list; empty for anything else."""
    path, node = place.path, place.node
    if schemas.kinds(node) - {"null"} == {"array"}:
        item = schemas.child(node, 0, strict=False)
        if not isinstance(item, Node):
            return []
        path, node = (*path, 0), item
    if schemas.kinds(node) - {"null"} != {"object"}:
        return []
    needed = schemas.required(node)
    return [
        _Place((*path, name), child, place.required and name in needed, place.slot)
        for name, child in list(schemas.properties(node).items())[:_MAX_MEMBERS]
        if name and isinstance(child.schema, dict) and child.schema.get("readOnly") is not True
    ]


def _slot(profile: Profile, leaf: _Place) -> Slot:
    member = member_of(leaf.name, leaf.node, required=leaf.required)
    member = member.model_copy(update={"location": leaf.slot.parameter.location})
    slot = slot_of(profile.schemas, member, leaf.node, profile.noun, depth=1)
    holders = [part for part in leaf.path[:-1] if isinstance(part, str)]
    holder = split_name(holders[-1]) if holders else []
    said = slot.said if _WRAPPERS.issuperset(holder) else f"{' '.join(holder)} {slot.said}"
    return replace(slot, name=place_of(leaf.path), path=leaf.path, said=said)


def _built(schemas: Schemas, node: Node, parts: Sequence[tuple[JsonPath, Value]], *, required: bool) -> Value | None:
    """The object, or the list of one, that holds these values; None if it is optional and incomplete."""
    if parts and not parts[0][0]:
        return parts[0][1]
    if isinstance(parts[0][0][0], int):
        item = schemas.child(node, 0, strict=False)
        rest = [(path[1:], value) for path, value in parts]
        built = _built(schemas, item if isinstance(item, Node) else node, rest, required=required)
        if built is None:
            return None
        return _list([built])
    needed = schemas.required(node)
    groups: dict[str, list[tuple[JsonPath, Value]]] = {}
    for path, value in parts:
        groups.setdefault(str(path[0]), []).append((path[1:], value))
    fields: dict[str, Value] = {}
    for name, group in groups.items():
        child = schemas.child(node, name, strict=False)
        if isinstance(child, Node):
            made = _built(schemas, child, group, required=required and name in needed)
            if made is not None:
                fields[name] = made
    fields = _of_one_kind(schemas, node, fields)
    if not needed <= fields.keys():
        return ObjectValue(fields=fields) if required else None
    if not fields:
        return None
    return _object(fields)


def _of_one_kind(schemas: Schemas, node: Node, fields: Mapping[str, Value]) -> dict[str, Value]:
    """If an object has alternatives, the fields of the first one whose required members are all given."""
    branches = schemas.branches(node)
    if len(branches) < 2:
        return dict(fields)
    for branch in branches:
        known = {name for schema in branch for name in _keys(schema.get("properties"))}
        needed = {name for schema in branch for name in _keys(schema.get("required"))}
        if needed <= fields.keys() and known & fields.keys():
            return {name: value for name, value in fields.items() if name in known}
    return dict(fields)


def _keys(listed: object) -> list[str]:
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, (dict, list)) else []
