"""Builds the gateway."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from gateway.audit import AuditLog
from gateway.console.routes import console_routers
from gateway.events import Events
from gateway.handlers import routers
from gateway.issuers import open_issuers
from gateway.keys import KeyStore
from gateway.metrics import GatewayMetrics
from gateway.peers import Peers, Transports, open_peers
from gateway.principals import Principals
from gateway.quotas import Quotas
from gateway.recovery import Recovery
from gateway.runs import Runs
from gateway.secret_audit import SecretAudit
from gateway.service import GatewayService
from gateway.settings import GatewaySettings
from gateway.storage import MEMBERS, RunStore
from gateway.tenants import Tenants
from gateway.warming import Warmer
from services.app import create_service
from services.ownership.members import Membership
from services.storage.engine import Probe, Transactions, create_engine
from services.storage.migrate import migrate

DESCRIPTION = """Turns a sentence into a checked, parallel graph of real API calls, runs it, and answers.

`POST /solve` runs the complete pipeline. `POST /plan` stops before the first call.
Errors are `application/problem+json`."""


def create_app(
    settings: GatewaySettings | None = None, *, transports: Transports | None = None, peers: Peers | None = None
) -> FastAPI:
    """The gateway.

    Args:
        settings: read from the environment by default.
        transports: in-process transports, by service name, that replace network calls.
        peers: clients to use instead of the services that the settings name.
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
            transactions = Transactions(engine)
            app.state.keys, app.state.audit = KeyStore(transactions), AuditLog(transactions)
            metrics = GatewayMetrics(app.state.registry)
            issuers, issuer_keys = await stack.enter_async_context(open_issuers(settings, metrics))
            app.state.principals = Principals(settings, app.state.keys, issuers)
            await app.state.audit.note_configuration(settings)
            app.state.service = await stack.enter_async_context(
                open_service(transactions, asked, settings, metrics, app.state.keys, app.state.audit)
            )
            checks = {f"issuer {name}": keys.check for name, keys in issuer_keys.items()}
            app.state.optional = frozenset(checks)  # keys and tokens of other issuers still work
            app.state.readiness = checks | {
                "database": Probe(engine).check,
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
        routers=[*routers(), *console_routers()],
        lifespan=lifespan,
    )


@asynccontextmanager
async def open_service(
    transactions: Transactions,
    peers: Peers,
    settings: GatewaySettings,
    metrics: GatewayMetrics,
    keys: KeyStore,
    audit: AuditLog,
) -> AsyncGenerator[GatewayService, None]:
    """The gateway without its routes. Its background tasks run until the end of the context."""
    quotas = Quotas(settings, metrics)
    store = RunStore(transactions, quotas.read, quotas.charge)
    membership = Membership(transactions.engine, MEMBERS, settings.lease_s)
    runs = Runs(peers, store, settings, metrics, quotas, membership.id)
    events = Events(store, runs.lives)
    tenants = Tenants(peers, store, runs, quotas, keys, audit, settings)
    try:
        recovery = Recovery(runs, store, events, membership, settings)
        warmer = Warmer(peers.retriever, peers.planner, settings.warm_apis)
        secrets = SecretAudit(peers.executor, audit, settings.operator_tenant)
        async with recovery.working(), warmer.working(), secrets.working():
            yield GatewayService(peers, store, runs, events, quotas, tenants, audit, settings, metrics)
    finally:
        store.close()
