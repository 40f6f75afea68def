"""NESTFUL: a list of APIs (NESTFUL: nested sequences of API calls, section 3), executable ones with an address.

Each is ``{"name", "description", "query_parameters": {name: {...}}, "output_parameters": {name: {...}}}``. Executable
ones add ``method``, ``host`` and ``endpoint``, and an ``output_parser`` such as ``result.data[0].{param}``: where an
output parameter is in the real response. ``url`` is a page for people and is not used.
"""

from __future__ import annotations

import re

from pydantic import JsonValue

from retriever_svc.importers.names import slug
from retriever_svc.importers.outline import Outline
from retriever_svc.importers.refs import JsonObject, SkipOperation, as_list, as_object
from retriever_svc.importers.tool_lists import DEFAULT_METHOD, answer, members, outline_tools, record, schema

FORMAT = "nestful"
_MARKS = ("query_parameters", "output_parameters", "output_parser")
_MAX_PARSER = 500
_MAX_STEPS = 20
_PARSER = re.compile(r"result(?P<steps>.*)\.\{param\}", re.DOTALL)
_OWN_WORDS = {"allowed_values": "enum", "default_value": "default"}
"""Keywords in the part that comes from the SGD dialogues."""
_STEP = re.compile(r"\[(?:\d+|\*)\]|\.\{\}|\.[^.\[\]{}]+")


def outline(root: JsonValue) -> Outline | None:
    """The outline of a list of APIs, or of a single one; None if the first is not a NESTFUL API."""
    tools: list[JsonValue] = root if isinstance(root, list) else [root]
    first = as_object(tools[0]) if tools else {}
    if "name" not in first or not any(mark in first for mark in _MARKS):
        return None
    return outline_tools(FORMAT, tools, "name", _read)


def _read(tool: JsonObject, name: str) -> tuple[str, str, JsonObject]:
    endpoint, method, host = tool.get("endpoint"), tool.get("method"), tool.get("host")
    path = endpoint if isinstance(endpoint, str) and endpoint.startswith("/") else f"/{slug(name)}"
    operation: JsonObject = {
        "description": tool.get("description"),
        "parameters": [_parameter(key, value, path) for key, value in members(tool, "query_parameters")],
    }
    outputs = {key: _schema(value) for key, value in members(tool, "output_parameters")}
    if outputs:
        operation["responses"] = answer(_place(tool.get("output_parser"), record(dict(outputs))))
    if isinstance(host, str) and host:
        operation["servers"] = [{"url": host if "://" in host else f"https://{host}"}]
    return path, method.lower() if isinstance(method, str) else DEFAULT_METHOD, operation


def _parameter(name: str, declared: JsonObject, path: str) -> JsonObject:
    needed = declared.get("required") is True or declared.get("optional") is False
    place = "path" if f"{{{name}}}" in path else "query"
    return {"name": name, "in": place, "required": needed, "schema": _schema(declared)}


def _schema(declared: JsonObject) -> JsonObject:
    renamed = {_OWN_WORDS.get(key, key): value for key, value in declared.items()}
    if not as_list(renamed.get("enum")):
        renamed.pop("enum", None)
    return schema(renamed)


def _place(parser: JsonValue, found: JsonObject) -> JsonObject:
    """The schema of the whole response, with the output parameters at the place that the parser names.

    Raises:
        SkipOperation: the parser's syntax is not known, so the response could not be read.
    """
    if parser is None:
        return found
    match = _PARSER.fullmatch(parser) if isinstance(parser, str) and len(parser) <= _MAX_PARSER else None
    steps = _STEP.findall(match["steps"]) if match else []
    if match is None or "".join(steps) != match["steps"] or len(steps) > _MAX_STEPS:
        raise SkipOperation(f"the output_parser is not understood: {str(parser)[:100]!r}")
    body = found
    for step in reversed(steps):
        if step.startswith("["):
            body = {"type": "array", "items": body}
        elif step == ".{}":  # any key
            body = {"type": "object", "additionalProperties": body}
        else:
            body = record({step[1:]: body})
    return body
