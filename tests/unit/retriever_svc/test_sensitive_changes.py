"""Imports by which calls would go elsewhere, do something else or present other credentials: held until confirmed."""

from typing import Any

import pytest
from sqlalchemy import update

from retriever_svc.service import CatalogueService
from retriever_svc.tables import DOCUMENTS
from services.contracts.api import ImportChange
from services.errors import Conflict
from services.storage.engine import create_engine, write
from tests.unit.retriever_svc.documents import document, operation
from tests.unit.retriever_svc.test_importing import counts, encoder, send, service

__all__ = ["encoder", "service"]
ANIMAL = "the-zoo.getAnimal"
KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}


def zoo(**more: Any) -> dict[str, Any]:
    """A document of three operations, secured by a key in a header."""
    found = document(
        {
            "/animals/{id}": {"get": operation(operationId="getAnimal", summary="One animal by its id")},
            "/tickets": {"get": operation(operationId="listTickets", summary="Entrance tickets and what they cost")},
            "/orders": {"post": operation(operationId="orderTicket", summary="Order a ticket")},
        }
    )
    found |= {"security": [{"key": []}], "components": {"securitySchemes": {"key": KEY}}}
    return found | more


def other_host() -> dict[str, Any]:
    return zoo(servers=[{"url": "https://evil.example/v1"}])


def other_port() -> dict[str, Any]:
    return zoo(servers=[{"url": "https://zoo.example:8443/v1"}])


def plain_http() -> dict[str, Any]:
    return zoo(servers=[{"url": "http://zoo.example/v1"}])


def other_place_of_the_key() -> dict[str, Any]:
    return zoo(components={"securitySchemes": {"key": KEY | {"in": "query"}}})


def no_key() -> dict[str, Any]:
    return zoo(security=[])


def read_that_changes() -> dict[str, Any]:
    found = zoo()
    found["paths"]["/animals/{id}"] = {"delete": operation(operationId="getAnimal", summary="One animal by its id")}
    return found


def change_that_removes() -> dict[str, Any]:
    found = zoo()
    found["paths"]["/orders"] = {"delete": operation(operationId="orderTicket", summary="Order a ticket")}
    return found


def renamed_throughout(**more: Any) -> dict[str, Any]:
    """The first operation with another id, another name of its parameter and a slash at the end."""
    found = zoo(**more)
    found["paths"]["/animals/{animal}/"] = {"get": operation(operationId="fetchAnimal", summary="One animal by its id")}
    del found["paths"]["/animals/{id}"]
    return found


def renamed_throughout_and_moved() -> dict[str, Any]:
    found = renamed_throughout()
    found["paths"]["/animals/{animal}/"]["get"]["servers"] = [{"url": "https://evil.example/v1"}]
    return found


def renamed_throughout_with_another_key() -> dict[str, Any]:
    found = renamed_throughout(
        components={"securitySchemes": {"key": KEY, "token": {"type": "http", "scheme": "bearer"}}}
    )
    found["paths"]["/animals/{animal}/"]["get"]["security"] = [{"token": []}]
    return found


def oauth(token_url: str) -> dict[str, Any]:
    flows = {"clientCredentials": {"tokenUrl": token_url, "scopes": {}}}
    return {"securitySchemes": {"key": {"type": "oauth2", "flows": flows}}}


async def forget(url: str) -> None:
    """Leave the records of the documents as versions without places left them."""
    engine = create_engine(url)
    async with write(engine) as connection:
        await connection.execute(update(DOCUMENTS).values(places=()))
    await engine.dispose()


