"""The alternatives of a JSON Schema: references and combinators resolved, within a budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import dict_of, list_of, target
from services.contracts.base import JsonSchema

KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""JSON's types. ``number`` means one with a fraction, so a schema's ``number`` is ``{"integer", "number"}``."""
MAX_BRANCHES: Final = 64
EXPANSION_BUDGET: Final = 2_000

Branch = tuple[JsonSchema, ...]
"""Flat schemas that apply together: one alternative of a schema."""


class OverBudget(Exception):
    """A schema is too expensive to expand."""


def expand(
    schema: JsonValue, definitions: Mapping[str, JsonSchema], seen: frozenset[str], spent: Iterator[int]
) -> list[Branch]:
    """The alternatives of a schema; empty if the schema allows nothing.

    Args:
        schema: as in the document.
        definitions: the targets of ``#/$defs/NAME``.
        seen: references on the way here, which are not followed again.
        spent: counts the schemas expanded.

    Raises:
        OverBudget: there are too many schemas or alternatives.
    """
    if next(spent) > EXPANSION_BUDGET:
        raise OverBudget
    if schema is False:
        return []
    if not isinstance(schema, dict) or not schema:
        return [()]
    factors: list[list[Branch]] = [[(schema,)]]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        factors.append(expand(target(reference, definitions), definitions, seen | {reference}, spent))
    factors += [expand(part, definitions, seen, spent) for part in list_of(schema.get("allOf"))]
    for key in ("anyOf", "oneOf"):
        if parts := list_of(schema.get(key)):
            factors.append([branch for part in parts for branch in expand(part, definitions, seen, spent)])
    if math.prod(len(factor) for factor in factors) > MAX_BRANCHES:
        raise OverBudget
    return [tuple(itertools.chain.from_iterable(combination)) for combination in itertools.product(*factors)]


def size_of(branches: list[Branch]) -> int:
    """The cost of checking the branches: the number of schemas and of entries in their lists and objects."""
    schemas = (schema for branch in branches for schema in branch)
    return sum(1 + sum(len(held) for held in schema.values() if isinstance(held, list | dict)) for schema in schemas)


def members_of(branch: Branch, name: str, strict: bool) -> list[JsonValue] | None:
    """The schemas that a member must satisfy; None if there is no such member."""
    found: list[JsonValue] = []
    others: list[JsonValue] = []
    closed = listed = opened = False
    for schema in branch:
        properties = dict_of(schema.get("properties"))
        if name in properties:
            found.append(properties[name])
            continue
        extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        closed |= extra is False
        opened |= extra is True or "patternProperties" in schema
        listed |= bool(properties)
        if isinstance(extra, dict):
            others.append(extra)
    if found:
        return found
    if closed or (strict and listed and not opened and not others):
        return None
    return others


def items_of(branch: Branch, index: int) -> list[JsonValue] | None:
    """The schemas that an item must satisfy; None if there is no such item."""
    found: list[JsonValue] = []
    for schema in branch:
        prefix = list_of(schema.get("prefixItems"))
        longest = schema.get("maxItems")
        items = prefix[index] if 0 <= index < len(prefix) else schema.get("items")
        if index < 0 or items is False or (isinstance(longest, int) and index >= longest):
            return None
        if isinstance(items, dict):
            found.append(items)
    return found


def branch_kinds(branch: Branch) -> frozenset[str]:
    """The JSON types that one alternative allows. Without ``type``, keywords of objects and lists decide."""
    kinds = KINDS
    typed = False
    for schema in branch:
        names = schema.get("type")
        if names is not None:
            typed = True
            kinds &= _named_kinds(names)
        if "const" in schema or isinstance(schema.get("enum"), list):
            typed = True
            kinds &= frozenset(kind_of(value) for value in listed_in(schema))
    if not typed:
        if any(key in schema for schema in branch for key in ("properties", "additionalProperties", "required")):
            return frozenset({"object"})
        if any(key in schema for schema in branch for key in ("items", "prefixItems")):
            return frozenset({"array"})
    return kinds


def kind_of(value: JsonValue) -> str:
    """The JSON type of a value, in the terms of ``KINDS``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "integer" if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else "number"


def listed_in(schema: JsonSchema) -> list[JsonValue]:
    """The values that ``const`` or ``enum`` allow; empty if there is neither."""
    return [schema["const"]] if "const" in schema else list_of(schema.get("enum"))


def _named_kinds(names: JsonValue) -> frozenset[str]:
    found = {name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)}
    if "number" in found:
        found.add("integer")
    return frozenset(found) & KINDS if found & KINDS else KINDS
