"""Converts one schema object from OpenAPI 3.0 and Swagger 2.0 to JSON Schema 2020-12, keyword by keyword.

Keywords that are not JSON Schema (``discriminator``, ``xml``, ``x-...``), or that have a value of the wrong type, are
dropped. The schema then allows more than its author meant, but nothing of it changes its meaning.
"""

from __future__ import annotations

import orjson
from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_FIELD_DESCRIPTION, MAX_NAME
from retriever_svc.importers.patterns import Patterns
from retriever_svc.importers.refs import JsonObject, as_list, as_text, is_true

# Tuples where the code iterates: the output must not depend on the order of a set.
SUBSCHEMA = (
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)
SUBSCHEMA_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
SUBSCHEMA_MAP = ("properties", "patternProperties", "dependentSchemas")
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords that apply to the same value, not to a part of it. Circular references through them never end."""

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_NUMBERS = ("minimum", "maximum")
_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_FLAGS = ("uniqueItems", "deprecated", "readOnly", "writeOnly")
_MAX_ENUM = 1_000
_MAX_EXAMPLES = 3
_MAX_LOOKED_AT = 20
_MAX_VALUE_BYTES = 1_000


def plain_keywords(schema: JsonObject, patterns: Patterns) -> JsonObject:
    """All keywords without subschemas, in their 2020-12 form. ``patterns`` are the document's."""
    out: JsonObject = {}
    _copy_type(schema, out)
    _copy_bounds(schema, out)
    _copy_values(schema, out)
    for key in _COUNTS:
        value = schema.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            out[key] = value
    for key in _FLAGS:
        if is_true(schema.get(key)):
            out[key] = True
    title, description = (
        as_text(schema.get("title"), MAX_NAME),
        as_text(schema.get("description"), MAX_FIELD_DESCRIPTION),
    )
    out |= {key: text for key, text in (("title", title), ("description", description)) if text}
    for key in ("format", "contentMediaType", "contentEncoding"):
        if text := as_text(schema.get(key), MAX_NAME):
            out[key] = text
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and patterns.allow(pattern, _texts(out.get("examples"))):
        out["pattern"] = pattern
    return out


def _texts(examples: JsonValue) -> list[str]:
    """The texts among the examples, without the type's name, which generators write if there is no example."""
    return [example for example in as_list(examples) if isinstance(example, str) and example not in ("", "string")]


def make_nullable(schema: JsonObject) -> JsonObject:
    """The schema or null, which is what ``nullable: true`` means in OpenAPI 3.0."""
    if "enum" in schema and None not in as_list(schema["enum"]):
        schema = {**schema, "enum": [*as_list(schema["enum"]), None]}
    kind = schema.get("type")
    if isinstance(kind, str) and not (IN_PLACE & schema.keys()):
        return schema if kind == "null" else {**schema, "type": [kind, "null"]}
    if isinstance(kind, list) and not (IN_PLACE & schema.keys()):
        return schema if "null" in kind else {**schema, "type": [*kind, "null"]}
    if kind is None and not ((IN_PLACE | {"$ref", "const"}) & schema.keys()):
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def _copy_type(schema: JsonObject, out: JsonObject) -> None:
    kind = schema.get("type")
    if kind == "file":  # Swagger 2.0
        out |= {"type": "string", "format": "binary"}
    elif isinstance(kind, str) and kind in _TYPES:
        out["type"] = kind
    elif isinstance(kind, list):
        known: list[JsonValue] = [
            name for name in dict.fromkeys(k for k in kind if isinstance(k, str)) if name in _TYPES
        ]
        if known:
            out["type"] = known[0] if len(known) == 1 else known


def _copy_bounds(schema: JsonObject, out: JsonObject) -> None:
    """Copy ranges. In OpenAPI 3.0 ``exclusiveMinimum`` is a flag on ``minimum``."""
    for key in _NUMBERS:
        exclusive = f"exclusive{key.capitalize()}"
        bound, flag = schema.get(key), schema.get(exclusive)
        if _is_number(bound):
            out[exclusive if flag is True else key] = bound
        if _is_number(flag):
            out[exclusive] = flag
    step = schema.get("multipleOf")
    if isinstance(step, (int, float)) and not isinstance(step, bool) and step > 0:
        out["multipleOf"] = step


def _copy_values(schema: JsonObject, out: JsonObject) -> None:
    """Copy ``enum``, ``const``, ``default`` and examples, unless they are too large."""
    enum = schema.get("enum")
    if isinstance(enum, list) and 0 < len(enum) <= _MAX_ENUM and all(map(_is_small, enum)):
        out["enum"] = [value for at, value in enumerate(enum) if value not in enum[:at]] if len(enum) < 100 else enum
    for key in ("const", "default"):
        if key in schema and _is_small(schema[key]):
            out[key] = schema[key]
    examples = as_list(schema.get("examples"))[:_MAX_LOOKED_AT]
    examples = [*examples, *([schema["example"]] if "example" in schema else [])]
    if small := [value for value in examples if _is_small(value)][:_MAX_EXAMPLES]:
        out["examples"] = small
    out |= typed_values(out)


def typed_values(schema: JsonObject) -> JsonObject:
    """``enum``, ``const``, ``default`` and examples, converted from texts to the schema's type.

    Authors quote numbers by mistake: taken literally, ``type: integer, enum: ["1", "2"]`` allows nothing.
    """
    kinds = [kind for kind in as_list(schema.get("type")) or [schema.get("type")] if kind != "null"]
    if len(kinds) != 1 or kinds[0] not in ("integer", "number", "boolean"):
        return {}
    found: JsonObject = {key: _typed(schema[key], kinds[0]) for key in ("const", "default") if key in schema}
    for key in ("enum", "examples"):
        if key in schema:
            found[key] = [_typed(value, kinds[0]) for value in as_list(schema[key])]
    return found


def _typed(value: JsonValue, kind: JsonValue) -> JsonValue:
    """A text as the number or boolean that it represents; any other value unchanged."""
    if not isinstance(value, str):
        return value
    if kind == "boolean":
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    try:
        number = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return number if _is_number(number) and (kind == "number" or isinstance(number, int)) else value


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_small(value: JsonValue) -> bool:
    """Whether a value is short as JSON. A large one is not serialised to find out, since it may be used very often."""
    if isinstance(value, str):
        return len(value) <= _MAX_VALUE_BYTES
    if isinstance(value, (dict, list)):
        pending, items = [value], 0
        while pending:
            part = pending.pop()
            items += 1 + len(part)
            if items > _MAX_VALUE_BYTES:
                return False
            inner = [*part, *part.values()] if isinstance(part, dict) else part
            if any(isinstance(item, str) and len(item) > _MAX_VALUE_BYTES for item in inner):
                return False
            pending.extend(item for item in inner if isinstance(item, (dict, list)))
        return len(orjson.dumps(value)) <= _MAX_VALUE_BYTES
    return True
