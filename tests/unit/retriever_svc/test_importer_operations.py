"""Parameters, bodies, responses, security and servers of OpenAPI 3 become one flat, typed API."""

import json
from typing import Any

import jsonschema_rs
import pytest

from retriever_svc.importers import import_document, with_content_hash
from services.contracts.api import Location, SecretKind, Style
from services.errors import InvalidDocument
from tests.unit.retriever_svc.documents import document, imported, json_body, operation, single, skipped_reason


def test_parameters_of_the_path_and_of_the_operation_are_merged() -> None:
    shared = [
        {"name": "zoo", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "shared"},
        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
    ]
    own = [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 50}, "description": "own"},
        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
    ]
    root = document({"/zoos/{zoo}": {"parameters": shared, "get": operation(parameters=own)}})
    (api,) = imported(root).apis
    assert [(p.name, p.location, p.required, p.style, p.explode) for p in api.parameters] == [
        ("zoo", Location.PATH, True, Style.SIMPLE, False),
        ("limit", Location.QUERY, False, Style.FORM, True),
        ("X-Trace", Location.HEADER, False, Style.SIMPLE, False),
        ("session", Location.COOKIE, False, Style.FORM, True),
    ]
    limit = api.parameter("limit")
    assert limit is not None
    assert (limit.json_schema["maximum"], limit.description) == (50, "own")


def test_styles_are_kept_where_the_location_allows_them() -> None:
    given = [
        {"name": "a", "in": "query", "style": "pipeDelimited", "explode": False, "schema": {"type": "array"}},
        {"name": "b", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {"name": "c", "in": "query", "style": "matrix", "schema": {}},
    ]
    result = imported(document({"/x": {"get": operation(parameters=given)}}))
    styles = {p.name: (p.style, p.explode) for p in result.apis[0].parameters}
    assert styles == {
        "a": (Style.PIPE_DELIMITED, False),
        "b": (Style.DEEP_OBJECT, True),
        "c": (Style.FORM, True),
    }
    assert any("'matrix'" in warning for warning in result.warnings)


def test_path_parameters_are_exactly_those_the_path_names() -> None:
    stray = {"name": "gone", "in": "path", "required": True, "schema": {}}
    result = imported(document({"/a/{x}/{+rest}": {"get": operation(parameters=[stray])}}))
    assert [(p.name, p.location, p.required) for p in result.apis[0].parameters] == [
        ("x", Location.PATH, True),
        ("rest", Location.PATH, True),
    ]
    assert result.apis[0].path == "/a/{x}/{rest}"
    assert any("'gone'" in warning for warning in result.warnings)


def test_reserved_headers_are_no_parameters() -> None:
    names = ["Accept", "content-type", "Authorization", "idempotency-key", "X-Real"]
    api = single(operation(parameters=[{"name": n, "in": "header", "required": True, "schema": {}} for n in names]))
    assert [p.name for p in api.parameters] == ["X-Real"]
    assert api.idempotency_header == "idempotency-key"


def test_a_json_object_is_flattened_and_gives_way_to_other_parameters() -> None:
    body = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "note": {"type": "string"}},
    }
    path = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    api = single(operation(parameters=path, requestBody=json_body(body)), path="/things/{id}", method="put")
    assert [(p.name, p.wire_name, p.location, p.required) for p in api.parameters] == [
        ("id", "id", Location.PATH, True),
        ("body_id", "id", Location.BODY, True),
        ("name", "name", Location.BODY, True),
        ("note", "note", Location.BODY, False),
    ]
    assert api.body is not None
    assert (api.body.media_type, api.body.required, api.body.whole) == ("application/json", True, False)
    assert api.mutating


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
        {"type": "object", "additionalProperties": True},
        {"type": "string"},
        {},
    ],
)
def test_a_body_that_is_no_flat_object_is_one_argument(schema: object) -> None:
    api = single(operation(requestBody=json_body(schema, required=True)), method="post")
    assert [(p.name, p.location, p.required) for p in api.parameters] == [("body", Location.BODY, True)]
    assert api.body is not None
    assert api.body.whole


