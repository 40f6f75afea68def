"""A cache of bytes with a time to live: in memory, or in Redis if several processes share it.

A cache may drop any entry at any time and may be down. Callers compute the value on a miss. So errors of the cache are
logged and count as misses; they never fail a request.
"""

import time
from collections import OrderedDict
from typing import Protocol

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError

from services.errors import ServiceUnavailable
from services.outages import Outage

_PAUSE_S = 5.0
"""How long a Redis that failed is not used, so that requests do not wait for it one after the other."""


class Cache(Protocol):
    """Keys are text; values are bytes."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None if it is absent or expired."""

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Store a value for ``ttl_s`` seconds."""

    async def ping(self) -> None:
        """Raise ServiceUnavailable if the cache cannot be reached."""

    async def close(self) -> None:
        """Close connections."""


class MemoryCache:
    """An LRU cache of at most ``max_bytes`` of values."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._items: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._max_bytes, self._bytes = max_bytes, 0

    async def get(self, key: str) -> bytes | None:
        """The value, or None if it is absent or expired."""
        item = self._items.get(key)
        if item is None:
            return None
        if item[0] <= time.monotonic():
            self._drop(key)
            return None
        self._items.move_to_end(key)
        return item[1]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Store a value and evict others to make room. A value larger than the whole cache is not stored."""
        self._drop(key)
        if len(value) > self._max_bytes:
            return
        self._items[key] = (time.monotonic() + ttl_s, value)
        self._bytes += len(value)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._items)))

    async def ping(self) -> None:
        """Do nothing: memory is always available."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _drop(self, key: str) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._bytes -= len(item[1])


class RedisCache:
    """Redis, shared by all processes that are given the same URL."""

    def __init__(self, url: str, *, prefix: str = "nestor:") -> None:
        self._redis: Redis = Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5)
        self._prefix = prefix
        self._paused_until = 0.0
        self._outage = Outage("the cache")

    async def get(self, key: str) -> bytes | None:
        """The value, or None. If Redis is down, this is a miss."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            value = await self._redis.get(self._prefix + key)
            self._outage.worked()
        except RedisError as error:
            self._pause(error)
            return None
        return value if isinstance(value, bytes) else None

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Store a value. If Redis is down, nothing is stored."""
        if time.monotonic() < self._paused_until:
            return
        try:
            await self._redis.set(self._prefix + key, value, px=max(1, int(ttl_s * 1000)))
        except RedisError as error:
            self._pause(error)

    async def ping(self) -> None:
        """Raise ServiceUnavailable if Redis does not answer."""
        try:
            await self._redis.ping()
        except AuthenticationError as error:
            raise ServiceUnavailable("Redis refuses the password.", service="redis") from error
        except RedisError as error:
            raise ServiceUnavailable("Redis cannot be reached.", service="redis") from error
        self._paused_until = 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    def _pause(self, error: RedisError) -> None:
        self._paused_until = time.monotonic() + _PAUSE_S
        self._outage.failed(error)


def open_cache(redis_url: str | None) -> Cache:
    """A Redis cache if a URL is given, a memory cache otherwise."""
    return RedisCache(redis_url) if redis_url else MemoryCache()
