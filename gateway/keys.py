"""Keys of apps in SQL. A key has the form `nst_ID_SECRET`. Only the SHA-256 of the secret part is stored.

The secret part has 256 random bits, so a plain hash of it cannot be reversed by guessing.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from gateway.tables import AUDIT, KEYS, aware
from services.contracts.access import CreatedKey, Key, KeyPage, Role
from services.errors import NotFound
from services.storage.engine import Transactions, read

_KEY: Final = re.compile(rb"nst_([0-9a-f]{20})_([A-Za-z0-9_-]{43})")
_CACHE_S: Final = 2.0
"""How long a key is cached, in seconds. A key that another process revokes is accepted for that long."""
_MAX_CACHED: Final = 10_000


def new_key_id() -> str:
    """An id that sorts by time: milliseconds, then 32 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(4)}"


class KeyStore:
    """Makes, lists, revokes and finds keys.

    All methods raise ServiceUnavailable or Overloaded if the database is unavailable.

    Args:
        transactions: writes in its database, in turns of tenants.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, transactions: Transactions, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._transactions, self._clock = transactions.engine, transactions, clock
        self._cache: dict[str, tuple[float, str, Key | None]] = {}

    async def create(
        self, name: str, tenant: str, roles: frozenset[Role], days: int | None, by: str, entry: Mapping[str, object]
    ) -> CreatedKey:
        """Make a key. The audit entry is written in the same transaction, with the key's id as target."""
        secret, now = secrets.token_urlsafe(32), datetime.now(UTC)
        key = Key(
            id=new_key_id(),
            name=name,
            tenant=tenant,
            roles=tuple(sorted(roles)),
            created_at=now,
            created_by=by,
            expires_at=None if days is None else now + timedelta(days=days),
        )
        row = key.model_dump() | {"roles": " ".join(key.roles), "secret_hash": _hashed(secret.encode())}

        def add(connection: sa.Connection) -> None:
            connection.execute(KEYS.insert(), row)
            connection.execute(AUDIT.insert(), {**entry, "target": key.id})

        await self._transactions.run(add)
        return CreatedKey(**key.model_dump(), key=f"nst_{key.id}_{secret}")

    async def revoke(self, key_id: str, tenant: str | None, entry: Mapping[str, object]) -> None:
        """Revoke a key of the tenant, or of any tenant if it is None. Revoking again changes nothing.

        Raises:
            NotFound: there is no such key.
        """
        this = _of(tenant) & (KEYS.c.id == key_id)

        def end(connection: sa.Connection) -> None:
            if connection.scalar(sa.select(KEYS.c.id).where(this)) is None:
                raise NotFound(f"There is no key {key_id}.")
            valid = this & KEYS.c.revoked_at.is_(None)
            done = connection.execute(KEYS.update().where(valid).values(revoked_at=datetime.now(UTC)))
            if done.rowcount == 1:
                connection.execute(AUDIT.insert(), entry)

        await self._transactions.run(end)
        self._cache.pop(key_id, None)

    async def delete_of(self, tenant: str, but: str = "") -> int:
        """Delete the keys of a tenant, except the one with the id ``but``. Returns how many were deleted."""
        gone = (KEYS.c.tenant == tenant) & (KEYS.c.id != but)
        count = await self._transactions.run(lambda connection: connection.execute(KEYS.delete().where(gone)).rowcount)
        self._cache.clear()
        return count

    async def page(self, tenant: str | None, *, limit: int, cursor: str | None) -> KeyPage:
        """Keys of a tenant, or of all tenants if it is None, newest first, after the one with the id ``cursor``."""
        statement = sa.select(KEYS).where(_of(tenant)).order_by(KEYS.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(KEYS.c.id < cursor)
        async with read(self._engine) as connection:
            rows = (await connection.execute(statement)).all()
        keys = tuple(_key(row) for row in rows[:limit])
        return KeyPage(keys=keys, next=keys[-1].id if len(rows) > limit else None)

    async def find_by_token(self, token: bytes) -> Key | None:
        """The key with this token, if it is valid now."""
        match = _KEY.fullmatch(token)
        if match is None:
            return None
        expected, key = await self._find(match[1].decode())
        if key is None or not hmac.compare_digest(_hashed(match[2]), expected):
            return None
        return _valid(key)

    async def find_by_id(self, key_id: str) -> Key | None:
        """The key with this id, if it is valid now."""
        _, key = await self._find(key_id)
        return None if key is None else _valid(key)

    async def _find(self, key_id: str) -> tuple[str, Key | None]:
        """The hash and the key of an id, from the cache or the database."""
        until, expected, key = self._cache.get(key_id, (0.0, "", None))
        if until > (now := self._clock()):
            return expected, key
        async with read(self._engine) as connection:
            row = (await connection.execute(sa.select(KEYS).where(KEYS.c.id == key_id))).first()
        expected, key = ("", None) if row is None else (row.secret_hash, _key(row))
        self._cache.pop(key_id, None)
        self._cache[key_id] = (now + _CACHE_S, expected, key)
        if len(self._cache) > _MAX_CACHED:
            self._cache.pop(next(iter(self._cache)))  # the oldest
        return expected, key


def is_key(token: bytes) -> bool:
    """Whether a token has the form of a key."""
    return _KEY.fullmatch(token) is not None


def _valid(key: Key) -> Key | None:
    over = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return None if over or key.revoked_at is not None else key


def _hashed(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _of(tenant: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if tenant is None else KEYS.c.tenant == tenant


def _key(row: sa.Row[tuple[object, ...]]) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        tenant=row.tenant,
        roles=tuple(Role(role) for role in row.roles.split()),
        created_at=aware(row.created_at),
        created_by=row.created_by,
        expires_at=aware(row.expires_at) if row.expires_at else None,
        revoked_at=aware(row.revoked_at) if row.revoked_at else None,
    )
