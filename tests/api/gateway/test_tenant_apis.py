"""APIs of tenants: principals of other tenants cannot find, read, name, pin, plan with or change them."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from gateway.main import create_app
from gateway.peers import Peers
from gateway.settings import GatewaySettings, PrincipalSettings
from retriever_svc.main import create_app as create_retriever
from retriever_svc.settings import RetrieverSettings
from retriever_svc.storage import CatalogueStorage
from services.clients import GatewayClient, InProcessTransport, Retriever, RetrieverClient, open_http
from services.contracts.access import Action
from services.contracts.api import ImportChange, ImportReport, ImportRequest
from services.contracts.constants import ConstantsRequest
from services.contracts.run import Run
from services.contracts.solve import SolveOptions, SolveRequest
from services.encoder import load_encoder
from services.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, ValidationFailed
from tests.fakes import FakeRetriever
from tests.support.gateways import ASK_ROOM, BOOK, BOOKING, Fakes

SECRET = BOOK.id
OPEN = "city.listTrams"


class Town:
    """A gateway with three principals and a catalogue in which `world` belongs to red and `city` to everyone."""

    def __init__(self, app: object, retriever: Retriever, fakes: Fakes) -> None:
        self._app, self.retriever, self.fakes = app, retriever, fakes

    def of(self, tenant: str) -> GatewayClient:
        return GatewayClient(open_http("http://gateway", InProcessTransport(self._app)), f"{tenant}-token")  # type: ignore[arg-type]


@asynccontextmanager
async def built(kind: str, path: Path) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        retriever: Retriever = FakeRetriever()
        if kind == "real":
            settings = RetrieverSettings(database_url=f"sqlite+aiosqlite:///{path}/retriever.db")
            real = create_retriever(settings, encoder=load_encoder())
            await stack.enter_async_context(real.router.lifespan_context(real))
            http = await stack.enter_async_context(open_http("http://retriever", InProcessTransport(real)))
            retriever = RetrieverClient(http)
        fakes = Fakes()
        principals = tuple(
            PrincipalSettings(name=name, tenant=name, token=SecretStr(f"{name}-token"))
            for name in ("red", "blue", "default")
        )
        app = create_app(
            GatewaySettings(database_url=f"sqlite+aiosqlite:///{path}/gateway.db", principals=principals),
            peers=Peers(retriever, fakes.demos, fakes.planner, fakes.executor),
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        town = Town(app, retriever, fakes)
        await imported(town.of("red"), "world", "bookRoom", "Book a room", tenants=("red",))
        await imported(town.of("default"), "city", "listTrams", "List the trams of a room", tenants=None)
        yield town


@pytest.fixture(params=["fake", "real"])
async def town(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Town]:
    async with built(request.param, tmp_path) as town:
        yield town


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["fake", "real"])
async def standing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    """A gateway that is shared by all tests of refused requests."""
    async with built(request.param, tmp_path_factory.mktemp("standing")) as town:
        yield town


async def imported(
    client: GatewayClient, provider: str, name: str, summary: str, tenants: tuple[str, ...] | None, dry: bool = False
) -> tuple[ImportReport, list[ImportChange]]:
    operation = {"operationId": name, "summary": summary, "responses": {"200": {"description": "fine"}}}
    parameter = {"name": "room", "in": "query", "required": True, "schema": {"type": "string"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": provider, "version": "1"},
        "servers": [{"url": "http://world.example"}],
        "paths": {f"/{name}": {"post": operation | {"parameters": [parameter]}}},
    }
    request = ImportRequest(document=json.dumps(document), provider=provider, tenants=tenants, dry_run=dry)
    events = [event async for event in client.import_apis(request)]
    assert isinstance(events[-1], ImportReport)
    return events[-1], [event for event in events if isinstance(event, ImportChange)]


async def test_an_import_that_is_refused_late_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def beaten(*_: object) -> None:
        raise Conflict("Another import came first.")

    async with built("real", tmp_path) as town:
        monkeypatch.setattr(CatalogueStorage, "replace_provider", beaten)
        with pytest.raises(Conflict, match="Another import came first"):
            await imported(town.of("red"), "yard", "openYard", "Open the yard", tenants=("red",))


async def solved(client: GatewayClient, query: str = ASK_ROOM, **options: object) -> Run:
    asked = SolveOptions.model_validate({"dry_run": True, **options})
    return await client.plan(SolveRequest(query=query, options=asked))


async def test_an_owner_sees_its_apis_and_everyones(town: Town) -> None:
    red = town.of("red")
    assert [hit.id for hit in (await red.search_apis()).hits] == [OPEN, SECRET]
    assert (await red.search_apis(SECRET)).hits[0].id == SECRET
    assert (await red.api(SECRET)).id == SECRET
    assert [pin.provider for pin in (await red.documents()).documents] == ["city", "world"]
    run = await solved(red)
    assert SECRET in {candidate.api for candidate in run.candidates}


@pytest.mark.parametrize("tenant", ["blue", "default"])
async def test_nobody_else_does(town: Town, tenant: str) -> None:
    other = town.of(tenant)
    for page in (await other.search_apis(), await other.search_apis(provider="world"), await other.search_apis(SECRET)):
        assert SECRET not in {hit.id for hit in page.hits}
        assert page.total == len(page.hits)
    for api_id in (SECRET, "world.none"):
        with pytest.raises(NotFound) as caught:
            await other.api(api_id)
        assert caught.value.detail == f"There is no API {api_id!r}."
    documents = await other.documents()
    assert [pin.provider for pin in documents.documents] == ["city"]
    assert documents.total == 1


@pytest.mark.parametrize("tenant", ["blue", "default"])
async def test_nobody_else_plans_with_them(town: Town, tenant: str) -> None:
    for query, options in (
        (ASK_ROOM, {}),
        (ASK_ROOM, {"pinned": [SECRET]}),
        (f"call {SECRET}", {"pinned": [SECRET, SECRET], "providers": ["world"]}),
    ):
        run = await solved(town.of(tenant), query, **options)
        assert SECRET not in {candidate.api for candidate in run.candidates}
        assert SECRET not in {c.api.id for c in town.fakes.planner.requests[-1].candidates}


async def test_what_is_shown_names_no_tenants(town: Town) -> None:
    red = town.of("red")
    await imported(town.of("default"), "hall", "bookHall", "Book a room in the hall", tenants=("red", "green"))
    assert (await red.api("hall.bookHall")).tenants == ()
    assert [pin.tenants for pin in (await red.documents()).documents] == [(), ("red",), ("red",)]
    await solved(red)
    assert {c.api.tenants for c in town.fakes.planner.requests[-1].candidates} == {()}
    assert (await town.retriever.get("hall.bookHall")).tenants == ("green", "red")


async def test_nobody_else_changes_or_removes_them(town: Town) -> None:
    blue = town.of("blue")
    with pytest.raises(NotFound):
        await blue.delete_provider("world")
    for name in ("blue", "default"):
        for tenants, dry in ((None, False), (None, True)):
            with pytest.raises(Conflict, match="another tenant"):
                await imported(town.of(name), "world", "bookRoom", "Book a room elsewhere", tenants, dry=dry)
    with pytest.raises(Conflict, match="another tenant"):
        await blue.delete_provider("city")
    assert (await town.of("red").api(SECRET)).summary == "Book a room"
    await town.of("red").delete_provider("world")
    assert SECRET not in {hit.id for hit in (await town.of("red").search_apis()).hits}


async def test_importing_again_shows_them_to_nobody_more(town: Town) -> None:
    red, blue, operator = town.of("red"), town.of("blue"), town.of("default")
    hall = "hall.bookHall"
    await imported(operator, "hall", "bookHall", "Book the hall", tenants=("red",))
    await imported(operator, "hall", "bookHall", "Book one of our halls", tenants=None)
    assert (await red.api(hall)).summary == "Book one of our halls"
    with pytest.raises(NotFound):
        await blue.api(hall)
    report, changes = await imported(operator, "hall", "bookHall", "Book one of our halls", tenants=(), dry=True)
    assert (report.updated, [change.action for change in changes]) == (1, ["updated"])
    with pytest.raises(NotFound):
        await blue.api(hall)
    report, _ = await imported(operator, "hall", "bookHall", "Book one of our halls", tenants=())
    assert (report.updated, report.unchanged) == (1, 0)
    assert (await blue.api(hall)).summary == "Book one of our halls"


async def test_a_tenant_imports_for_itself_alone(town: Town) -> None:
    blue = town.of("blue")
    for tenants in ((), ("red",), ("blue", "red"), ("default",)):
        for dry in (False, True):
            with pytest.raises(Forbidden, match="'blue'"):
                await imported(blue, "helper", "findHelp", "Find help with a room", tenants, dry=dry)
    await imported(blue, "helper", "findHelp", "Find help 0 with a room", None)
    await imported(blue, "helper", "findHelp", "Find help 1 with a room", ("blue",))
    assert (await blue.api("helper.findHelp")).summary == "Find help 1 with a room"
    with pytest.raises(NotFound):
        await town.of("red").api("helper.findHelp")
    assert (await town.retriever.get("helper.findHelp")).tenants == ("blue",)


async def test_what_nobody_imported_is_the_operators(town: Town) -> None:
    trams = await town.retriever.get(OPEN)
    strays = trams.model_copy(update={"id": "stray.cats", "provider": "stray", "name": "cats"})
    await town.retriever.create(strays)
    blue = town.of("blue")
    with pytest.raises(Conflict, match="another tenant"):
        await blue.delete_provider("stray")
    with pytest.raises(Conflict, match="another tenant"):
        await imported(blue, "stray", "cats", "List no trams", tenants=None)
    await imported(town.of("default"), "stray", "cats", "List the trams that stray", tenants=None)
    await town.of("default").delete_provider("stray")


async def test_the_operator_removes_what_a_tenant_has_left(town: Town) -> None:
    await town.of("default").delete_provider("world")
    with pytest.raises(NotFound):
        await town.of("red").api(SECRET)


async def test_a_plan_is_not_approved_with_an_api_that_was_taken_away(town: Town) -> None:
    red = town.of("red")
    run = await red.solve(SolveRequest(query=ASK_ROOM))
    assert run.plan is not None
    book = await town.retriever.get(SECRET)
    await town.retriever.update(book.model_copy(update={"tenants": ("blue",)}))
    with pytest.raises(ValidationFailed, match=SECRET):
        await red.approve(run.id, BOOKING.id)


async def test_filters_and_pins_of_a_request_reach_the_catalogue(town: Town) -> None:
    run = await solved(town.of("red"), methods=["get"], pinned=[SECRET, "world.none"], deprecated=False)
    assert [(candidate.api, candidate.found_by) for candidate in run.candidates] == [(SECRET, "pinned")]
    run = await solved(town.of("red"), tags=["no such tag"])
    assert (run.candidates, run.status.value) == ((), "no_plan")
    page = await town.of("red").search_apis("trams", methods=["POST"], tags=["nothing"], deprecated=False)
    assert (page.hits, page.total) == ((), 0)


@pytest.mark.parametrize(
    "options",
    [
        {"pinned": ["a"] * 101},
        {"pinned": ["with blank"]},
        {"pinned": [""]},
        {"tags": [""]},
        {"tags": ["x" * 201]},
        {"tags": ["x"] * 21},
        {"methods": ["G E T"]},
        {"methods": ["GET"] * 11},
        {"deprecated": "perhaps"},
        {"tenant": "red"},
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_options_are_refused(standing: Town, options: dict[str, object]) -> None:
    http = open_http("http://gateway", InProcessTransport(standing._app))  # type: ignore[arg-type]
    headers = {"Authorization": "Bearer blue-token"}
    answer = await http.post("/solve", json={"query": "Book", "options": options}, headers=headers)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_tenant_is_not_chosen_by_whoever_asks(town: Town) -> None:
    """The gateway does not accept the retriever's ``tenant`` parameter."""
    http = open_http("http://gateway", InProcessTransport(town._app))  # type: ignore[arg-type]
    headers = {"Authorization": "Bearer blue-token"}
    for path in (f"/apis/{SECRET}?tenant=red", f"/v1/apis/{SECRET}?tenant=red"):
        assert (await http.get(path, headers=headers)).status_code in (404, 422)
    answer = await http.get("/apis?tenant=red", headers=headers)
    assert SECRET not in answer.text
    for bad in ("tag=", "method=G%20T", "deprecated=x", "&".join(["tag=a"] * 21)):
        assert (await http.get(f"/apis?{bad}", headers=headers)).status_code == 422


