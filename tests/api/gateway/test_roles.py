"""Permissions of every role for every route."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from gateway.handlers import routers
from gateway.main import create_app
from gateway.roles import ROLES_KEY, Role
from gateway.routing import ProtectedRoute
from gateway.settings import GatewaySettings
from services.app import service_router
from services.contracts.access import Action
from services.contracts.api import Api
from services.contracts.doubt import ResolveRequest
from services.contracts.outcome import Failed, InDoubt, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.planning import Decision
from services.contracts.run import RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.errors import Conflict, Forbidden
from tests.support.gateways import ASK_ROOM, BOOK, BOOKING, FIND, Fakes, Gateway, ask, call, open_gateway, world_api

OPEN = {"/healthz", "/readyz", "/docs", "/metrics", "/openapi.json"}
ALL, WORK = {"ask", "approve", "administer"}, {"ask", "approve"}
TABLE = {
    "POST /solve": {"ask"},
    "POST /solve:stream": {"ask"},
    "POST /plan": {"ask"},
    "GET /runs": WORK,
    "POST /runs": {"ask"},
    "DELETE /runs/{run_id}": {"administer"},
    "GET /runs/{run_id}": WORK,
    "GET /runs/{run_id}/compare/{other}": WORK,
    "GET /runs/{run_id}/events": WORK,
    "GET /runs/{run_id}/values/{value_id}": WORK,
    "POST /runs/{run_id}:cancel": WORK,
    "POST /runs/{run_id}:rerun": {"ask"},
    "POST /runs/{run_id}/feedback": WORK,
    "POST /runs/{run_id}:approve": {"approve"},
    "POST /runs/{run_id}/steps/{step}:resolve": {"approve"},
    "POST /runs/{run_id}:demo": {"administer"},
    "GET /apis": ALL,
    "GET /apis/{api_id:path}": ALL,
    "GET /documents": ALL,
    "GET /providers/{provider}/credentials": ALL,
    "POST /apis:import": {"administer"},
    "PATCH /providers/{provider}/constants": {"administer"},
    "DELETE /providers/{provider}": {"administer"},
    "POST /credentials:test": {"administer"},
    "GET /demos": ALL,
    "POST /demos": {"administer"},
    "POST /demos:import": {"administer"},
    "DELETE /demos/{demo_id}": {"administer"},
    "POST /keys": {"administer"},
    "GET /keys": {"administer"},
    "DELETE /keys/{key_id}": {"administer"},
    "GET /audit": {"administer"},
    "GET /tenants/{tenant}/export": {"administer"},
    "DELETE /tenants/{tenant}": {"administer"},
    "GET /operations": {"administer"},
}
PRINCIPALS = (
    *({"name": role, "tenant": "red", "token": f"{role}-token", "roles": [role]} for role in Role),
    {"name": "all", "tenant": "red", "token": "all-token"},
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path_factory.mktemp("roles"), principals=PRINCIPALS) as running:
        yield running


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


def test_the_table_names_every_route() -> None:
    app = create_app(GatewaySettings(database_url="sqlite+aiosqlite://"))
    document = app.openapi()
    found = {
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item if path not in OPEN
    }
    assert found == {line.replace(":path", "") for line in TABLE}
    own = [route for router in routers()[:-1] for route in router.routes if isinstance(route, APIRoute)]
    assert {f"{method} {route.path}" for route in own for method in route.methods or ()} == set(TABLE)
    assert all(isinstance(route, ProtectedRoute) for route in own)
    for line, roles in TABLE.items():
        method, path = line.replace(":path", "").split()
        assert set(document["paths"][path][method.lower()][ROLES_KEY]) == roles, line


def test_a_route_that_says_no_role_is_none() -> None:
    router = service_router(route_class=ProtectedRoute)
    with pytest.raises(ValueError, match="which roles"):
        router.get("/new")(lambda: None)
    with pytest.raises(ValueError, match="everybody"):
        router.get("/new", openapi_extra={ROLES_KEY: ["everybody"]})(lambda: None)


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("role", [*Role, "all"])
@pytest.mark.parametrize("line", sorted(TABLE))
@pytest.mark.asyncio(loop_scope="module")
async def test_every_route_for_every_role(standing: Gateway, line: str, role: str, prefix: str) -> None:
    method, path = line.split()
    names = ("{run_id}", "{other}", "{value_id}", "{step}", "{api_id:path}", "{provider}", "{demo_id}", "{key_id}")
    for name in names:
        path = path.replace(name, "0" * 64)
    path = path.replace("{tenant}", "red")
    headers = {"Authorization": f"Bearer {role}-token", "Content-Type": "application/json"}
    # Invalid JSON: a permitted role gets an error about the body, any other role 403 before the body is read.
    content = b"{" if method == "POST" else None
    answer = await standing.http.request(method, prefix + path, headers=headers, content=content)
    if role == "all" or role in TABLE[line]:
        assert answer.status_code != 403
    else:
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["title"] == "Forbidden"
    answer = await standing.http.request(method, prefix + path, content=content)
    assert answer.status_code == 401


async def test_who_asks_may_not_approve_and_who_approves_may_not_ask(gateway: Gateway) -> None:
    asker, approver = gateway.as_principal("ask-token"), gateway.as_principal("approve-token")
    run = await asker.solve(ask(ASK_ROOM))
    assert (run.status, run.asked_by) == (RunStatus.NEEDS_APPROVAL, "ask")
    with pytest.raises(Forbidden, match="`approve`"):
        await asker.approve(run.id, BOOKING.id)
    with pytest.raises(Forbidden, match="`ask`"):
        await approver.solve(ask(ASK_ROOM))
    assert not gateway.fakes.executor.calls.count("execute")
    assert (await approver.approve(run.id, BOOKING.id)).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("allowed", [Decision.ALLOW, Decision.ALLOW_UNSURE])
async def test_who_may_not_approve_does_not_approve_in_advance(gateway: Gateway, allowed: Decision) -> None:
    asker, everything = gateway.as_principal("ask-token"), gateway.as_principal("all-token")
    with pytest.raises(Forbidden, match="`approve`"):
        await asker.solve(ask(ASK_ROOM, mutations=allowed))
    with pytest.raises(Forbidden, match="`approve`"):
        await anext(asker.solve_events(ask(ASK_ROOM, mutations=allowed)))
    assert (await asker.runs()).runs == ()
    assert (await asker.plan(ask(ASK_ROOM, mutations=allowed))).status is RunStatus.NEEDS_APPROVAL
    assert (await everything.plan(ask(ASK_ROOM, mutations=allowed))).status is RunStatus.PLANNED
    assert Action.APPROVE_IN_ADVANCE not in {one.action for one in (await everything.audit()).entries}
    assert (await everything.solve(ask(ASK_ROOM, mutations=allowed))).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("token", ["ask-token", "all-token"])
async def test_a_dry_run_does_not_approve_in_advance_what_is_planned_after_its_approval(
    tmp_path: Path, token: str
) -> None:
    fakes, region = Fakes(), world_api("findRegion", "Find a region by name", "name")
    fakes.retriever.apis |= {region.id: region}
    fakes.executor.outcomes |= {
        FIND.id: Failed(reason="upstream_error", message="404", status=404, detail={"why": "none"}),
        region.id: Succeeded(value={"owner": "somebody else"}, status=200),
    }
    query = "Book a room in Bavaria; find a region by name"
    fakes.planner.plans[query] = _booking(FIND, "code")
    fakes.planner.again[query] = [_booking(region, "owner")]
    rules = [{"decision": "ask", "api": FIND.id}]
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS, policy_rules=rules) as gateway:
        asker, approver = gateway.as_principal(token), gateway.as_principal("approve-token")
        options = SolveOptions(mutations=Decision.ALLOW, dry_run=True)
        run = await asker.solve(SolveRequest(query=query, options=options))
        plan = run.plan
        assert plan is not None
        if token == "all-token":  # it was shown as if its changes had been approved in advance
            with pytest.raises(Conflict, match="Review the run again"):
                await approver.approve(run.id, plan.id, digest=run.digest)
            run = await asker.run(run.id)
        run = await approver.approve(run.id, plan.id, digest=run.digest)
        assert (run.status, run.evidence[-1].outcome) == (RunStatus.NEEDS_APPROVAL, "replanned")
        assert not fakes.executor.sent
        told = (await gateway.as_principal("administer-token").audit()).entries
        assert Action.APPROVE_IN_ADVANCE not in {one.action for one in told}


def _booking(found: Api, field: str) -> Plan:
    room = Reference(step="var1", path=(field,))
    steps = (call("var1", found, name="Bavaria"), call("var2", BOOK, room=room))
    return Plan(steps=steps, answer=(AnswerOutput(name="booking", value=Reference(step="var2", path=("id",))),))


async def test_four_eyes(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, four_eyes=True) as gateway:
        everything, approver = gateway.as_principal("all-token"), gateway.as_principal("approve-token")
        run = await everything.solve(ask(ASK_ROOM))
        with pytest.raises(Forbidden, match="that it requested"):
            await everything.approve(run.id, BOOKING.id)
        with pytest.raises(Forbidden, match="approve its own request"):
            await everything.solve(ask(ASK_ROOM, mutations=Decision.ALLOW))
        assert (await approver.approve(run.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_four_eyes_settle_what_is_in_doubt(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, four_eyes=True) as gateway:
        everything, approver = gateway.as_principal("all-token"), gateway.as_principal("approve-token")
        run = await everything.solve(ask(ASK_ROOM))
        gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
        assert (await approver.approve(run.id, BOOKING.id)).status is RunStatus.IN_DOUBT
        settled = ResolveRequest(outcome="succeeded", value={"id": "bkg_9"})
        with pytest.raises(Forbidden, match="settle a call of a run that it requested"):
            await everything.resolve(run.id, "var1", settled)
        assert (await everything.run(run.id)).status is RunStatus.IN_DOUBT
        assert (await approver.resolve(run.id, "var1", settled)).status is RunStatus.SUCCEEDED
