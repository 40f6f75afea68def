"""Bounds the size of one API, which every search that finds it passes on in full."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

MAX_API_BYTES: Final = 256_000
"""Most bytes of an API as JSON in ASCII, as it is stored."""
_REFERENCE = re.compile(r'"\$ref":"#/\$defs/([^"]+)"')


def opened(document: bytes, most: int = MAX_API_BYTES) -> tuple[bytes, tuple[str, ...]]:
    """The API with schemas left open until it is small enough, and which of its parts these are.

    Args:
        document: the API as JSON.
        most: most bytes of the JSON.

    Returns:
        JSON in ASCII, and the parts. If it is still larger with all parts left open, leaving more out would make it
        another operation.
    """
    if len(document) <= most:
        return document, ()
    api, left_open = orjson.loads(document), list[str]()
    for part, leave_open in _PARTS.items():
        leave_open(api)
        api["definitions"] = _still_used(api)
        left_open.append(part)
        document = json.dumps(api, separators=(",", ":")).encode()
        if len(document) <= most:
            break
    return document, tuple(left_open)


def _open_response(api: dict[str, Any]) -> None:
    if "response" in api:
        api["response"]["json_schema"] = {}


def _open_body(api: dict[str, Any]) -> None:
    for parameter in api.get("parameters", ()):
        if parameter["location"] == "body":
            parameter["json_schema"] = {}


def _open_parameters(api: dict[str, Any]) -> None:
    for parameter in api.get("parameters", ()):
        parameter["json_schema"] = {}


def _drop_descriptions(api: dict[str, Any]) -> None:
    for parameter in api.get("parameters", ()):
        parameter["description"] = ""


_PARTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "the response": _open_response,
    "the body": _open_body,
    "the parameters": _open_parameters,
    "the descriptions of parameters": _drop_descriptions,
}


def _still_used(api: dict[str, Any]) -> dict[str, Any]:
    """The definitions that parameters or the response refer to, directly or through others."""
    definitions = api.get("definitions", {})
    pending, used = [api.get("parameters"), api.get("response")], dict[str, Any]()
    while pending:
        for name in _REFERENCE.findall(json.dumps(pending.pop(), separators=(",", ":"))):
            if name in definitions and name not in used:
                used[name] = definitions[name]
                pending.append(definitions[name])
    return {name: schema for name, schema in definitions.items() if name in used}
