"""The catalogue: search with the retriever's scores, each API with its schemas, providers with their imports."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from gateway.call_history import NEWEST
from gateway.catalogue_handlers import ApiCursor, DocumentCursor, Offset
from gateway.console.pages import READING_RUNS, ConsoleRoute, get_session, render, with_query
from gateway.console.schemas import kind_of
from gateway.console.session import PATH, Session
from gateway.console.status import STATE_STYLES
from gateway.routing import PRINTABLE, Service
from services.app import service_router
from services.contracts.retrieval import MAX_OFFSET
from services.errors import InvalidRequest

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
HERE = f"{PATH}/catalogue"
_PAGE: Final = 50
_DOCUMENTS: Final = 100


@router.get(HERE)
async def catalogue(
    request: Request,
    service: Service,
    who: Who,
    q: Annotated[str, Query(max_length=1_000)] = "",
    provider: Annotated[str, Query(max_length=100, pattern=r"^([a-z0-9][a-z0-9_-]*)?$")] = "",
    offset: Offset = 0,
    cursor: ApiCursor = None,
) -> Response:
    """A page of APIs. With words: the best matches and their scores. Without: all APIs in order of their ids."""
    words, tenant, retriever = q.strip() or None, who.principal.tenant, service.peers.retriever
    offset, cursor = (offset, None) if words else (0, cursor)
    found = await retriever.search(
        words, provider=provider or None, tenant=tenant, limit=_PAGE, offset=offset, cursor=cursor
    )
    documents = await retriever.documents(tenant=tenant, limit=_DOCUMENTS)
    asked = {"q": q, "provider": provider}
    more = words and found.hits and offset + _PAGE < min(found.total, MAX_OFFSET + 1)
    following = {"offset": offset + _PAGE} if more else {"cursor": found.next} if found.next else None
    return render(
        request, "catalogue.html", screen="catalogue", found=found, asked=asked, documents=documents,
        further=with_query(HERE, {**asked, **following}) if following else "",
        before=with_query(HERE, {**asked, "offset": max(0, offset - _PAGE)}) if offset else "",
        first=with_query(HERE, asked) if cursor else "",
    )  # fmt: skip


@router.get(f"{HERE}/api")
async def show_api(
    request: Request,
    service: Service,
    who: Who,
    api_id: Annotated[str, Query(alias="id", max_length=400, pattern=PRINTABLE)],
) -> Response:
    """An API: its parameters, its response, its credentials, and the outcomes of its newest calls."""
    if not api_id.strip():
        raise InvalidRequest("Which API?")
    api = await service.peers.retriever.get(api_id, tenant=who.principal.tenant)
    documents = await service.peers.retriever.documents(tenant=who.principal.tenant, limit=_DOCUMENTS)
    document = next((one for one in documents.documents if one.provider == api.provider), None)
    calls = await service.calls(api.id, who.principal) if who.may(*READING_RUNS) else None
    return render(
        request,
        "api.html",
        screen="catalogue",
        api=api,
        kind_of=kind_of,
        document=document,
        calls=calls,
        newest=NEWEST,
        styles=STATE_STYLES,
    )


@router.get(f"{HERE}/providers")
async def providers(request: Request, service: Service, who: Who, cursor: DocumentCursor = None) -> Response:
    """Where each provider's APIs come from, and which parts of its document could not be imported."""
    page = await service.peers.retriever.documents(tenant=who.principal.tenant, limit=_PAGE, cursor=cursor)
    further = with_query(f"{HERE}/providers", {"cursor": page.next}) if page.next else ""
    return render(request, "providers.html", screen="catalogue", page=page, further=further)
