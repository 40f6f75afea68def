"""A small catalogue, and a service over it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from retriever_svc.engine.ranking import RankingOptions
from retriever_svc.importers import Imported, Limits, with_content_hash
from retriever_svc.service import CatalogueService
from retriever_svc.storage import CatalogueStorage
from services.compute import ComputePool
from services.contracts.api import Api, ImportReport, ImportRequest
from services.encoder import Encoder
from services.storage.engine import create_engine
from services.storage.migrate import migrate


def api(name: str, summary: str = "", provider: str = "zoo", **members: Any) -> Api:
    """An API with its content hash."""
    return with_content_hash(Api(id=f"{provider}.{name}", provider=provider, name=name, summary=summary, **members))


def found(*apis: Api, provider: str = "zoo") -> Imported:
    """What an importer found in a document with these APIs."""
    return Imported(provider, "openapi-3.1", "0" * 64, apis, (), 0, ())


@asynccontextmanager
async def open_service(url: str, encoder: Encoder, **options: Any) -> AsyncIterator[CatalogueService]:
    """A replica on this database."""
    engine = create_engine(url)
    searches, imports = ComputePool(1, 64), ComputePool(1, 64)
    await migrate(engine, "retriever_svc")
    service = CatalogueService(
        CatalogueStorage(engine), encoder, searches, imports, options=RankingOptions(), limits=Limits(), **options
    )
    try:
        await service.sync()
        yield service
    finally:
        await searches.close()
        await imports.close()
        await engine.dispose()


async def imported(service: CatalogueService, *apis: Api, provider: str = "zoo") -> ImportReport:
    """Import these and return the report."""
    request = ImportRequest(document="-", provider=provider)
    prepared = await service.documents.prepare(found(*apis, provider=provider), request)
    events = [event async for event in service.documents.apply(prepared)]
    report = events[-1]
    assert isinstance(report, ImportReport)
    return report
