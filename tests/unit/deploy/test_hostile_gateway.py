"""What the command line prints of a gateway that is not Nestor's."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from deploy.cli import app
from deploy.cli import gateway as cli_gateway
from deploy.sockets import serving
from services.clients import GatewayClient, open_http
from services.contracts.event import RunEvent
from services.contracts.execution import StepStarted
from services.errors import ServiceUnavailable

STEERING = "\x1b]0;owned\x07\x1b[2J"
KEY = {
    "id": "0" * 20,
    "name": "desk",
    "tenant": STEERING,
    "roles": ["ask"],
    "created_at": "2026-01-01T00:00:00Z",
    "created_by": "boss",
}
ENTRY = {
    "id": "1",
    "at": "2026-01-01T00:00:00Z",
    "action": "key.create",
    "outcome": "done",
    "principal": "boss",
    "tenant": STEERING,
    "target": "x",
    "digest": STEERING,
}
RUN = {
    "id": STEERING,
    "status": "succeeded",
    "query": "q",
    "created_at": "2026-01-01T00:00:00Z",
    "total_ms": 1,
}
ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/keys"): {"keys": [KEY], "next": STEERING},
    ("POST", "/keys"): KEY | {"key": f"nst_{STEERING}"},
    ("GET", "/audit"): {"entries": [ENTRY], "next": STEERING},
    ("GET", "/runs"): {"runs": [RUN], "next": STEERING},
}


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gateway = FastAPI()
    for (method, path), answer in ANSWERS.items():
        gateway.add_api_route(path, lambda answer=answer: answer, methods=[method])
    with serving(gateway) as address:
        monkeypatch.setenv("NESTOR_URL", address)
        yield


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "command", ["keys list", "keys create desk --role ask", "audit", "runs list"], ids=lambda one: one.split(" -")[0]
)
def test_a_hostile_gateway_does_not_steer_the_terminal(command: str) -> None:
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert "owned" in result.output
    assert not {"\x1b", "\x07"} & set(result.output)


def test_the_id_of_a_run_that_goes_on_does_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(GatewayClient):
        async def events(self, run_id: str, after: int = 0) -> AsyncGenerator[RunEvent, None]:
            if run_id:
                raise ServiceUnavailable("gone")
            yield RunEvent(id=1, event=StepStarted(step="var1", api="a.b", at_ms=1))

    async def follow() -> None:
        client = Gone(open_http("http://gateway"))
        try:
            await cli_gateway.follow(client, STEERING, lambda _: None)
        finally:
            await client.aclose()

    monkeypatch.setattr(cli_gateway, "_PAUSES_S", ())
    with pytest.raises(ServiceUnavailable):
        asyncio.run(follow())
    told = capsys.readouterr().err
    assert "nestor runs watch" in told
    assert "\x1b" not in told
