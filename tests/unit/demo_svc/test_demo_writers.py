"""Writers of the knowledge base: what they wait for, and that readers do not wait for them."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from demo_svc.models import key_of, text_hash
from demo_svc.service import DemoService
from demo_svc.storage import EMBEDDINGS, KNOWLEDGE, DemoStorage
from services.compute import ComputePool
from services.contracts.demo import Demo, demo_id
from services.errors import Conflict
from services.storage.embeddings import VectorsRemoved
from services.storage.engine import write
from tests.unit.demo_svc.support import HashEncoder, demo

LOCK = sa.update(KNOWLEDGE).values(version=KNOWLEDGE.c.version)
HANG_S = 15.0
"""A guard: less than the 30 s that an exhausted pool, and the 20 s that SQLite, would be waited for."""


def named(query: str) -> Demo:
    one = demo(query, "p.a")
    return one.model_copy(update={"id": demo_id(one)})


async def test_removing_what_is_not_there_waits_for_no_writer(engine: AsyncEngine) -> None:
    storage, one = DemoStorage(engine), named("a")
    await storage.add([one], "red")
    async with write(engine) as connection:
        await connection.execute(LOCK)
        assert not await asyncio.wait_for(storage.delete(key_of(one.id, "blue"), "blue"), HANG_S)
    assert await storage.delete(key_of(one.id, "red"), "red")
    storage.close()


async def test_writers_that_wait_leave_connections_to_readers(engine: AsyncEngine) -> None:
    storage = DemoStorage(engine)
    async with write(engine) as connection:
        await connection.execute(LOCK)
        tasks = [asyncio.create_task(storage.add([named(f"q{n}")], "red")) for n in range(30)]
        for _ in range(200):  # those that ask for a connection get as far as they can
            await asyncio.sleep(0.001)
        assert (await asyncio.wait_for(storage.listing(), HANG_S)).entries == ()
    await asyncio.gather(*tasks)
    assert await storage.version() == 30
    storage.close()


async def vectors_of(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.scalars(sa.select(EMBEDDINGS.c.text_hash)))


async def test_demos_that_are_not_stored_leave_no_vectors(engine: AsyncEngine) -> None:
    storage, pool, encoder = DemoStorage(engine, most_each=100), ComputePool(1, 16), HashEncoder()
    service = DemoService(storage, encoder, pool, threshold=0.8)
    await service.add([demo("kept")], "red")
    many = [demo(f"q{n}") for n in range(99)]
    async with storage._writers.turn("blue"):
        importing = asyncio.create_task(service.add(many, "red"))
        async with asyncio.timeout(HANG_S):
            while len(encoder.encoded) < 100:  # noqa: ASYNC110 - nothing tells how far an import is
                await asyncio.sleep(0.001)
        importing.cancel()  # as when the client goes away
        with pytest.raises(asyncio.CancelledError):
            await importing
    assert await vectors_of(engine) == {text_hash("kept")}

    storage.check_room = AsyncMock()  # type: ignore[method-assign] # others fill the room after it was checked
    await service.add([demo("another")], "red")
    with pytest.raises(Conflict):
        await service.add(many, "red")
    assert await vectors_of(engine) == {text_hash("kept"), text_hash("another")}
    await pool.close()
    storage.close()


async def test_a_text_whose_demo_is_removed_while_it_is_encoded_keeps_no_vector(engine: AsyncEngine) -> None:
    storage, one = DemoStorage(engine), named("a")
    await storage.add([one])
    vector = HashEncoder().encode(["a"])[0]
    await storage.keep_vectors("e", {text_hash("a"): vector, text_hash("b"): vector})
    assert await vectors_of(engine) == {text_hash("a")}
    storage.close()


async def test_tenants_take_turns_at_writing(engine: AsyncEngine) -> None:
    storage, order = DemoStorage(engine), list[str]()

    async def change(query: str, tenant: str) -> None:
        await storage.add([named(query)], tenant)
        order.append(tenant)

    async with storage._writers.turn("red"):
        tasks = [asyncio.create_task(change(f"q{n}", "red")) for n in range(6)]
        tasks.append(asyncio.create_task(change("q", "blue")))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order.index("blue") == 1
    storage.close()


async def test_a_tenant_has_so_many_demos(engine: AsyncEngine) -> None:
    storage = DemoStorage(engine, most_each=3)
    await storage.add([named("a"), named("b")], "red")
    with pytest.raises(Conflict, match="at most 3 demonstrations; this one has 2"):
        await storage.add([named("a"), named("c"), named("d")], "red")
    await storage.check_room([named("c")], "red")
    await storage.add([named("a"), named("c")], "red")
    with pytest.raises(Conflict):
        await storage.check_room([named("a"), named("d")], "red")
    await storage.check_room([named("a")], "red")  # it is there already
    for other in ("blue", None):
        await storage.check_room([named("d")], other)
    await storage.add([named(f"q{n}") for n in range(4)])
    assert (await storage.page(10, 0, (), "red")).total == 7
    storage.close()


async def test_texts_whose_vectors_are_removed_meanwhile_are_encoded_again(engine: AsyncEngine) -> None:
    storage, pool, encoder = DemoStorage(engine), ComputePool(1, 16), HashEncoder()
    service = DemoService(storage, encoder, pool, threshold=0.8)
    (first,), _ = await service.add([demo("q", "p.a")], "red")
    add = storage.add

    async def overtaken(*args: Any) -> set[str]:
        storage.add = add  # type: ignore[method-assign]
        assert await storage.delete(key_of(first.id, "red"), "red")
        return await add(*args)

    storage.add = overtaken  # type: ignore[method-assign, assignment]
    (second,), added = await service.add([demo("q", "p.b")], "red")
    assert added == {second.id}
    assert await storage.embedded(encoder.name, [text_hash("q")]) == {text_hash("q")}
    assert encoder.encoded == ["q", "q"]
    with pytest.raises(VectorsRemoved):
        await storage.add([named("another")], "red", encoder.name)
    assert (await storage.page(10, 0, (), "red")).demos == (second,)
    await pool.close()
    storage.close()
