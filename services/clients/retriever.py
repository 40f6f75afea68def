"""Client of ``retriever_svc``."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from pydantic import TypeAdapter

from services.clients.base import DEFAULT_TIMEOUT_S, ServiceClient, search_params, segment
from services.contracts.api import Api, CatalogueStatus, DocumentPage, ImportEvent, ImportRequest, NeededSecrets
from services.contracts.constants import ConstantsRequest, ProviderConstants
from services.contracts.retrieval import ApiSearchPage, LookupRequest, LookupResponse, RetrieveRequest, RetrieveResponse

_LONG_S = 120.0
_IMPORT_EVENTS: TypeAdapter[ImportEvent] = TypeAdapter(ImportEvent)


class Retriever(Protocol):
    """The API catalogue and its search.

    A caller with a ``tenant`` does not see what belongs only to other tenants. Its imports belong to that tenant, and
    it can change and remove only what it imported.
    """

    async def ready(self) -> None:
        """Raise unless ready."""

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        """The candidates for a request."""

    async def search(
        self,
        query: str | None = None,
        *,
        provider: str | None = None,
        tags: Sequence[str] = (),
        methods: Sequence[str] = (),
        deprecated: bool = True,
        tenant: str | None = None,
        limit: int = 20,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ApiSearchPage:
        """Search the catalogue, paged by ``offset``, or without a query list it, paged by ``cursor``."""

    async def get(self, api_id: str, *, tenant: str | None = None) -> Api:
        """One API. Raises NotFound, also if it belongs to another tenant."""

    async def lookup(self, request: LookupRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> LookupResponse:
        """The requested APIs that exist and pass the filters, in the requested order."""

    async def create(self, api: Api) -> Api:
        """Add an API. Raises Conflict if the id is taken."""

    async def update(self, api: Api) -> Api:
        """Replace an API. Raises NotFound."""

    async def delete(self, api_id: str) -> None:
        """Remove an API. Raises NotFound."""

    async def delete_provider(self, provider: str, *, tenant: str | None = None) -> None:
        """Remove a provider with all its APIs. Raises NotFound, and Conflict if another tenant imported it."""

    async def set_constants(
        self, provider: str, request: ConstantsRequest, *, tenant: str | None = None
    ) -> ProviderConstants:
        """Set the constants of a provider's calls. Raises NotFound, Conflict and ValidationFailed."""

    async def secrets(self, provider: str, *, tenant: str | None = None) -> NeededSecrets:
        """The credentials that a provider's APIs require."""

    def import_document(
        self, request: ImportRequest, *, tenant: str | None = None
    ) -> AsyncGenerator[ImportEvent, None]:
        """Import an API description: progress or changes, then one report. Raises InvalidDocument and Conflict."""

    async def documents(
        self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> DocumentPage:
        """A page of the imported documents."""

    async def status(self) -> CatalogueStatus:
        """Size and version of the catalogue."""


class RetrieverClient(ServiceClient):
    """:class:`Retriever` over HTTP."""

    service = "retriever_svc"

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        """The candidates for a request."""
        return await self._call("POST", "/retrieve", RetrieveResponse, body=request, timeout_s=timeout_s)

    async def search(
        self,
        query: str | None = None,
        *,
        provider: str | None = None,
        tags: Sequence[str] = (),
        methods: Sequence[str] = (),
        deprecated: bool = True,
        tenant: str | None = None,
        limit: int = 20,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ApiSearchPage:
        """Search the catalogue, paged by ``offset``, or without a query list it, paged by ``cursor``."""
        params = search_params(query, provider, tags, methods, deprecated, limit, offset, cursor) | {"tenant": tenant}
        return await self._call("GET", "/apis", ApiSearchPage, params=params)

    async def get(self, api_id: str, *, tenant: str | None = None) -> Api:
        """One API. Raises NotFound, also if it belongs to another tenant."""
        return await self._call("GET", _path(api_id), Api, params={"tenant": tenant})

    async def lookup(self, request: LookupRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> LookupResponse:
        """The requested APIs that exist and pass the filters, in the requested order."""
        return await self._call("POST", "/apis:lookup", LookupResponse, body=request, timeout_s=timeout_s)

    async def create(self, api: Api) -> Api:
        """Add an API. Raises Conflict if the id is taken."""
        return await self._call("POST", "/apis", Api, body=api)

    async def update(self, api: Api) -> Api:
        """Replace an API. Raises NotFound."""
        return await self._call("PUT", _path(api.id), Api, body=api)

    async def delete(self, api_id: str) -> None:
        """Remove an API. Raises NotFound."""
        await self._send("DELETE", _path(api_id))

    async def delete_provider(self, provider: str, *, tenant: str | None = None) -> None:
        """Remove a provider with all its APIs. Raises NotFound, and Conflict if another tenant imported it."""
        await self._send("DELETE", f"/providers/{segment(provider)}", params={"tenant": tenant})

    async def set_constants(
        self, provider: str, request: ConstantsRequest, *, tenant: str | None = None
    ) -> ProviderConstants:
        """Set the constants of a provider's calls. Raises NotFound, Conflict and ValidationFailed."""
        path = f"/providers/{segment(provider)}/constants"
        return await self._call(
            "PATCH", path, ProviderConstants, body=request, params={"tenant": tenant}, timeout_s=_LONG_S
        )

    async def secrets(self, provider: str, *, tenant: str | None = None) -> NeededSecrets:
        """The credentials that a provider's APIs require."""
        path = f"/providers/{segment(provider)}/secrets"
        return await self._call("GET", path, NeededSecrets, params={"tenant": tenant})

    def import_document(
        self, request: ImportRequest, *, tenant: str | None = None
    ) -> AsyncGenerator[ImportEvent, None]:
        """Import an API description: progress or changes, then one report. Raises InvalidDocument and Conflict."""
        params = {"tenant": tenant}
        return self._events("/imports", _IMPORT_EVENTS, request, params=params, timeout_s=600, event_timeout_s=600)

    async def documents(
        self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> DocumentPage:
        """A page of the imported documents."""
        params = {"limit": limit, "cursor": cursor, "tenant": tenant}
        return await self._call("GET", "/documents", DocumentPage, params=params)

    async def status(self) -> CatalogueStatus:
        """Size and version of the catalogue."""
        return await self._call("GET", "/status", CatalogueStatus)


def _path(api_id: str) -> str:
    return f"/apis/{segment(api_id)}"
