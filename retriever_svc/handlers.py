"""The routes of the retriever."""

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated

import orjson
from fastapi import Depends, Path, Query, Request, Response, status

from retriever_svc.answers import AnswerCache
from retriever_svc.engine.filters import Filters
from retriever_svc.models import Entry, Hit
from retriever_svc.service import CatalogueService, Found
from services.app import service_router
from services.compute import for_tenant
from services.contracts.api import (
    Api,
    CatalogueStatus,
    DocumentPage,
    ImportRequest,
    Label,
    Method,
    NeededSecrets,
    ProviderName,
    Tenant,
)
from services.contracts.base import MAX_QUERY_CHARS, ApiId
from services.contracts.constants import ConstantsRequest, ProviderConstants
from services.contracts.retrieval import (
    MAX_OFFSET,
    ApiSearchHit,
    ApiSearchPage,
    LookupRequest,
    LookupResponse,
    RetrieveRequest,
    RetrieveResponse,
    Signals,
)
from services.errors import ValidationFailed
from services.http import BODY_LIMIT, refuse_offset
from services.late_problems import ending_with_problem
from services.streams import NdjsonResponse

router = service_router(tags=["catalogue"])
_STORED = Api(id="-", provider="-", name="-")
"""A placeholder; :func:`_answer` puts the stored document in its place."""


# Coroutines although they await nothing: FastAPI runs plain functions in a thread pool.
async def _service(request: Request) -> CatalogueService:
    service: CatalogueService = request.app.state.service
    return service


async def _answers(request: Request) -> AnswerCache:
    answers: AnswerCache = request.app.state.answers
    return answers


Service = Annotated[CatalogueService, Depends(_service)]
Answers = Annotated[AnswerCache, Depends(_answers)]
Text = Annotated[str, Query(min_length=1, max_length=MAX_QUERY_CHARS, description="Search text.")]
Whose = Annotated[
    Tenant | None, Query(description="The tenant that asks. It does not see what belongs to other tenants.")
]


@router.post("/retrieve", response_model=RetrieveResponse, summary="Which APIs could serve this request?")
async def retrieve(body: RetrieveRequest, service: Service, answers: Answers) -> Response:
    """The best `k` APIs over all clauses of the request, exact names first; the last clause is the whole request."""
    for_tenant.set(body.tenant or "")
    version, catalogue = await service.catalogue()
    answer = await answers.get(catalogue, body)
    if answer is None:
        found = await service.find(body.query, body.k, body.suppliers, Filters.of(body))
        answer = _answer(found, body.most_bytes)
        if found.version == version:  # otherwise the catalogue has changed in the meantime
            await answers.keep(catalogue, body, answer)
    return Response(answer, media_type="application/json")


@router.get("/apis", summary="Search or list the catalogue")
async def search_apis(
    service: Service,
    query: Text | None = None,
    provider: Annotated[ProviderName | None, Query(description="Only this provider's APIs.")] = None,
    tag: Annotated[list[Label] | None, Query(max_length=20, description="Only APIs with one of these tags.")] = None,
    method: Annotated[
        list[Method] | None, Query(max_length=10, description="Only APIs with one of these methods.")
    ] = None,
    deprecated: Annotated[bool, Query(description="False: exclude deprecated APIs.")] = True,
    tenant: Whose = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="APIs on the page.")] = 20,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Hits to skip. Only with a query.")] = 0,
    cursor: Annotated[ApiId | None, Query(description="`next` of the page before. Only without a query.")] = None,
) -> ApiSearchPage:
    """With a query: ranked, an exact id, operation or path first. Without: in order of id."""
    for_tenant.set(tenant or "")
    providers = () if provider is None else (provider,)
    filters = Filters(providers, tuple(tag or ()), tuple(method or ()), deprecated, tenant)
    if query is None:
        if offset:
            raise ValidationFailed("query.offset: without `query`, send the `next` of the page before as `cursor`.")
        version, total, entries, further = await service.listing(filters, limit, cursor or "")
        return ApiSearchPage(hits=tuple(map(_line, entries)), total=total, catalogue_version=version, next=further)
    if cursor is not None:
        raise ValidationFailed("query.cursor: the hits of a `query` are paged by `offset`.")
    version, total, hits = await service.search(query, filters, limit, offset)
    return ApiSearchPage(hits=tuple(map(_line, hits)), total=total, catalogue_version=version)


@router.post("/apis", status_code=status.HTTP_201_CREATED, summary="Add an API")
async def create_api(body: Api, service: Service) -> Api:
    """Add one API. It can be found as soon as this is answered. Its `content_hash` is computed here."""
    return await service.create(body)


@router.post("/apis:lookup", summary="Get several APIs")
async def lookup_apis(body: LookupRequest, service: Service) -> LookupResponse:
    """The APIs of these ids that pass the filters, in their order; other ids are left out."""
    for_tenant.set(body.tenant or "")
    return LookupResponse(apis=tuple(await service.lookup(body.ids, Filters.of(body), body.most_bytes)))


