"""A catalogue in memory."""

import hashlib
import json
from collections.abc import AsyncGenerator
from typing import Any

from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.api import (
    Api,
    ApiSearchHit,
    ApiSearchPage,
    Candidate,
    CatalogueStatus,
    Clause,
    ImportEvent,
    ImportProgress,
    ImportReport,
    ImportRequest,
    Location,
    Parameter,
    RetrieveRequest,
    RetrieveResponse,
    Style,
)
from services.contracts.plan import content_hash
from services.errors import Conflict, InvalidDocument, NotFound
from services.testing.base import Fake, overlap

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


class FakeRetriever(Fake):
    """:class:`~services.clients.Retriever` in memory. What shares words with the request is found."""

    service = "retriever_svc"

    def __init__(self, *apis: Api) -> None:
        super().__init__()
        self.apis = {api.id: _sealed(api) for api in apis}
        self.version = 0

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        """The APIs that share words with the request, most words first; the request is one clause."""
        await self._arrive("retrieve", timeout_s)
        offered = (api for api in self.apis.values() if not request.providers or api.provider in request.providers)
        scored = [(overlap(request.query, _text(api)), api) for api in offered]
        best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].id))[: request.k]
        return RetrieveResponse(
            catalogue_version=self.version,
            clauses=(Clause(text=request.query, start=0, end=len(request.query)),),
            candidates=tuple(Candidate(api=api, score=score, clause_scores=(score,)) for score, api in best),
        )

    async def search(
        self, query: str | None = None, *, provider: str | None = None, limit: int = 20, offset: int = 0
    ) -> ApiSearchPage:
        """Search or list the catalogue."""
        await self._arrive("search")
        found = sorted(
            (api for api in self.apis.values() if provider in (None, api.provider)),
            key=lambda api: (0.0 if query is None else -_rank(query, api), api.id),
        )
        hits = tuple(_hit(api, query) for api in found[offset : offset + limit])
        return ApiSearchPage(hits=hits, total=len(found), catalogue_version=self.version)

    async def get(self, api_id: str) -> Api:
        """One API. Raises NotFound."""
        await self._arrive("get")
        return self._known(api_id)

    async def create(self, api: Api) -> Api:
        """Add an API. Raises Conflict where the id is taken."""
        await self._arrive("create")
        if api.id in self.apis:
            raise Conflict(f"There is an API {api.id!r} already.")
        return self._keep(api)

    async def update(self, api: Api) -> Api:
        """Replace an API. Raises NotFound."""
        await self._arrive("update")
        self._known(api.id)
        return self._keep(api)

    async def delete(self, api_id: str) -> None:
        """Remove an API. Raises NotFound."""
        await self._arrive("delete")
        del self.apis[self._known(api_id).id]
        self.version += 1

    async def delete_provider(self, provider: str) -> None:
        """Remove a provider with all its APIs. Raises NotFound."""
        await self._arrive("delete_provider")
        owned = [api.id for api in self.apis.values() if api.provider == provider]
        if not owned:
            raise NotFound(f"There is no provider {provider!r}.")
        for api_id in owned:
            del self.apis[api_id]
        self.version += 1

    async def import_document(self, request: ImportRequest) -> AsyncGenerator[ImportEvent, None]:
        """Import an OpenAPI document in JSON: operations with names, summaries, parameters. Raises InvalidDocument."""
        await self._arrive("import_document")
        document = _read(request.document)
        provider = request.provider or str(document["info"]["title"]).lower().replace(" ", "-")
        apis = {api.id: _sealed(api) for api in _operations(document, provider, request.server)}
        for known in self.apis.values():
            if known.id in apis and known.provider != provider:
                raise Conflict(f"The id {known.id!r} belongs to another provider.")
        yield ImportProgress(phase="reading", done=len(apis), total=len(apis))
        before = {api.id: api for api in self.apis.values() if api.provider == provider}
        self.apis = {key: api for key, api in self.apis.items() if key not in before} | apis
        changed = [key for key in apis if key in before and apis[key] != before[key]]
        added, removed = apis.keys() - before.keys(), before.keys() - apis.keys()
        self.version += bool(changed or added or removed)
        yield ImportReport(
            provider=provider,
            format="openapi-" + str(document["openapi"])[:3],
            document_hash=hashlib.sha256(request.document.encode()).hexdigest(),
            added=len(added),
            updated=len(changed),
            unchanged=len(apis) - len(added) - len(changed),
            removed=len(removed),
            catalogue_version=self.version,
        )

    async def status(self) -> CatalogueStatus:
        """Size and version of the catalogue."""
        await self._arrive("status")
        providers: dict[str, int] = {}
        for api in self.apis.values():
            providers[api.provider] = providers.get(api.provider, 0) + 1
        return CatalogueStatus(
            catalogue_version=self.version,
            index_version=self.version,
            apis=len(self.apis),
            providers=dict(sorted(providers.items())),
            encoder="words",
        )

    def _known(self, api_id: str) -> Api:
        if api_id not in self.apis:
            raise NotFound(f"There is no API {api_id!r}.")
        return self.apis[api_id]

    def _keep(self, api: Api) -> Api:
        self.apis[api.id] = _sealed(api)
        self.version += 1
        return self.apis[api.id]


def _sealed(api: Api) -> Api:
    return api.model_copy(update={"content_hash": content_hash(api.model_dump(mode="json", exclude={"content_hash"}))})


def _text(api: Api) -> str:
    return f"{api.name} {api.summary} {api.description} {' '.join(api.tags)}"


def _rank(query: str, api: Api) -> float:
    """Exact names first, then by words."""
    return 2.0 if query in {api.id, api.name, api.path} else overlap(query, _text(api))


def _hit(api: Api, query: str | None) -> ApiSearchHit:
    score = None if query is None else min(1.0, _rank(query, api))
    return ApiSearchHit(
        id=api.id, provider=api.provider, method=api.method, path=api.path, summary=api.summary, score=score
    )


def _read(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidDocument(f"The document is not JSON: {error}.") from None
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        raise InvalidDocument("The document is not OpenAPI 3.")
    return document


def _operations(document: dict[str, Any], provider: str, server: str | None) -> list[Api]:
    base = server or next((str(entry["url"]) for entry in document.get("servers", [])), "")
    return [
        Api(
            id=f"{provider}.{operation['operationId']}",
            provider=provider,
            name=operation["operationId"],
            summary=operation.get("summary", ""),
            method=method.upper(),
            server=base,
            path=path,
            parameters=tuple(_parameter(parameter) for parameter in operation.get("parameters", [])),
        )
        for path, item in document.get("paths", {}).items()
        for method, operation in item.items()
        if method in _METHODS
    ]


def _parameter(declared: dict[str, Any]) -> Parameter:
    location = Location(declared["in"])
    form = location in (Location.QUERY, Location.COOKIE)
    return Parameter(
        name=declared["name"],
        wire_name=declared["name"],
        location=location,
        required=declared.get("required", False),
        description=declared.get("description", ""),
        json_schema=declared.get("schema", {}),
        style=Style.FORM if form else Style.SIMPLE,
        explode=form,
    )
