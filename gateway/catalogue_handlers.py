"""Routes of the catalogue: APIs, the documents that they come from, and demonstrations."""

from typing import Annotated

from fastapi import Depends, Query, Response, status

from gateway.roles import Role, needs
from gateway.routing import ADMINISTERING, Caller, Id, Limit, ProtectedRoute, Service, counted
from services.app import service_router
from services.contracts.api import Api, DocumentPage, ImportRequest, Label, Method, NeededSecrets, ProviderName
from services.contracts.base import ApiId
from services.contracts.demo import Demo, DemoPage, ImportDemosReport, ImportDemosRequest
from services.contracts.retrieval import MAX_OFFSET, ApiSearchPage
from services.contracts.secret import SecretTest, TrySecret
from services.http import BODY_LIMIT, refuse_offset
from services.late_problems import ending_with_problem
from services.streams import NdjsonResponse

ANY_ROLE = needs(*Role)
BY_CURSOR = [Depends(refuse_offset)]
LARGE_DOCUMENT = {BODY_LIMIT: "max_document_bytes"}
Shared = Annotated[
    bool,
    Query(description="True: everyone's instead of your tenant's. Only for administrators of the operator's tenant."),
]
DocumentLimit = Annotated[int, Query(ge=1, le=1_000)]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET)]
ApiCursor = Annotated[ApiId | None, Query(description="`next` of the page before.")]
DocumentCursor = Annotated[ProviderName | None, Query(description="`next` of the page before.")]
DemoCursor = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="`next` of the page before.")]
apis = service_router(route_class=ProtectedRoute, tags=["apis"])
demos = service_router(route_class=ProtectedRoute, tags=["demos"])


@apis.get("/apis", summary="Search the API catalogue", response_model=ApiSearchPage, openapi_extra=ANY_ROLE)
async def search_apis(
    service: Service,
    caller: Caller,
    query: Annotated[str | None, Query(min_length=1, max_length=1_000)] = None,
    provider: Annotated[str | None, Query(max_length=100)] = None,
    tag: Annotated[list[Label] | None, Query(max_length=20, description="Any of these values; repeatable.")] = None,
    method: Annotated[list[Method] | None, Query(max_length=10, description="Any of these values; repeatable.")] = None,
    deprecated: Annotated[bool, Query(description="False: exclude deprecated APIs.")] = True,
    limit: Limit = 20,
    offset: Offset = 0,
    cursor: ApiCursor = None,
) -> Response:
    """Best matches first; without `query`, all APIs in order of their ids. Other tenants' are not among them.

    Further matches of a `query` are asked for by `offset`, the following page without one by `cursor`.
    """
    page = await service.peers.retriever.search(
        query,
        provider=provider,
        tags=tag or (),
        methods=method or (),
        deprecated=deprecated,
        tenant=caller.tenant,
        limit=limit,
        offset=offset,
        cursor=cursor,
    )
    return counted(page, service, caller)


@apis.post(
    "/apis:import",
    summary="Import an API description",
    response_class=NdjsonResponse,
    openapi_extra=LARGE_DOCUMENT | ADMINISTERING,
)
async def import_apis(body: ImportRequest, service: Service, caller: Caller) -> NdjsonResponse:
    """Import the text of an API description. Answers one JSON event per line: progress, then a report or a problem.

    As in all streams of lines, an empty line is sent if nothing happens for 15 seconds.

    With `dry_run` or `hold_changes` the events before the report say how each API would change. The same happens if
    an existing API would be called on another host, would change something instead of reading or the reverse, or would
    present another credential (`sensitive`): nothing is changed until `confirm` names the report's `change_hash`.

    A provider belongs to the tenant that imported it first: 409 for others. Only the operator's administrators may
    import for everyone or for other tenants: 403 for others.
    """
    return NdjsonResponse(ending_with_problem(service.administration.import_apis(body, caller)))


