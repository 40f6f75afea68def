"""Constants: what the document settles by itself, what is set for a provider, and how imports keep it."""

import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from retriever_svc.importers.constants import value_for
from retriever_svc.service import CatalogueService
from services.contracts.api import Api, ImportChange, ImportReport, ImportRequest, Location, Parameter
from services.contracts.constants import ConstantsRequest, ProviderConstants
from services.errors import Conflict, NotFound, ValidationFailed
from tests.unit.retriever_svc.catalogue import open_service
from tests.unit.retriever_svc.documents import document, json_body, operation, single
from tests.unit.retriever_svc.test_catalogue import CountingEncoder


def parameter(name: str, place: str = "query", *, required: bool = True, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": {"type": "string", **schema}}


def constant_of(declared: dict[str, Any], **members: Any) -> Any:
    path = f"/things/{{{declared['name']}}}" if declared["in"] == "path" else "/things"
    (found,) = single(operation(parameters=[declared]), path, **members).parameters
    return found.constant


@pytest.mark.parametrize(
    ("declared", "constant"),
    [
        (parameter("Notion-Version", "header", enum=["2022-06-28"]), "2022-06-28"),
        (parameter("Notion-Version", "header", const="2022-06-28"), "2022-06-28"),
        (parameter("Notion-Version", "header", default="2022-06-28"), "2022-06-28"),
        (parameter("api-version", default="2024-01-01"), "2024-01-01"),
        (parameter("version", "path", default="v1"), "v1"),
        (parameter("format", enum=["json"]), "json"),
        (parameter("page", type="integer", enum=["1"]), 1),
        (parameter("mode", enum=["a", None], type=["string", "null"]), "a"),
        # What is left to the caller:
        (parameter("Notion-Version", "header", required=False, default="2022-06-28"), None),
        (parameter("Notion-Version", "header"), None),
        (parameter("format", enum=["json", "xml"]), None),
        (parameter("units", default="metric"), None),
        (parameter("X-Shop", "header", default="your-shop"), None),
        (parameter("X-Shop", "header", default="string"), None),
        (parameter("X-Shop", "header", default="red", enum=["blue", "green"]), None),
        (parameter("terms", type="boolean", enum=[True]), None),
        (parameter("X-HTTP-Method-Override", "header", enum=["DELETE"]), None),
        (parameter("X-HTTP-Method", "header", enum=["DELETE"]), None),
        (parameter("_method", enum=["delete"]), None),
        (parameter("X-Original-URL", "header", default="/admin"), None),
        (parameter("X-Rewrite-Url", "header", const="/admin"), None),
        (parameter("X-Forwarded-Host", "header", const="bank.example"), None),
    ],
)
def test_what_the_document_leaves_no_choice_in_is_settled(declared: dict[str, Any], constant: Any) -> None:
    assert constant_of(declared) == constant


def test_a_definition_settles_as_well_and_so_does_a_field_of_a_body() -> None:
    components = {"schemas": {"Version": {"type": "string", "enum": ["3"]}}}
    declared = {"name": "v", "in": "query", "required": True, "schema": {"$ref": "#/components/schemas/Version"}}
    assert constant_of(declared, components=components) == "3"
    body = {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "note"}, "text": {}}}
    made = single(operation(requestBody=json_body(body)), method="post")
    assert {one.name: (one.constant, one.needed) for one in made.parameters} == {
        "type": ("note", False),
        "text": (None, True),
    }


def test_apis_without_constants_are_what_they_were() -> None:
    made = single(operation(parameters=[parameter("q")]))
    assert "constant" not in made.model_dump_json()


PATHS: dict[str, Any] = {
    "/accounts/{accountSid}/calls": {
        "get": operation(
            operationId="listCalls",
            summary="List the calls",
            parameters=[parameter("accountSid", "path"), parameter("limit", type="integer", required=False)],
        ),
        "post": operation(
            operationId="makeCall",
            summary="Make a call",
            parameters=[parameter("accountSid", "path", pattern="^AC"), parameter("X-Region", "header")],
        ),
    },
    "/status": {
        "get": operation(operationId="getStatus", parameters=[parameter("x-region", "header", enum=["eu"])]),
    },
}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[CatalogueService]:
    async with open_service(database_url, CountingEncoder()) as service:
        yield service


