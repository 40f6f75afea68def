"""Copies the executor's journal of secrets into the audit log: which were added, changed and removed.

An entry's id is made from the journal's entry, so that several gateways, or one after a restart, add it once.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from gateway.audit import AuditLog, entry
from gateway.principals import Principal
from services.clients import Executor
from services.contracts.access import Action
from services.contracts.secret import JournalChange, JournalEntry
from services.errors import ServiceError
from services.telemetry import get_logger

_log = get_logger(__name__)
_POLL_S: Final = 5.0
_ACTIONS: Final[dict[JournalChange, Action]] = {
    "added": Action.ADD_CREDENTIAL,
    "changed": Action.CHANGE_CREDENTIAL,
    "removed": Action.REMOVE_CREDENTIAL,
}


class SecretAudit:
    """Copies the journal while its context lasts. The entries are the operator's, since secrets are configured by it.

    Args:
        executor: has the journal.
        audit: where its entries go.
        operator_tenant: the tenant of the entries.
    """

    def __init__(self, executor: Executor, audit: AuditLog, operator_tenant: str) -> None:
        self._executor, self._audit = executor, audit
        self._who = Principal("settings", operator_tenant)
        self._after = 0

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Copy new entries until the end of the context."""
        task = asyncio.create_task(self._poll(), name="audit of secrets")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _poll(self) -> None:
        while True:
            try:
                await self.copy()
            except (ServiceError, TimeoutError) as error:
                _log.info("changes of secrets are not in the audit log yet", reason=str(error))
            except Exception as error:  # noqa: BLE001 - the next attempt must be made all the same
                _log.error("bug", what="copying changes of secrets", exc_info=error)
            await asyncio.sleep(_POLL_S)

    async def copy(self) -> None:
        """Copy what is new. Raises ServiceError if the executor or the database is away; nothing is skipped then."""
        while True:
            page = await self._executor.secret_changes(self._after)
            if page.newest < self._after:  # another database: its entries have other ids
                self._after = 0
                continue
            if not page.entries:
                return
            await self._audit.add_once([self._row(one) for one in page.entries])
            self._after = page.entries[-1].seq

    def _row(self, one: JournalEntry) -> Mapping[str, object]:
        moment_ms = int(one.at.timestamp() * 1000)
        told = hashlib.sha256(one.model_dump_json().encode()).hexdigest()
        by = f"; account: {one.account}" if one.account else ""
        return entry(self._who, _ACTIONS[one.change], one.secret) | {
            "id": f"aud_{moment_ms:012x}{told[:20]}",
            "at": one.at,
            "request_id": "",
            "detail": one.detail + by,
        }
