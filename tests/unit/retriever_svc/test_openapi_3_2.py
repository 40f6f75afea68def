"""OpenAPI 3.2 is read as 3.1; what is new is skipped or left out, and the import says so."""

import json
from typing import Any

from retriever_svc.importers import import_document

BODY: dict[str, Any] = {"content": {"application/json": {"$ref": "#/components/mediaTypes/Animal"}}}
SEARCH = {"name": "filter", "in": "querystring", "content": {"application/x-www-form-urlencoded": {"schema": {}}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.2.0",
    "$self": "https://zoo.example/openapi.json",
    "info": {"title": "Zoo", "version": "1"},
    "servers": [{"url": "https://zoo.example", "name": "live"}],
    "tags": [{"name": "cages", "kind": "nav", "parent": "zoo"}],
    "paths": {
        "/animals": {
            "post": {"operationId": "add", "requestBody": BODY, "responses": {"200": BODY}},
            "get": {"operationId": "list", "parameters": [SEARCH], "responses": {}},
            "query": {"operationId": "find", "responses": {}},
            "additionalOperations": {"LINK": {"operationId": "link", "responses": {}}},
        }
    },
    "components": {
        "mediaTypes": {
            "Animal": {
                "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            }
        }
    },
}


def test_it_is_read_as_3_1() -> None:
    found = import_document(json.dumps(DOCUMENT))
    assert found.format == "openapi-3.2"
    add, listed = sorted(found.apis, key=lambda api: api.id)
    assert [(one.name, one.required) for one in add.parameters] == [("name", True)]
    assert add.response.json_schema["required"] == ["name"]
    assert (listed.server, listed.parameters) == ("https://zoo.example", ())
    assert {one.operation for one in found.skipped} == {"QUERY /animals", "LINK /animals"}
    assert any("read as 3.1" in warning for warning in found.warnings)
    assert any("querystring" in warning and "left out" in warning for warning in found.warnings)


def test_a_body_whose_media_type_is_nowhere_is_skipped() -> None:
    body = {"content": {"application/json": {"$ref": "#/components/mediaTypes/None"}}}
    paths = {"/a": {"post": {"requestBody": body, "responses": {}}, "get": {"responses": {"200": body}}}}
    found = import_document(json.dumps({**DOCUMENT, "paths": paths}))
    assert [api.method for api in found.apis] == ["GET"]
    assert [one.operation for one in found.skipped] == ["POST /a"]
