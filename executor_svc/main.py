"""The executor as an application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from executor_svc.adapters.http import open_http_adapter
from executor_svc.handlers import router
from executor_svc.metrics import ExecutorMetrics
from executor_svc.secret_store import SecretStore
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from services.app import create_service


def create_app(settings: ExecutorSettings | None = None, *, transports: None = None) -> FastAPI:
    """Build the executor. It calls no other service, so it needs no transports.

    Raises:
        SecretsUnreadable: when the app starts, if the configured secrets cannot be read.
    """
    settings = settings or ExecutorSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = SecretStore.load(settings.secrets_file, settings.secrets)
        metrics = ExecutorMetrics(app.state.registry)
        async with open_http_adapter(settings, store) as adapter:
            app.state.service = ExecutorService(adapter, store, settings, metrics)
            yield

    return create_service(
        name="executor_svc",
        title="Nestor executor",
        description="Runs proved plans through real APIs and streams what happens.",
        settings=settings,
        routers=[router],
        lifespan=lifespan,
    )