async def test_a_tenant_that_cannot_be_is_refused(town: Town) -> None:
    body = {"document": "{}", "tenants": ["a b"]}
    http = open_http("http://gateway", InProcessTransport(town._app))  # type: ignore[arg-type]
    answer = await http.post("/apis:import", json=body, headers={"Authorization": "Bearer red-token"})
    assert answer.status_code == 422
    if isinstance(town.retriever, RetrieverClient):
        with pytest.raises((ValidationFailed, InvalidRequest, ServiceError)):
            await town.retriever.get(SECRET, tenant="a b")


async def test_constants_are_set_by_whoever_imported_the_provider(town: Town) -> None:
    red, operator = town.of("red"), town.of("default")
    wanted = ConstantsRequest(constants={"room": "r-7"})
    with pytest.raises(NotFound):
        await town.of("blue").set_constants("world", wanted)
    for client, provider in ((operator, "world"), (red, "city")):
        with pytest.raises(Conflict):
            await client.set_constants(provider, wanted)
    found = await red.set_constants("world", wanted)
    assert [(one.name, one.value, one.operations) for one in found.constants] == [("room", "r-7", 1)]
    (room,) = (await red.api(SECRET)).parameters
    assert (room.constant, room.needed) == ("r-7", False)
    assert [one.constants for one in (await red.documents()).documents] == [{}, {"room": "r-7"}]
    for name, value in (("nothing", "1"), ("nothing", None)):
        with pytest.raises(ValidationFailed):
            await red.set_constants("world", ConstantsRequest(constants={name: value}))
    told = [(one.action, one.target, one.outcome) for one in (await red.audit()).entries if one.target == "world"]
    assert told.count((Action.SET_CONSTANTS, "world", "done")) == 1
    assert told.count((Action.SET_CONSTANTS, "world", "refused")) == 2
    exported = [line.data async for line in operator.export_tenant("red") if line.kind == "document"]
    assert [one["constants"] for one in exported if isinstance(one, dict)] == [{"room": "r-7"}]
    assert (await red.set_constants("world", ConstantsRequest(constants={"room": None}))).constants == ()
    assert (await red.api(SECRET)).parameters[0].needed