async def send(service: CatalogueService, paths: dict[str, Any], **options: Any) -> tuple[ImportReport, list[Any]]:
    tenant = options.pop("tenant", None)
    request = ImportRequest(document=json.dumps(document(paths)), **({"provider": "tel"} | options))
    events = [event async for event in await service.documents.open(request, tenant)]
    assert isinstance(events[-1], ImportReport)
    return events[-1], [event for event in events if isinstance(event, ImportChange)]


async def put(service: CatalogueService, tenant: str | None = None, **constants: str | None) -> ProviderConstants:
    named = {name.replace("__", "-"): value for name, value in constants.items()}
    return await service.constants.change("tel", ConstantsRequest(constants=named), tenant)


def told(found: ProviderConstants) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.operations) for one in found.constants]


async def apis(service: CatalogueService) -> dict[str, Api]:
    found = await service.lookup([f"tel.{name}" for name in ("listCalls", "makeCall", "getStatus")])
    return {one.name: one for one in found}


def constants(api: Api) -> dict[str, Any]:
    return {one.name: one.constant for one in api.parameters if one.constant is not None}


async def pinned(service: CatalogueService) -> Any:
    return next(one for one in (await service.documents.documents(10)).documents if one.provider == "tel")


async def test_what_is_set_stands_in_every_operation_that_takes_it(service: CatalogueService) -> None:
    await send(service, PATHS)
    before = await apis(service)
    assert not before["listCalls"].parameter("accountSid").constant  # type: ignore[union-attr]
    found = await put(service, accountSid="AC42", x__REGION="us", limit="50")
    assert told(found) == [("X-Region", "us", 1), ("accountSid", "AC42", 2), ("limit", "50", 1)]
    after = await apis(service)
    assert constants(after["listCalls"]) == {"accountSid": "AC42", "limit": 50}
    assert constants(after["makeCall"]) == {"accountSid": "AC42", "X-Region": "us"}
    assert constants(after["getStatus"]) == {"x-region": "eu"}  # the document allows no other
    assert after["listCalls"].content_hash != before["listCalls"].content_hash
    assert after["getStatus"].content_hash == before["getStatus"].content_hash
    assert found.catalogue_version == 2
    (candidate, *_) = (await service.find("list the calls", 3, 0)).hits
    assert constants(candidate[1]) == {"accountSid": "AC42", "limit": 50}
    assert (await pinned(service)).constants == {"X-Region": "us", "accountSid": "AC42", "limit": "50"}
    again = await put(service, accountSid="AC42")
    assert (again.constants, again.catalogue_version) == (found.constants, 2)


async def test_what_is_removed_is_as_the_document_says(service: CatalogueService) -> None:
    await send(service, PATHS)
    before = await apis(service)
    await put(service, accountSid="AC42")
    assert told(await put(service, ACCOUNTSID=None)) == []
    assert await apis(service) == before
    with pytest.raises(ValidationFailed, match="has no constant 'accountSid'"):
        await put(service, accountSid=None)


async def test_an_import_keeps_them_and_says_which_are_not_used_any_more(service: CatalogueService) -> None:
    await send(service, PATHS)
    await put(service, accountSid="AC42", X__Region="us")
    same, _ = await send(service, PATHS)
    assert (same.updated, same.unchanged, same.warnings) == (0, 3, ())
    newer = json.loads(json.dumps(PATHS))
    newer["/accounts/{accountSid}/calls"]["post"]["parameters"].pop()
    newer["/accounts/{accountSid}/calls"]["get"]["summary"] = "List all calls"
    shown, changes = await send(service, newer, dry_run=True)
    assert sorted(change.id for change in changes) == ["tel.listCalls", "tel.makeCall"]
    assert not any("constant" in field.field and "accountSid" in field.field for c in changes for field in c.fields)
    report, _ = await send(service, newer, confirm=shown.change_hash)
    assert report.applied
    (warning,) = report.warnings
    assert "the constant 'X-Region' is kept" in warning
    assert "nestor apis unset tel X-Region" in warning
    assert constants((await apis(service))["makeCall"]) == {"accountSid": "AC42"}
    known, _ = await send(service, newer)
    assert (known.warnings, known.change_hash) == (report.warnings, "")
    await put(service, X__Region=None)
    assert (await send(service, newer))[0].warnings == ()
    assert (await pinned(service)).constants == {"accountSid": "AC42"}


async def test_they_go_with_their_provider(service: CatalogueService) -> None:
    await send(service, PATHS)
    await put(service, accountSid="AC42")
    await service.delete_provider("tel")
    await send(service, PATHS)
    assert (await pinned(service)).constants == {}
    assert constants((await apis(service))["listCalls"]) == {}


