"""Schemas of all three dialects in JSON Schema 2020-12, with the definitions they need and no more."""

from typing import Any

import pytest
from pydantic import JsonValue

from retriever_svc.importers import Limits, import_document
from retriever_svc.importers.keywords import plain_keywords
from retriever_svc.importers.patterns import Patterns
from services.contracts.api import Location, SecretKind, Style
from tests.unit.retriever_svc.documents import document, imported, operation, single


def read(schema: Any, version: str = "3.1.0", **components: Any) -> dict[str, Any]:
    """The schema of a query parameter, as imported."""
    parameter = {"name": "p", "in": "query", "schema": schema}
    api = single(operation(parameters=[parameter]), openapi=version, components={"schemas": components})
    return dict(api.parameters[0].json_schema)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"nullable": True, "allOf": [{"type": "string"}]},
         {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]}),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        ({"type": "number", "maximum": 9, "exclusiveMaximum": False}, {"type": "number", "maximum": 9}),
        ({"exclusiveMaximum": 9}, {"exclusiveMaximum": 9}),
        ({"type": "string", "example": "x", "xml": {"name": "y"}, "discriminator": {}},
         {"type": "string", "examples": ["x"]}),
        ({"type": ["string", "null", "nonsense"]}, {"type": ["string", "null"]}),
        ({"items": [{"type": "string"}, {"type": "integer"}]},
         {"prefixItems": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "integer", "enum": ["1", "2", "many"], "default": "1", "example": "2"},
         {"type": "integer", "enum": [1, 2, "many"], "default": 1, "examples": [2]}),
        ({"type": "boolean", "enum": ["True", "false"], "const": "true"},
         {"type": "boolean", "enum": [True, False], "const": True}),
        ({"type": ["number", "null"], "enum": ["1.5", None]}, {"type": ["number", "null"], "enum": [1.5, None]}),
        ({"type": "integer", "default": "1.5"}, {"type": "integer", "default": "1.5"}),
        ({"type": "string", "enum": ["1"]}, {"type": "string", "enum": ["1"]}),
        ({"pattern": "^a+$"}, {"pattern": "^a+$"}),
        ({"pattern": "("}, {}),
        ({"pattern": r"^\w+@\w+\\\\.com$", "example": "a@b.com"}, {"examples": ["a@b.com"]}),  # escaped once too often
        ({"pattern": "^a+$", "examples": ["b", "aa"]}, {"pattern": "^a+$", "examples": ["b", "aa"]}),
        ({"pattern": "^a+$", "example": "string"}, {"pattern": "^a+$", "examples": ["string"]}),
        ({"pattern": "^(?!b)a", "example": "b"}, {"pattern": "^(?!b)a", "examples": ["b"]}),  # nobody knows at once
        ({"pattern": "^(a+)+$", "example": "a" * 900 + "b"}, {"examples": ["a" * 900 + "b"]}),
        (True, {}),
        (False, {"not": {}}),
    ],
)  # fmt: skip
def test_dialects(written: Any, meant: dict[str, Any]) -> None:
    assert read(written) == meant


@pytest.mark.parametrize(
    "weird",
    [
        {"type": 7, "enum": "x", "required": True, "properties": [], "items": 3, "allOf": {}, "minimum": "2"},
        {"minLength": -1, "maxItems": 2.5, "multipleOf": 0, "pattern": 3, "format": [], "examples": {}, "oneOf": []},
        {"description": 3, "title": None, "additionalProperties": 3, "uniqueItems": "maybe"},
        [],
        "string",
        None,
    ],
)
def test_what_makes_no_sense_is_left_open(weird: Any) -> None:
    assert read(weird) == {}


def test_large_values_are_left_out() -> None:
    large: dict[str, JsonValue] = {"enum": list(range(5_000)), "default": "x" * 5_000, "examples": [1, 2, 3, 4]}
    assert plain_keywords(large, Patterns(lambda _: None)) == {"examples": [1, 2, 3]}


def test_only_reachable_definitions_are_kept_and_circles_are_fine() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    schema = {"$ref": "#/components/schemas/Node"}
    answer = {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}
    api = single(operation(responses=answer), components={"schemas": {"Node": node, "Other": {"type": "string"}}})
    assert api.response.json_schema == {"$ref": "#/$defs/Node"}
    assert dict(api.definitions) == {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"anyOf": [{"$ref": "#/components/schemas/B"}]}, "B": {"not": {"$ref": "#/components/schemas/A"}}},
        {"A": {"$ref": "#/components/schemas/A", "type": "string"}},
    ],
)
def test_a_circle_without_end_is_left_open(schemas: dict[str, Any]) -> None:
    parameter = {"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/A"}}
    result = imported(document({"/x": {"get": operation(parameters=[parameter])}}, components={"schemas": schemas}))
    (api,) = result.apis
    assert all(definition == {} for definition in api.definitions.values())
    assert result.warnings


