"""Seal-Tools: ``tool.jsonl``, a list of functions (Seal-Tools, section 3.1).

Each is ``{"api_name", "api_description", "field", "parameters": {name: {"type", "description"}}, "required": [name],
"responses": {name: {"type", "description"}}}``. It does not describe HTTP: a tool becomes a POST with a JSON body to a
path with its name, on a server that the import request must name.
"""

from __future__ import annotations

from pydantic import JsonValue

from retriever_svc.importers.names import slug
from retriever_svc.importers.outline import Outline
from retriever_svc.importers.refs import JsonObject, as_list, as_object
from retriever_svc.importers.tool_lists import DEFAULT_METHOD, answer, members, outline_tools, record, schema

FORMAT = "seal-tools"


def outline(root: JsonValue) -> Outline | None:
    """The outline of a list of tools, or of a single one; None if the first is not a Seal-Tools tool."""
    tools: list[JsonValue] = root if isinstance(root, list) else [root]
    if not tools or "api_name" not in as_object(tools[0]):
        return None
    return outline_tools(FORMAT, tools, "api_name", _read)


def _read(tool: JsonObject, name: str) -> tuple[str, str, JsonObject]:
    inputs = {key: schema(value) for key, value in members(tool, "parameters")}
    outputs = {key: schema(value) for key, value in members(tool, "responses")}
    operation: JsonObject = {"description": tool.get("api_description"), "tags": [tool.get("field")]}
    if inputs:
        body = record(dict(inputs)) | {"required": as_list(tool.get("required"))}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if outputs:
        operation["responses"] = answer(record(dict(outputs)))
    return f"/{slug(name)}", DEFAULT_METHOD, operation
