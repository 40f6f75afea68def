"""Nestor assembled in three ways: from fakes, in one process, and from services that speak HTTP over sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from demo_svc.main import create_app as create_demo_svc
from demo_svc.settings import DemoSettings
from deploy.sockets import refusing, serving
from executor_svc.main import create_app as create_executor_svc
from executor_svc.settings import ExecutorSettings
from gateway.main import create_app as create_gateway
from gateway.peers import Peers
from gateway.settings import GatewaySettings
from planner_svc.backends import load_backends
from planner_svc.main import create_app as create_planner_svc
from planner_svc.models import PlanDraft
from planner_svc.settings import PlannerSettings
from retriever_svc.main import create_app as create_retriever_svc
from retriever_svc.settings import RetrieverSettings
from services.clients import (
    DemoClient,
    Demos,
    Executor,
    ExecutorClient,
    GatewayClient,
    InProcessTransport,
    Planner,
    PlannerClient,
    Retriever,
    RetrieverClient,
    open_http,
)
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.outcome import StepOutcome
from services.contracts.plan import Plan
from services.contracts.planning import PlanRequest
from services.encoder import Encoder
from tests.fakes import FakeDemos, FakeExecutor, FakePlanner, FakeRetriever

PEERS = ("retriever_svc", "demo_svc", "planner_svc", "executor_svc")
TOKENS = {name: f"{name}-token" for name in PEERS}
PROOF_KEY = SecretStr("congruence" * 4)
SERVICES = ("gateway", *PEERS)


@dataclass
class Script:
    """The script for all houses: plans by query, the delay of planning, and the answers of the upstream's APIs."""

    plans: dict[str, Plan] = field(default_factory=dict)
    delay_s: float = 0.0
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    """For the fake executor only. The real one gets the answers from the upstream."""

    name = "scripted"

    async def read(self, apis: Sequence[Api]) -> int:
        """Do nothing; a script needs no preparation."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Return the scripted plan, as a backend of the real planner."""
        await asyncio.sleep(self.delay_s)
        plan = self.plans.get(request.query)
        return PlanDraft(plan, confidence=1.0, reason="" if plan else "Nothing in the catalogue fits this request.")


Without = Callable[[str], Any]


@dataclass
class House:
    """One assembled Nestor. ``raw`` are HTTP clients of the services; with fakes there is only the gateway's."""

    name: str
    retriever: Retriever
    demos: Demos
    planner: Planner
    executor: Executor
    gateway: GatewayClient
    script: Script
    raw: dict[str, httpx2.AsyncClient]
    without: Without
    """An async context manager: the gateway's raw client while that peer is down."""
    set_delay: Callable[[float], None]
    seen: list[tuple[str, str]] = field(default_factory=list)
    """The service and the request id of every received request."""

    @property
    def real(self) -> bool:
        """Whether this house consists of the real services."""
        return self.name != "fakes"


@dataclass
class Listener:
    """ASGI middleware that records the request id of every request to a service."""

    app: ASGIApp
    service: str
    seen: list[tuple[str, str]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"x-request-id", b"")
            self.seen.append((self.service, given.decode()))
        await self.app(scope, receive, send)


@asynccontextmanager
async def open_fakes(folder: Path, script: Script) -> AsyncIterator[House]:
    """The gateway in front of fakes."""
    retriever, demos, planner, executor = FakeRetriever(), FakeDemos(), FakePlanner(), FakeExecutor()
    planner.plans, executor.outcomes = script.plans, script.outcomes
    fakes = {"retriever_svc": retriever, "demo_svc": demos, "planner_svc": planner, "executor_svc": executor}
    app = create_gateway(
        GatewaySettings(database_url=_database(folder, "gateway"), warm_apis=0),
        peers=Peers(retriever, demos, planner, executor),
    )
    async with app.router.lifespan_context(app), open_http("http://gateway", InProcessTransport(app)) as http:

        @asynccontextmanager
        async def without(peer: str) -> AsyncIterator[httpx2.AsyncClient]:
            fakes[peer].down = True
            yield http
            fakes[peer].down = False

        def set_delay(delay_s: float) -> None:
            planner.delay_s = delay_s

        gateway = GatewayClient(http)
        yield House(
            "fakes", retriever, demos, planner, executor, gateway, script, {"gateway": http}, without, set_delay
        )


