"""Schemas inferred from examples, for documents that show values instead of declaring types."""

from __future__ import annotations

import re

from pydantic import JsonValue

from retriever_svc.importers.refs import JsonObject

_MAX_EXAMPLE = 200
_MAX_DEPTH = 12
_MAX_MEMBERS = 200
_MAX_ITEMS = 10
"""Elements of a list that are read. Their members are merged, since each may have others."""

_PLACEHOLDERS: dict[str, JsonObject] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "long": {"type": "integer"},
    "number": {"type": "number"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "email": {"type": "string", "format": "email"},
    "uri": {"type": "string", "format": "uri"},
}
"""What Postman writes in place of values when it converts an OpenAPI document to a collection: ``<integer>``."""

_SECRET = re.compile(
    r"token|secret|passw|pwd|api[-_ ]?key|private[-_ ]?key|access[-_ ]?key|auth|credential|signature|session|cookie",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a value with this name may be a secret that must not be stored. In doubt, the answer is yes."""
    return _SECRET.search(name) is not None


def schema_of(value: JsonValue, name: str = "", depth: int = 0) -> JsonObject:
    """The schema of a JSON value: its type, its members, and short values as examples, but never secrets.

    No member is required, since an example does not show that. Null and values that are too deep allow anything.
    """
    if depth > _MAX_DEPTH or value is None:
        return {}
    if isinstance(value, dict):
        members = list(value.items())[:_MAX_MEMBERS]
        return {"type": "object", "properties": {key: schema_of(inner, key, depth + 1) for key, inner in members}}
    if isinstance(value, list):
        return {"type": "array", "items": _common([schema_of(one, name, depth + 1) for one in value[:_MAX_ITEMS]])}
    if isinstance(value, str):
        return text_schema(value, name)
    kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "number"
    return {"type": kind, **_example(value, name)}


def text_schema(value: str, name: str) -> JsonObject:
    """The schema of an example that is text."""
    placeholder = _PLACEHOLDERS.get(value.strip("<>").replace("-", "").lower()) if value[:1] == "<" else None
    if placeholder is not None:
        return dict(placeholder)
    return {"type": "string", **_example(value, name)}


def _example(value: JsonValue, name: str) -> JsonObject:
    is_long = isinstance(value, str) and not 0 < len(value) <= _MAX_EXAMPLE
    is_variable = isinstance(value, str) and "{{" in value
    return {} if is_secret(name) or is_long or is_variable else {"example": value}


def _common(schemas: list[JsonObject]) -> JsonObject:
    """The common schema of a list's elements: their type, and for objects all members that were seen."""
    kinds = {str(schema.get("type")) for schema in schemas if schema}
    if len(kinds) != 1:
        return {"type": "number"} if kinds == {"integer", "number"} else {}
    first = next(schema for schema in schemas if schema)
    if first.get("type") != "object":
        return first
    properties: JsonObject = {}
    for schema in schemas:
        members = schema.get("properties")
        for name, member in members.items() if isinstance(members, dict) else ():
            properties[name] = properties.get(name) or member
    return {**first, "properties": properties}
