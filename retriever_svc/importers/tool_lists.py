"""The common part of tool lists that benchmarks publish: functions instead of HTTP operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pydantic import JsonValue

from retriever_svc.importers.names import slug
from retriever_svc.importers.outline import METHODS, Entry, Outline
from retriever_svc.importers.refs import JsonObject, SkipOperation, as_object

DEFAULT_METHOD = "post"
"""For tools that state none: a call may change something, so it waits for an approval."""

_TYPES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "dict": "object",
}
"""Type names of programming languages and their JSON Schema types; names of JSON Schema are not changed."""
_LIST_OF = re.compile(r"(?:list|array|tuple|set)\[(\w+)\]")

Reader = Callable[[JsonObject, str], tuple[str, str, JsonObject]]
"""Reads one tool, given its name: path, method and operation."""


def outline_tools(form: str, tools: list[JsonValue], name_key: str, read: Reader) -> Outline:
    """The outline of a list of tools.

    Args:
        form: the format; it also names the provider, since such lists have no title.
        tools: the list.
        name_key: the member that holds a tool's name.
        read: reads one tool; it may raise SkipOperation.
    """
    entries = [_entry(number, tool, name_key, read) for number, tool in enumerate(tools, start=1)]
    return Outline(form, form, {}, entries, is_titled=False)


def _entry(number: int, declared: JsonValue, name_key: str, read: Reader) -> Entry:
    tool = as_object(declared)
    name = tool.get(name_key)
    path = slug(name) if isinstance(name, str) else ""
    if not path or not isinstance(name, str):
        return Entry(f"tool {number}", "*", {}, SkipOperation(f"the tool has no usable `{name_key}`"))
    try:
        path, method, operation = read(tool, name)
    except SkipOperation as skip:
        return Entry(f"/{path}", "*", {}, skip)
    if method not in METHODS:
        return Entry(path, "*", {}, SkipOperation(f"the method {method[:40]!r} is not imported"))
    return Entry(path, method, {}, {"operationId": name, **operation})


def members(tool: JsonObject, key: str) -> Iterator[tuple[str, JsonObject]]:
    """Name and declaration of each parameter or output.

    Raises:
        SkipOperation: the member ``key`` is not an object.
    """
    declared = tool.get(key)
    if declared is not None and not isinstance(declared, dict):
        raise SkipOperation(f"`{key}` is not an object")
    for name, value in as_object(declared).items():
        yield name, {"type": value} if isinstance(value, str) else as_object(value)


def schema(declared: JsonValue) -> JsonObject:
    """A declaration, whose types may have names of programming languages, as a JSON Schema."""
    out = dict(as_object(declared))
    out.pop("required", None) if isinstance(out.get("required"), bool) else None
    kind = out.get("type")
    if isinstance(kind, str):
        out |= _type(kind.strip().lower())
    if isinstance(out.get("items"), dict):
        out["items"] = schema(out["items"])
    if isinstance(out.get("properties"), dict):
        out["properties"] = {name: schema(value) for name, value in as_object(out["properties"]).items()}
    return out


def answer(body: JsonObject) -> JsonObject:
    """The ``responses`` of an operation that returns this schema."""
    return {"200": {"content": {"application/json": {"schema": body}}}}


def record(properties: dict[str, JsonValue]) -> JsonObject:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties}


def _type(kind: str) -> JsonObject:
    inner = _LIST_OF.fullmatch(kind)
    if inner:
        return {"type": "array", "items": _type(inner[1])}
    if kind.startswith("date"):  # "Date (yyyy-mm-dd)"
        return {"type": "string", "format": "date-time" if kind.startswith("datetime") else "date"}
    return {"type": _TYPES.get(kind, kind)}
