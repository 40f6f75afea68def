"""Helpers for JSON Schemas: references, combinations, types of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from pydantic import JsonValue

from services.contracts.base import JsonSchema

Definitions = Mapping[str, JsonSchema]

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_DEPTH = 8
_LEVELS = 4
_MOST = 1_000


def resolved(schema: JsonValue, definitions: Definitions) -> JsonSchema:
    """The schema with references resolved, ``allOf`` merged, and the first non-null alternative merged in."""
    return _resolved(schema, definitions, [_MOST])


def _resolved(schema: JsonValue, definitions: Definitions, left: list[int]) -> JsonSchema:
    """``left`` holds how many more schemas may be visited, since a small schema can combine without end."""
    found = schema if isinstance(schema, dict) else {}
    for _ in range(_DEPTH):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            break
        target = definitions.get(reference.rpartition("/")[2].replace("~1", "/").replace("~0", "~"), {})
        found = {**target, **{key: value for key, value in found.items() if key != "$ref"}}
    for key in ("allOf", "oneOf", "anyOf"):
        branches = found.get(key)
        if isinstance(branches, list) and branches:
            found = _combined(found, key, branches, definitions, left)
    return found


def _combined(
    found: JsonSchema, key: str, branches: list[JsonValue], definitions: Definitions, left: list[int]
) -> JsonSchema:
    if key != "allOf":
        branches = [one for one in branches if one != {"type": "null"}][:1]
    merged: JsonSchema = {name: value for name, value in found.items() if name != key}
    properties = dict(members(merged.get("properties")))
    required = listed(merged.get("required"))
    for branch in branches:
        left[0] -= 1
        if left[0] < 0:
            break
        part = _resolved(branch, definitions, left)
        properties |= members(part.get("properties"))
        required = [*required, *listed(part.get("required"))]
        merged = {**part, **merged}
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def kinds_of(schema: JsonValue, definitions: Definitions, depth: int = 0) -> frozenset[str]:
    """The JSON types that a value may have; empty if not declared."""
    found = schema if isinstance(schema, dict) else {}
    declared = found.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(str(one) for one in declared)
    if depth > _LEVELS:
        return frozenset()
    reference = found.get("$ref")
    if isinstance(reference, str):
        return kinds_of(definitions.get(reference.rpartition("/")[2].replace("~1", "/")), definitions, depth + 1)
    kinds: frozenset[str] = frozenset()
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in listed(found.get(key))[:10]:
            kinds |= kinds_of(branch, definitions, depth + 1)
    if not kinds and "properties" in found:
        return frozenset({"object"})
    if not kinds and "items" in found:
        return frozenset({"array"})
    return kinds


def is_of(value: JsonValue, kind: str) -> bool:
    """Whether a value is of a JSON type; a number without a fraction is an integer."""
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, KINDS[kind])


def fits(value: JsonValue, kinds: frozenset[str]) -> bool:
    """Whether a value is of one of these types. True if no known type is declared."""
    known = [kind for kind in kinds if kind in KINDS]
    return not known or any(is_of(value, kind) for kind in known)


def members(value: JsonValue) -> dict[str, JsonValue]:
    """The members of an object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def listed(value: JsonValue) -> list[JsonValue]:
    """The elements of a list; empty for any other value."""
    return value if isinstance(value, list) else []


@lru_cache(maxsize=8192)
def plain(name: str) -> str:
    """A name without case and punctuation: ``petId`` and ``pet_id`` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=4096)
def singular(word: str) -> str:
    """A plain noun in the singular, by rough rules for English."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2 else word
