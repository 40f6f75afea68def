"""The cache may forget; it never fails a request."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from services.errors import ServiceUnavailable
from services.storage.cache import Cache, MemoryCache, RedisCache, open_cache
from tests.support.redis import RedisServer


@pytest.fixture(params=["memory", "redis"])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[Cache]:
    cache = open_cache(request.getfixturevalue("redis_server").url if request.param == "redis" else None)
    assert isinstance(cache, RedisCache if request.param == "redis" else MemoryCache)
    yield cache
    await cache.close()


async def test_what_is_kept_can_be_had_back(cache: Cache) -> None:
    await cache.ping()
    assert await cache.get("a") is None
    await cache.set("a", b"\x00\xff", 60)
    await cache.set("é\n*", b"", 60)
    assert await cache.get("a") == b"\x00\xff"
    assert await cache.get("é\n*") == b""
    await cache.set("a", b"other", 60)
    assert await cache.get("a") == b"other"


async def test_what_is_too_old_is_gone(cache: Cache) -> None:
    await cache.set("short", b"1", 0.02)
    await cache.set("long", b"2", 60)
    await asyncio.sleep(0.05)
    assert (await cache.get("short"), await cache.get("long")) == (None, b"2")


async def test_memory_expires_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    cache = MemoryCache()
    await cache.set("a", b"1", 10)
    await cache.set("b", b"1", 0)
    assert (await cache.get("a"), await cache.get("b")) == (b"1", None)
    now = 110.0
    assert await cache.get("a") is None


async def test_memory_forgets_the_least_recently_used_first() -> None:
    cache = MemoryCache(max_bytes=3)
    for key in "abc":
        await cache.set(key, b"x", 60)
    await cache.get("a")
    await cache.set("d", b"x", 60)
    assert [key for key in "abcd" if await cache.get(key)] == ["a", "c", "d"]
    await cache.set("e", b"four", 60)  # more than there is room for
    assert [key for key in "acde" if await cache.get(key)] == ["a", "c", "d"]
    await cache.set("a", b"four", 60)  # nor is the value it would replace any good
    assert await cache.get("a") is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.binary(max_size=12)), max_size=40), st.integers(0, 20))
async def test_memory_never_holds_more_than_it_may(writes: list[tuple[str, bytes]], room: int) -> None:
    cache, last = MemoryCache(max_bytes=room), dict[str, bytes]()
    for key, value in writes:
        await cache.set(key, value, 60)
        last[key] = value
        held = {key: found for key in last if (found := await cache.get(key)) is not None}
        assert sum(map(len, held.values())) <= room
        assert held.items() <= last.items()


async def test_redis_is_shared_under_a_prefix_and_with_a_time_to_live(redis_server: RedisServer) -> None:
    one, other = open_cache(redis_server.url), open_cache(redis_server.url)
    await one.set("shared", b"1", 60)
    assert await other.get("shared") == b"1"
    async with Redis.from_url(redis_server.url) as redis:
        assert await redis.keys() == [b"nestor:shared"]
        assert 59_000 < await redis.pttl("nestor:shared") <= 60_000
    await one.close()
    await other.close()


async def test_a_redis_that_goes_away_is_a_miss_and_one_that_comes_back_is_used(
    redis_server: RedisServer,
) -> None:
    cache = open_cache(redis_server.url)
    await cache.set("a", b"1", 60)
    assert await cache.get("a") == b"1"
    redis_server.stop()
    assert await cache.get("a") is None
    await cache.set("a", b"2", 60)
    with pytest.raises(ServiceUnavailable, match="Redis") as caught:
        await cache.ping()
    assert caught.value.extensions == {"service": "redis"}
    redis_server.start()
    await cache.ping()
    assert await cache.get("a") is None
    await cache.set("a", b"3", 60)
    assert await cache.get("a") == b"3"
    await cache.close()


async def test_a_redis_that_was_never_there() -> None:
    cache = open_cache("redis://:password@127.0.0.1:1/0")
    assert await cache.get("a") is None
    await cache.set("a", b"1", 60)
    with pytest.raises(ServiceUnavailable) as caught:
        await cache.ping()
    assert "password" not in caught.value.detail
    await cache.close()
