"""Authentication comes before the request's body is read, and an open gateway refuses other machines."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from deploy.onebox import RunningStack, running_stack
from deploy.serve import main
from deploy.sockets import UnprotectedService, refuse_unprotected, serving
from gateway.console.pages import ConsoleRoute
from gateway.main import create_app
from gateway.routing import ProtectedRoute
from gateway.settings import GatewaySettings
from tests.support.gateways import Fakes, open_gateway
from tests.support.unread import status_without_body

TOKEN = "desk-token"


@pytest.mark.parametrize("path", ["/solve", "/plan", "/apis:import", "/demos", "/demos:import", "/v1/apis:import"])
@pytest.mark.parametrize("authorizations", [[], ["Bearer wrong-token"], [f"Bearer {TOKEN}", "Bearer wrong-token"]])
async def test_no_body_is_read_without_a_token(path: str, authorizations: list[str], tmp_path: Path) -> None:
    async with open_gateway(tmp_path, token=TOKEN) as gateway:
        status = await status_without_body(gateway.app, path, authorizations)
        assert status == (400 if len(authorizations) > 1 else 401)


def test_every_route_but_the_probes_asks_for_a_token() -> None:
    """This finds new routes without authentication."""
    open_routes = {path for path, route in _routes(create_app(GatewaySettings(token=TOKEN))) if not route}
    probes = {"/healthz", "/readyz", "/metrics"}
    assert open_routes == probes | {"/docs", "/openapi.json", "/console/login", "/console/static/{name}"}


def _is_guarded(route: APIRoute) -> bool:
    return isinstance(route, ProtectedRoute) or (isinstance(route, ConsoleRoute) and route.needs_session)


def _routes(app: FastAPI) -> list[tuple[str, bool]]:
    found = []
    document = app.openapi()["paths"]
    stack: list[Any] = list(app.routes)
    while stack:
        route = stack.pop()
        if isinstance(route, APIRoute):
            found.append((route.path, _is_guarded(route)))
        else:
            stack += getattr(getattr(route, "original_router", None), "routes", [])
    assert len(found) > len(document)
    return found


@pytest.mark.parametrize(
    ("settings", "host", "refused"),
    [
        ({}, "127.0.0.1", False),
        ({}, "::1", False),
        ({}, "localhost", False),
        ({}, "0.0.0.0", True),
        ({}, "::", True),
        ({}, "192.0.2.1", True),
        ({}, "nestor.example", True),
        ({"token": TOKEN}, "0.0.0.0", False),
        ({"principals": [{"name": "desk", "token": TOKEN}]}, "0.0.0.0", False),
        ({"allow_anybody": True}, "0.0.0.0", False),
    ],
)
def test_nobody_listens_to_other_machines_without_a_token(settings: dict[str, Any], host: str, refused: bool) -> None:
    app = create_app(GatewaySettings.model_validate(settings))
    if refused:
        with pytest.raises(UnprotectedService, match="NESTOR_GATEWAY_TOKEN"):
            refuse_unprotected(app, host)
    else:
        refuse_unprotected(app, host)


def test_serving_to_other_machines_needs_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gateway", "--host", "0.0.0.0", "--port", "0"])
    assert ended.value.code == 2
    assert "NESTOR_GATEWAY_TOKEN" in capsys.readouterr().err


def test_a_world_is_ready_once_it_knows_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[httpx2.Response] = []

    async def import_sandbox(found: RunningStack) -> None:
        async with httpx2.AsyncClient(base_url=found.gateway_url) as http:
            before.append(await http.get("/readyz"))

    monkeypatch.setattr("deploy.onebox.import_sandbox", import_sandbox)
    with running_stack(tmp_path) as found:
        after = httpx2.get(f"{found.gateway_url}/readyz")
    assert (before[0].status_code, before[0].json()["checks"]["sandbox"]) == (503, "its APIs are being imported")
    assert (after.status_code, after.json()["checks"]["sandbox"]) == (200, "ok")


def test_a_page_cannot_name_this_machine_its_own(tmp_path: Path) -> None:
    """DNS rebinding: the requests of a browser whose page's host name resolves to 127.0.0.1."""
    fakes = Fakes()
    settings = GatewaySettings(database_url=f"sqlite+aiosqlite:///{tmp_path}/gateway.db", warm_apis=0)
    with serving(create_app(settings, peers=fakes.peers)) as url:
        headers = {"Host": "attacker.example", "Origin": "http://attacker.example"}
        for method, path in (("POST", "/solve"), ("GET", "/runs")):
            assert httpx2.request(method, f"{url}{path}", headers=headers, json={"query": "x"}).status_code == 421
        assert httpx2.get(f"{url}/runs").status_code == 200
    assert fakes.planner.calls == []
