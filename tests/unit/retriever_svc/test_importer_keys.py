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
    members: dict[str, Any] = {"components": {"securitySchemes": schemes}}
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


def keyed(*paths: str, member: str = "token", **more: Any) -> dict[str, Any]:
    """A document whose operations take a key in their JSON bodies."""
    schema = {"type": "object", "required": [member], "properties": {member: {"type": "string"}, "title": {}}}
    body = {"content": {"application/json": {"schema": schema | more}}}
    return document({path: {"post": operation(operationId=path.strip("/"), requestBody=body)} for path in paths})


def test_a_key_in_the_bodies_of_most_operations_is_a_credential() -> None:
    for api in imported(keyed("/send", "/list"), provider="zoo").apis:
        assert [p.name for p in api.parameters] == ["title"]
        ((need,),) = api.security
        assert (need.secret, need.location, need.parameter) == ("zoo.token", Location.BODY, "token")


def test_a_sure_name_in_a_body_is_a_credential_by_itself() -> None:
    (api,) = imported(keyed("/send", member="api_key"), provider="zoo").apis
    assert ([p.name for p in api.parameters], secrets(api)) == (["title"], [["zoo.api_key"]])


def told(description: str, path: str = "/convert", member: str = "key") -> dict[str, Any]:
    """A document with one body, and what its key is said to be."""
    return keyed(path, member=member, properties={member: {"type": "string", "description": description}, "title": {}})


@pytest.mark.parametrize("description", ["Your API key", "issued API key.", "The license key required to use the API"])
def test_a_key_in_the_only_body_is_a_credential_where_that_is_said(description: str) -> None:
    (api,) = imported(told(description), provider="zoo").apis
    assert ([p.name for p in api.parameters], secrets(api)) == (["title"], [["zoo.key"]])


@pytest.mark.parametrize(
    "given",
    [
        keyed("/send"),  # one operation's token may be anything
        told("The license key to be checked"),
        told("The key of the setting"),
        told("Your API key", path="/keys"),
        keyed("/keys", member="api_key"),  # here keys are managed
        keyed("/auth/refresh", "/auth/revoke"),
        keyed("/send", "/list", properties={"token": {"type": "object"}}),
        keyed("/send", "/list") | {"components": {"securitySchemes": {"b": {"type": "http", "scheme": "bearer"}}},
                                   "security": [{"b": []}]},
    ],
)  # fmt: skip
def test_what_is_called_so_in_a_body_stays_an_argument_where_it_may_be_one(given: dict[str, Any]) -> None:
    for api in imported(given, provider="zoo").apis:
        assert {p.name for p in api.parameters} & {"token", "api_key", "key"}
        assert not any(need.location is Location.BODY for one in api.security for need in one)


def test_a_key_in_the_paths_of_most_operations_is_a_credential() -> None:
    paths = {f"/bot{{token}}/{name}": {"get": operation(operationId=name)} for name in ("getMe", "getUpdates")}
    for api in imported(document(paths), provider="zoo").apis:
        assert api.parameters == ()
        ((need,),) = api.security
        assert (need.secret, need.location, need.parameter) == ("zoo.token", Location.PATH, "token")


@pytest.mark.parametrize("path", ["/tokens/{token}", "/apps/{appId}", "/keys/{key}", "/api-keys/{apiKey}"])
def test_things_that_are_called_so_in_a_path_stay_arguments(path: str) -> None:
    paths = {f"{path}{end}": {"get": operation(operationId=f"o{n}")} for n, end in enumerate(("", "/uses"))}
    for api in imported(document(paths), provider="zoo").apis:
        assert (len(api.parameters), api.security) == (1, ())


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("Enter `Bearer` [space] and then your token. Example: 'Bearer 12345abcdef'", SecretKind.BEARER),
        ("JWT Authorization header using the bearer scheme", SecretKind.BEARER),
        ("Your API token", SecretKind.API_KEY),
        ("The key alone, without the word Bearer before it", SecretKind.API_KEY),
        (None, SecretKind.API_KEY),
        (["Bearer"], SecretKind.API_KEY),
    ],
)
def test_a_key_in_the_authorization_header_is_a_bearer_token_where_that_is_said(
    description: Any, kind: SecretKind
) -> None:
    scheme = {"type": "apiKey", "in": "header", "name": "authorization", "description": description}
    schemes: dict[str, Any] = {"components": {"securitySchemes": {"it": scheme}}}
    ((need,),) = single(operation(security=[{"it": []}]), **schemes).security
    assert (need.kind, need.parameter) == (kind, "authorization" if kind is SecretKind.API_KEY else None)
    scheme |= {"name": "X-Token"}
    ((need,),) = single(operation(security=[{"it": []}]), **schemes).security
    assert need.kind is SecretKind.API_KEY
