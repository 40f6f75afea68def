"""``--auth``: a credential that a document does not declare is declared in it."""

import json
from typing import Any

import pytest
import typer

from deploy.cli.bundling import Unreadable
from deploy.cli.declaring import parse_auth, with_auth
from retriever_svc.importers import import_document
from services.contracts.api import Location, SecretKind, SecurityRequirement

GET: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}


def document(version: str = "openapi", **members: Any) -> str:
    paths = {"/a": {"get": GET}, "/b": {"parameters": [], "post": GET | {"security": []}}}
    number = {"openapi": "3.0.3", "swagger": "2.0"}[version]
    return json.dumps({version: number, "info": {"title": "Zoo", "version": "1"}, "paths": paths} | members)


def asked(text: str, auth: str) -> list[tuple[SecurityRequirement, ...]]:
    """What the operations ask for, each with one alternative."""
    found = import_document(with_auth(text, parse_auth(auth)), "zoo", "https://zoo.example")
    assert found.skipped == ()
    return [alternative for api in found.apis for alternative in api.security]


@pytest.mark.parametrize("version", ["openapi", "swagger"])
@pytest.mark.parametrize(
    ("auth", "kind", "place", "parameter"),
    [
        ("bearer", SecretKind.BEARER, None, None),
        ("basic", SecretKind.BASIC, None, None),
        ("header=X-Key", SecretKind.API_KEY, Location.HEADER, "X-Key"),
        ("query=apikey", SecretKind.API_KEY, Location.QUERY, "apikey"),
        ("cookie=sid", SecretKind.API_KEY, Location.COOKIE, "sid"),
        ("oauth2=https://login.zoo.example/token", SecretKind.OAUTH2, None, None),
    ],
)
def test_each_way_is_asked_for(
    version: str, auth: str, kind: SecretKind, place: Location | None, parameter: str | None
) -> None:
    needs = asked(document(version), auth)
    assert len(needs) == 2
    for (need,) in needs:
        assert (need.kind, need.location, need.parameter) == (kind, place, parameter)
        assert need.secret == f"zoo.{parameter or auth.partition('=')[0]}"
        assert need.token_url == (auth.partition("=")[2] if kind is SecretKind.OAUTH2 else None)


def test_what_is_declared_stays() -> None:
    declared = {"bearer": {"type": "http", "scheme": "basic"}}
    paths = {"/a": {"get": GET}, "/b": {"get": GET | {"security": [{"bearer": []}]}}}
    text = document(components={"securitySchemes": declared}, paths=paths)
    (given,), (own,) = asked(text, "bearer")
    assert (given.secret, given.kind) == ("zoo.bearer-1", SecretKind.BEARER)
    assert (own.secret, own.kind) == ("zoo.bearer", SecretKind.BASIC)
    optional = document(
        security=[{}, {"bearer": []}], components={"securitySchemes": declared}, paths={"/a": {"get": GET}}
    )
    with pytest.raises(Unreadable, match="omit --auth"):
        with_auth(optional, parse_auth("bearer"))


def test_without_it_the_text_is_the_same() -> None:
    assert with_auth(document(), None) == document()
    assert with_auth("a: [", parse_auth("bearer")) == "a: ["  # what is wrong with it, the import tells


def test_it_is_for_openapi_alone() -> None:
    with pytest.raises(Unreadable, match="with OpenAPI documents"):
        with_auth("[]", parse_auth("bearer"))


@pytest.mark.parametrize("junk", [None, 0, "x", [], {}, [[]]])
def test_what_is_not_as_it_should_be_is_passed_over(junk: Any) -> None:
    for key in ("paths", "components", "security", "securityDefinitions"):
        for version in ("openapi", "swagger"):
            text = document(version, **{key: junk})
            if key == "paths":
                with pytest.raises(Unreadable):
                    with_auth(text, parse_auth("bearer"))
            else:
                assert "bearer" in with_auth(text, parse_auth("bearer"))
    items = document(paths={"/a": junk, "/b": {"get": junk}, "/c": {"get": GET}})
    assert "bearer" in with_auth(items, parse_auth("bearer"))


@pytest.mark.parametrize(
    "text", ["", "token", "bearer=x", "header", "header=", "header=a b", "query=", "oauth2", "oauth2=x", "header=\r\nX"]
)
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be one of"):
        parse_auth(text)
