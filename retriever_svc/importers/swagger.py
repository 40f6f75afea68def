"""Swagger 2.0: rewrites each operation in the form of OpenAPI 3, so that other modules handle one form only."""

from __future__ import annotations

from pydantic import JsonValue

from retriever_svc.importers.bodies import FORMS, choose_media_type
from retriever_svc.importers.limits import Notes
from retriever_svc.importers.parameters import parameter_list
from retriever_svc.importers.refs import (
    DanglingReference,
    Document,
    JsonObject,
    SkipOperation,
    as_list,
    as_object,
    is_true,
)

_COLLECTIONS: dict[str, JsonObject] = {
    "csv": {"style": "form", "explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"style": "form", "explode": True},
}
_NOT_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue"})


def upgrade_servers(root: JsonObject) -> list[JsonValue]:
    """The ``servers`` for `schemes`, `host` and `basePath`; https if it is offered or no scheme is stated."""
    host, base = root.get("host"), root.get("basePath")
    path = base if isinstance(base, str) and base.startswith("/") else ""
    if not isinstance(host, str) or not host:
        return [{"url": path}] if path else []
    schemes = [scheme for scheme in as_list(root.get("schemes")) if scheme in ("http", "https")]
    scheme = "https" if "https" in schemes or not schemes else "http"
    return [{"url": f"{scheme}://{host}{path}"}]


def sends_body_parameters(document: Document, shared: JsonValue, operation: JsonObject) -> bool:
    """Whether an operation of OpenAPI 3 describes its body with Swagger's `in: body` or `in: formData`."""
    for item in [*parameter_list(shared), *parameter_list(operation.get("parameters"))]:
        if document.deref_or_empty(item).get("in") in ("body", "formData"):
            return "requestBody" not in operation
    return False


def upgrade_operation(document: Document, notes: Notes, shared: JsonValue, operation: JsonObject) -> JsonObject:
    """The operation with `parameters` (including the path item's), `requestBody` and `responses` as in OpenAPI 3.

    Raises:
        SkipOperation: a parameter cannot be read.
    """
    merged: dict[tuple[str, str], JsonObject] = {}
    for item in [*parameter_list(shared), *parameter_list(operation.get("parameters"))]:
        parameter = document.deref_required(item, "a parameter")
        merged[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    consumes = _media_types(operation, document, "consumes")
    produces = _media_types(operation, document, "produces")
    upgraded = {key: value for key, value in operation.items() if key not in ("parameters", "requestBody", "responses")}
    form = [p for p in merged.values() if p.get("in") == "formData" and isinstance(p.get("name"), str)]
    body = next((p for p in merged.values() if p.get("in") == "body"), None)
    upgraded["parameters"] = [_parameter(notes, p) for p in merged.values() if p.get("in") not in ("body", "formData")]
    if body is not None:
        upgraded["requestBody"] = _body(body, consumes)
    elif form:
        upgraded["requestBody"] = _form(notes, form, consumes)
    upgraded["responses"] = {
        code: _response(document, notes, response, produces)
        for code, response in as_object(operation.get("responses")).items()
    }
    return upgraded


def _media_types(operation: JsonObject, document: Document, key: str) -> list[str]:
    declared = operation[key] if key in operation else document.root.get(key)
    document.count_steps(len(as_list(declared)))
    return [media_type for media_type in as_list(declared) if isinstance(media_type, str) and media_type]


def _schema(parameter: JsonObject) -> JsonObject:
    if isinstance(parameter.get("schema"), dict):
        return as_object(parameter["schema"])
    return {key: value for key, value in parameter.items() if key not in _NOT_SCHEMA}


def _collection(notes: Notes, parameter: JsonObject) -> JsonObject:
    if parameter.get("type") != "array":
        return {}
    name = parameter.get("collectionFormat", "csv")
    if isinstance(name, str) and name in _COLLECTIONS:
        return _COLLECTIONS[name]
    notes.warn(f"collectionFormat {str(name)[:40]!r} is not supported; csv is used")
    return _COLLECTIONS["csv"]


def _parameter(notes: Notes, parameter: JsonObject) -> JsonObject:
    kept: JsonObject = {key: parameter[key] for key in ("name", "in", "required", "description") if key in parameter}
    collection = _collection(notes, parameter)
    if parameter.get("in") in ("path", "header"):
        collection = {}  # always comma-separated there
    if "schema" in parameter or "content" in parameter:  # already as in OpenAPI 3
        return parameter
    return {**kept, **collection, "schema": _schema(parameter)}


def _body(parameter: JsonObject, consumes: list[str]) -> JsonObject:
    media_type = choose_media_type(consumes or ["application/json"])
    body: JsonObject = {"content": {media_type: {"schema": parameter.get("schema", {})}}}
    return body | {key: parameter[key] for key in ("required", "description") if key in parameter}


def _form(notes: Notes, parameters: list[JsonObject], consumes: list[str]) -> JsonObject:
    has_file = any(parameter.get("type") == "file" for parameter in parameters)
    media_type = next((form for form in FORMS if form in consumes), FORMS[0])
    media_type = FORMS[1] if has_file else media_type
    properties: JsonObject = {}
    encoding: JsonObject = {}
    for parameter in parameters:
        name = str(parameter["name"])
        properties[name] = _schema(parameter) | {k: parameter[k] for k in ("description",) if k in parameter}
        encoding[name] = dict(_collection(notes, parameter))
    required: list[JsonValue] = [p["name"] for p in parameters if is_true(p.get("required"))]
    schema: JsonObject = {"type": "object", "properties": properties, "required": required}
    return {"content": {media_type: {"schema": schema, "encoding": encoding}}, "required": bool(required)}


def _response(document: Document, notes: Notes, declared: JsonValue, produces: list[str]) -> JsonObject:
    try:
        response = as_object(document.deref(declared))
    except (DanglingReference, SkipOperation) as error:
        notes.warn(f"a response is left open: {error}")
        return {}
    content = as_object(response.get("content"))
    if "schema" in response:
        content = {choose_media_type(produces or ["application/json"]): {"schema": response["schema"]}}
    return {"description": response.get("description", ""), "content": content}
