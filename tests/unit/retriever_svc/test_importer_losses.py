"""What real documents write beside the rules, and what of it must not be lost."""

import json
import subprocess
import sys
from typing import Any

import pytest

from retriever_svc.importers import import_document
from services.contracts.api import Api, Location
from tests.unit.retriever_svc.documents import document, imported, json_body, operation, single

THING = {"type": "object", "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}}}
COMPONENTS = {"schemas": {"Thing": THING}}


def arguments(api: Api) -> dict[str, bool]:
    """Names of the parameters, and whether each is required."""
    return {parameter.name: parameter.required for parameter in api.parameters}


@pytest.mark.parametrize(
    "schema",
    [
        THING | {"required": ["id", "name"]},
        {"allOf": [{"$ref": "#/components/schemas/Thing"}, {"required": ["id", "name"]}]},
        {"allOf": [{"$ref": "#/components/schemas/Thing"}], "required": ["id", "name"]},
        {"type": "object", "required": ["id", "name"],
         "properties": {"id": {"type": "string", "readOnly": "true"}, "name": {"type": "string"}}},
    ],
)  # fmt: skip
def test_a_required_property_that_is_read_only_leaves_the_others_alone(schema: dict[str, Any]) -> None:
    api = single(operation(requestBody=json_body(schema)), method="post", components=COMPONENTS)
    assert arguments(api) == {"name": True}
    nested = {"type": "object", "properties": {"thing": schema}, "required": ["thing"]}
    api = single(operation(requestBody=json_body(nested)), method="post", components=COMPONENTS)
    (thing,) = api.parameters
    assert '"id"' not in json.dumps([thing.json_schema, api.definitions])
    assert '"name"' in json.dumps([thing.json_schema, api.definitions])


def test_a_name_that_is_hidden_stays_required_in_a_part_of_the_value() -> None:
    inner = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    outer = THING | {"required": ["id", "name"]}
    schema = {"allOf": [outer, {"type": "object", "properties": {"part": inner}}]}
    api = single(operation(requestBody=json_body(schema)), method="post")
    (part,) = (parameter for parameter in api.parameters if parameter.name == "part")
    assert part.json_schema["required"] == ["id"]


@pytest.mark.parametrize(("flag", "required"), [("true", True), ("Yes", True), (True, True), ("no", False)])
def test_required_may_be_written_as_a_text(flag: object, required: bool) -> None:
    parameter = {"name": "q", "in": "query", "required": flag, "schema": {"type": "string"}}
    assert arguments(single(operation(parameters=[parameter]))) == {"q": required}
    body = json_body({"type": "object", "properties": {"a": {"type": "string", "required": flag}}})
    assert arguments(single(operation(requestBody=body), method="post")) == {"a": required}
    api = single(operation(requestBody=json_body({"type": "array"}, required=flag)), method="post")
    assert arguments(api) == {"body": required}


@pytest.mark.parametrize(
    ("path", "meant", "names"),
    [
        ("/users/:id/posts/{post}", "/users/{id}/posts/{post}", ["id", "post"]),
        ("/users/<int:id>", "/users/{id}", ["id"]),
        ("/users/:id.json", "/users/{id}.json", ["id"]),
        ("/users/{id}:cancel", "/users/{id}:cancel", ["id"]),
        ("/v1:batch", "/v1:batch", []),
    ],
)
def test_path_parameters_of_other_tools(path: str, meant: str, names: list[str]) -> None:
    api = single(operation(), path)
    assert (api.path, [parameter.name for parameter in api.parameters]) == (meant, names)
    assert all(parameter.location is Location.PATH and parameter.required for parameter in api.parameters)


def test_parameters_written_as_in_swagger_are_read_in_openapi_3() -> None:
    form = [
        {"name": "title", "in": "formData", "required": True, "type": "string"},
        {"name": "file", "in": "formData", "type": "file"},
        {"name": "page", "in": "Query", "type": "integer", "enum": [1, 2]},
        {"name": "id", "type": "string"},
    ]
    api = single(operation(parameters=form), "/things/{id}", "post")
    assert arguments(api) == {"id": True, "page": False, "title": True, "file": False}
    assert api.body is not None
    assert api.body.media_type == "multipart/form-data"
    schemas = {parameter.name: parameter.json_schema for parameter in api.parameters}
    assert schemas["page"] == {"type": "integer", "enum": [1, 2]}
    assert schemas["file"] == {"type": "string", "format": "binary"}
    body = {"name": "it", "in": "body", "required": True, "schema": THING}
    api = single(operation(parameters=[body]), method="post")
    assert arguments(api) == {"name": False}
    assert "requestBody" not in operation()


def test_parameters_may_be_an_object_of_named_ones() -> None:
    named = {"limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}}}
    assert arguments(single(operation(parameters=named))) == {"limit": False}


def test_methods_in_capitals_are_read_and_unknown_ones_are_told() -> None:
    result = imported(document({"/x": {"GET": operation(), "query": operation(), "trace": operation()}}))
    assert [api.method for api in result.apis] == ["GET"]
    assert sorted(skipped.operation for skipped in result.skipped) == ["QUERY /x", "TRACE /x"]


@pytest.mark.parametrize(
    "text",
    [
        '{"openapi": "3.0.0", "info": {"title": "T, }", "version": "1",}, "paths": {"/a": {"get": {},},},}',
        "{openapi: 3.0.0, info: {title: 'T, }',}, # a comment\n paths: {/a: {get: {}},},}",
    ],
)
def test_commas_too_many_are_no_reason_to_refuse(text: str) -> None:
    result = import_document(text, provider="t")
    assert [api.path for api in result.apis] == ["/a"]
    assert import_document(text).provider == "t"


SHOP = {
    "url": "https://{shop}.shops.example/{v}",
    "variables": {"shop": {"default": "example-abcd"}, "v": {"default": "v1"}},
}


@pytest.mark.parametrize(
    ("servers", "expected", "told"),
    [
        ([SHOP], "", "variable 'shop' is unset: its default 'example-abcd'"),
        ([SHOP, {"url": "https://two.example"}], "https://two.example", "not the first: the server's variable 'shop'"),
        ([{"url": "https://{region}.x.example", "variables": {"region": {"enum": ["eu"]}}}], "", "'region' is unset"),
        ([{"url": "https://{t}.x.example", "variables": {"t": {"default": "your-tenant", "enum": ["your-tenant"]}}}],
         "https://your-tenant.x.example", ""),
        ([{"url": "/v1"}, {"url": "https://x.example/v1"}], "https://x.example/v1", "not the first"),
        ([{"url": "api.x.example/v1"}], "https://api.x.example/v1", ""),
        ([{"url": "http://10.0.0.7:8080"}], "http://10.0.0.7:8080", "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS"),
        ([{"url": "http://crm.internal"}], "http://crm.internal", "crm.internal is a private address"),
        ([{"url": "https://[fd00::1]/"}], "https://[fd00::1]", "[fd00::1] is a private address"),
    ],
)  # fmt: skip
def test_servers_that_are_unset_relative_or_private(servers: list[object], expected: str, told: str) -> None:
    result = imported(document({"/x": {"get": operation()}}, servers=servers))
    assert result.apis[0].server == expected
    assert (told in " ".join(result.warnings)) if told else result.warnings == ()


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ([{"url": "https://api.x.example/v1"}], "https://api.x.example/v1"),
        ([{"url": "/v1"}], "https://docs.x.example:8443/v1"),
        ([{"url": "../v2"}], "https://docs.x.example:8443/v2"),
        ([{"url": "/v1"}, {"url": "https://x.example/v1"}], "https://x.example/v1"),
        ([{"url": "//x.example/v1"}], "https://x.example/v1"),
        ([{"url": "/{v}", "variables": {"v": {"default": "v3"}}}], "https://docs.x.example:8443/v3"),
        ([], "https://docs.x.example:8443"),
        ([SHOP], ""),
    ],
)
def test_the_url_of_a_document_completes_its_relative_servers_and_no_others(
    servers: list[object], expected: str
) -> None:
    root = document({"/x": {"get": operation()}}, servers=servers)
    origin = "https://docs.x.example:8443/a@1/openapi.json"
    result = import_document(json.dumps(root), origin=origin)
    assert result.apis[0].server == expected
    is_completed = bool(expected) and {"url": expected} not in servers
    assert any(f"because the document came from {origin}" in told for told in result.warnings) == is_completed
    given = import_document(json.dumps(root), server="https://y.example", origin=origin)
    assert given.apis[0].server.startswith("https://y.example")