@router.get("/apis/{api_id:path}", summary="Get an API")
async def get_api(api_id: Annotated[ApiId, Path()], service: Service, tenant: Whose = None) -> Api:
    """One API with its schemas. A tenant does not see which other tenants have it."""
    for_tenant.set(tenant or "")
    return await service.get(api_id, tenant)


@router.put("/apis/{api_id:path}", summary="Replace an API")
async def update_api(api_id: Annotated[ApiId, Path()], body: Api, service: Service) -> Api:
    """Replace one API. Searches that start after this answer see the new one only."""
    return await service.update(api_id, body)


@router.delete("/apis/{api_id:path}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete an API")
async def delete_api(api_id: Annotated[ApiId, Path()], service: Service) -> None:
    """Remove one API; searches that start after this answer do not see it."""
    await service.delete(api_id)


@router.delete("/providers/{provider}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete a provider")
async def delete_provider(provider: Annotated[ProviderName, Path()], service: Service, tenant: Whose = None) -> None:
    """Remove a provider with all its APIs; 409 if it belongs to another owner."""
    for_tenant.set(tenant or "")
    await service.delete_provider(provider, tenant)


@router.patch("/providers/{provider}/constants", summary="Set a provider's constants")
async def set_constants(
    provider: Annotated[ProviderName, Path()], body: ConstantsRequest, service: Service, tenant: Whose = None
) -> ProviderConstants:
    """Set and remove constants, all of them or none; 409 if the provider belongs to another owner."""
    for_tenant.set(tenant or "")
    return await service.constants.change(provider, body, tenant)


@router.get("/providers/{provider}/secrets", summary="Which credentials do a provider's APIs ask for?")
async def provider_secrets(
    provider: Annotated[ProviderName, Path()], service: Service, tenant: Whose = None
) -> NeededSecrets:
    """Names and kinds, in order; none if there is no such provider. It does not say which are configured."""
    for_tenant.set(tenant or "")
    return await service.secrets(provider, tenant)


@router.post(
    "/imports",
    summary="Import an API description",
    response_class=NdjsonResponse,
    response_description="One `ImportEvent` a line, the report last, or a `ProblemEvent` in its place.",
    openapi_extra={BODY_LIMIT: "max_import_bytes"},
)
async def import_apis(body: ImportRequest, service: Service, tenant: Whose = None) -> NdjsonResponse:
    """Replace the provider's APIs with a document's operations: all of them, or none if that fails.

    With `dry_run` or `hold_changes`, or if a sensitive change is not confirmed, the events before the report say how
    each API would change. A tenant imports only for itself.
    A document that cannot be read is refused before the stream starts. A stream without a report changed nothing.
    """
    for_tenant.set(tenant or "")
    return NdjsonResponse(ending_with_problem(await service.documents.open(body, tenant)))


@router.get("/documents", summary="List the imported documents", dependencies=[Depends(refuse_offset)])
async def list_documents(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Documents on the page.")] = 100,
    cursor: Annotated[ProviderName | None, Query(description="`next` of the page before.")] = None,
    tenant: Whose = None,
) -> DocumentPage:
    """Which document each provider's APIs come from, pinned by the hash of its text, in order of the providers."""
    for_tenant.set(tenant or "")
    return await service.documents.documents(limit, cursor or "", tenant)


@router.get("/status", summary="Size and version of the catalogue")
async def catalogue_status(service: Service) -> CatalogueStatus:
    """The size of the catalogue, its version, and the version of the index."""
    return await service.status()


def _answer(found: Found, most_bytes: int) -> bytes:
    """A ``RetrieveResponse`` as JSON. The stored documents are inserted as they are, without parsing them."""
    sizes = list(accumulate(len(document) for _, document in found.ranked))
    ranked = found.ranked[: bisect_right(sizes, most_bytes)]
    answer = RetrieveResponse(
        catalogue_version=found.version,
        clauses=found.clauses,
        candidates=tuple(hit.candidate(_STORED) for hit, _ in ranked),
        size=sizes[-1] if sizes else 0,
    )
    content = answer.model_dump(mode="json", exclude={"candidates": {"__all__": {"api"}}})
    for candidate, (_, document) in zip(content["candidates"], ranked, strict=True):
        candidate["api"] = orjson.Fragment(document)
    return orjson.dumps(content)


def _line(found: Entry | Hit) -> ApiSearchHit:
    entry = found.entry if isinstance(found, Hit) else found
    line = ApiSearchHit(
        id=entry.id,
        provider=entry.provider,
        method=entry.method,
        path=entry.path,
        summary=entry.summary,
        deprecated=entry.deprecated,
    )
    if isinstance(found, Entry):
        return line
    signals = Signals(dense=found.dense, lexical=found.lexical)
    scores = {"relevance": found.relevance, "score": found.score, "signals": signals}
    return line.model_copy(update={**scores, "found_by": found.found_by})
