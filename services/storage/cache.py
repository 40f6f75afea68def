"""A cache of bytes with a time to live: in memory, or Redis where several processes share it.

A cache may forget anything at any time and may be down; callers compute what it does not give. So its errors are
misses, logged, and never fail a request.
"""

import time
from collections import OrderedDict
from typing import Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.errors import ServiceUnavailable
from services.telemetry import get_logger

_PAUSE_S = 5.0
"""How long a Redis that failed is left alone, so that requests do not wait for it one after the other."""
_log = get_logger(__name__)


class Cache(Protocol):
    """Keys are text; values are bytes."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None where there is none (any more)."""

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for ``ttl_s`` seconds."""

    async def ping(self) -> None:
        """Raise ServiceUnavailable where the cache cannot be reached."""

    async def close(self) -> None:
        """Let go of connections."""


class MemoryCache:
    """At most ``max_bytes`` of values, the least recently used forgotten first."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._items: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._max_bytes, self._bytes = max_bytes, 0

    async def get(self, key: str) -> bytes | None:
        """The value, or None where it is absent or too old."""
        item = self._items.get(key)
        if item is None:
            return None
        if item[0] <= time.monotonic():
            self._drop(key)
            return None
        self._items.move_to_end(key)
        return item[1]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value, making room for it; one that is larger than the whole cache is not kept."""
        self._drop(key)
        if len(value) > self._max_bytes:
            return
        self._items[key] = (time.monotonic() + ttl_s, value)
        self._bytes += len(value)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._items)))

    async def ping(self) -> None:
        """Always there."""

    async def close(self) -> None:
        """Nothing to let go of."""

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

    async def get(self, key: str) -> bytes | None:
        """The value, or None; a Redis that is down is a miss."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            value = await self._redis.get(self._prefix + key)
        except RedisError as error:
            self._pause("cache_miss", error)
            return None
        return value if isinstance(value, bytes) else None

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value; a Redis that is down keeps nothing."""
        if time.monotonic() < self._paused_until:
            return
        try:
            await self._redis.set(self._prefix + key, value, px=max(1, int(ttl_s * 1000)))
        except RedisError as error:
            self._pause("cache_not_kept", error)

    async def ping(self) -> None:
        """Raise ServiceUnavailable where Redis does not answer."""
        try:
            await self._redis.ping()
        except RedisError as error:
            raise ServiceUnavailable("Redis cannot be reached.", service="redis") from error
        self._paused_until = 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    def _pause(self, event: str, error: RedisError) -> None:
        self._paused_until = time.monotonic() + _PAUSE_S
        _log.warning(event, reason=type(error).__name__, paused_s=_PAUSE_S)


def open_cache(redis_url: str | None) -> Cache:
    """Redis where a URL is given, memory otherwise."""
    return RedisCache(redis_url) if redis_url else MemoryCache()