@asynccontextmanager
async def open_onebox(folder: Path, script: Script, encoder: Encoder, upstream: str) -> AsyncIterator[House]:
    """All real services in this process and event loop, connected by in-process transports."""
    seen: list[tuple[str, str]] = []
    async with AsyncExitStack() as stack:
        pool = ComputePool(1, 16)
        stack.push_async_callback(pool.close)
        apps = _peers(folder, script, encoder, upstream, pool)
        for app in apps.values():
            await stack.enter_async_context(app.router.lifespan_context(app))
        transports = {name: InProcessTransport(Listener(app, name, seen)) for name, app in apps.items()}
        nowhere = stack.enter_context(refusing())

        @asynccontextmanager
        async def gateway(left_out: str = "") -> AsyncIterator[httpx2.AsyncClient]:
            settings = _gateway_settings(folder, left_out, dict.fromkeys(PEERS, nowhere))
            given = {name: transport for name, transport in transports.items() if name != left_out}
            app = create_gateway(settings, transports=given)
            transport = InProcessTransport(Listener(app, "gateway", seen))
            async with app.router.lifespan_context(app), open_http("http://gateway", transport) as http:
                yield http

        raw = {name: open_http(f"http://{name}", transport) for name, transport in transports.items()}
        raw["gateway"] = await stack.enter_async_context(gateway())
        yield await _house("onebox", stack, script, raw, gateway, seen)


@asynccontextmanager
async def open_sockets(folder: Path, script: Script, encoder: Encoder, upstream: str) -> AsyncIterator[House]:
    """All real services on sockets, each in its own thread and event loop."""
    seen: list[tuple[str, str]] = []
    async with AsyncExitStack() as stack:
        pool = ComputePool(1, 16)
        stack.push_async_callback(pool.close)
        apps = _peers(folder, script, encoder, upstream, pool)
        urls = {name: await stack.enter_async_context(_served(Listener(app, name, seen))) for name, app in apps.items()}
        nowhere = stack.enter_context(refusing())

        @asynccontextmanager
        async def gateway(left_out: str = "") -> AsyncIterator[httpx2.AsyncClient]:
            reached = urls | ({left_out: nowhere} if left_out else {})
            app = create_gateway(_gateway_settings(folder, left_out, reached))
            async with _served(Listener(app, "gateway", seen)) as url, open_http(url) as http:
                yield http

        raw = {name: open_http(url) for name, url in urls.items()}
        raw["gateway"] = await stack.enter_async_context(gateway())
        yield await _house("sockets", stack, script, raw, gateway, seen)


async def _house(
    name: str,
    stack: AsyncExitStack,
    script: Script,
    raw: dict[str, httpx2.AsyncClient],
    without: Without,
    seen: list[tuple[str, str]],
) -> House:
    for peer in PEERS:
        stack.push_async_callback(raw[peer].aclose)

    def set_delay(delay_s: float) -> None:
        script.delay_s = delay_s

    return House(
        name,
        RetrieverClient(raw["retriever_svc"], TOKENS["retriever_svc"]),
        DemoClient(raw["demo_svc"], TOKENS["demo_svc"]),
        PlannerClient(raw["planner_svc"], TOKENS["planner_svc"]),
        ExecutorClient(raw["executor_svc"], TOKENS["executor_svc"]),
        GatewayClient(raw["gateway"]),
        script,
        raw,
        without,
        set_delay,
        seen,
    )


def _peers(folder: Path, script: Script, encoder: Encoder, upstream: str, pool: ComputePool) -> dict[str, FastAPI]:
    """The four services behind the gateway. Planning is scripted unless a request names the `compact` backend."""
    backends = {**load_backends(pool), script.name: script}
    retriever = RetrieverSettings(database_url=_database(folder, "retriever"), service_token=TOKENS["retriever_svc"])
    demos = DemoSettings(database_url=_database(folder, "demos"), service_token=TOKENS["demo_svc"])
    planner = PlannerSettings(default_backend=script.name, proof_key=PROOF_KEY, service_token=TOKENS["planner_svc"])
    executor = ExecutorSettings(
        database_url=_database(folder, "executor"),
        allowed_private_hosts=(upstream,),
        proof_key=PROOF_KEY,
        service_token=TOKENS["executor_svc"],
    )
    return {
        "retriever_svc": create_retriever_svc(retriever, encoder=encoder),
        "demo_svc": create_demo_svc(demos, encoder=encoder),
        "planner_svc": create_planner_svc(planner, backends=backends),
        "executor_svc": create_executor_svc(executor),
    }


def _gateway_settings(folder: Path, suffix: str, urls: dict[str, str]) -> GatewaySettings:
    return GatewaySettings(
        database_url=_database(folder, f"gateway{suffix}"),
        retriever_url=urls["retriever_svc"],
        demo_url=urls["demo_svc"],
        planner_url=urls["planner_svc"],
        executor_url=urls["executor_svc"],
        retriever_token=TOKENS["retriever_svc"],
        demo_token=TOKENS["demo_svc"],
        planner_token=TOKENS["planner_svc"],
        executor_token=TOKENS["executor_svc"],
        warm_apis=0,
    )


def _database(folder: Path, name: str) -> str:
    return f"sqlite+aiosqlite:///{folder}/{name}.db"


@asynccontextmanager
async def _served(app: ASGIApp) -> AsyncIterator[str]:
    server = serving(app)
    url = await asyncio.to_thread(server.__enter__)
    try:
        yield url
    finally:
        await asyncio.to_thread(server.__exit__, None, None, None)
