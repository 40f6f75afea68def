"""The cache: what is kept, for how long, and that a Redis that is down is a miss and nothing worse."""

import asyncio
import time

import pytest

from services.errors import ServiceUnavailable
from services.storage.cache import Cache, MemoryCache, RedisCache, open_cache
from tests.support.redis import RedisServer


@pytest.fixture(params=["memory", "redis"])
def cache(request: pytest.FixtureRequest) -> Cache:
    if request.param == "memory":
        return open_cache(None)
    server: RedisServer = request.getfixturevalue("redis_server")
    return open_cache(server.url)


async def test_bytes_come_back_until_they_are_too_old(cache: Cache) -> None:
    await cache.ping()
    assert await cache.get("a") is None
    await cache.set("a", b"\x00\xff", ttl_s=60)
    await cache.set("b", b"old", ttl_s=0.05)
    assert await cache.get("a") == b"\x00\xff"
    await asyncio.sleep(0.1)
    assert await cache.get("b") is None
    await cache.set("a", b"new", ttl_s=60)
    assert await cache.get("a") == b"new"
    await cache.close()


async def test_memory_forgets_the_least_recently_used() -> None:
    cache = MemoryCache(max_bytes=10)
    for key in "ab":
        await cache.set(key, b"12345", ttl_s=60)
    assert await cache.get("a") == b"12345"
    await cache.set("c", b"1", ttl_s=60)
    assert [await cache.get(key) for key in "abc"] == [b"12345", None, b"1"]
    await cache.set("a", b"x" * 11, ttl_s=60)
    assert [await cache.get(key) for key in "ac"] == [None, b"1"]


async def test_processes_with_the_same_url_share(redis_server: RedisServer) -> None:
    one, other = RedisCache(redis_server.url), RedisCache(redis_server.url)
    await one.set("a", b"1", ttl_s=60)
    assert await other.get("a") == b"1"
    await one.close()
    await other.close()


async def test_redis_that_is_down_is_a_miss_and_soon_left_alone(redis_server: RedisServer) -> None:
    cache = RedisCache(redis_server.url)
    await cache.set("a", b"1", ttl_s=60)
    redis_server.stop()
    assert await cache.get("a") is None
    with pytest.raises(ServiceUnavailable, match="Redis"):
        await cache.ping()
    redis_server.start()
    await cache.set("a", b"2", ttl_s=60)  # still left alone
    assert await cache.get("a") is None
    await cache.ping()  # it is back
    await cache.set("a", b"3", ttl_s=60)
    assert await cache.get("a") == b"3"
    await cache.close()


async def test_redis_that_hangs_is_waited_for_once() -> None:
    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    cache = RedisCache(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
    started = time.monotonic()
    assert [await cache.get(str(number)) for number in range(20)] == [None] * 20
    assert time.monotonic() - started < 5  # 20 waits would take 10 s
    await cache.close()
    server.close()
