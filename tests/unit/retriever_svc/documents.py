"""Small OpenAPI documents to import."""

import json
from typing import Any

from retriever_svc.importers import Imported, import_document
from services.contracts.api import Api

OK = {"200": {"description": "fine", "content": {"application/json": {"schema": {"type": "object"}}}}}


def document(paths: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An OpenAPI 3.1 document of a service called Zoo."""
    base = {
        "openapi": "3.1.0",
        "info": {"title": "The Zoo", "version": "1"},
        "servers": [{"url": "https://zoo.example/v1/"}],
    }
    return base | members | {"paths": paths}


def operation(**members: Any) -> dict[str, Any]:
    """An operation that answers with some object."""
    return {"operationId": "op", "responses": OK} | members


def imported(root: dict[str, Any], **options: Any) -> Imported:
    """What importing this document as JSON gives."""
    return import_document(json.dumps(root), **options)


def single(operation: dict[str, Any], path: str = "/things", method: str = "get", **members: Any) -> Api:
    """The API made of one operation."""
    result = imported(document({path: {method: operation}}, **members))
    assert result.skipped == ()
    (api,) = result.apis
    return api


def skipped_reason(operation: dict[str, Any], path: str = "/things", **members: Any) -> str:
    """Why one operation is not imported."""
    result = imported(document({path: {"post": operation}}, **members))
    assert result.apis == ()
    return result.skipped[0].reason


def json_body(schema: Any, **members: Any) -> dict[str, Any]:
    """A JSON request body."""
    return {"content": {"application/json": {"schema": schema}}} | members
