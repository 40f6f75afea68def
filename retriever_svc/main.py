"""The retriever as an application."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client import Gauge
from sqlalchemy import make_url

from retriever_svc.answers import AnswerCache
from retriever_svc.engine.ranking import shipped_options
from retriever_svc.engine.saving import SnapshotFiles
from retriever_svc.engine.vectors import Indexes, open_indexes
from retriever_svc.handlers import router
from retriever_svc.importers import Limits
from retriever_svc.service import CatalogueService
from retriever_svc.settings import RetrieverSettings
from retriever_svc.storage import CatalogueStorage
from retriever_svc.sync import Synchroniser
from services.app import create_service
from services.compute import ComputePool
from services.encoder import Encoder, load_encoder
from services.storage.cache import open_cache
from services.storage.engine import create_engine
from services.storage.migrate import migrate
from services.storage.signals import open_signals

_CHANNEL = "nestor_catalogue"


def create_app(
    settings: RetrieverSettings | None = None,
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
    settings = settings or RetrieverSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            app.state.service = service = await _opened(settings, app, encoder, opened)
            size = Gauge("nestor_catalogue_apis", "APIs in the search index.", registry=app.state.registry)
            size.set_function(lambda: service.size)
            yield

    return create_service(
        name="retriever_svc",
        title="Nestor retriever",
        description="The API catalogue, its importer, and the search for the APIs that a request needs.",
        settings=settings,
        routers=[router],
        lifespan=lifespan,
    )


async def _opened(
    settings: RetrieverSettings, app: FastAPI, encoder: Encoder | None, opened: AsyncExitStack
) -> CatalogueService:
    """Open the service and its dependencies. Their clean-up is registered with ``opened``."""
    engine = create_engine(settings.database_url)
    opened.push_async_callback(engine.dispose)
    storage = CatalogueStorage(engine, settings.max_tenant_apis)
    opened.push_async_callback(asyncio.to_thread, storage.close)
    cache = open_cache(settings.redis_url)
    opened.push_async_callback(cache.close)
    signals = open_signals(engine, settings.redis_url, _CHANNEL)
    opened.push_async_callback(signals.close)
    await migrate(engine, "retriever_svc")
    reader = encoder
    if reader is None:
        reader = await asyncio.to_thread(load_encoder, settings.encoder, settings.encoder_threads)
    indexes = open_indexes(settings.index, reader.name, reader.dimension, settings.database_url)
    opened.push_async_callback(asyncio.to_thread, indexes.close)
    imports = ComputePool(
        settings.import_workers, settings.compute_waiting, name="retriever-import", budget_s=settings.import_cpu_s
    )
    opened.push_async_callback(imports.close)
    searches = ComputePool(settings.compute_workers, settings.compute_waiting, name="retriever-search")
    opened.push_async_callback(searches.close)
    service = _service(settings, storage, reader, searches, imports, indexes)
    await service.sync()
    # Check twice as often as requests would need to, so that no request has to check.
    syncing = asyncio.create_task(Synchroniser(service, signals, settings.version_check_s / 2).run())
    opened.push_async_callback(_stopped, syncing)
    app.state.answers = AnswerCache(cache, settings.answer_ttl_s)
    app.state.readiness |= {"catalogue": service.check_index, "database": storage.ping}
    if settings.redis_url is not None:
        app.state.readiness["redis"] = cache.ping
        app.state.optional = frozenset({"redis"})
    return service


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _service(
    settings: RetrieverSettings,
    storage: CatalogueStorage,
    encoder: Encoder,
    searches: ComputePool,
    imports: ComputePool,
    indexes: Indexes,
) -> CatalogueService:
    folder = _index_folder(settings)
    limits = Limits(
        document_bytes=settings.max_document_bytes,
        operations=settings.max_document_operations,
        effects=settings.effects,
    )
    return CatalogueService(
        storage,
        encoder,
        searches,
        imports,
        options=shipped_options(settings, encoder.name),
        limits=limits,
        version_check_s=settings.version_check_s,
        cached_apis=settings.cached_apis,
        indexes=indexes,
        files=None if folder is None else SnapshotFiles(folder, encoder.dimension),
    )


def _index_folder(settings: RetrieverSettings) -> Path | None:
    """The folder of the index: the one in the settings, else beside the database if that is a file."""
    url = make_url(settings.database_url)
    is_file = url.get_backend_name() == "sqlite" and url.database not in {None, "", ":memory:"}
    beside = Path(f"{url.database}.index") if is_file else None
    return settings.index_folder or beside
