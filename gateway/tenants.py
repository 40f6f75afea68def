"""Exports all data of a tenant line by line, and deletes it in batches.

A call that deletes takes a bounded time and can be interrupted anywhere. The next call continues with what is left. The
audit log stays.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final, Protocol, TypeVar

from gateway.audit import AuditFilter, AuditLog
from gateway.keys import KeyStore
from gateway.listing import Filter
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.runs import Runs
from gateway.settings import GatewaySettings
from gateway.storage import UNDER_WAY, RunStore
from services.contracts.access import Action
from services.contracts.base import Contract
from services.contracts.run import RunStatus
from services.contracts.tenant import ExportLine, TenantDeletion
from services.errors import Conflict, NotFound
from services.fair_slots import FairSlots
from services.telemetry import get_logger

BATCH_S: Final = 10.0
"""How long one call starts new deletions, in seconds."""
_PAGE: Final = 100
_SHOWN: Final = 5
_EXPORTS, _EXPORTS_EACH = 20, 2
"""Exports at once, of all tenants and of one. Each holds a run of up to 16 MB for as long as its reader takes."""
_EXPORTS_WAITING, _EXPORT_WAIT_S = 1_000, 20.0
_log = get_logger(__name__)


class _Page(Protocol):
    """A part of a list."""

    @property
    def next(self) -> str | None:
        """The cursor of the following page, if there is one."""


_Line = tuple[str, bytes]
"""The kind of an exported object, and its line."""
P = TypeVar("P", bound=_Page)
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class Tenants:
    """Exports and deletes tenants.

    Args:
        peers: the services that store demonstrations, APIs and executions.
        store: the runs.
        runs: the runs under way in this process.
        quotas: counts open exports as streams, and what they read; knows how many runs and imports are under way.
        keys: the keys.
        audit: the log where exports and deletions are recorded.
        settings: name the tenants that cannot be deleted.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        peers: Peers,
        store: RunStore,
        runs: Runs,
        quotas: Quotas,
        keys: KeyStore,
        audit: AuditLog,
        settings: GatewaySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._peers, self._store, self._runs, self._keys, self._audit = peers, store, runs, keys, audit
        self._quotas, self._settings, self._clock = quotas, settings, clock
        self._exports = FairSlots(_EXPORTS, _EXPORTS_WAITING, _EXPORTS_EACH, "exports")

    async def export(self, tenant: str, principal: Principal) -> AsyncGenerator[bytes, None]:
        """The lines of all data of a tenant, then of the counts. Concurrent changes may or may not be included.

        Large lines count as requests of the principal's tenant; the export slows down so that others of it go on.

        Raises:
            QuotaExceeded: too many streams of the principal's tenant are open.
            Overloaded: too many exports are active.
        """
        counts: Counter[str] = Counter()
        parts = (self._key_lines, self._run_lines, self._demo_lines, self._api_lines, self._audit_lines)
        self._quotas.check("streams", principal.tenant)
        with self._quotas.holding("streams", principal.tenant):
            async with self._exports.slot(principal.tenant, _EXPORT_WAIT_S):
                async with self._audit.around(principal, Action.EXPORT_TENANT, tenant):
                    for part in parts:
                        async with aclosing(part(tenant)) as lines:
                            async for kind, line in lines:
                                counts[kind] += 1
                                await self._quotas.pace(principal.tenant, len(line))
                                yield line
                yield _written(ExportLine(kind="end", data=dict(counts)))

    async def _key_lines(self, tenant: str) -> AsyncGenerator[_Line, None]:
        async for page in _pages(lambda cursor: self._keys.page(tenant, limit=_PAGE, cursor=cursor)):
            for key in page.keys:
                yield _line("key", key)

    async def _run_lines(self, tenant: str) -> AsyncGenerator[_Line, None]:
        async with aclosing(self._run_ids(tenant)) as ids:
            async for run_id in ids:
                with suppress(NotFound):  # deleted meanwhile
                    # No name for the JSON: it would be kept beside its line.
                    yield (
                        "run",
                        await asyncio.to_thread(_run_line, await self._store.json(run_id, tenant, counted=False)),
                    )

    async def _run_ids(self, tenant: str) -> AsyncGenerator[str, None]:
        """The ids of a tenant's runs, newest first. Runs may be deleted during the iteration."""
        async for page in _pages(lambda cursor: self._store.listing.page(Filter(tenant), limit=_PAGE, cursor=cursor)):
            for run in page.runs:
                yield run.id

    async def _demo_lines(self, tenant: str) -> AsyncGenerator[_Line, None]:
        async for page in _pages(
            lambda cursor: self._peers.demos.list(tenant=tenant, own=True, limit=_PAGE, cursor=cursor)
        ):
            for demo in page.demos:
                yield _line("demo", demo)

    async def _api_lines(self, tenant: str) -> AsyncGenerator[_Line, None]:
        async for page in _pages(
            lambda cursor: self._peers.retriever.documents(tenant=tenant, limit=_PAGE, cursor=cursor)
        ):
            for document in page.documents:
                if tenant in document.tenants:
                    yield _line("document", document)
                    async with aclosing(self._apis_of(document.provider, tenant)) as apis:
                        async for line in apis:
                            yield line

    async def _apis_of(self, provider: str, tenant: str) -> AsyncGenerator[_Line, None]:
        retriever = self._peers.retriever
        async for page in _pages(
            lambda cursor: retriever.search(provider=provider, tenant=tenant, limit=_PAGE, cursor=cursor)
        ):
            for hit in page.hits:
                with suppress(NotFound):
                    yield _line("api", await retriever.get(hit.id, tenant=tenant))

    async def _audit_lines(self, tenant: str) -> AsyncGenerator[_Line, None]:
        async for page in _pages(lambda cursor: self._audit.page(AuditFilter(tenant), limit=_PAGE, cursor=cursor)):
            for entry in page.entries:
                yield _line("audit", entry)

    async def delete(self, tenant: str, principal: Principal) -> TenantDeletion:
        """Delete keys, runs, demonstrations and imported providers of a tenant, as many as fit into `BATCH_S`.

        Keys are deleted first, so that no new work begins. The caller's own key is deleted last.

        Raises:
            Conflict: the settings still name principals of the tenant, it is the operator's, or calls of it are in
                doubt.
            ServiceError: something could not be deleted now. Earlier deletions stand; call again for the rest.
        """
        self._refuse_named(tenant)
        doubtful = (
            await self._store.listing.page(Filter(tenant, (RunStatus.IN_DOUBT,)), limit=_SHOWN, cursor=None)
        ).runs
        if doubtful:
            ids = ", ".join(run.id for run in doubtful)
            raise Conflict(f"Runs of the tenant have calls in doubt. They must be settled first: {ids}.")
        async with self._audit.around(principal, Action.DELETE_TENANT, tenant) as pending:
            report = await self._batch(tenant, principal.key)
            if not report.done:
                pending.target = f"{tenant} (in part)"
        _log.info("tenant deleted", tenant=tenant, by=principal.name, **report.model_dump())
        return report

    def _refuse_named(self, tenant: str) -> None:
        """Raise Conflict if the settings still let callers of this tenant in."""
        settings = self._settings
        named = {principal.tenant for principal in settings.principals}
        named |= {name for issuer in settings.issuers for name in (issuer.tenant, *issuer.tenants) if name}
        if settings.token is not None or not settings.asks_for_tokens:
            named.add(Principal().tenant)
        if tenant == settings.operator_tenant:
            raise Conflict("The operator's tenant cannot be deleted.")
        if tenant in named:
            raise Conflict(f"The settings have principals or issuers of {tenant!r}. Remove them first.")

    async def _batch(self, tenant: str, own_key: str) -> TenantDeletion:
        ends, gone = self._clock() + BATCH_S, Counter[str]()
        gone["keys"] = await self._keys.delete_of(tenant, but=own_key)
        under_way = self._quotas.count_under_way(tenant)  # read first: a waiting run or an import may be stored later
        done = await self._delete_runs(tenant, ends, gone)
        gone["ending"] = max(gone["ending"], under_way)
        done = done and await self._delete_demos(tenant, ends, gone)
        done = done and await self._delete_providers(tenant, ends, gone) and not gone["ending"]
        if done:
            gone["keys"] += await self._keys.delete_of(tenant)
        kinds = ("keys", "runs", "demos", "providers", "ending")
        return TenantDeletion(done=done, **{kind: gone[kind] for kind in kinds})

    async def _delete_runs(self, tenant: str, ends: float, gone: Counter[str]) -> bool:
        async with aclosing(self._run_ids(tenant)) as ids:
            async for run_id in ids:
                if self._clock() >= ends:
                    return False
                with suppress(NotFound):
                    gone["runs" if await self._delete_run(run_id, tenant) else "ending"] += 1
        return True

    async def _delete_run(self, run_id: str, tenant: str) -> bool:
        """Delete a run, or cancel it if it is under way. False: it is not over yet."""
        stored = await self._store.stored(run_id, tenant, further=True)  # the tenant's reads do not keep it here
        run = stored.run
        if run.status in UNDER_WAY:
            await self._store.request_cancel(run_id)
            self._runs.cancel(run_id)
            return False
        if run.status is RunStatus.NEEDS_APPROVAL:
            ended = run.model_copy(update={"status": RunStatus.CANCELLED, "reason": "Its tenant is deleted."})
            if not await self._store.replace(stored, ended):
                return False
        for execution_id in run.execution_ids:
            await self._peers.executor.forget(execution_id)
        return await self._store.delete(run_id, tenant)

    async def _delete_demos(self, tenant: str, ends: float, gone: Counter[str]) -> bool:
        while demos := (await self._peers.demos.list(tenant=tenant, own=True, limit=_PAGE)).demos:
            for demo in demos:
                if self._clock() >= ends:
                    return False
                with suppress(NotFound):
                    await self._peers.demos.delete(demo.id, tenant=tenant)
                    gone["demos"] += 1
        return True

    async def _delete_providers(self, tenant: str, ends: float, gone: Counter[str]) -> bool:
        """Delete the providers that this tenant imported. Providers that the operator imported for it stay."""
        retriever = self._peers.retriever
        async for page in _pages(lambda cursor: retriever.documents(tenant=tenant, limit=_PAGE, cursor=cursor)):
            for document in page.documents:
                if self._clock() >= ends:
                    return False
                if tenant in document.tenants:
                    with suppress(NotFound, Conflict):
                        await retriever.delete_provider(document.provider, tenant=tenant)
                        gone["providers"] += 1
        return True


async def _pages(ask: Callable[[str | None], Awaitable[P]]) -> AsyncGenerator[P, None]:
    """All pages of a list, from what returns the one at a cursor."""
    cursor = None
    while True:
        page = await ask(cursor)
        yield page
        if (cursor := page.next) is None:
            return


def _run_line(text: str) -> bytes:
    """The line of a run. Its JSON is passed on as it is stored: to parse and write 16 MB takes seconds.

    Call it in a thread: the text may be large.
    """
    said = text if text.isascii() else _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return f'{{"kind":"run","data":{said}}}\n'.encode()


def _line(kind: str, of: Contract) -> _Line:
    return kind, _written(ExportLine.model_validate({"kind": kind, "data": of.model_dump(mode="json")}))


def _written(line: ExportLine) -> bytes:
    return line.model_dump_json(ensure_ascii=True).encode() + b"\n"
