"""Postman collections: requests somebody made become operations, and no value that may be secret is kept."""

import json
from typing import Any

import pytest

from services.contracts.api import Api, Location, SecretKind
from services.errors import InvalidDocument
from tests.unit.retriever_svc.postman_collections import collection, imported, raw, request, single


def places(api: Api) -> list[tuple[str, str, bool]]:
    """Name, place and whether required of each parameter."""
    return [(p.wire_name, p.location.value, p.required) for p in api.parameters]


def kinds(api: Api) -> dict[str, Any]:
    """The schema of each parameter, without descriptions."""
    return {p.wire_name: {k: v for k, v in p.json_schema.items() if k != "description"} for p in api.parameters}


def test_a_collection_with_folders() -> None:
    folder = {
        "name": "Animals",
        "description": "Everything alive",
        "item": [
            {"name": "List", **request("{{baseUrl}}/animals"), "response": []} | {"name": "List"},
            {"name": "Lions", "item": [request("{{baseUrl}}/lions") | {"name": "List"}]},
        ],
    }
    result = imported(collection(folder, request() | {"name": "Open the gate"}))
    assert (result.provider, result.format, result.skipped) == ("the-zoo", "postman-2.1", ())
    assert [(api.id, api.summary, api.tags, api.server, api.path) for api in result.apis] == [
        ("the-zoo.Animals_List", "List", ("Animals",), "https://zoo.example/v1", "/animals"),
        ("the-zoo.Animals_Lions_List", "List", ("Animals", "Lions"), "https://zoo.example/v1", "/lions"),
        ("the-zoo.Open_the_gate", "Open the gate", (), "https://zoo.example/v1", "/things"),
    ]


@pytest.mark.parametrize(
    ("url", "server", "path", "parameters"),
    [
        ("https://a.example:8443/x/:id/y", "https://a.example:8443", "/x/{id}/y", ["id"]),
        ("a.example/x", "https://a.example", "/x", []),
        ("http://user:pass@a.example/x#part", "http://a.example", "/x", []),
        ("{{protocol}}://{{host}}:81/x", "http://b.example:81", "/x", []),
        ("{{unknown}}/x/{{version}}/{{user_id}}", "", "/x/v2/{user_id}", ["user_id"]),
        ("{{loop}}/x", "", "/x", []),
        ("/only/a path", "", "/only/a%20path", []),
        ("https://a.example/bot{{token}}/send", "https://a.example", "/bot{token}/send", ["token"]),
        ({"host": ["a", "example"], "path": ["x", {"value": ":id"}], "protocol": "http", "port": "82"},
         "http://a.example:82", "/x/{id}", ["id"]),
        ({"host": ["{{baseUrl}}"], "path": ["pets"]}, "https://zoo.example/v1", "/pets", []),
        ({"raw": "https://a.example/redirect?to=https://b.example/y"}, "https://a.example", "/redirect", ["to"]),
    ],
)  # fmt: skip
def test_urls(url: Any, server: str, path: str, parameters: list[str]) -> None:
    values = {"protocol": "http", "host": "b.example", "version": "v2", "user_id": "7", "loop": "{{loop}}x"}
    values |= {"token": "123:abc", "baseUrl": "https://zoo.example/v1"}
    api = single(request(url), variable=[{"key": key, "value": value} for key, value in values.items()])
    assert (api.server, api.path) == (server, path)
    assert [p.name for p in api.parameters] == parameters
    assert "123:abc" not in api.model_dump_json()
    assert "pass" not in api.model_dump_json()


