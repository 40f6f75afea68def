"""Finds the schema of a value at a path in an API's document, and describes a schema in a few words."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from services.contracts.base import JsonPath

Schema = Mapping[str, JsonValue]
_MOST_STEPS: Final = 300
"""Maximum number of schemas examined for a path. References may be circular, and each level may have alternatives."""


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The schema that a reference leads to; empty if it leads nowhere or is circular."""
    for _ in range(20):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = definitions.get(reference.removeprefix("#/$defs/"), {})
    return {}


def schema_at(schema: Schema, path: JsonPath, definitions: Mapping[str, Schema]) -> Schema | None:
    """The schema of the value at a path; None where there is none."""
    waiting: list[tuple[Schema, JsonPath]] = [(schema, path)]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return None
        one, rest = waiting.pop()
        one = resolved(one, definitions)
        if not rest:
            return one
        waiting += [(inner, rest) for inner in _alternatives(one)]
        inner = _inside(one, rest[0])
        if inner is not None:
            waiting.append((inner, rest[1:]))
    return None


def _alternatives(schema: Schema) -> Iterator[Schema]:
    for name in ("allOf", "anyOf", "oneOf"):
        several = schema.get(name)
        if isinstance(several, list):
            yield from (one for one in several if isinstance(one, dict))


def _inside(schema: Schema, part: str | int) -> Schema | None:
    """The schema of a property or of an item."""
    if isinstance(part, int):
        items = schema.get("items")
        return items if isinstance(items, dict) else None
    properties = schema.get("properties")
    found = properties.get(part) if isinstance(properties, dict) else None
    if not isinstance(found, dict):
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def kind_of(schema: Schema) -> str:
    """A schema in a few words."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rsplit("/", 1)[-1]
    types = schema.get("type")
    said = " or ".join(map(str, types)) if isinstance(types, list) else str(types or "any")
    items = schema.get("items")
    if said == "array" and isinstance(items, dict):
        said = f"array of {kind_of(items)}"
    for name in ("format", "enum"):
        more = schema.get(name)
        if isinstance(more, str):
            said += f", {more}"
        elif isinstance(more, list):
            said += ": " + ", ".join(map(str, more[:12])) + (" …" if len(more) > 12 else "")
    return said
