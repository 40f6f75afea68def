"""A call sends the constants of parameters that its plan gives no value."""

from typing import Any

import orjson
import pytest

from executor_svc.adapters.http.paging import paging_of
from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request
from services.contracts.api import Api, Parameter, RequestBody
from tests.support.executing import api, parameter

SERVER = "https://api.example.com"


def constant(name: str, place: str, value: Any) -> Parameter:
    return parameter(name, place).model_copy(update={"required": True, "constant": value})


WRITE = api(
    SERVER,
    "/accounts/{account}/items",
    constant("account", "path", "AC 42"),
    constant("api-version", "query", "2024-01-01"),
    constant("X-Shop", "header", "roses"),
    constant("space", "body", 7),
    parameter("title", "body"),
    method="POST",
    body=RequestBody(),
)


def build(built: Api, /, **arguments: Any) -> HttpRequest:
    return build_request(built, {name.replace("__", "-"): value for name, value in arguments.items()}, "run/step")


def sent(request: HttpRequest) -> tuple[str, str, Any]:
    assert request.body is not None
    return str(request.url(Credentials())), request.headers["X-Shop"], orjson.loads(request.body.content)


def test_constants_are_sent_wherever_they_belong() -> None:
    assert sent(build(WRITE, title="Tulips")) == (
        f"{SERVER}/accounts/AC%2042/items?api-version=2024-01-01",
        "roses",
        {"space": 7, "title": "Tulips"},
    )


def test_what_a_plan_gives_comes_first() -> None:
    request = build(WRITE, account="B", api__version="2025", X__Shop="tulips", space=None)
    assert sent(request) == (f"{SERVER}/accounts/B/items?api-version=2025", "tulips", {"space": None})


def test_null_outside_a_body_is_no_value() -> None:
    assert sent(build(WRITE, account=None, X__Shop=None))[:2] == (
        f"{SERVER}/accounts/AC%2042/items?api-version=2024-01-01",
        "roses",
    )


def test_a_constant_is_checked_as_any_other_value_is() -> None:
    with pytest.raises(BadRequest):
        build(api(SERVER, "/{id}", constant("id", "path", "..")))
    with pytest.raises(BadRequest):
        build(api(SERVER, "/", constant("Host", "header", "evil.example")))


def test_pages_have_the_size_that_is_sent() -> None:
    size = parameter("limit").model_copy(update={"json_schema": {"type": "integer", "default": 10}})
    for known, expected in ((size, 10), (size.model_copy(update={"constant": 50}), 50)):
        paging = paging_of(api(SERVER, "/items", known))
        assert paging is not None
        assert paging.size == expected
