"""The published OpenAPI document, and responses to hostile input, which must conform to it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from openapi_spec_validator import OpenAPIV31SpecValidator

from sandbox.main import TAGS, create_app
from sandbox.settings import SandboxSettings
from tests.api.sandbox.conftest import API_KEY, BASIC, BEARER

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS & item.keys():
            yield method, path, item[method]


def test_it_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_its_size(document: dict[str, Any]) -> None:
    found = list(operations(document))
    assert 56 <= len(found) <= 66
    assert {operation["tags"][0] for *_, operation in found} == set(TAGS)
    assert len(TAGS) >= 13
    assert {tag["name"] for tag in document["tags"]} == set(TAGS)


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for *_, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", name) for name in names)
    for _, path, operation in operations(document):
        assert len(operation["description"]) > 20, path
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (path, parameter["name"])
            assert "anyOf" not in parameter["schema"], (path, parameter["name"])
        success = next(code for code in operation["responses"] if code.startswith("2"))
        if success != "204":
            schema = operation["responses"][success]["content"]["application/json"]["schema"]
            assert schema, path


def test_every_field_is_described(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), (name, field)


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for _, path, operation in operations(document):
        for status, response in operation["responses"].items():
            if not status.startswith("2") and path != "/oauth/token":
                assert list(response["content"]) == ["application/problem+json"], (path, status)


def test_parameter_styles(document: dict[str, Any]) -> None:
    def parameter(path: str, name: str) -> dict[str, Any]:
        parameters: list[dict[str, Any]] = document["paths"][path]["get"]["parameters"]
        return next(item for item in parameters if item["name"] == name)

    symbols = parameter("/exchange-rates", "symbols")
    assert (symbols["style"], symbols["explode"], symbols["schema"]["type"]) == ("form", False, "array")
    values = parameter("/statistics/summary", "values")
    assert values["schema"]["type"] == "array"
    assert "explode" not in values
    assert parameter("/products", "price")["style"] == "deepObject"
    assert parameter("/holidays/{country_code}/{year}", "Accept-Language")["in"] == "header"


def test_security(document: dict[str, Any]) -> None:
    kinds = {name: scheme["type"] for name, scheme in document["components"]["securitySchemes"].items()}
    assert kinds == {"apiKey": "apiKey", "basic": "http", "bearer": "http", "oauth2": "oauth2"}
    assert document["paths"]["/orders"]["post"]["security"] == [{"oauth2": ["orders:write"]}]
    assert "security" not in document["paths"]["/countries"]["get"]
    assert "401" in document["paths"]["/bookings"]["post"]["responses"]


def test_servers(client: TestClient) -> None:
    flow = ["components", "securitySchemes", "oauth2", "flows", "clientCredentials", "tokenUrl"]

    def server_and_token_url(document: Any) -> tuple[str, str]:
        url = document["servers"][0]["url"]
        for part in flow:
            document = document[part]
        return url, document

    here = client.get("/openapi.json").json()
    assert server_and_token_url(here) == ("http://sandbox.test", "http://sandbox.test/oauth/token")
    public = TestClient(create_app(SandboxSettings(public_url="https://api.example.com/v1/")))
    there = public.get("/openapi.json").json()
    assert server_and_token_url(there) == (
        "https://api.example.com/v1",
        "https://api.example.com/v1/oauth/token",
    )


def test_it_holds_no_secret(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert not any(secret in text for secret in (API_KEY, BASIC[1], BEARER))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"text": NaN}', b'{"text": "\\ud800"}', b'{"text": 1}',
        b'{"text": "a", "b": 1}', b"[" * 100_000, b'{"text": "' + b"a" * 300_000 + b'"}', b'{"\\ud800": 1}',
    ],
)  # fmt: skip
def test_hostile_bodies(client: TestClient, body: bytes) -> None:
    answer = client.post("/text/analyze", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "", "91", "0x10", "%ED%A0%80", "%00", "1_0"])
def test_hostile_numbers(client: TestClient, value: str) -> None:
    answer = client.get(f"/astronomy/sun-times?longitude=0&date=2026-06-21&latitude={value}")
    assert answer.status_code in ({200} if value == "1_0" else {422})


@pytest.mark.parametrize("text", ["%ED%A0%80", "%00", "%F0%9F%98%80", "\u202e" * 30, "(" * 90, "*" * 90])
@pytest.mark.parametrize("path", ["/airports?query=ab", "/countries?name=", "/products?query=ab", "/text/slug?text="])
def test_hostile_words(client: TestClient, path: str, text: str) -> None:
    answer = client.get(path + text)
    assert answer.status_code in {200, 422}
