"""The journal of the configured secrets: which were added, changed and removed, where each may be sent, never a value.

The secrets come from a file and a setting that anybody with access to them can edit, so the executor compares what it
reads with what was read last: at start, and whenever it reads the file again. The journal is append-only. All executors
of an installation share it: the first that sees a change records it. The gateway copies it into its audit log.

A changed value is recognised by a mark: an HMAC-SHA256 of name and entry, under a key that is derived from the proof
key. The marks stay in the executor's database. Whoever reads them without the proof key can neither compute a value nor
check a guess. Without a proof key, a mark covers only what is not secret, so a changed value alone is not seen.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from executor_svc.secret_changes import SecretChange, told_changes
from executor_svc.secret_store import RENEWED_FIELDS, Secret, SecretStore, Token, revealed
from executor_svc.tables import SECRET_CHANGES
from services.contracts.secret import JournalChange, JournalEntry, JournalPage
from services.periodic import repeating
from services.storage.engine import lock, read, write

_MARKS: Final = b"nestor executor: marks of secrets in the journal"
_LOCK: Final = "executor_svc.secret_journal"
_POLL_S: Final = 1.0
_MAX_DETAIL_CHARS: Final = 2_000
_MAX_WAITING: Final = 100
"""States kept while the database is away. Beyond that, the oldest are merged into the next ones."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is recorded of a secret."""

    detail: str
    mark: str


class SecretJournal:
    """Records changes of the secrets in a store.

    Args:
        engine: the executor's database.
        store: the secrets.
        proof_key: the marks' key is derived from it. None: changes of values alone are not recorded.
    """

    def __init__(self, engine: AsyncEngine, store: SecretStore, proof_key: SecretStr | None) -> None:
        self._engine, self._store = engine, store
        secret = proof_key.get_secret_value().encode() if proof_key is not None else None
        self._key = hmac.digest(secret, _MARKS, "sha256") if secret is not None else None
        self._waiting: deque[Mapping[str, _Seen]] = deque(maxlen=_MAX_WAITING)
        self._writing = asyncio.Lock()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Record the secrets as they are, then each change until the end of the context. Raises as :meth:`flush`."""
        self._store.on_reload = self._observe
        self._observe()
        await self.flush()
        async with repeating(self.flush, _POLL_S):
            yield

    def _observe(self) -> None:
        seen = {_stored(name): self._describe(name, secret) for name, secret in self._store.entries.items()}
        if not self._waiting or self._waiting[-1] != seen:
            self._waiting.append(seen)

    def _describe(self, name: str, secret: Secret) -> _Seen:
        entry = revealed(secret)
        assert isinstance(entry, dict)
        # What a renewal replaces is not told: it happens all the time. Logins are in `nestor secrets history`.
        entry = {field: value for field, value in entry.items() if field not in RENEWED_FIELDS}
        place = secret.place if isinstance(secret, Token) else None
        told = {
            "hosts": ", ".join(secret.hosts),
            "place": "" if place is None else f"{place[0]} {place[1]}",
            "scheme": secret.scheme or "",
            "token_url": str(entry.get("token_url", "")),
            "tenants": ", ".join(secret.tenants or ()),
            "fields": ", ".join(sorted(entry.keys() - {"hosts", "location", "name", "scheme", "tenants", "token_url"})),
            "from": "setting" if self._store.is_from_setting(name) else "file",
        }
        detail = "; ".join(f"{what}: {text}" for what, text in told.items() if text)
        whole = json.dumps([name, detail, entry], sort_keys=True).encode()
        if self._key is not None:
            mark = hmac.digest(self._key, whole, "sha256").hex()
        else:
            mark = hashlib.sha256(json.dumps(detail).encode()).hexdigest()
        short = detail if len(detail) <= _MAX_DETAIL_CHARS else detail[: _MAX_DETAIL_CHARS - 1] + "…"
        return _Seen(_stored(short), mark)

    async def flush(self) -> None:
        """Read the secrets again if they have changed, and record all changes.

        Raises:
            ServiceUnavailable, Overloaded: the database is away. The changes are kept for the next time.
        """
        self._store.reload()
        async with self._writing:
            while self._waiting:
                seen = self._waiting[0]
                await self._record(seen)
                if self._waiting[0] is seen:  # it was not dropped in the meantime
                    self._waiting.popleft()

    async def _record(self, seen: Mapping[str, _Seen]) -> None:
        async with write(self._engine) as connection:
            await lock(connection, _LOCK)  # so that numbers become visible in their order
            before = await _newest(connection)
            there = {name for name, row in before.items() if row.change != "removed"}
            changes: list[tuple[str, JournalChange]] = [(name, "added") for name in seen.keys() - there]
            changes += [(name, "changed") for name in seen.keys() & there if before[name].mark != seen[name].mark]
            changes += [(name, "removed") for name in there - seen.keys()]
            if not changes:
                return
            told = await asyncio.to_thread(_last_told, self._store.file)
            now = time.time()
            rows = []
            for name, change in sorted(changes):
                row = before.get(name)
                what = seen[name] if change != "removed" else _Seen(before[name].detail, "")
                account = _account(told.get(name), change, 0.0 if row is None else row.at)
                known = {"at": now, "change": change, "secret": name, "account": account}
                rows.append(known | {"detail": what.detail, "mark": what.mark})
            await connection.execute(SECRET_CHANGES.insert(), rows)

    async def page(self, after: int, limit: int) -> JournalPage:
        """Entries with a higher number than ``after``, in order. Raises ServiceUnavailable or Overloaded."""
        c = SECRET_CHANGES.c
        columns = (c.seq, c.at, c.change, c.secret, c.detail, c.account)
        async with read(self._engine) as connection:
            found = await connection.execute(sa.select(*columns).where(c.seq > after).order_by(c.seq).limit(limit))
            rows = found.mappings().all()
            newest = int(await connection.scalar(sa.select(sa.func.max(c.seq))) or 0)
        entries = (JournalEntry.model_validate({**r, "at": datetime.fromtimestamp(r["at"], UTC)}) for r in rows)
        return JournalPage(entries=tuple(entries), newest=newest)


async def _newest(connection: AsyncConnection) -> dict[str, sa.RowMapping]:
    """The newest row of each secret."""
    c = SECRET_CHANGES.c
    newest = sa.select(sa.func.max(c.seq)).group_by(c.secret)
    found = await connection.execute(sa.select(SECRET_CHANGES).where(c.seq.in_(newest)))
    return {row["secret"]: row for row in found.mappings()}


def _last_told(file: Path | None) -> dict[str, SecretChange]:
    """The last change of each secret by `nestor secrets`, as it is told beside the file."""
    with suppress(OSError):
        return {} if file is None else {_stored(one.secret): one for one in told_changes(file)}
    return {}


def _account(told: SecretChange | None, change: JournalChange, since: float) -> str:
    """The account that made this change with `nestor secrets`, after ``since``; empty if none told so."""
    if told is None or told.at.timestamp() <= since or (told.action == "remove") is not (change == "removed"):
        return ""
    return _stored(told.user)


def _stored(text: str) -> str:
    """A text as both databases can store it."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
