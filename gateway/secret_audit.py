"""Copies the executor's journal of secrets into the audit log: which were added, changed and removed.

An entry's id is made from the journal's entry, so that several gateways, or one after a restart, add it once.
"""

import hashlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from gateway.audit import AuditLog, entry
from gateway.principals import Principal
from services.clients import Executor
from services.contracts.access import Action
from services.contracts.secret import JournalChange, JournalEntry
from services.periodic import repeating

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

    def working(self) -> AbstractAsyncContextManager[None]:
        """Copy new entries until the end of the context."""
        return repeating(self.copy, _POLL_S)

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