def test_all_of_parts_are_merged_even_in_a_circle() -> None:
    schemas = {
        "Base": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
        "Dog": {
            "allOf": [
                {"$ref": "#/components/schemas/Base"},
                {"$ref": "#/components/schemas/Dog"},
                {"type": "object", "properties": {"bark": {"type": "boolean"}}},
            ]
        },
    }
    body = json_body({"$ref": "#/components/schemas/Dog"}, required=True)
    api = single(operation(requestBody=body), method="post", components={"schemas": schemas})
    assert [(p.name, p.required) for p in api.parameters] == [("kind", True), ("bark", False)]


def test_an_optional_body_requires_nothing() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {}}}
    stated = single(operation(requestBody=json_body(schema, required=False)), method="post")
    silent = single(operation(requestBody=json_body(schema)), method="post")
    assert [stated.parameters[0].required, silent.parameters[0].required] == [False, True]
    assert stated.body is not None
    assert not stated.body.required


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_forms_are_flattened_with_their_encoding(media_type: str) -> None:
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array"}, "file": {"type": "string", "format": "binary"}},
    }
    encoding = {"tags": {"style": "spaceDelimited", "explode": False}}
    body = {"content": {media_type: {"schema": schema, "encoding": encoding}}}
    api = single(operation(requestBody=body), method="post")
    assert api.body is not None
    assert api.body.media_type == media_type
    assert [(p.name, p.style, p.explode) for p in api.parameters] == [
        ("tags", Style.SPACE_DELIMITED, False),
        ("file", Style.SIMPLE, False),
    ]


def test_json_is_preferred_and_other_bodies_are_text() -> None:
    content = {"application/xml": {"schema": {"type": "object", "properties": {"a": {}}}}}
    xml = single(operation(requestBody={"content": content}), method="post")
    assert xml.parameters[0].json_schema == {"type": "string", "contentMediaType": "application/xml"}
    both = content | {"application/vnd.api+json": {"schema": {"type": "object", "properties": {"b": {}}}}}
    api = single(operation(requestBody={"content": both}), method="post")
    assert api.body is not None
    assert (api.body.media_type, api.parameters[0].name) == ("application/vnd.api+json", "b")


def test_what_travels_one_way_only_is_left_out_on_the_other() -> None:
    thing = {
        "type": "object",
        "required": ["id", "secret", "owner"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "secret": {"type": "string", "writeOnly": True},
            "owner": {"$ref": "#/components/schemas/Owner"},
        },
    }
    owner = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "readOnly": True}, "n": {}}}
    reference = {"$ref": "#/components/schemas/Thing"}
    answer = {"200": {"description": "", "content": {"application/json": {"schema": reference}}}}
    members: dict[str, Any] = {"components": {"schemas": {"Thing": thing, "Owner": owner}}}
    api = single(operation(requestBody=json_body(reference), responses=answer), method="post", **members)
    assert [p.name for p in api.parameters] == ["secret", "owner"]
    sent = api.definitions[str(api.parameters[1].json_schema["$ref"]).removeprefix("#/$defs/")]
    assert sent == {"type": "object", "properties": {"n": {}}}
    returned = api.definitions[str(api.response.json_schema["$ref"]).removeprefix("#/$defs/")]
    assert returned["required"] == ["id", "owner"]
    assert set(returned["properties"]) == {"id", "owner"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["404", "204", "201"], 201),
        (["default", "500"], 200),
        (["2XX", "default"], 200),
        (["400"], 200),
    ],
)
def test_the_lowest_success_is_the_response(codes: list[str], expected: int) -> None:
    api = single(operation(responses={code: {"description": code} for code in codes}))
    assert api.response.status == expected
    assert api.response.media_type is None


