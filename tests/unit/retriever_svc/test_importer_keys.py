"""Credentials that documents declare as ordinary parameters."""

from typing import Any

import pytest

from services.contracts.api import Api, Location, SecretKind
from tests.unit.retriever_svc.documents import document, imported, operation, single


def taking(name: str, place: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": True, "schema": {"type": "string"}} | more


def secrets(api: Api) -> list[list[str]]:
    return [[requirement.secret for requirement in alternative] for alternative in api.security]


@pytest.mark.parametrize(
    "parameter",
    [
        taking("api_key"),
        taking("apikey"),
        taking("X-Api-Key", "header"),
        taking("Ocp-Apim-Subscription-Key", "header"),
        taking("access_token"),
        taking("appid", description="Your unique API key (you can always find it on your account page)"),
        taking("token", description="Authentication token"),
        taking("key", "header", description="The developer key"),
    ],
)
def test_a_key_is_a_credential_and_no_argument(parameter: dict[str, Any]) -> None:
    api = single(operation(parameters=[parameter, taking("city")]))
    assert [p.name for p in api.parameters] == ["city"]
    ((need,),) = api.security
    assert (need.kind, need.location, need.parameter) == (
        SecretKind.API_KEY,
        Location(parameter["in"]),
        parameter["name"],
    )
    assert need.secret == f"the-zoo.{parameter['name']}"


@pytest.mark.parametrize(
    "parameter",
    [
        taking("token", description="The token of the next page"),
        taking("token", description="The address of the token contract"),
        taking("token"),  # and nothing says what it is
        taking("appid", schema={"type": "integer"}, description="Id of the application on the store"),
        taking("key", schema={"type": "string", "enum": ["a", "b"]}, description="API key"),
        taking("keyword"),
        taking("api_key", "path"),
    ],
)
def test_what_may_be_something_else_stays_an_argument(parameter: dict[str, Any]) -> None:
    path = "/things/{api_key}" if parameter["in"] == "path" else "/things"
    api = single(operation(parameters=[parameter]), path=path)
    assert [p.name for p in api.parameters] == [parameter["name"]]
    assert api.security == ()


def test_a_doubtful_name_that_most_operations_take_is_a_key() -> None:
    shared = {"components": {"parameters": {"t": taking("token")}}}
    paths = {
        f"/{n}": {"get": operation(operationId=n, parameters=[{"$ref": "#/components/parameters/t"}])} for n in "ab"
    }
    paths["/c"] = {"get": operation(operationId="c")}
    apis = imported(document(paths, **shared), provider="zoo").apis
    assert [secrets(api) for api in apis] == [[["zoo.token"]], [["zoo.token"]], []]


def test_an_optional_key_is_presented_where_there_is_one() -> None:
    api = single(operation(parameters=[taking("api_key", required=False)]))
    assert secrets(api) == [["the-zoo.api_key"], []]


def test_beside_a_declared_scheme() -> None:
    schemes = {"k": {"type": "apiKey", "in": "query", "name": "api_key"}, "b": {"type": "http", "scheme": "bearer"}}
    members = {"components": {"securitySchemes": schemes}}
    same = operation(parameters=[taking("api_key")], security=[{"k": []}])
    assert secrets(single(same, **members)) == [["the-zoo.k"]]
    other = operation(parameters=[taking("access_token", required=False)], security=[{"b": []}])
    assert secrets(single(other, **members)) == [["the-zoo.b"]]
    both = operation(parameters=[taking("X-App-Key", "header")], security=[{"b": []}, {}])
    assert secrets(single(both, **members)) == [["the-zoo.b", "the-zoo.X-App-Key"], ["the-zoo.X-App-Key"]]
    header = operation(parameters=[taking("Authorization", "header")], security=[{"b": []}])
    assert secrets(single(header, **members)) == [["the-zoo.b"]]
    for api in (single(same, **members), single(other, **members), single(both, **members)):
        assert api.parameters == ()


@pytest.mark.parametrize(
    ("description", "kind"),
    [("Bearer {token}", SecretKind.BEARER), ("HTTP Basic", SecretKind.BASIC), ("Your key", SecretKind.API_KEY)],
)
def test_an_authorization_header(description: str, kind: SecretKind) -> None:
    api = single(operation(parameters=[taking("Authorization", "header", description=description)]))
    ((need,),) = api.security
    assert (need.kind, api.parameters) == (kind, ())
