"""Two processes of ``nestor serve`` over one data folder (docs/operations.md): each finishes the other's runs."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from aiohttp import web

from deploy.sockets import free_port
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.run import RunStatus
from services.contracts.start import StartRequest
from tests.support.upstream import Seen, Upstream

SOON_S = 90
SETTINGS = {
    "NESTOR_GATEWAY_LEASE_S": "1",
    "NESTOR_EXECUTOR_LEASE_S": "1",
    "NESTOR_GATEWAY_LOG_LEVEL": "CRITICAL",
    "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS": '["127.0.0.1"]',
    "NESTOR_GATEWAY_POLICY_ALLOW": '["shop.*"]',
}


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Server]]:
    """Two servers, both started at once on a new folder."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        started = []
        for port in (free_port(), free_port()):
            line = [sys.executable, "-m", "deploy.cli", "serve", "--port", str(port), "--data", str(tmp_path / "data")]
            process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            started.append(Server(process, f"http://127.0.0.1:{port}"))
        for server in started:
            answers(server, "/readyz")
        yield started


def answers(server: Server, path: str) -> None:
    """Wait until the server answers 200."""
    ends = time.monotonic() + SOON_S
    while time.monotonic() < ends:
        assert server.process.poll() is None, "it has ended"
        try:
            if httpx2.get(server.url + path, timeout=10).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.05)
    raise TimeoutError(path)


def shop(origin: str) -> ImportRequest:
    """A service with a read, and a change that may be sent again."""
    content = {"application/json": {"schema": {"type": "object", "properties": {"left": {"type": "integer"}}}}}
    answer = {"200": {"description": "ok", "content": content}}
    paths = {
        "/stock": {"get": {"operationId": "stock", "summary": "Read the stock", "responses": answer}},
        "/order": {"put": {"operationId": "order", "summary": "Order more", "responses": answer}},
    }
    info = {"title": "Shop", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "servers": [{"url": origin}], "paths": paths}
    return ImportRequest(document=json.dumps(document), provider="shop")


@pytest.mark.parametrize("operation", ["stock", "order"])
async def test_the_other_server_finishes_what_a_killed_one_has_begun(
    servers: list[Server], upstream: Upstream, operation: str
) -> None:
    held, (first, second) = asyncio.Event(), servers

    @upstream.on(f"/{operation}")
    async def answer(_: Seen) -> web.Response:
        await held.wait()
        return web.json_response({"left": 3})

    asked, other = GatewayClient(open_http(first.url)), GatewayClient(open_http(second.url))
    imported = [event async for event in asked.import_apis(shop(upstream.origin))]
    assert isinstance(imported[-1], ImportReport)
    await asyncio.to_thread(answers, second, f"/apis/shop.{operation}")
    call = {"name": f"shop.{operation}", "arguments": {}, "label": "var1"}
    told = {"name": "var_result", "arguments": {"left": "$var1.left$"}}
    run = await asked.start(StartRequest(calls=(call, told), wait=False))
    async with asyncio.timeout(SOON_S):
        await upstream.arrived.wait()
    assert (await other.run(run.id)).status is RunStatus.RUNNING
    first.process.kill()
    held.set()
    async with asyncio.timeout(SOON_S):
        while (ended := await other.run(run.id)).status is RunStatus.RUNNING:  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.05)
    assert (ended.status, [value.value for value in ended.answer.values]) == (RunStatus.SUCCEEDED, [3])
    assert upstream.count(f"/{operation}") == 2
    await asked.aclose()
    await other.aclose()