def test_security_is_an_or_of_ands_and_operations_override() -> None:
    schemes = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        "basic": {"type": "http", "scheme": "Basic"},
        "bearer": {"type": "http", "scheme": "bearer"},
        "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "oauth/token", "scopes": {}}}},
        "login": {"type": "oauth2", "flows": {"authorizationCode": {"tokenUrl": "/t", "authorizationUrl": "/a"}}},
        "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://x.example"},
    }
    paths = {
        "/a": {"get": operation(operationId="inherits")},
        "/b": {"get": operation(operationId="open", security=[])},
        "/c": {"get": operation(operationId="many", security=[{"key": [], "basic": []}, {"oauth": ["read"]}, {}])},
        "/d": {"get": operation(operationId="odd", security=[{"login": []}, {"oidc": []}, {"nowhere": []}])},
    }
    root = document(paths, components={"securitySchemes": schemes}, security=[{"bearer": []}])
    apis = {api.name: api.security for api in imported(root, provider="zoo").apis}
    assert [(r.secret, r.kind) for r in apis["inherits"][0]] == [("zoo.bearer", SecretKind.BEARER)]
    assert apis["open"] == ()
    (key, basic), (oauth,), anonymous = apis["many"]
    assert (key.kind, key.location, key.parameter) == (SecretKind.API_KEY, Location.HEADER, "X-Api-Key")
    assert (basic.kind, anonymous) == (SecretKind.BASIC, ())
    assert (oauth.kind, oauth.scopes) == (SecretKind.OAUTH2, ("read",))
    assert oauth.token_url == "https://zoo.example/v1/oauth/token"
    assert [r.kind for alternative in apis["odd"] for r in alternative] == [
        SecretKind.OAUTH2,
        SecretKind.OPENID_CONNECT,
        SecretKind.OTHER,
    ]


@pytest.mark.parametrize(
    ("servers", "given", "expected"),
    [
        ([{"url": "https://{region}.x.example/v{n}/", "variables": {"region": {"default": "eu"}, "n": {"default": 2}}}],
         None, "https://eu.x.example/v2"),
        ([{"url": "/v1"}], "http://localhost:9000", "http://localhost:9000/v1"),
        ([{"url": "/"}], "http://localhost:9000/api/", "http://localhost:9000/api"),
        ([], "http://localhost:9000", "http://localhost:9000"),
        ([{"url": "https://real.example"}], "http://localhost:9000", "http://localhost:9000"),
        ([{"url": "/v1"}], None, ""),
        ([{"url": "https://{nowhere}.example"}], None, ""),
        ([{"url": "ftp://x.example"}, 7], None, ""),
        (["nonsense"], None, ""),
        ([{"url": "http://[broken"}], None, ""),
    ],
)  # fmt: skip
def test_servers(servers: list[object], given: str | None, expected: str) -> None:
    result = imported(document({"/x": {"get": operation()}}, servers=servers), server=given)
    assert result.apis[0].server == expected
    assert any("server" in warning for warning in result.warnings) == (expected == "")


def test_servers_of_the_operation_come_first() -> None:
    item = {
        "servers": [{"url": "https://path.example"}],
        "get": operation(),
        "put": operation(operationId="own", servers=[{"url": "https://own.example"}]),
    }
    assert {api.name: api.server for api in imported(document({"/x": item})).apis} == {
        "op": "https://path.example",
        "own": "https://own.example",
    }


def test_names_are_unique_and_missing_ones_derived() -> None:
    paths = {
        "/a": {"get": operation(operationId="list things!"), "post": operation(operationId="list things!")},
        "/b/{id}": {"get": {"responses": {}}},
        "/b/id": {"get": {"responses": {}}},
    }
    result = imported(document(paths))
    assert [api.name for api in result.apis] == ["list_things", "post_a", "get_b_id", "get_b_id_2"]
    assert result.apis[0].id == "the-zoo.list_things"
    assert any("occurs twice" in warning for warning in result.warnings)


def test_prose_tags_and_deprecation() -> None:
    api = single(operation(summary=" s ", description="d" * 9_000, tags=["a", "a", 3, "b"], deprecated=True))
    assert (api.summary, len(api.description), api.tags, api.deprecated) == ("s", 2_000, ("a", "b"), True)


def test_the_content_hash_is_of_the_content() -> None:
    one, same = single(operation(summary="x")), single(operation(summary="x"))
    assert one.content_hash == same.content_hash
    assert len(one.content_hash) == 64
    assert one.content_hash != single(operation(summary="y")).content_hash
    assert with_content_hash(one) == one


@pytest.mark.parametrize(
    "query",
    [
        "_method=DELETE",
        "a=1&_METHOD=DELETE",
        "a;%5Fmethod=PUT",
        "X-HTTP-Method-Override=DELETE",
        "x-original-url=/admin",
    ],
)
def test_a_path_whose_query_turns_the_call_into_another_one_is_skipped(query: str) -> None:
    """It is sent as it stands, so a rule that forbids the method or the path would not match."""
    assert "may turn the call into another one" in skipped_reason(operation(), f"/things?{query}")


