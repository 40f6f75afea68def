"""The executor as an application."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from executor_svc.adapters.http import open_http_adapter
from executor_svc.admission import Sealer
from executor_svc.durable import DurableLane
from executor_svc.handlers import router
from executor_svc.metrics import ExecutorMetrics
from executor_svc.secret_journal import SecretJournal
from executor_svc.secret_store import SecretStore
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from executor_svc.storage import LedgerStore
from executor_svc.tables import MEMBERS
from services.app import create_service
from services.ownership.members import Membership
from services.storage.engine import Probe, create_engine
from services.storage.migrate import migrate


def create_app(settings: ExecutorSettings | None = None, *, transports: None = None) -> FastAPI:
    """Build the executor. It calls no other service, so it needs no transports.

    Raises:
        SecretsUnreadable: the configured secrets cannot be read.
    """
    settings = settings or ExecutorSettings()
    secrets = SecretStore.load(settings.secrets_file, settings.secrets)  # errors while serving would get a traceback

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_executor(settings, app.state.registry, secrets) as (service, engine):
            app.state.service = service
            app.state.readiness = {"database": Probe(engine).check}
            yield

    return create_service(
        name="executor_svc",
        title="Nestor executor",
        description="Runs proved plans with real API calls and streams the events.",
        settings=settings,
        routers=[router],
        lifespan=lifespan,
    )


@asynccontextmanager
async def open_executor(
    settings: ExecutorSettings, registry: CollectorRegistry, secrets: SecretStore | None = None
) -> AsyncIterator[tuple[ExecutorService, AsyncEngine]]:
    """Open the executor's service and its database, without routes. Both are closed at the end.

    Args:
        settings: the executor's settings.
        registry: where its metrics are kept.
        secrets: its secrets; by default those that the settings name are read.

    Raises:
        SecretsUnreadable: the configured secrets cannot be read.
    """
    secrets = secrets or SecretStore.load(settings.secrets_file, settings.secrets)
    metrics = ExecutorMetrics(registry)
    async with AsyncExitStack() as stack:
        engine = create_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        await migrate(engine, "executor_svc")
        journal = SecretJournal(engine, secrets, settings.proof_key)
        await stack.enter_async_context(journal.working())
        adapter = await stack.enter_async_context(open_http_adapter(settings, secrets, metrics.upstream))
        store = LedgerStore(engine, Sealer(settings.proof_key))
        stack.callback(store.close)
        membership = Membership(engine, MEMBERS, settings.lease_s)
        lane = DurableLane(adapter, store, membership, settings, metrics, adapter.workers)
        await stack.enter_async_context(lane.working())
        yield ExecutorService(adapter, lane, store, secrets, journal, settings, metrics), engine