def test_names_of_definitions_are_safe_and_unique() -> None:
    pointer = "#/components/schemas/List~1of%20things"
    twin = "#/components/schemas/List of things"
    parameters = [{"name": str(n), "in": "query", "schema": {"$ref": ref}} for n, ref in enumerate([pointer, twin])]
    schemas = {"List/of things": {"type": "string"}, "List of things": {"type": "integer"}}
    api = single(operation(parameters=parameters), components={"schemas": schemas})
    assert [api.definitions[str(p.json_schema["$ref"]).removeprefix("#/$defs/")]["type"] for p in api.parameters] == [
        "string",
        "integer",
    ]
    assert all(name.replace("_", "").isalnum() for name in api.definitions)


def test_a_missing_definition_is_left_open_and_said_so() -> None:
    parameter = {"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/Nope"}}
    result = imported(document({"/x": {"get": operation(parameters=[parameter])}}))
    assert result.apis[0].parameters[0].json_schema == {}
    assert any("Nope" in warning for warning in result.warnings)


def test_definitions_are_bounded_per_operation() -> None:
    schemas = {f"S{n}": {"properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(50)}
    parameter = {"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/S0"}}
    root = document({"/x": {"get": operation(parameters=[parameter])}}, components={"schemas": schemas | {"S50": {}}})
    result = imported(root, limits=Limits(definitions=10))
    assert len(result.apis[0].definitions) == 11
    assert result.apis[0].definitions["S10"] == {}
    assert any("left open" in warning for warning in result.warnings)


SWAGGER = """
swagger: '2.0'
info: {title: Old Zoo, version: '1'}
host: zoo.example
basePath: /api/
schemes: [http, https]
consumes: [application/json]
produces: [application/xml, application/json]
securityDefinitions:
  app: {type: oauth2, flow: application, tokenUrl: 'https://zoo.example/token', scopes: {r: read}}
  pw: {type: basic}
security: [{app: [r]}, {pw: []}]
definitions:
  Animal:
    type: object
    required: [name]
    properties: {name: {type: string}, friend: {$ref: '#/definitions/Animal'}, age: {type: integer, x-nullable: true}}
parameters:
  Page: {name: page, in: query, type: integer, default: 1, minimum: 1, exclusiveMinimum: false}
responses:
  Animals: {description: all, schema: {type: array, items: {$ref: '#/definitions/Animal'}}}
paths:
  /animals:
    parameters: [{$ref: '#/parameters/Page'}]
    get:
      operationId: listAnimals
      parameters:
        - {name: ids, in: query, type: array, items: {type: string}, collectionFormat: multi}
        - {name: tags, in: query, type: array, items: {type: string}, collectionFormat: pipes}
        - {name: kinds, in: query, type: array, items: {type: string}}
      responses: {'200': {$ref: '#/responses/Animals'}}
    post:
      operationId: addAnimal
      parameters: [{name: animal, in: body, required: true, schema: {$ref: '#/definitions/Animal'}}]
      responses: {'201': {description: made, schema: {$ref: '#/definitions/Animal'}}}
  /photos:
    post:
      operationId: addPhoto
      consumes: [multipart/form-data]
      parameters:
        - {name: photo, in: formData, type: file, required: true}
        - {name: tags, in: formData, type: array, items: {type: string}, collectionFormat: csv, description: words}
      responses: {'204': {description: stored}}
"""


def test_swagger_2() -> None:
    result = import_document(SWAGGER)
    assert (result.provider, result.format, result.skipped) == ("old-zoo", "swagger-2.0", ())
    apis = {api.name: api for api in result.apis}
    assert {api.server for api in apis.values()} == {"https://zoo.example/api"}
    listing = apis["listAnimals"]
    assert [(p.name, p.style, p.explode) for p in listing.parameters] == [
        ("page", Style.FORM, True),
        ("ids", Style.FORM, True),
        ("tags", Style.PIPE_DELIMITED, False),
        ("kinds", Style.FORM, False),
    ]
    assert listing.parameters[0].json_schema == {"type": "integer", "default": 1, "minimum": 1}
    assert listing.response.media_type == "application/json"
    assert listing.response.json_schema == {"type": "array", "items": {"$ref": "#/$defs/Animal"}}
    assert listing.definitions["Animal"]["properties"]["age"] == {"type": ["integer", "null"]}  # type: ignore[call-overload, index]
    kinds = [[r.kind for r in alternative] for alternative in listing.security]
    assert kinds == [[SecretKind.OAUTH2], [SecretKind.BASIC]]
    assert [(p.name, p.required) for p in apis["addAnimal"].parameters] == [
        ("page", False),
        ("name", True),
        ("friend", False),
        ("age", False),
    ]
    photo = apis["addPhoto"]
    assert photo.body is not None
    assert (photo.body.media_type, photo.response.status, photo.response.media_type) == (
        "multipart/form-data",
        204,
        None,
    )
    assert [(p.name, p.location, p.required, p.json_schema.get("format")) for p in photo.parameters] == [
        ("photo", Location.BODY, True, "binary"),
        ("tags", Location.BODY, False, None),
    ]