def test_each_operation_keeps_its_own_host_unless_one_is_given() -> None:
    item = {"get": operation(servers=[{"url": "https://uploads.example"}]), "put": operation(operationId="put")}
    root = document({"/x": item})
    assert {api.server for api in imported(root).apis} == {"https://uploads.example", "https://zoo.example/v1"}
    given = imported(root, server="https://staging.example")
    assert {api.server for api in given.apis} == {"https://staging.example"}
    assert any("GET /x: has its own server" in warning for warning in given.warnings)


def test_a_base_and_its_kinds_keep_their_members() -> None:
    cat = {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"lives": {"type": "integer"}}}]}
    pet = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "discriminator": {"propertyName": "kind"},
        "oneOf": [{"$ref": "#/components/schemas/Cat"}],
    }
    body = json_body({"$ref": "#/components/schemas/Pet"})
    api = single(operation(requestBody=body), method="post", components={"schemas": {"Pet": pet, "Cat": cat}})
    assert api.definitions["Pet"]["oneOf"] == [{"$ref": "#/$defs/Cat"}]
    assert api.definitions["Cat"]["allOf"] == [
        {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
        {"properties": {"lives": {"type": "integer"}}},
    ]


def test_what_comes_out_does_not_depend_on_the_process() -> None:
    circle = {
        "properties": {"next": {"$ref": "#/components/schemas/A"}, "b": {"$ref": "#/components/schemas/a~1b"}},
        "items": {"$ref": "#/components/schemas/a%20b"},
        "not": {"maxLength": 1, "minLength": 1, "maxItems": 3, "minItems": 2, "deprecated": True, "readOnly": True},
        "anyOf": [{"$ref": "#/components/schemas/B"}, {"$ref": "#/components/schemas/C"}],
        "oneOf": [{"$ref": "#/components/schemas/C"}, {"$ref": "#/components/schemas/B"}],
        "if": {"$ref": "#/components/schemas/C"},
        "then": {"$ref": "#/components/schemas/B"},
    }
    schemas = {"A": circle, "B": {"allOf": [{"$ref": "#/components/schemas/A"}]}, "C": circle, "a/b": {}, "a b": {}}
    text = json.dumps(
        document({"/x": {"post": operation(requestBody=json_body(circle))}}, components={"schemas": schemas})
    )
    code = (
        "import sys; from retriever_svc.importers import import_document; found = import_document(sys.argv[1]);"
        "print(found.apis[0].model_dump_json(), found.warnings)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, text], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(outputs) == 1