async def test_only_its_owner_sets_them(service: CatalogueService) -> None:
    with pytest.raises(NotFound):
        await put(service, accountSid="AC42")
    await send(service, PATHS, tenant="red")
    with pytest.raises(NotFound):
        await put(service, "blue", accountSid="AC42")
    with pytest.raises(Conflict):
        await put(service, None, accountSid="AC42")
    await put(service, "red", accountSid="AC42")
    assert (await apis(service))["listCalls"].tenants == ("red",)
    await service.delete_provider("tel")
    await send(service, PATHS)
    with pytest.raises(Conflict):
        await put(service, "red", accountSid="AC42")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("account", "AC42", "No operation of 'tel' takes a parameter 'account'"),
        ("accountSid", "\u00e9" * 1_001, None),
        ("accountSid", "", None),
        ("accountSid", "AC\r\nX-Evil: 1", None),
        ("X-Region", "\u00e9", "allows this value for 'X-Region'"),
        ("limit", "many", "allows this value for 'limit'"),
        ("limit", '{"a": 1}', "allows this value for 'limit'"),
        ("limit", "123456789012345678901234567890", "allows this value for 'limit'"),  # no float stands for it
        ("limit", "1e999", "allows this value for 'limit'"),
        ("accountSid", "Bearer abcdef", "looks like a credential. Constants are stored"),
        ("accountSid", "sk_live_abcdefgh", "nestor secrets set tel.SCHEME"),
        ("accountSid", "eyJhbGciOi.eyJzdWIi.c2ln", "looks like a credential"),
        ("accountSid", "https://me:secret@acme.example", "looks like a credential"),
        ("accountSid", "AKIAIOSFODNN7EXAMPLE", "looks like a credential"),
        ("X-Api-Key", "42", "'X-Api-Key' is a credential"),
        ("user_password", "42", "'user_password' is a credential"),
    ],
)
async def test_what_cannot_be_set_is_refused_and_changes_nothing(
    tmp_path: Path, name: str, value: str, reason: str | None
) -> None:
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        await send(service, PATHS)
        if reason is None:
            with pytest.raises(ValidationError):
                ConstantsRequest(constants={name: value})
            return
        with pytest.raises(ValidationFailed, match=reason):
            await service.constants.change("tel", ConstantsRequest(constants={"X-Region": "us", name: value}))
        assert (await pinned(service)).constants == {}


@pytest.mark.parametrize(
    "value", ["AC5ef872f6da5a21de157d80997a64bd33", "023e105f4ecef8ad9ca31a8372d0c353", "2022-06-28"]
)
async def test_numbers_of_accounts_are_no_credentials(tmp_path: Path, value: str) -> None:
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        await send(service, PATHS)
        assert (await put(service, X__Region=value)).constants[0].value == value


async def test_a_credential_that_the_document_declares_is_named(tmp_path: Path) -> None:
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        keyed = {"/a": {"get": operation(parameters=[parameter("api_key")])}}
        await send(service, keyed)
        with pytest.raises(ValidationFailed, match=r"nestor secrets set tel\.api_key"):
            await put(service, api_key="42")


async def test_constants_do_not_make_apis_larger_than_documents_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of a thousand characters each, in ten thousand operations, took a gigabyte, again at each import."""
    paths = {f"/{number}": {"get": operation(parameters=[parameter("X-Region", "header")])} for number in range(3)}
    monkeypatch.setattr("retriever_svc.constants._MAX_ADDED", 200)
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        await send(service, paths)
        with pytest.raises(ValidationFailed, match="more than 200 characters"):
            await put(service, X__Region="u" * 67)
        await put(service, X__Region="u" * 66)
        more = paths | {"/more": {"get": operation(parameters=[parameter("x-region", "header")])}}
        with pytest.raises(ValidationFailed, match="set fewer or shorter ones"):
            await send(service, more)


async def test_values_are_checked_beside_the_event_loop(
    service: CatalogueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a provider with thousands of operations and fifty constants that takes minutes."""
    await send(service, PATHS)
    on_the_loop: set[bool] = set()

    def noting(*arguments: Any) -> Any:
        on_the_loop.add(threading.current_thread() is threading.main_thread())
        return value_for(*arguments)

    monkeypatch.setattr("retriever_svc.constants.value_for", noting)
    monkeypatch.setattr("retriever_svc.importers.constants.value_for", noting)
    assert told(await put(service, accountSid="AC42", limit="50")) == [("accountSid", "AC42", 2), ("limit", "50", 1)]
    assert on_the_loop == {False}


