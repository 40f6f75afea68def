"""The routes of the demo service."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response, status

from demo_svc.models import Page
from demo_svc.service import DemoService
from services.app import service_router
from services.compute import for_tenant
from services.contracts.api import Tenant
from services.contracts.base import ApiId
from services.contracts.demo import (
    Demo,
    DemoPage,
    DemosOfApisRequest,
    ImportDemosReport,
    ImportDemosRequest,
    SameDemosRequest,
    SameDemosResponse,
    SelectDemosRequest,
    SelectDemosResponse,
    SelectedDemo,
)
from services.http import refuse_offset

router = service_router(tags=["demos"])


# A coroutine although it awaits nothing: FastAPI runs plain functions in a thread pool.
async def _service(request: Request) -> DemoService:
    service: DemoService = request.app.state.service
    return service


Service = Annotated[DemoService, Depends(_service)]
Whose = Annotated[Tenant | None, Query(description="The tenant that owns the demos; unset: everyone.")]
DemoId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The demo's content hash, 64 hex digits.")]


@router.post("/select", summary="Select the demos most useful for planning a request")
async def select_demos(body: SelectDemosRequest, service: Service) -> SelectDemosResponse:
    """Task-level demos over the threshold, most similar first, then API-level ones in the order of the APIs."""
    for_tenant.set(body.tenant or "")
    if body.same:
        same = await service.same(body.query, {api.id for api in body.apis}, body.k, body.tenant)
        return SelectDemosResponse(demos=tuple(SelectedDemo(demo=one, similarity=1, level=one.level) for one in same))
    apis = [api.id for api in body.apis]
    chosen = await service.select(body.query, apis, body.k, body.threshold, body.alike, body.tenant)
    demos = (SelectedDemo(demo=demo, similarity=match.similarity, level=match.level) for demo, match in chosen)
    return SelectDemosResponse(demos=tuple(demos))


@router.post("/select:same", summary="Which APIs do the demos of this very text use?")
async def same_demos(body: SameDemosRequest, service: Service) -> SameDemosResponse:
    """The APIs of each; the demos themselves are selected once it is known which of the APIs are offered."""
    for_tenant.set(body.tenant or "")
    return SameDemosResponse(apis=tuple(await service.apis_of_same(body.query, body.tenant)))


@router.post(
    "/demos",
    status_code=status.HTTP_201_CREATED,
    summary="Add a demo",
    responses={200: {"model": Demo, "description": "It already existed; nothing has changed."}},
)
async def add_demo(body: Demo, service: Service, response: Response, tenant: Whose = None) -> Demo:
    """Add one solved request. If it exists already, for the tenant or for everyone, nothing changes: 200."""
    for_tenant.set(tenant or "")
    (demo,), added = await service.add([body], tenant)
    if not added:
        response.status_code = status.HTTP_200_OK
    return demo


@router.post("/demos:import", summary="Add many demos")
async def import_demos(body: ImportDemosRequest, service: Service, tenant: Whose = None) -> ImportDemosReport:
    """Add up to 10,000 demos: all of them, or none if one is invalid. Existing demos are not changed."""
    for_tenant.set(tenant or "")
    _, added = await service.add(body.demos, tenant)
    return ImportDemosReport(added=len(added), unchanged=len(body.demos) - len(added))


@router.get("/demos", summary="List demos", dependencies=[Depends(refuse_offset)])
async def list_demos(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Demos on the page.")] = 50,
    cursor: Annotated[int, Query(ge=0, le=2**31 - 1, description="`next` of the page before.")] = 0,
    api: Annotated[ApiId | None, Query(description="Only demos that use this API.")] = None,
    tenant: Whose = None,
    own: Annotated[bool, Query(description="Only the tenant's own demos, without everyone's.")] = False,
) -> DemoPage:
    """Everyone's and the tenant's demos in the order they were added."""
    for_tenant.set(tenant or "")
    return _page(await service.page(limit, cursor, () if api is None else (api,), tenant, own=own))


@router.post("/demos:of-apis", summary="List the demos of some APIs")
async def demos_of_apis(body: DemosOfApisRequest, service: Service) -> DemoPage:
    """Everyone's and the tenant's demos that use any of these APIs, each once, in the order they were added."""
    for_tenant.set(body.tenant or "")
    return _page(await service.page(body.limit, body.cursor, body.apis, body.tenant))


def _page(page: Page) -> DemoPage:
    return DemoPage(demos=page.demos, total=page.total, next=None if page.next is None else str(page.next))


@router.get("/demos/{demo_id}", summary="Get a demo")
async def get_demo(demo_id: DemoId, service: Service, tenant: Whose = None) -> Demo:
    """One demo by its content hash: the tenant's, or else everyone's."""
    for_tenant.set(tenant or "")
    return await service.get(demo_id, tenant)


@router.delete("/demos/{demo_id}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete a demo")
async def delete_demo(demo_id: DemoId, service: Service, tenant: Whose = None) -> None:
    """Remove the tenant's demo or, without one, everyone's; selections that start after this answer do not see it."""
    for_tenant.set(tenant or "")
    await service.delete(demo_id, tenant)
