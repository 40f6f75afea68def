"""Converts a catalogue of benchmark data to documents to import: one OpenAPI document per provider."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from services.contracts.api import Api, Location

_SERVER = "https://bench.example"


def documents(apis: Iterable[Api]) -> dict[str, str]:
    """OpenAPI 3.1 documents by the name of their provider."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for api in apis:
        name = re.sub("[^a-z0-9]+", "-", api.provider.lower()).strip("-")[:90] or "none"
        paths = next(paths for paths in _parts(found, name) if api.method.lower() not in paths.get(api.path, {}))
        paths.setdefault(api.path, {})[api.method.lower()] = _operation(api)
    return {name: _document(name, paths) for name, paths in found.items()}


def _parts(found: dict[str, dict[str, Any]], name: str) -> Iterable[dict[str, Any]]:
    """The provider's paths, then those of additional providers for operations with the same path and method."""
    yield found[name]
    for number in range(2, 1_000):
        yield found[f"{name}-{number}"]


def _document(name: str, paths: dict[str, Any]) -> str:
    head = {"openapi": "3.1.0", "info": {"title": name, "version": "1"}, "servers": [{"url": _SERVER}]}
    return json.dumps(head | {"paths": paths})


def _operation(api: Api) -> dict[str, Any]:
    body = [parameter for parameter in api.parameters if parameter.location is Location.BODY]
    members = {p.name: p.json_schema | {"description": p.description} for p in body}
    required = [p.name for p in body if p.required]
    operation: dict[str, Any] = {
        "operationId": api.name,
        "description": api.description,
        "tags": list(api.tags),
        "parameters": [
            {"name": p.name, "in": p.location, "required": p.required or p.location is Location.PATH}
            | {"description": p.description, "schema": p.json_schema}
            for p in api.parameters
            if p.location is not Location.BODY
        ],
        "responses": {"200": {"description": "", "content": _json(api.response.json_schema)}},
    }
    if members:
        schema = {"type": "object", "properties": members, "required": required}
        operation["requestBody"] = {"content": _json(schema)}
    return operation


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
