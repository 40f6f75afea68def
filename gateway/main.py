"""Builds the gateway."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI

from gateway.handlers import routers
from gateway.peers import Transports, open_peers
from gateway.service import GatewayService
from gateway.settings import GatewaySettings
from gateway.storage import RunStore
from services.app import create_service
from services.storage.engine import create_engine, ping
from services.storage.migrate import migrate

DESCRIPTION = """Turns a sentence into a checked, parallel graph of real API calls, runs it, and answers.

`POST /solve` is the whole road. `POST /plan` stops before the first call. Errors are `application/problem+json`."""


def create_app(settings: GatewaySettings | None = None, *, transports: Transports | None = None) -> FastAPI:
    """The gateway. ``transports`` replaces sockets by in-process calls for the services it names."""
    settings = settings or GatewaySettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            engine = create_engine(settings.database_url)
            stack.push_async_callback(engine.dispose)
            await migrate(engine, "gateway")
            peers, clients = open_peers(settings, transports or {})
            for client in clients:
                stack.push_async_callback(client.aclose)
            service = GatewayService(peers, RunStore(engine), settings, app.state.registry)
            stack.push_async_callback(service.close)
            app.state.service = service
            app.state.readiness = {
                "database": partial(ping, engine),
                "retriever_svc": peers.retriever.ready,
                "demo_svc": peers.demos.ready,
                "planner_svc": peers.planner.ready,
                "executor_svc": peers.executor.ready,
            }
            yield

    return create_service(
        name="gateway",
        title="Nestor",
        description=DESCRIPTION,
        settings=settings,
        routers=routers(),
        lifespan=lifespan,
    )
