"""Every fault on every hop: a problem or a failed step within the deadline, and recovery afterwards."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from deploy.sockets import serving
from gateway.main import create_app as create_gateway
from services.clients import InProcessTransport, open_http
from services.clients.retriever import RetrieverClient
from services.compute import ComputePool
from services.contracts.api import ImportRequest
from services.encoder import load_encoder
from tests.chaos.proxy import Fault, FaultProxy, open_proxy
from tests.congruence.houses import PEERS, TOKENS, Script, _gateway_settings, _peers
from tests.congruence.world import HOLIDAYS_ASKED, ROOM_ASKED, booking, document, nested
from tests.support.upstream import serve_upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEADLINE_MS = 700
UPSTREAM = "upstream"


@dataclass
class Hops:
    """A gateway with a proxy in front of each peer and of the upstream."""

    gateway: httpx2.AsyncClient
    proxies: dict[str, FaultProxy]

    async def solve(self, query: str, mutations: str = "ask") -> httpx2.Response:
        body = {"query": query, "options": {"deadline_ms": DEADLINE_MS, "mutations": mutations, "demos": 1}}
        async with asyncio.timeout(10):  # a hang fails the test
            return await self.gateway.post("/solve", json=body)

    async def until_well(self) -> None:
        """Solve until it succeeds. Connections that a fault has broken are only detected when they are used."""
        async with asyncio.timeout(10):
            while (await self.solve(HOLIDAYS_ASKED)).json().get("status") != "succeeded":
                pass


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def hops(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hops]:
    folder: Path = tmp_path_factory.mktemp("hops")
    rng, script = random.Random(7), Script()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serve_upstream())
        upstream.replies("/findCountry", {"code": "PT"})
        upstream.replies("/listHolidays", {"names": ["Labour Day"]})
        upstream.replies("/bookRoom", {"id": "bkg_1"})
        pool = ComputePool(1, 16)
        stack.push_async_callback(pool.close)
        host, _, port = upstream.host.partition(":")
        proxies = {UPSTREAM: await stack.enter_async_context(open_proxy(host, int(port), rng))}
        origin = f"127.0.0.1:{proxies[UPSTREAM].port}"
        for name, app in _peers(folder, script, load_encoder(), origin, pool).items():
            server = serving(app)
            url = await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
            proxies[name] = await stack.enter_async_context(open_proxy("127.0.0.1", httpx2.URL(url).port or 0, rng))
        urls = {name: f"http://127.0.0.1:{proxies[name].port}" for name in PEERS}
        async with open_http(urls["retriever_svc"]) as http:
            learning = ImportRequest(document=document(f"http://{origin}"), provider="hops")
            async for _ in RetrieverClient(http, TOKENS["retriever_svc"]).import_document(learning):
                pass
        script.plans |= {HOLIDAYS_ASKED: nested("hops"), ROOM_ASKED: booking("hops")}
        gateway = create_gateway(_gateway_settings(folder, "", urls))
        await stack.enter_async_context(gateway.router.lifespan_context(gateway))
        client = await stack.enter_async_context(open_http("http://gateway", InProcessTransport(gateway)))
        yield Hops(client, proxies)


@pytest.mark.parametrize("fault", list(Fault), ids=str)
@pytest.mark.parametrize("hop", [*PEERS, UPSTREAM])
async def test_a_fault_on_one_hop(hops: Hops, hop: str, fault: Fault) -> None:
    await hops.until_well()
    await hops.proxies[hop].set(fault)
    try:
        response = await hops.solve(HOLIDAYS_ASKED)
    finally:
        await hops.proxies[hop].set(None)
    said = response.json()
    if response.status_code == 200:
        # The answer was complete before the fault, the step failed with a reason, or the peer was not needed.
        assert said["status"] in ("succeeded", "failed"), said
    else:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.status_code in (503, 504), said
    if hop == UPSTREAM and fault is not Fault.DRIP:
        assert said["status"] == "failed"
        assert said["steps"][0]["outcome"]["kind"] == "failed"
    await hops.until_well()


@pytest.mark.parametrize("fault", list(Fault), ids=str)
async def test_a_booking_through_a_faulty_network_is_known_or_in_doubt(hops: Hops, fault: Fault) -> None:
    await hops.until_well()
    await hops.proxies[UPSTREAM].set(fault)
    try:
        said = (await hops.solve(ROOM_ASKED, mutations="allow")).json()
    finally:
        await hops.proxies[UPSTREAM].set(None)
    outcome = said["steps"][0]["outcome"]
    if fault is Fault.REFUSE:
        assert (said["status"], outcome["kind"]) == ("failed", "failed")  # it was never sent, so there is no doubt
    else:
        # If a status line arrived, the result is known; otherwise it is in doubt.
        assert (said["status"], outcome["kind"]) in (("in_doubt", "in_doubt"), ("failed", "failed"))
        if outcome["kind"] == "failed":
            assert outcome["status"] is not None
        else:
            assert [doubt["step"] for doubt in said["doubts"]] == ["var1"]
