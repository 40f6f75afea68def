"""The rights of a principal that may import: it cannot escape a rule, and cannot redirect the calls of others.

The attacks: import a document that others use again, with renamed operations (so that rules on ids do not match) or
with another server (so that their requests go there), or delete it. They are tested with a real catalogue.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI

from gateway.main import create_app
from gateway.peers import Peers
from gateway.settings import GatewaySettings
from retriever_svc.main import create_app as create_retriever
from retriever_svc.settings import RetrieverSettings
from services.clients import GatewayClient, InProcessTransport, RetrieverClient, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.demo import Demo, ImportDemosRequest
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.outcome import Succeeded
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Decision, DiagnosticCode
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.encoder import load_encoder
from services.errors import Conflict, Forbidden, NotFound
from tests.support.gateways import Fakes

PRINCIPALS = (
    {"name": "operator", "token": "operator-token"},
    {"name": "desk", "tenant": "office", "token": "desk-token"},
    {"name": "kiosk", "tenant": "guests", "token": "kiosk-token"},
    {"name": "screen", "tenant": "guests", "token": "screen-token", "roles": ["ask"]},
)
RULES = (
    {"decision": "deny", "tenant": "guests", "host": "shop.example.com", "path": "/v1/orders*", "method": "[!GHO]*"},
    {"decision": "allow", "tenant": "guests", "host": "shop.example.com"},
)
ASKED = "Order one kit"


class Market:
    """A gateway with a real catalogue, in which `shop` belongs to everyone and takes orders."""

    def __init__(self, app: FastAPI, fakes: Fakes) -> None:
        self._app, self.fakes = app, fakes

    def of(self, name: str) -> GatewayClient:
        return GatewayClient(open_http("http://gateway", InProcessTransport(self._app)), f"{name}-token")

    async def ordered(self, name: str, api: str) -> Run:
        """Start a plan that calls this API, and return the run."""
        plan = Plan(
            steps=(Step(id="var1", api=api, arguments={"sku": LiteralValue(value="KIT")}),),
            answer=(AnswerOutput(name="order", value=Reference(step="var1", path=("id",))),),
        )
        self.fakes.planner.plans[ASKED] = plan
        self.fakes.executor.outcomes[api] = Succeeded(value={"id": "ord_1"}, status=201)
        options = SolveOptions(mutations=Decision.ALLOW, pinned=(api,))
        return await self.of(name).solve(SolveRequest(query=ASKED, options=options))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def market(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Market]:
    async with AsyncExitStack() as stack:
        path: Path = tmp_path_factory.mktemp("market")
        settings = RetrieverSettings(database_url=f"sqlite+aiosqlite:///{path}/retriever.db")
        retriever = create_retriever(settings, encoder=load_encoder())
        await stack.enter_async_context(retriever.router.lifespan_context(retriever))
        http = await stack.enter_async_context(open_http("http://retriever", InProcessTransport(retriever)))
        fakes = Fakes()
        given: dict[str, Any] = {"principals": PRINCIPALS, "policy_rules": RULES, "warm_apis": 0}
        app = create_app(
            GatewaySettings(database_url=f"sqlite+aiosqlite:///{path}/gateway.db", **given),
            peers=Peers(RetrieverClient(http), fakes.demos, fakes.planner, fakes.executor),
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        market = Market(app, fakes)
        assert (await sent(market.of("operator"), document())).added == 1
        yield market


def document(operation: str = "createOrder", server: str = "https://shop.example.com/v1", path: str = "/orders") -> str:
    parameter = {"name": "sku", "in": "query", "required": True, "schema": {"type": "string"}}
    post = {"operationId": operation, "summary": "Order a kit", "responses": {"200": {"description": "ok"}}}
    root = {"openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "servers": [{"url": server}]}
    return json.dumps(root | {"paths": {path: {"post": post | {"parameters": [parameter]}}}})


async def sent(client: GatewayClient, text: str, provider: str = "shop", **options: Any) -> ImportReport:
    events = client.import_apis(ImportRequest(document=text, provider=provider, **options))
    report = [event async for event in events][-1]
    assert isinstance(report, ImportReport)
    return report


@pytest.mark.asyncio(loop_scope="module")
async def test_the_rule_holds(market: Market) -> None:
    run = await market.ordered("kiosk", "shop.createOrder")
    assert (run.status, [d.code for d in run.diagnostics]) == (RunStatus.NO_PLAN, [DiagnosticCode.DENIED])
    assert (await market.ordered("desk", "shop.createOrder")).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("operation", "server", "path"),
    [
        ("create0rder", "https://shop.example.com/v1", "/orders"),
        ("create0rder", "https://SHOP.example.com.:443/", "/v1//orders"),
        ("create0rder", "https://shop.example.com/v1/x", "/../orders"),
        ("create0rder", "https://shop.example.com", "/v1/%6Frders"),
        ("create0rder", "https://shop.example.com/v1/orders", "/"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_renames_his_way_out_of_a_rule(market: Market, operation: str, server: str, path: str) -> None:
    kiosk, calls = market.of("kiosk"), list(market.fakes.executor.calls)
    for options in ({}, {"tenants": ("guests",)}, {"dry_run": True}, {"hold_changes": True}):
        with pytest.raises(Conflict, match="another tenant"):
            await sent(kiosk, document(operation, server, path), **options)
    with pytest.raises(NotFound):
        await kiosk.api("shop.create0rder")
    assert (await sent(kiosk, document(operation, server, path), provider="mine")).applied
    run = await market.ordered("kiosk", "mine.create0rder")
    assert (run.status, [d.code for d in run.diagnostics]) == (RunStatus.NO_PLAN, [DiagnosticCode.DENIED])
    assert "execute" not in market.fakes.executor.calls[len(calls) :]
    await kiosk.delete_provider("mine")


@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_moves_or_removes_what_others_use(market: Market) -> None:
    kiosk, desk = market.of("kiosk"), market.of("desk")
    before = await desk.api("shop.createOrder")
    for text, options in (
        (document(), {"server": "http://127.0.0.1:9"}),
        (document(server="https://evil.example"), {}),
        (document(operation="other"), {}),
    ):
        with pytest.raises(Conflict, match="another tenant"):
            await sent(kiosk, text, **options)
    with pytest.raises(Conflict, match="another tenant"):
        await kiosk.delete_provider("shop")
    for tenants in (("office",), (), ("guests", "office")):
        with pytest.raises(Forbidden):
            await sent(kiosk, document("findContact", "https://evil.example"), provider="helper", tenants=tenants)
    await sent(kiosk, document("findContact", "https://evil.example"), provider="helper")
    with pytest.raises(NotFound):
        await desk.api("helper.findContact")
    with pytest.raises(Conflict, match="another tenant"):
        await sent(desk, document(), provider="helper")
    assert await desk.api("shop.createOrder") == before


@pytest.mark.asyncio(loop_scope="module")
async def test_who_only_asks_changes_nothing_at_all(market: Market) -> None:
    screen = market.of("screen")
    demo = Demo(query="?", plan=Plan(steps=(Step(id="var1", api="shop.createOrder"),)))
    attempts = (
        sent(screen, document(), provider="own"),
        screen.delete_provider("shop"),
        screen.add_demo(demo),
        screen.import_demos(ImportDemosRequest(demos=(demo,))),
        screen.delete_demo("0" * 64),
        market.ordered("screen", "shop.createOrder"),
    )
    for attempt in attempts:
        with pytest.raises(Forbidden, match="needs the role"):
            await attempt


@pytest.mark.asyncio(loop_scope="module")
async def test_the_operator_too_says_that_calls_are_to_go_elsewhere(market: Market) -> None:
    operator, desk = market.of("operator"), market.of("desk")
    held = await sent(operator, document(server="https://new.example.com/v1"))
    assert (held.applied, [(one.what, one.after) for one in held.sensitive]) == (
        False, [("host", "https://new.example.com")],
    )  # fmt: skip
    assert (await desk.api("shop.createOrder")).server == "https://shop.example.com/v1"
    assert (await sent(operator, document(server="https://new.example.com/v1"), confirm=held.change_hash)).applied
    assert (await desk.api("shop.createOrder")).server == "https://new.example.com/v1"
    back = await sent(operator, document())
    assert (await sent(operator, document(), confirm=back.change_hash)).applied


@pytest.mark.asyncio(loop_scope="module")
async def test_demonstrations_are_their_tenants(market: Market) -> None:
    operator, desk, kiosk = market.of("operator"), market.of("desk"), market.of("kiosk")
    demo = Demo(query=ASKED, plan=Plan(steps=(Step(id="var1", api="shop.createOrder"),)))
    own = await kiosk.add_demo(demo)
    with pytest.raises(Forbidden, match="operator"):
        await kiosk.add_demo(demo, shared=True)
    assert [(await client.demos()).total for client in (kiosk, desk, operator)] == [1, 0, 0]
    assert (await market.ordered("desk", "shop.createOrder")).demos == ()
    with pytest.raises(NotFound):
        await desk.delete_demo(own.id)
    await kiosk.delete_demo(own.id)
    common = await operator.add_demo(demo, shared=True)
    assert (await desk.demos()).demos == (common,)
    assert len((await market.ordered("desk", "shop.createOrder")).demos) == 1
    for client in (kiosk, desk):
        with pytest.raises(Forbidden, match="operator"):
            await client.delete_demo(common.id)
    await operator.delete_demo(common.id)
    run = await market.ordered("desk", "shop.createOrder")
    await desk.judge(run.id, FeedbackRequest(verdict=Verdict.CONFIRMED))
    await desk.demonstrate(run.id)
    assert [(await client.demos()).total for client in (kiosk, desk)] == [0, 1]
    await desk.judge(run.id, FeedbackRequest(verdict=Verdict.REJECTED))
    assert (await desk.demos()).total == 0
