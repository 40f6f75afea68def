"""Builds the gateway."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI

from gateway.handlers import routers
from gateway.peers import Peers, Transports, open_peers
from gateway.service import GatewayService
from gateway.settings import GatewaySettings
from gateway.storage import RunStore
from services.app import create_service
from services.storage.engine import create_engine, ping
from services.storage.migrate import migrate

DESCRIPTION = """Turns a sentence into a checked, parallel graph of real API calls, runs it, and answers.

`POST /solve` is the whole road. `POST /plan` stops before the first call. Errors are `application/problem+json`."""


def create_app(
    settings: GatewaySettings | None = None, *, transports: Transports | None = None, peers: Peers | None = None
) -> FastAPI:
    """The gateway.

    Args:
        settings: read from the environment where not given.
        transports: replaces sockets by in-process calls for the services it names.
        peers: whom to ask instead of the services that the settings name, for example :mod:`services.testing`.
    """
    settings = settings or GatewaySettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            engine = create_engine(settings.database_url)
            stack.push_async_callback(engine.dispose)
            await migrate(engine, "gateway")
            asked, clients = (peers, []) if peers else open_peers(settings, transports or {})
            for client in clients:
                stack.push_async_callback(client.aclose)
            service = GatewayService(asked, RunStore(engine), settings, app.state.registry)
            stack.push_async_callback(service.close)
            app.state.service = service
            app.state.readiness = {
                "database": partial(ping, engine),
                "retriever_svc": asked.retriever.ready,
                "demo_svc": asked.demos.ready,
                "planner_svc": asked.planner.ready,
                "executor_svc": asked.executor.ready,
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