def test_query_headers_and_path_variables() -> None:
    url = {
        "raw": "{{baseUrl}}/animals/:id?kind=lion",
        "query": [
            {"key": "kind", "value": "lion", "description": "(Required) What it is"},
            {"key": "tag", "value": "a"},
            {"key": "tag", "value": "b"},
            {"key": "page", "value": "<integer>", "disabled": True},
            {"key": "deep", "value": "true"},
            {"value": "without a key"},
        ],
        "variable": [{"key": "id", "value": "42", "description": {"content": "The animal"}}],
    }
    headers = [{"key": "X-Trace", "value": "abc"}, {"key": "Content-Type", "value": "text/plain"}, {"key": "Cookie"}]
    api = single(request(url, header=headers))
    assert places(api) == [
        ("id", "path", True),
        ("kind", "query", True),
        ("tag", "query", False),
        ("page", "query", False),
        ("deep", "query", False),
        ("X-Trace", "header", False),
    ]
    assert kinds(api) == {
        "id": {"type": "string", "examples": ["42"]},
        "kind": {"type": "string", "examples": ["lion"]},
        "tag": {"type": "array", "items": {"type": "string", "examples": ["a"]}},
        "page": {"type": "integer"},
        "deep": {"type": "boolean"},
        "X-Trace": {"type": "string", "examples": ["abc"]},
    }
    assert api.parameters[0].description == "The animal"


def test_a_raw_json_body_shows_its_schema() -> None:
    body = {
        "name": "Leo",
        "age": 3,
        "weight": 190.5,
        "tame": False,
        "diet": [{"meat": "beef"}, {"kg": 7}],
        "note": None,
    }
    api = single(request(**raw(body)))
    assert api.body is not None
    assert (api.method, api.body.media_type, api.body.whole) == ("POST", "application/json", False)
    assert kinds(api) == {
        "name": {"type": "string", "examples": ["Leo"]},
        "age": {"type": "integer", "examples": [3]},
        "weight": {"type": "number", "examples": [190.5]},
        "tame": {"type": "boolean", "examples": [False]},
        "diet": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "meat": {"type": "string", "examples": ["beef"]},
                    "kg": {"type": "integer", "examples": [7]},
                },
            },
        },
        "note": {},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": {{id}}, "name": "{{name}}", "at": "http://x/"} // a note', {"id": {}, "name": {"type": "string"}}),
        ('{"id": "<long>", "born": "<dateTime>"}',
         {"id": {"type": "integer"}, "born": {"type": "string", "format": "date-time"}}),
        ('[{"id": 1}]', {"body": {"type": "array"}}),
        ('{"not": json}', {"body": {}}),
        ('"' * 9 + "\\" * 9 + '"', {"body": {}}),
    ],
)  # fmt: skip
def test_raw_bodies_that_are_nearly_json(text: str, expected: dict[str, Any]) -> None:
    found = kinds(single(request(**raw(text))))
    for name, schema in expected.items():
        assert found[name].items() >= schema.items()


@pytest.mark.parametrize(
    ("body", "media_type", "schema"),
    [
        ({"mode": "urlencoded", "urlencoded": [{"key": "a", "value": "x"}]},
         "application/x-www-form-urlencoded", {"a": {"type": "string", "examples": ["x"]}}),
        ({"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": "/etc/passwd"}]},
         "multipart/form-data", {"f": {"type": "string", "format": "binary"}}),
        ({"mode": "raw", "raw": "<a/>", "options": {"raw": {"language": "xml"}}},
         "application/xml", {"body": {"type": "string", "contentMediaType": "application/xml"}}),
        ({"mode": "raw", "raw": "hello"}, "text/plain", {"body": {"type": "string", "contentMediaType": "text/plain"}}),
        ({"mode": "file", "file": {"src": "/etc/passwd"}}, "application/octet-stream",
         {"body": {"type": "string", "contentMediaType": "application/octet-stream"}}),
        ({"mode": "graphql", "graphql": {"query": "{ me }", "variables": '{"n": 1}'}}, "application/json",
         {"query": {"type": "string", "const": "{ me }"},
          "variables": {"type": "object", "properties": {"n": {"type": "integer", "examples": [1]}}}}),
    ],
)  # fmt: skip
def test_other_bodies(body: dict[str, Any], media_type: str, schema: dict[str, Any]) -> None:
    api = single(request(method="POST", body=body))
    assert api.body is not None
    assert (api.body.media_type, kinds(api)) == (media_type, schema)


