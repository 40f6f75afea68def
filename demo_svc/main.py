"""The demo service as an application."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from prometheus_client import Gauge

from demo_svc.handlers import router
from demo_svc.service import DemoService
from demo_svc.settings import DemoSettings
from demo_svc.storage import DemoStorage
from services.app import create_service
from services.compute import ComputePool
from services.encoder import Encoder, load_encoder
from services.storage.engine import create_engine
from services.storage.migrate import migrate


def create_app(
    settings: DemoSettings | None = None,
    *,
    transports: Mapping[str, Any] | None = None,
    encoder: Encoder | None = None,
) -> FastAPI:
    """Build the service.

    Args:
        settings: by default read from the environment.
        transports: how to reach other services; this one needs none.
        encoder: a loaded encoder to share within a process; by default the one named in the settings is loaded.
    """
    settings = settings or DemoSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = create_engine(settings.database_url)
        storage = DemoStorage(engine, settings.max_tenant_demos)
        pool = ComputePool(settings.compute_workers, settings.compute_waiting, name="demo-encoder")
        try:
            await migrate(engine, "demo_svc")
            reader = encoder
            if reader is None:
                reader = await asyncio.to_thread(load_encoder, settings.encoder, settings.encoder_threads)
            service = DemoService(storage, reader, pool, settings.similarity_threshold)
            await service.refresh()
            app.state.service = service
            app.state.readiness.update(database=storage.ping, snapshot=service.check_snapshot)
            size = Gauge(
                "nestor_demos", "Demos in the snapshot that is used for selections.", registry=app.state.registry
            )
            size.set_function(lambda: service.size)
            yield
        finally:
            await pool.close()
            storage.close()
            await engine.dispose()

    return create_service(
        name="demo_svc",
        title="Nestor demo service",
        description="The knowledge base of solved requests, and the Demo Selector of TPTU-v2 (section 3.4).",
        settings=settings,
        routers=[router],
        lifespan=lifespan,
    )
