"""Helpers to write hostile documents, with the expected result of their import."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024
OK = {"200": {"description": "fine"}}
REFERENCES = {
    "file": "file:///etc/passwd",
    "relative": "../../../../etc/passwd",
    "sibling": "common.yaml#/components/schemas/A",
    "https": "https://evil.example/schema.json",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "protocol-relative": "//evil.example/x.json",
    "ftp": "ftp://evil.example/x",
    "data": "data:application/json,{}",
    "unc": "\\\\evil.example\\share\\x.json",
    "encoded": "%66ile:///etc/passwd",
    "query": "?x=#/components/schemas/A",
    "empty": "",
}


@dataclass(frozen=True, slots=True)
class Hostile:
    """A document and the expected result of its import.

    Attributes:
        make: makes the text, or bytes that are not valid text.
        refused: a part of the refusal's message; None if the document is imported.
        apis: the number of imported operations; None if any number is right.
        skipped: the number of skipped operations.
        is_text: False for bytes that are not valid text; these can only arrive over HTTP.
    """

    make: Callable[[], str | bytes]
    refused: str | None = None
    apis: int | None = 0
    skipped: int = 0
    is_text: bool = True


def operation(**members: Any) -> dict[str, Any]:
    """An operation with these members and a response."""
    return {"operationId": "op", "responses": OK} | members


def openapi(paths: Any, **members: Any) -> dict[str, Any]:
    """An OpenAPI document."""
    base = {"openapi": "3.1.0", "info": {"title": "Hostile"}, "servers": [{"url": "https://zoo.example"}]}
    return base | {"paths": paths} | members


def one(members: dict[str, Any], **root: Any) -> str:
    """A document with one POST operation."""
    return json.dumps(openapi({"/x": {"post": operation(**members)}}, **root))


def answers(schema: Any) -> dict[str, Any]:
    """Members of an operation whose response has this schema."""
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


def takes(schema: Any) -> dict[str, Any]:
    """Members of an operation whose body has this schema."""
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


def components(**schemas: Any) -> dict[str, Any]:
    """Schemas by name."""
    return {"schemas": schemas}


def ref(name: str) -> dict[str, str]:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def nested(levels: int, step: Callable[[Any], Any]) -> Any:
    """A schema nested to this depth."""
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = step(schema)
    return schema
