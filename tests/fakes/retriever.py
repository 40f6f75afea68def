"""A fake catalogue in memory."""

import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.api import (
    OUTSIDE_CONTENT,
    Api,
    CatalogueStatus,
    DocumentPage,
    FieldChange,
    ImportChange,
    ImportedDocument,
    ImportEvent,
    ImportProgress,
    ImportReport,
    ImportRequest,
    Location,
    NeededSecret,
    NeededSecrets,
    Parameter,
    Style,
)
from services.contracts.constants import Constant, ConstantsRequest, ProviderConstants
from services.contracts.plan import content_hash
from services.contracts.retrieval import (
    ApiFilters,
    ApiSearchHit,
    ApiSearchPage,
    Candidate,
    Clause,
    FoundBy,
    LookupRequest,
    LookupResponse,
    RetrieveRequest,
    RetrieveResponse,
)
from services.contracts.review import SensitiveChange
from services.errors import Conflict, Forbidden, InvalidDocument, NotFound, ValidationFailed
from tests.fakes.base import Fake, overlap

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


class FakeRetriever(Fake):
    """:class:`~services.clients.Retriever` in memory. It finds pinned APIs and APIs that share words with the request.

    ``asked`` lists the requests of ``retrieve``, in order.
    """

    service = "retriever_svc"

    def __init__(self, *apis: Api) -> None:
        super().__init__()
        self.apis = {api.id: _sealed(api) for api in apis}
        self.pins = dict[str, ImportedDocument]()
        self.owners = dict[str, str | None]()
        self.version = 0
        self.asked: list[RetrieveRequest] = []

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        """The APIs that share words with the request, most words first; the request is one clause."""
        await self._arrive("retrieve", timeout_s)
        self.asked.append(request)
        seen = {api.id: api for api in self.apis.values() if _is_seen(api.tenants, request.tenant)}
        pinned = [seen[api_id] for api_id in dict.fromkeys(request.pinned) if api_id in seen]
        offered = [api for api in seen.values() if api not in pinned and _passes(request, api)]
        matching = [api for api in offered if _rank(request.query, api) > 0]
        best = sorted(matching, key=lambda api: (-_rank(request.query, api), api.id))
        chosen = (pinned + best)[: request.k]
        sizes = list(accumulate(len(api.model_dump_json(exclude={"tenants"})) for api in chosen))
        return RetrieveResponse(
            catalogue_version=self.version,
            clauses=(Clause(text=request.query, start=0, end=len(request.query)),),
            candidates=tuple(
                _candidate(request, api, api in pinned)
                for api, size in zip(chosen, sizes, strict=True)
                if size <= request.most_bytes
            ),
            size=sizes[-1] if sizes else 0,
        )

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
        """Search or list the catalogue."""
        await self._arrive("search")
        providers = () if provider is None else (provider,)
        asked = RetrieveRequest(
            query="-", providers=providers, tags=tuple(tags), methods=tuple(methods), deprecated=deprecated
        )
        found = sorted(
            (api for api in self.apis.values() if _is_seen(api.tenants, tenant) and _passes(asked, api)),
            key=lambda api: (0.0 if query is None else -_rank(query, api), api.id),
        )
        if query is None and offset:
            raise ValidationFailed("query.offset: without `query`, send the `next` of the page before as `cursor`.")
        if query is not None and cursor is not None:
            raise ValidationFailed("query.cursor: the hits of a `query` are paged by `offset`.")
        later = found[offset:] if query is not None else [api for api in found if api.id > (cursor or "")]
        further = later[limit - 1].id if query is None and len(later) > limit else None
        hits = tuple(_hit(api, query) for api in later[:limit])
        return ApiSearchPage(hits=hits, total=len(found), catalogue_version=self.version, next=further)

    async def secrets(self, provider: str, *, tenant: str | None = None) -> NeededSecrets:
        """One entry for each secret that the provider's APIs need."""
        await self._arrive("secrets")
        asked = [
            r
            for api in self.apis.values()
            if api.provider == provider and _is_seen(api.tenants, tenant)
            for a in api.security
            for r in a
        ]
        found = {r.secret: NeededSecret(**r.model_dump()) for r in asked}
        return NeededSecrets(secrets=tuple(found[name] for name in sorted(found)))

    async def get(self, api_id: str, *, tenant: str | None = None) -> Api:
        """One API. Raises NotFound, also for another tenant's API."""
        await self._arrive("get")
        api = self._known(api_id)
        if not _is_seen(api.tenants, tenant):
            raise NotFound(f"There is no API {api_id!r}.")
        return api if tenant is None else _anonymous(api)

    async def lookup(self, request: LookupRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> LookupResponse:
        """The requested APIs that exist and pass the filters, in the order of the request."""
        await self._arrive("lookup", timeout_s)
        known = (self.apis[one] for one in dict.fromkeys(request.ids) if one in self.apis)
        seen = (api for api in known if _is_seen(api.tenants, request.tenant) and _passes(request, api))
        return LookupResponse(apis=tuple(seen if request.tenant is None else map(_anonymous, seen)))

    async def create(self, api: Api) -> Api:
        """Add an API. Raises Conflict if the id is taken."""
        await self._arrive("create")
        if api.id in self.apis:
            raise Conflict(f"The API {api.id!r} already exists.")
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

    async def delete_provider(self, provider: str, *, tenant: str | None = None) -> None:
        """Remove a provider with all its APIs. Raises NotFound, and Conflict if another tenant imported it."""
        await self._arrive("delete_provider")
        if not any(_is_seen(api.tenants, tenant) for api in self._of(provider)):
            raise NotFound(f"There is no provider {provider!r}.")
        if tenant is not None:
            self._refuse_others(provider, tenant)
        for api in self._of(provider):
            del self.apis[api.id]
        self.pins.pop(provider, None)
        self.owners.pop(provider, None)
        self.version += 1

    async def set_constants(
        self, provider: str, request: ConstantsRequest, *, tenant: str | None = None
    ) -> ProviderConstants:
        """Set the constants that a provider's calls send, as texts. Raises NotFound, Conflict and ValidationFailed."""
        await self._arrive("set_constants")
        pin = self.pins.get(provider)
        if pin is None or not _is_seen(pin.tenants, tenant):
            raise NotFound(f"No document was imported for a provider {provider!r}.")
        self._refuse_others(provider, tenant)
        constants = dict(pin.constants)
        for name, text in request.constants.items():
            if text is None and constants.pop(name, None) is None:
                raise ValidationFailed(f"The provider {provider!r} has no constant {name!r}.")
            if text is not None and not _taking(self._of(provider), name):
                raise ValidationFailed(f"No operation of {provider!r} takes a parameter {name!r}.")
            constants |= {} if text is None else {name: text}
        self.pins[provider] = pin.model_copy(update={"constants": constants, "current": False})
        for api in self._of(provider):
            settled = tuple(p.model_copy(update={"constant": constants.get(p.wire_name)}) for p in api.parameters)
            self.apis[api.id] = _sealed(api.model_copy(update={"parameters": settled}))
        self.version += 1
        told = (
            Constant(name=n, value=constants[n], operations=_taking(self._of(provider), n)) for n in sorted(constants)
        )
        return ProviderConstants(provider=provider, constants=tuple(told), catalogue_version=self.version)

    async def import_document(
        self, request: ImportRequest, *, tenant: str | None = None
    ) -> AsyncGenerator[ImportEvent, None]:
        """Import an OpenAPI document in JSON: operations with names, summaries, parameters. Raises InvalidDocument."""
        await self._arrive("import_document")
        document = _read(request.document)
        provider = request.provider or str(document["info"]["title"]).lower().replace(" ", "-")
        if tenant is not None and request.tenants not in (None, (tenant,)):
            raise Forbidden(
                f"Only the operator's administrators can import for others. Your imports are for {tenant!r}."
            )
        tenants = self.pins[provider].tenants if request.tenants is None and provider in self.pins else ()
        tenants = tuple(sorted(set(request.tenants or tenants))) if tenant is None else (tenant,)
        if provider in self.owners or self._of(provider):
            self._refuse_others(provider, tenant)
        read = (api.model_copy(update={"tenants": tenants}) for api in _operations(document, provider, request.server))
        apis = {api.id: _sealed(api) for api in read}
        for known in self.apis.values():
            if known.id in apis and known.provider != provider:
                raise Conflict(f"The id {known.id!r} belongs to another provider.")
        before = {api.id: api for api in self._of(provider)}
        pin = ImportedDocument(
            provider=provider,
            document_hash=hashlib.sha256(request.document.encode()).hexdigest(),
            format="openapi-" + str(document["openapi"])[:3],
            version=str(document["info"].get("version", "")),
            server=request.server,
            tenants=tenants,
            imported_at=datetime.now(UTC),
            current=True,
        )
        report = _report(pin, before, apis)
        news = provider not in self.pins or self.pins[provider].document_hash != pin.document_hash
        held = request.hold_changes and news and bool(report.updated or report.removed)
        held = held or (report.sensitive_total > 0 and request.confirm is None)
        if (request.confirm or request.expected_change) not in (None, report.change_hash):
            raise Conflict("The document or the catalogue differs from what was reviewed. Review the change again.")
        yield ImportProgress(phase="reading", done=len(apis), total=len(apis))
        if request.dry_run or held:
            for change in _changes(before, apis):
                yield change
        else:
            self.apis = {key: api for key, api in self.apis.items() if key not in before} | apis
            self.pins[provider], self.owners[provider] = pin, tenant
            self.version += bool(report.added or report.updated or report.removed)
        applied = not (request.dry_run or held)
        yield report.model_copy(update={"applied": applied, "catalogue_version": self.version})

    async def documents(
        self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> DocumentPage:
        """A page of the imported documents."""
        await self._arrive("documents")
        seen = [self.pins[name] for name in sorted(self.pins) if _is_seen(self.pins[name].tenants, tenant)]
        own = [tuple(name for name in pin.tenants if tenant in (None, name)) for pin in seen]
        pins = [pin.model_copy(update={"tenants": names}) for pin, names in zip(seen, own, strict=True)]
        later = [pin for pin in pins if pin.provider > (cursor or "")]
        further = later[limit - 1].provider if len(later) > limit else None
        return DocumentPage(documents=tuple(later[:limit]), total=len(pins), next=further)

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

    def _of(self, provider: str) -> list[Api]:
        return [api for api in self.apis.values() if api.provider == provider]

    def _refuse_others(self, provider: str, tenant: str | None) -> None:
        if self.owners.get(provider) != tenant:
            raise Conflict(f"The provider {provider!r} belongs to another tenant.")

    def _known(self, api_id: str) -> Api:
        if api_id not in self.apis:
            raise NotFound(f"There is no API {api_id!r}.")
        return self.apis[api_id]

    def _keep(self, api: Api) -> Api:
        self.apis[api.id] = _sealed(api)
        self.version += 1
        return self.apis[api.id]


def _taking(apis: list[Api], name: str) -> int:
    return sum(any(one.wire_name == name for one in api.parameters) for api in apis)


def _report(pin: ImportedDocument, before: dict[str, Api], after: dict[str, Api]) -> ImportReport:
    """The report of an import that replaces the APIs ``before`` by ``after``."""
    changed = [key for key in after if key in before and after[key] != before[key]]
    sensitive = tuple(
        SensitiveChange(api=key, what="host", before=before[key].server, after=after[key].server)
        for key in changed
        if before[key].server != after[key].server
    )
    hashes = "\n".join(f"{api.id} {api.content_hash}" for apis in (before, after) for api in apis.values())
    return ImportReport(
        provider=pin.provider,
        format=pin.format,
        document_hash=pin.document_hash,
        added=len(after.keys() - before.keys()),
        updated=len(changed),
        unchanged=len(after.keys() & before.keys()) - len(changed),
        removed=len(before.keys() - after.keys()),
        sensitive=sensitive,
        sensitive_total=len(sensitive),
        change_hash=hashlib.sha256(f"{pin.document_hash}\n{hashes}".encode()).hexdigest(),
        catalogue_version=0,
    )


def _changes(before: dict[str, Api], after: dict[str, Api]) -> list[ImportChange]:
    """The changes from ``before`` to ``after``, one for each API that differs. Lists only changes of summaries."""
    found = []
    for key in after.keys() & before.keys():
        if after[key] != before[key]:
            old, new = before[key].summary, after[key].summary
            fields = (FieldChange(field="summary", before=old, after=new),) if old != new else ()
            found.append(ImportChange(action="updated", id=key, summary=new, fields=fields))
    found += [ImportChange(action="removed", id=key) for key in before.keys() - after.keys()]
    added = after.keys() - before.keys()
    return found + [ImportChange(action="added", id=key, summary=after[key].summary) for key in added]


def _sealed(api: Api) -> Api:
    return api.model_copy(update={"content_hash": content_hash(api.model_dump(mode="json", exclude=OUTSIDE_CONTENT))})


def _is_seen(tenants: tuple[str, ...], tenant: str | None) -> bool:
    return tenant is None or not tenants or tenant in tenants


def _anonymous(api: Api) -> Api:
    """The API without its tenants."""
    return api.model_copy(update={"tenants": ()})


def _passes(request: ApiFilters, api: Api) -> bool:
    """Whether an API passes the request's filters. Does not check tenants."""
    wanted = {tag.strip().casefold() for tag in request.tags}
    return (
        (not request.providers or api.provider in request.providers)
        and (not request.methods or api.method in request.methods)
        and (not wanted or any(tag.strip().casefold() in wanted for tag in api.tags))
        and (request.deprecated or not api.deprecated)
    )


def _candidate(request: RetrieveRequest, api: Api, is_pinned: bool) -> Candidate:
    rank = _rank(request.query, api)
    score = min(1.0, rank)
    found_by: FoundBy = "pinned" if is_pinned else "exact_name" if rank > 1 else "words"
    return Candidate(api=_anonymous(api), score=score, clause_scores=(score,), found_by=found_by)


def _text(api: Api) -> str:
    return f"{api.name} {api.summary} {api.description} {' '.join(api.tags)}"


def _rank(query: str, api: Api) -> float:
    """The score of an API: an exact name scores highest, then the share of common words."""
    return 2.0 if query in {api.id, api.name, api.path} else overlap(query, _text(api))


def _hit(api: Api, query: str | None) -> ApiSearchHit:
    score = None if query is None else min(1.0, _rank(query, api))
    return ApiSearchHit(
        id=api.id,
        provider=api.provider,
        method=api.method,
        path=api.path,
        summary=api.summary,
        deprecated=api.deprecated,
        score=score,
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
            tags=tuple(operation.get("tags", ())),
            deprecated=operation.get("deprecated") is True,
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