@pytest.mark.parametrize("path", ["/things?action=list&method=fast", "/_method", "/things#?_method=PUT"])
def test_other_queries_in_a_path_are_kept(path: str) -> None:
    assert single(operation(), path).path == path


def test_a_required_parameter_that_cannot_be_expressed_skips_the_operation() -> None:
    nameless = {"name": "", "in": "query", "schema": {}}
    assert "no usable name" in skipped_reason(operation(parameters=[nameless | {"required": True}]))
    assert single(operation(parameters=[nameless])).parameters == ()


@pytest.mark.parametrize(
    ("media_type", "schema"),
    [
        ("application/json", {"type": "object"}),
        ("application/ld+json; charset=utf-8", {"type": "object"}),
        ("application/xml", {"type": "string", "contentMediaType": "application/xml"}),
    ],
)
def test_a_parameter_may_be_a_document_of_its_own(media_type: str, schema: dict[str, Any]) -> None:
    content = {"name": "filter", "in": "query", "content": {media_type: {"schema": {"type": "object"}}}}
    (parameter,) = single(operation(parameters=[content])).parameters
    assert (parameter.media_type, parameter.json_schema) == (media_type, schema)


def test_yaml_is_read_as_yaml_1_2() -> None:
    text = """
openapi: 3.0.3
info: {title: Zoo, version: 1.0}
servers: [{url: https://zoo.example}]
x-shared: &codes [no, 0644, 12:30, 2026-01-01, 1e3, ~]
paths:
  /a:
    get:
      operationId: on
      parameters: [{name: code, in: query, schema: {enum: *codes}}]
      responses: {200: {description: yes}}
"""
    (api,) = import_document(text).apis
    assert api.name == "on"
    assert api.parameters[0].json_schema["enum"] == ["no", 644, "12:30", "2026-01-01", 1000.0, None]
    assert (api.response.status, api.response.description) == (200, "yes")


def test_the_schemas_of_an_api_can_be_compiled() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/components/schemas/T"}}}}
    answer = {
        "200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/T"}}}}
    }
    api = single(operation(responses=answer), components={"schemas": {"T": tree}})
    validator = jsonschema_rs.Draft202012Validator({**api.response.json_schema, "$defs": dict(api.definitions)})
    assert validator.is_valid({"kids": [{"kids": []}]})
    assert not validator.is_valid({"kids": [{"kids": 1}]})


def test_the_provider_is_a_slug_of_the_title_or_the_host() -> None:
    assert (
        imported(document({"/x": {"get": operation()}}, info={"title": "Zürich: Öffis 2"})).provider == "zurich-offis-2"
    )
    assert imported(document({"/x": {"get": operation()}}, info={"title": "動物園"})).provider == "zoo-example"
    with pytest.raises(InvalidDocument, match="provider"):
        import_document(json.dumps({"openapi": "3.1.0", "info": {"title": "動物園"}, "paths": {}}))


@pytest.mark.parametrize(
    ("title", "url", "expected"),
    [
        ("Article Search API", "https://api.nytimes.com/svc", "nytimes-article-search-api"),
        ("API", "https://api.acme.co.uk", "acme"),
        ("REST API v2", "https://acme.com", "acme"),
        ("Acme Orders", "https://api.acme.com", "acme-orders"),
        ("New York Times", "https://newyorktimes.com", "new-york-times"),
        ("Orders", "https://x1.execute-api.eu-west-1.amazonaws.com", "orders"),
        ("Orders", "http://10.0.0.1:8080", "orders"),
        ("Orders", "http://orders.internal", "orders"),
        ("Orders", "/v1", "orders"),
        ("API", "/v1", "api"),
    ],
)
def test_a_provider_is_named_after_its_vendor_and_title(title: str, url: str, expected: str) -> None:
    root = document({"/x": {"get": operation()}}, info={"title": title, "version": "1"}, servers=[{"url": url}])
    assert imported(root).provider == expected
    assert imported(root, provider="mine").provider == "mine"
    root["info"]["x-providerName"] = "vendor.com"
    assert imported(root).provider.startswith("vendor")
