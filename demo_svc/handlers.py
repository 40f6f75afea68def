"""The routes of the demo service."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response, status

from demo_svc.service import DemoService
from services.app import service_router
from services.contracts.base import ApiId
from services.contracts.demo import (
    Demo,
    DemoPage,
    ImportDemosReport,
    ImportDemosRequest,
    SelectDemosRequest,
    SelectDemosResponse,
    SelectedDemo,
)

router = service_router(tags=["demos"])


def _service(request: Request) -> DemoService:
    service: DemoService = request.app.state.service
    return service


Service = Annotated[DemoService, Depends(_service)]
DemoId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The demo's content hash, 64 hex digits.")]


@router.post("/select", summary="Select the demos most useful for planning a request")
async def select_demos(body: SelectDemosRequest, service: Service) -> SelectDemosResponse:
    """Task-level demos over the threshold, most similar first, then API-level ones in the order of the APIs."""
    chosen = await service.select(body.query, [api.id for api in body.apis], body.k, body.threshold, body.alike)
    demos = (SelectedDemo(demo=demo, similarity=match.similarity, level=match.level) for demo, match in chosen)
    return SelectDemosResponse(demos=tuple(demos))


@router.post(
    "/demos",
    status_code=status.HTTP_201_CREATED,
    summary="Add a demo",
    responses={200: {"model": Demo, "description": "It was there already; nothing has changed."}},
)
async def add_demo(body: Demo, service: Service, response: Response) -> Demo:
    """Add one solved request. Adding it again changes nothing and answers 200."""
    (demo,), added = await service.add([body])
    if not added:
        response.status_code = status.HTTP_200_OK
    return demo


@router.post("/demos:import", summary="Add many demos")
async def import_demos(body: ImportDemosRequest, service: Service) -> ImportDemosReport:
    """Add up to 10,000 demos, all of them or, where one is invalid, none. Those already there are left as they are."""
    _, added = await service.add(body.demos)
    return ImportDemosReport(added=len(added), unchanged=len(body.demos) - len(added))


@router.get("/demos", summary="List demos")
async def list_demos(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Demos on the page.")] = 50,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1, description="Demos to skip.")] = 0,
    api: Annotated[ApiId | None, Query(description="Only demos that use this API.")] = None,
) -> DemoPage:
    """Demos in the order they were added."""
    page = await service.page(limit, offset, api)
    return DemoPage(demos=page.demos, total=page.total)


@router.get("/demos/{demo_id}", summary="Get a demo")
async def get_demo(demo_id: DemoId, service: Service) -> Demo:
    """One demo by its content hash."""
    return await service.get(demo_id)


@router.delete("/demos/{demo_id}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete a demo")
async def delete_demo(demo_id: DemoId, service: Service) -> None:
    """Remove a demo; selections that start after this answer do not see it."""
    await service.delete(demo_id)
