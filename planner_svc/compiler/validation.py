"""Validators of untrusted JSON Schemas: nothing is fetched, and a validator's cost is bounded before it runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs
from pydantic import JsonValue

from planner_svc.compiler.nodes import Node, dict_of, leads_somewhere, list_of, target
from services.contracts.base import JsonSchema

VALIDATION_BUDGET: Final = 50_000
"""Most steps of checking one value. A step takes about 100 ns; one of a pattern (one character), up to 10 us."""
MAX_PATTERNS: Final = 50
"""Regular expressions in one validator."""
_REGEX_BYTES: Final = 1_000_000
"""Memory for all of them, and the same again for the automata built while matching."""
_MAX_REGEX_BYTES: Final = 400_000
"""Memory for one: a text of up to 255 characters of any kind takes 270,000."""
_MAX_VALUES: Final = 50_000
"""Most JSON values in the schemas of one validator. Each takes half a kilobyte, and 1 us to build."""
_VALUE_BYTES: Final = 500
_CHEAP: Final = 4
"""Listed values or names compared in one step."""
_REAPPLIED: Final = 3
"""How many times the schemas beside ``unevaluatedProperties`` and ``unevaluatedItems`` are applied; measured."""
_UNFOLLOWED: Final = frozenset({"$id", "$dynamicRef", "$recursiveRef"})
"""Keywords that lead, or make ``$ref`` lead, outside the definitions, so that the cost is unknown."""


def build_validator(node: Node) -> tuple[jsonschema_rs.Draft202012Validator | None, int]:
    """A validator that fetches nothing, and its size; None if the schema is broken or too large."""
    schema: Any = node.schema
    if isinstance(schema, dict) and (definitions := _reachable(schema, node.definitions)):
        schema = {**schema, "$defs": definitions}
    values, patterns = _extent(schema)
    if values > _MAX_VALUES or patterns > MAX_PATTERNS:
        return None, 1
    limit = min(_MAX_REGEX_BYTES, _REGEX_BYTES // max(patterns, 1))
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=limit, dfa_size_limit=limit),
        )
    except (ValueError, OverflowError, TypeError):
        return None, 1
    return validator, values + patterns * limit // _VALUE_BYTES


def cost_of(node: Node, value: JsonValue) -> int | None:
    """Steps to validate a value; None if there are too many, or the number is unknown.

    Applies the schema's structure without its assertions. Recursive definitions and doubling ``allOf`` chains take a
    validator exponential time (measured: 40 levels of two take hours), and it has no timeout.
    """
    waiting: list[tuple[JsonValue, JsonValue]] = [(node.schema, value)]
    steps = 0
    while waiting:
        schema, instance = waiting.pop()
        steps += 1
        if isinstance(schema, dict):
            if schema.keys() & _UNFOLLOWED or not leads_somewhere(schema.get("$ref"), node.definitions):
                return None
            steps += _own_steps(schema, instance)
            waiting.extend(itertools.islice(_applied(schema, instance, node.definitions), VALIDATION_BUDGET))
        if steps + len(waiting) > VALIDATION_BUDGET:
            return None
    return steps


def _extent(schema: JsonValue) -> tuple[int, int]:
    """The number of values and regular expressions in a schema; counting stops above the limit of a validator."""
    waiting: list[JsonValue] = [schema]
    values = patterns = 0
    while waiting and values <= _MAX_VALUES:
        part = waiting.pop()
        values += 1
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            patterns += isinstance(part.get("pattern"), str) + len(dict_of(part.get("patternProperties")))
    return values, patterns


def _reachable(schema: JsonValue, definitions: Mapping[str, JsonSchema]) -> dict[str, JsonSchema]:
    """The definitions that a schema needs, so that a validator is not built over all of them."""
    found: dict[str, JsonSchema] = {}
    waiting: list[JsonValue] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                name = reference.removeprefix("#/$defs/").split("/")[0].replace("~1", "/").replace("~0", "~")
                if name in definitions and name not in found:
                    found[name] = definitions[name]
                    waiting.append(definitions[name])
    return found


def _own_steps(schema: JsonSchema, value: JsonValue) -> int:
    """The steps of a schema's own assertions: patterns read texts, and lists of values are compared."""
    listed = len(list_of(schema.get("enum"))) + ("const" in schema)
    steps = listed * _count(value) // _CHEAP if listed else 0
    if isinstance(value, str):
        steps += len(value) * ("pattern" in schema)
    elif isinstance(value, list) and schema.get("uniqueItems") is True:
        steps += _count(value)  # items are compared by all that they hold
    elif isinstance(value, dict):
        patterned = len(dict_of(schema.get("patternProperties")))
        steps += sum(map(len, value)) * patterned * 2 if patterned else 0  # twice, because of additionalProperties
        steps += len(list_of(schema.get("required"))) + len(dict_of(schema.get("properties"))) // _CHEAP
        steps += sum(1 + len(list_of(names)) for names in dict_of(schema.get("dependentRequired")).values())
    elif isinstance(value, int | float) and "multipleOf" in schema:
        steps += _digits(value) + _digits(schema["multipleOf"])
    return steps


def _count(value: JsonValue) -> int:
    """The number of values inside a value, including itself."""
    waiting, count = [value], 0
    while waiting:
        part = waiting.pop()
        count += 1
        waiting += part.values() if isinstance(part, dict) else list_of(part)
    return count


def _digits(number: JsonValue) -> int:
    """Approximate binary digits of a number: the time of decimal division is proportional to them."""
    if isinstance(number, int):
        return number.bit_length()
    return abs(math.frexp(number)[1]) if isinstance(number, float) else 0


def _applied(
    schema: JsonSchema, value: JsonValue, definitions: Mapping[str, JsonSchema]
) -> Iterator[tuple[JsonValue, JsonValue]]:
    for _ in range(_REAPPLIED if schema.keys() & {"unevaluatedProperties", "unevaluatedItems"} else 1):
        yield from ((part, value) for part in _in_place(schema, definitions))
    if isinstance(value, dict):
        properties = dict_of(schema.get("properties"))
        patterns = list(dict_of(schema.get("patternProperties")).values())
        general = [schema.get(key) for key in ("additionalProperties", "unevaluatedProperties")]
        names = schema.get("propertyNames")
        for name, item in value.items():
            yield from ((part, item) for part in [properties.get(name), *patterns, *general] if part is not None)
            if names is not None:
                yield names, name
    elif isinstance(value, list):
        prefix = list_of(schema.get("prefixItems"))
        general = [schema.get(key) for key in ("items", "contains", "unevaluatedItems")]
        yield from zip(prefix, value, strict=False)
        yield from ((part, item) for item in value for part in general if part is not None)


def _in_place(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> Iterator[JsonValue]:
    """The schemas that apply to the same value."""
    if isinstance(reference := schema.get("$ref"), str):
        yield target(reference, definitions)
    for key in ("allOf", "anyOf", "oneOf"):
        yield from list_of(schema.get(key))
    yield from (schema[key] for key in ("not", "if", "then", "else") if key in schema)
    yield from dict_of(schema.get("dependentSchemas")).values()