@pytest.mark.parametrize(
    "body", [None, {}, {"mode": "raw", "raw": " "}, {"mode": "raw"}, {"mode": "raw", "disabled": True}]
)
def test_requests_without_a_body(body: Any) -> None:
    assert single(request(body=body)).body is None


@pytest.mark.parametrize(
    ("auth", "kind", "location", "parameter"),
    [
        ({"type": "basic", "basic": {"username": "me", "password": "hunter2"}}, SecretKind.BASIC, None, None),
        ({"type": "bearer", "bearer": [{"key": "token", "value": "hunter2"}]}, SecretKind.BEARER, None, None),
        ({"type": "apikey", "apikey": [{"key": "key", "value": "K"}, {"key": "value", "value": "hunter2"},
                                       {"key": "in", "value": "query"}]},
         SecretKind.API_KEY, Location.QUERY, "K"),
        ({"type": "apikey", "apikey": {"key": "X-Key", "value": "hunter2"}},
         SecretKind.API_KEY, Location.HEADER, "X-Key"),
        ({"type": "awsv4", "awsv4": []}, SecretKind.AWS_SIGV4, None, None),
        ({"type": "oauth2", "oauth2": []}, SecretKind.OAUTH2, None, None),
    ],
)  # fmt: skip
def test_auth(auth: dict[str, Any], kind: SecretKind, location: Location | None, parameter: str | None) -> None:
    api = single(request(auth=auth))
    ((need,),) = api.security
    assert (need.kind, need.location, need.parameter) == (kind, location, parameter)
    assert need.secret == f"the-zoo.{need.scheme}"
    assert "hunter2" not in api.model_dump_json()


def test_auth_with_client_credentials() -> None:
    pairs = {"grant_type": "client_credentials", "accessTokenUrl": "{{baseUrl}}/token", "clientSecret": "hunter2"}
    auth = {"type": "oauth2", "oauth2": [{"key": key, "value": value} for key, value in pairs.items()]}
    ((need,),) = single(request(), auth=auth).security
    assert (need.kind, need.token_url) == (SecretKind.OAUTH2, "https://zoo.example/v1/token")


def test_auth_is_inherited_and_can_be_switched_off() -> None:
    bearer, basic = {"type": "bearer"}, {"type": "basic"}
    items = [
        request() | {"name": "a"},
        {"name": "f", "auth": basic, "item": [request() | {"name": "b"}, request(auth={"type": "noauth"})]},
    ]
    apis = imported(collection(*items, auth=bearer)).apis
    assert [[need.kind for options in api.security for need in options] for api in apis] == [
        [SecretKind.BEARER],
        [SecretKind.BASIC],
        [],
    ]


def test_headers_and_query_parameters_that_can_only_be_keys_are_credentials() -> None:
    headers = [{"key": "Authorization", "value": "Bearer hunter2"}, {"key": "X-API-Key", "value": "hunter2"}]
    url = {"raw": "{{baseUrl}}/x", "query": [{"key": "api_key", "value": "hunter2"}, {"key": "q", "value": "x"}]}
    api = single(request(url, header=headers))
    assert places(api) == [("q", "query", False)]
    (needed,) = api.security
    assert [(need.kind, need.parameter) for need in needed] == [
        (SecretKind.BEARER, None),
        (SecretKind.API_KEY, "X-API-Key"),
        (SecretKind.API_KEY, "api_key"),
    ]
    assert "hunter2" not in api.model_dump_json()