WIDE: dict[str, Any] = {
    "many patterns": {"anyOf": [{"pattern": f"^x{number}\\w{{20}}$"} for number in range(300)]},
    "a pattern for each member": {"patternProperties": {f"^x{number}\\w{{20}}$": {} for number in range(300)}},
    "members of members": {"properties": {f"a{number}": {"pattern": f"^{number}$"} for number in range(300)}},
    "many values": {"enum": [f"{number}" * 400 for number in range(300)]},
    "a circle": {"allOf": [{"$ref": "#/$defs/Self"}]},
}


@pytest.mark.parametrize("name", WIDE)
def test_what_a_value_is_checked_against_is_small(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A validator is made for all that a schema says, and patterns may take 100 kB each."""
    made: list[bytes] = []
    monkeypatch.setattr("retriever_svc.importers.constants._validator", made.append)
    taking = Parameter(name="a", wire_name="a", location=Location.QUERY, json_schema=WIDE[name])
    assert value_for(taking, {"Self": WIDE["a circle"]}, "x") == "x"
    assert sum(map(len, made)) <= 1_000


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        ({"$ref": "#/$defs/Code"}, "ab", "abc"),
        ({"anyOf": [{"$ref": "#/$defs/Code"}, {"type": "integer", "minimum": 5}]}, "7", "4"),
        ({"type": "string", "not": {"const": "x"}}, "y", "x"),
        ({"if": {"pattern": "^a"}, "then": {"maxLength": 1}, "else": {"minLength": 3}}, "a", "ab"),
        ({"oneOf": [{"type": "boolean"}, {"enum": ["yes"]}]}, "true", "no"),
        ({"type": "object", "properties": {"a": {}}}, None, "x"),
    ],
)
def test_what_schemas_say_of_texts_numbers_and_truths_holds(schema: Any, fits: str | None, does_not: str) -> None:
    taking = Parameter(name="a", wire_name="a", location=Location.QUERY, json_schema=schema)
    definitions: dict[str, Any] = {"Code": {"type": "string", "pattern": "^[a-z]{2}$"}}
    assert fits is None or value_for(taking, definitions, fits) is not None
    assert value_for(taking, definitions, does_not) is None


async def test_who_is_overtaken_before_reading_keeps_what_the_other_has_set(service: CatalogueService) -> None:
    await send(service, PATHS)
    records = service.constants._storage.document_records
    of = records.of

    async def overtaken(provider: str) -> Any:
        found = await of(provider)
        records.of = of  # type: ignore[method-assign]
        await put(service, accountSid="AC42")
        return found

    records.of = overtaken  # type: ignore[method-assign]
    await put(service, X__Region="us")
    assert (await pinned(service)).constants == {"X-Region": "us", "accountSid": "AC42"}


async def test_a_release_that_embeds_another_text_leaves_no_api_without_its_vector(
    service: CatalogueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(service, PATHS)
    await service.sync()
    before = (encoder := cast("CountingEncoder", service._encoder)).texts
    monkeypatch.setattr("retriever_svc.engine.texts.embedding_text", lambda api: f"Another text of {api.name}")
    await put(service, accountSid="AC1")
    await service.sync()
    assert encoder.texts == before
    monkeypatch.undo()
    await put(service, accountSid="AC2")
    await service.sync()
    assert encoder.texts == before


async def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    """Whoever comes second with what another replica has changed meanwhile is told so."""
    url = f"sqlite+aiosqlite:///{tmp_path}/catalogue.db"
    async with open_service(url, CountingEncoder()) as service, open_service(url, CountingEncoder()) as other:
        await send(service, PATHS)
        stored = service.constants._storage.stored_of

        async def overtaken(provider: str) -> Any:
            found = await stored(provider)
            await put(other, accountSid="AC42")
            return found

        service.constants._storage.stored_of = overtaken  # type: ignore[method-assign]
        with pytest.raises(Conflict):
            await put(service, X__Region="us")
        assert (await pinned(service)).constants == {"accountSid": "AC42"}


async def test_reading_a_provider_for_its_constants_pauses_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_service(f"sqlite+aiosqlite:///{tmp_path}/catalogue.db", CountingEncoder()) as service:
        await send(service, PATHS)
        paused = list[object]()
        monkeypatch.setattr("services.compute.checkpoint", lambda: paused.append(None))
        await put(service, accountSid="AC42")
        assert len(paused) >= 2 * service.size