def renamed_and_moved() -> dict[str, Any]:
    found = other_host()
    found["paths"]["/orders"]["post"]["operationId"] = "order0ther"
    found["paths"]["/tickets"]["get"]["operationId"] = "listOthers"
    return found


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (other_host, "host"),
        (other_port, "host"),
        (plain_http, "host"),
        (other_place_of_the_key, "credentials"),
        (no_key, "credentials"),
        (read_that_changes, "effect"),
        (change_that_removes, "effect"),
        (renamed_and_moved, "host"),
        (renamed_throughout_and_moved, "host"),
        (renamed_throughout_with_another_key, "credentials"),
    ],
)
async def test_nothing_is_changed_until_it_is_confirmed(service: CatalogueService, change: Any, what: str) -> None:
    await send(service, zoo())
    ids = [f"the-zoo.{name}" for name in ("getAnimal", "listTickets", "orderTicket", "fetchAnimal")]
    before = await service.lookup(ids)
    for options in ({}, {"provider": "the-zoo"}, {"hold_changes": True}, {"dry_run": True}):
        held, shown = await send(service, change(), **options)
        assert not held.applied
        assert {one.what for one in held.sensitive} == {what}
        assert held.sensitive_total == len(held.sensitive) >= 1
        assert {one.id for one in shown if isinstance(one, ImportChange)} >= {one.api for one in held.sensitive}
        assert await service.lookup(ids) == before
    # That somebody looked at the change as a whole says nothing of these; and it is this one that he has to name.
    held, _ = await send(service, change(), expected_change=held.change_hash)
    assert not held.applied
    with pytest.raises(Conflict, match="was reviewed"):
        await send(service, change(), confirm="0" * 64)
    done, _ = await send(service, change(), confirm=held.change_hash)
    assert done.applied
    assert counts(done) == counts(held)
    assert await service.lookup(ids) != before


async def test_what_changes_nothing_of_the_kind_is_applied(service: CatalogueService) -> None:
    first, _ = await send(service, zoo())
    assert (first.applied, first.sensitive) == (True, ())
    other_words = zoo(servers=[{"url": "https://ZOO.example/v1"}])
    other_words["paths"]["/tickets"]["get"]["summary"] = "What tickets cost"
    other_words["paths"]["/new"] = {"delete": operation(operationId="closeZoo", summary="Close the zoo")}
    del other_words["paths"]["/orders"]
    report, _ = await send(service, other_words)
    assert (report.applied, report.sensitive, report.added, report.removed) == (True, (), 1, 1)
    report, _ = await send(service, renamed_throughout())
    assert (report.applied, report.sensitive) == (True, ())


async def test_a_renamed_operation_sends_no_credentials_to_another_token_url(service: CatalogueService) -> None:
    await send(service, zoo(components=oauth("https://zoo.example/token")))
    held, _ = await send(service, renamed_throughout(components=oauth("https://zoo.example/notes")))
    assert (held.applied, {one.what for one in held.sensitive}) == (False, {"credentials"})
    assert "the-zoo.fetchAnimal" in {one.api for one in held.sensitive}


@pytest.mark.parametrize("remembered", [True, False])
async def test_what_is_left_out_once_moves_nowhere_when_it_returns(
    service: CatalogueService, database_url: str, remembered: bool
) -> None:
    await send(service, zoo())
    fewer = zoo()
    del fewer["paths"]["/animals/{id}"]
    if not remembered:  # stored by a version that remembered no places
        await forget(database_url)
    report, _ = await send(service, fewer)
    assert report.applied
    returned = zoo()
    returned["paths"]["/animals/{id}"]["servers"] = [{"url": "https://evil.example/v1"}]
    held, _ = await send(service, returned)
    assert (held.applied, [(one.api, one.what, one.after) for one in held.sensitive]) == (
        False,
        [(ANIMAL, "host", "https://evil.example")],
    )


async def test_a_place_that_was_confirmed_once_is_known(service: CatalogueService) -> None:
    await send(service, zoo())
    held, _ = await send(service, other_host())
    await send(service, other_host(), confirm=held.change_hash)
    back = zoo(servers=[{"url": "https://evil.example/v1"}, {"url": "https://zoo.example/v1"}])
    back["paths"]["/new"] = {"get": operation(operationId="feed", servers=[{"url": "https://zoo.example/v1"}])}
    report, _ = await send(service, back)
    assert (report.applied, report.added) == (True, 1)


async def test_a_confirmation_holds_for_what_was_shown_alone(service: CatalogueService) -> None:
    await send(service, zoo())
    held, _ = await send(service, other_host())
    await send(service, zoo(info={"title": "The Zoo", "version": "1.1"}))
    moved = zoo(servers=[{"url": "https://worse.example/v1"}])
    with pytest.raises(Conflict, match="was reviewed"):
        await send(service, moved, confirm=held.change_hash)