def test_no_value_of_a_secret_is_kept() -> None:
    body = {"password": "hunter2", "client": {"clientSecret": "hunter2", "tokens": ["hunter2"]}}
    url = {"raw": "{{baseUrl}}/:sessionId", "variable": [{"key": "sessionId", "value": "hunter2"}]}
    answer = {"code": 200, "body": json.dumps({"access_token": "hunter2"})}
    item = request(url, header=[{"key": "X-Session", "value": "hunter2"}], **raw(body)) | {"response": [answer]}
    api = single(item)
    assert "password" in kinds(api)
    assert "hunter2" not in api.model_dump_json()


def test_a_saved_answer_shows_the_response() -> None:
    answers = [
        {"name": "Missing", "code": 404, "body": '{"error": "no"}'},
        {"name": "Found", "code": 200, "header": [{"key": "Content-Type", "value": "application/json"}],
         "body": '{"id": 7, "parents": [{"id": 1}]}'},
    ]  # fmt: skip
    response = single(request() | {"response": answers}).response
    assert (response.status, response.media_type, response.description) == (200, "application/json", "Found")
    assert '"parents":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"' in (
        response.model_dump_json()
    )
    assert single(request() | {"response": [{"code": 204, "body": ""}]}).response.media_type is None
    assert single(request()).response.json_schema == {}


def test_version_2_0() -> None:
    headers = "Content-Type: application/json\nX-Trace: abc\nAuthorization: Basic aHVudGVyMg==\n"
    root = {
        "info": {"name": "Old", "_postman_schema": "https://schema.getpostman.com/#2.0.0"},
        "variable": [{"id": "host", "value": "a.example"}],
        "item": [
            {"name": "Mere URL", "request": "https://{{host}}/status/200"},
            {"name": "Lines", "request": {"url": "https://{{host}}/post", "method": "PUT", "header": headers,
                                          "description": {"content": "Old style"}}},
        ],
    }  # fmt: skip
    result = imported(root)
    assert result.format == "postman-2.0"
    assert [(api.method, api.server, api.path) for api in result.apis] == [
        ("GET", "https://a.example", "/status/200"),
        ("PUT", "https://a.example", "/post"),
    ]
    assert (places(result.apis[1]), result.apis[1].description) == ([("X-Trace", "header", False)], "Old style")
    assert result.apis[1].security[0][0].kind is SecretKind.BASIC


def test_a_collection_as_postmans_api_wraps_it() -> None:
    assert imported({"collection": collection(request())}).apis[0].id == "the-zoo.A_thing"


def test_what_cannot_be_imported_is_skipped_with_the_reason() -> None:
    long_query = {"mode": "graphql", "graphql": {"query": "x" * 2_000}}
    result = imported(
        collection(
            {"name": "Empty"},
            7,
            request(method="LINK"),
            request("") | {"name": "Nowhere"},
            request("https://a.example/" + "x" * 9_000),
            request(body=long_query, method="POST"),
            request(body={"mode": "carrier pigeon"}, method="POST"),
            request() | {"name": "Good"},
        )
    )
    assert [api.name for api in result.apis] == ["Good"]
    assert [skipped.reason for skipped in result.skipped] == [
        "the item has no request",
        "the item has no request",
        "the method 'link' is not imported",
        "the request has no URL",
        "the request's URL is too long",
        "the GraphQL query is empty or has more than 1,000 characters",
        "the body's mode 'carrier pigeon' is unknown",
    ]
    assert result.skipped[0].operation == "* Empty"


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"id": "x", "name": "Old", "order": [], "requests": []}, "this one has 1.0"),
        (collection(info={"name": "x", "schema": "https://schema.getpostman.com/json/collection/v3.0.0/"}), "has 3.0"),
        (collection(item={}), "no `item` list"),
    ],
)
def test_collections_that_are_refused(root: Any, message: str) -> None:
    with pytest.raises(InvalidDocument, match=message):
        imported(root)


def test_a_given_server_replaces_that_of_the_collection() -> None:
    result = imported(collection(request(), request("{{nowhere}}/x")), server="https://test.example/api")
    assert [api.server for api in result.apis] == ["https://test.example/api"] * 2
