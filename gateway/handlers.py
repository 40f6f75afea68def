"""Routes of the gateway. Each says in its signature what it takes and gives; the work is in ``service.py``."""

import hmac
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, status
from pydantic import BaseModel

from gateway.service import GatewayService
from services.app import service_router
from services.contracts.api import Api, ApiSearchPage, ImportRequest
from services.contracts.demo import Demo, DemoPage, ImportDemosReport, ImportDemosRequest
from services.contracts.run import ApproveRequest, Run, RunPage, RunStatus, SolveRequest
from services.errors import ServiceUnavailable, Unauthorized
from services.http import BODY_LIMIT, NdjsonResponse

PRINTABLE = r"^[^\x00-\x1f]*$"
Event = TypeVar("Event", bound=BaseModel)


def get_service(request: Request) -> GatewayService:
    """The service of this app."""
    service: GatewayService = request.app.state.service
    return service


def authorize(request: Request, authorization: Annotated[str | None, Header(include_in_schema=False)] = None) -> None:
    """Refuse a request without the configured token. Raises Unauthorized."""
    token = request.app.state.settings.token
    if token is None:
        return
    expected = f"Bearer {token.get_secret_value()}"
    if not hmac.compare_digest((authorization or "").encode(), expected.encode()):
        raise Unauthorized("Send `Authorization: Bearer TOKEN` with the gateway's token.")


Service = Annotated[GatewayService, Depends(get_service)]
Id = Annotated[str, Path(min_length=1, max_length=400, pattern=PRINTABLE)]
Limit = Annotated[int, Query(ge=1, le=100)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
protected = [Depends(authorize)]
runs = service_router(tags=["solve"], dependencies=protected)
apis = service_router(tags=["apis"], dependencies=protected)
demos = service_router(tags=["demos"], dependencies=protected)


@runs.post("/solve", summary="Solve a request in words")
async def solve(body: SolveRequest, service: Service) -> Run:
    """Find APIs, plan, prove, run, answer. Waits for the answer; the run is kept under its id."""
    return await service.solve(body)


@runs.post(
    "/solve:stream",
    summary="Solve, and follow the run",
    response_class=NdjsonResponse,
)
async def solve_stream(body: SolveRequest, service: Service) -> NdjsonResponse:
    """As `/solve`, but answers one JSON event per line: planned, step_started, step_finished, finished."""
    return NdjsonResponse(await _begun(service.solve_events(body)))


@runs.post("/plan", summary="Plan and prove, execute nothing")
async def plan(body: SolveRequest, service: Service) -> Run:
    """The plan and its proof, or the questions and diagnostics that stand in its way."""
    return await service.plan(body)


@runs.get("/runs", summary="List runs, newest first")
async def list_runs(
    service: Service,
    limit: Limit = 20,
    cursor: Annotated[str | None, Query(max_length=64, pattern=PRINTABLE)] = None,
    status: Annotated[RunStatus | None, Query()] = None,
) -> RunPage:
    """A page of runs; `next` of one page is the `cursor` of the following."""
    return await service.runs.page(limit=limit, cursor=cursor, status=status)


@runs.get("/runs/{run_id}", summary="One run")
async def get_run(run_id: Id, service: Service) -> Run:
    """Everything that is known of a run."""
    return await service.runs.get(run_id)


@runs.post("/runs/{run_id}:approve", summary="Approve a waiting plan and run it")
async def approve_run(run_id: Id, body: ApproveRequest, service: Service) -> Run:
    """The approval holds for exactly the plan named in the body."""
    return await service.approve(run_id, body.plan_id)


@apis.get("/apis", summary="Search the API catalogue")
async def search_apis(
    service: Service,
    query: Annotated[str | None, Query(min_length=1, max_length=1_000)] = None,
    provider: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> ApiSearchPage:
    """Best matches first; without `query`, all APIs in order of their ids."""
    return await service.peers.retriever.search(query, provider=provider, limit=limit, offset=offset)


@apis.post(
    "/apis:import",
    summary="Import an API description",
    response_class=NdjsonResponse,
    openapi_extra={BODY_LIMIT: "max_document_bytes"},
)
async def import_apis(body: ImportRequest, service: Service) -> NdjsonResponse:
    """OpenAPI 3.x or Swagger 2.0 text. Answers one JSON event per line: progress, then one report."""
    return NdjsonResponse(await _begun(service.peers.retriever.import_document(body)))


@apis.get("/apis/{api_id:path}", summary="One API with its schemas")
async def get_api(api_id: Id, service: Service) -> Api:
    """An API as the catalogue holds it."""
    return await service.peers.retriever.get(api_id)


@apis.delete("/providers/{provider}", summary="Remove a provider's APIs", status_code=status.HTTP_204_NO_CONTENT)
async def delete_provider(provider: Id, service: Service) -> None:
    """Removes a provider with all its APIs."""
    await service.peers.retriever.delete_provider(provider)


@demos.get("/demos", summary="List demonstrations")
async def list_demos(
    service: Service,
    api: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> DemoPage:
    """The knowledge base, a page at a time."""
    return await service.peers.demos.list(api=api, limit=limit, offset=offset)


@demos.post("/demos", summary="Add a demonstration", status_code=status.HTTP_201_CREATED)
async def add_demo(body: Demo, service: Service) -> Demo:
    """Adding one that is there already changes nothing."""
    return await service.peers.demos.add(body)


@demos.post("/demos:import", summary="Add many demonstrations", openapi_extra={BODY_LIMIT: "max_document_bytes"})
async def import_demos(body: ImportDemosRequest, service: Service) -> ImportDemosReport:
    """Adds those that are not there yet."""
    return await service.peers.demos.import_demos(body)


@demos.delete("/demos/{demo_id}", summary="Remove a demonstration", status_code=status.HTTP_204_NO_CONTENT)
async def delete_demo(demo_id: Id, service: Service) -> None:
    """Removes one demonstration."""
    await service.peers.demos.delete(demo_id)


async def _begun(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """Wait for the first event, so that what is refused is a plain problem and not a broken stream."""
    first = await anext(events, None)
    if first is None:
        raise ServiceUnavailable("The answer ended before it began.")

    async def all_events() -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_events()


def routers() -> list[APIRouter]:
    """All routes, each at the root and under ``/v1``."""
    versioned = APIRouter(prefix="/v1", include_in_schema=False)
    for router in (runs, apis, demos):
        versioned.include_router(router)
    return [runs, apis, demos, versioned]