@apis.get(
    "/documents",
    summary="List the imported documents",
    response_model=DocumentPage,
    openapi_extra=ANY_ROLE,
    dependencies=BY_CURSOR,
)
async def list_documents(
    service: Service, caller: Caller, limit: DocumentLimit = 100, cursor: DocumentCursor = None
) -> Response:
    """Which document each provider's APIs come from, pinned by the hash of its text, in order of the providers."""
    page = await service.peers.retriever.documents(tenant=caller.tenant, limit=limit, cursor=cursor)
    return counted(page, service, caller)


@apis.get("/apis/{api_id:path}", summary="One API with its schemas", response_model=Api, openapi_extra=ANY_ROLE)
async def get_api(api_id: Id, service: Service, caller: Caller) -> Response:
    """One API of the catalogue. 404 if it belongs to another tenant."""
    return counted(await service.peers.retriever.get(api_id, tenant=caller.tenant), service, caller)


@apis.get(
    "/providers/{provider}/credentials",
    summary="List the credentials that a provider's APIs require",
    response_model=NeededSecrets,
    openapi_extra=ANY_ROLE,
)
async def list_credentials(provider: Id, service: Service, caller: Caller) -> Response:
    """Names and kinds, and which are configured; never values. Empty if your tenant sees no such provider."""
    return counted(await service.administration.secrets(provider, caller), service, caller)


@apis.post("/credentials:test", summary="Try a credential", openapi_extra=ADMINISTERING)
async def try_credential(body: TrySecret, service: Service, caller: Caller) -> SecretTest:
    """Use it in a call that only reads, if there is one, and return the result. An OAuth2 token is fetched."""
    return await service.administration.try_secret(body.secret, caller)


@apis.delete(
    "/providers/{provider}",
    summary="Remove a provider's APIs",
    status_code=status.HTTP_204_NO_CONTENT,
    openapi_extra=ADMINISTERING,
)
async def delete_provider(provider: Id, service: Service, caller: Caller) -> None:
    """Remove a provider with all its APIs. 409 if another tenant imported it; the operator may remove any."""
    await service.administration.delete_provider(provider, caller)


@demos.get(
    "/demos",
    summary="List demonstrations",
    response_model=DemoPage,
    openapi_extra=ANY_ROLE,
    dependencies=BY_CURSOR,
)
async def list_demos(
    service: Service,
    caller: Caller,
    api: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = 20,
    cursor: DemoCursor = None,
) -> Response:
    """Your tenant's demonstrations and everyone's, a page at a time, oldest first."""
    after = None if cursor is None else str(cursor)
    page = await service.peers.demos.list(api=api, tenant=caller.tenant, limit=limit, cursor=after)
    return counted(page, service, caller)


@demos.post("/demos", summary="Add a demonstration", status_code=status.HTTP_201_CREATED, openapi_extra=ADMINISTERING)
async def add_demo(body: Demo, service: Service, caller: Caller, shared: Shared = False) -> Demo:
    """The demonstration belongs to your tenant. If it exists already, for you or for everyone, nothing changes."""
    return await service.administration.add_demo(body, caller, shared=shared)


@demos.post("/demos:import", summary="Add many demonstrations", openapi_extra=LARGE_DOCUMENT | ADMINISTERING)
async def import_demos(
    body: ImportDemosRequest, service: Service, caller: Caller, shared: Shared = False
) -> ImportDemosReport:
    """Add those that do not exist yet, as your tenant's."""
    return await service.administration.import_demos(body, caller, shared=shared)


@demos.delete(
    "/demos/{demo_id}",
    summary="Remove a demonstration",
    status_code=status.HTTP_204_NO_CONTENT,
    openapi_extra=ADMINISTERING,
)
async def delete_demo(demo_id: Id, service: Service, caller: Caller) -> None:
    """Remove a demonstration of your tenant. Only the operator's administrators remove one that is everyone's."""
    await service.administration.delete_demo(demo_id, caller)
