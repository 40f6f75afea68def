"""The OpenAPI 3.1 document of the sandbox: FastAPI's document with additions that FastAPI does not support."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sandbox.errors import PROBLEM_JSON, Problem, problems
from sandbox.security import TOKEN_PATH

_METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/{model}"


def build_document(app: FastAPI) -> dict[str, Any]:
    """The document without `servers`."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        license_info=app.license_info,
    )
    schemas = document["components"]["schemas"]
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    problem = Problem.model_json_schema(ref_template=_REF)
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    for operation in _operations(document):
        operation["description"] = " ".join(operation["description"].split())
        _document_problems(operation)
        for parameter in operation.get("parameters", ()):
            _tidy_parameter(parameter)
    return document


def with_server(document: dict[str, Any], url: str) -> dict[str, Any]:
    """A copy of the document that names the server it is served from."""
    base = url.rstrip("/")
    served = copy.copy(document)
    served["servers"] = [{"url": base, "description": "This sandbox."}]
    served["components"] = copy.deepcopy(document["components"])
    served["components"]["securitySchemes"]["oauth2"]["flows"]["clientCredentials"]["tokenUrl"] = base + TOKEN_PATH
    return served


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document["paths"].values():
        yield from (item[method] for method in _METHODS if method in item)


def _document_problems(operation: dict[str, Any]) -> None:
    """Add the problems that an operation may answer: validation, unreadable bodies, missing credentials."""
    responses = operation["responses"]
    if "422" in responses and PROBLEM_JSON not in responses["422"].get("content", {}):
        responses["422"] = problems(422)[422] | {"description": "The request is not valid; `errors` says where."}
    if "requestBody" in operation and "422" in responses:
        responses |= {str(key): value for key, value in problems(400, 413).items()}
    if operation.get("security"):
        responses |= {str(key): value for key, value in problems(401).items()}
        if any(scopes for scheme in operation["security"] for scopes in scheme.values()):
            responses |= {str(key): value for key, value in problems(403).items()}
    operation["responses"] = dict(sorted(responses.items()))


def _tidy_parameter(parameter: dict[str, Any]) -> None:
    """Remove null, which no parameter can send, and move `x-explode: false` from the schema to `explode`."""
    schema = parameter["schema"]
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        del schema["anyOf"]
        parameter["schema"] = schema = options[0] | schema
    schema.pop("title", None)
    if schema.pop("x-explode", True) is False:
        parameter |= {"style": "form", "explode": False}
