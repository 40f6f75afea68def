"""A snapshot takes over what has changed, and is then the same as one that is loaded."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from demo_svc.models import Snapshot
from demo_svc.storage import CHANGES, KNOWLEDGE, DemoStorage
from services.storage.engine import Transactions, write
from tests.unit.demo_svc.support import HashEncoder, demo, opened
from tests.unit.demo_svc.test_knowledge_base import queries


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An item for each time that all demos are read."""
    found, listing = list[int](), DemoStorage.listing

    async def counted(storage: DemoStorage) -> Any:
        found.append(1)
        return await listing(storage)

    monkeypatch.setattr(DemoStorage, "listing", counted)
    return found


def content(snapshot: Snapshot) -> tuple[list[Any], list[str], Mapping[str, list[str]], Mapping[Any, list[str]]]:
    """All that can be found in a snapshot, without the numbers of its rows."""

    def keys(rows: Any) -> list[str]:
        return [snapshot.entries[row].id for row in rows]

    rows = sorted(row for own in snapshot.by_tenant.values() for row in own)
    return (
        [(snapshot.entries[row], snapshot.vectors[row].tolist()) for row in rows],
        keys(snapshot.tasks),
        {api: keys(own) for api, own in snapshot.by_api.items() if own},
        {tenant: keys(own) for tenant, own in snapshot.by_tenant.items() if own},
    )


async def test_a_change_does_not_read_the_demos_that_stay(engine: AsyncEngine, loads: list[int]) -> None:
    async with opened(engine) as one, opened(engine) as other:
        await one.add([demo(f"request {n}") for n in range(20)], "red")
        await other.refresh()
        loads.clear()
        (kept,), _ = await one.add([demo("rain in oslo")])
        assert await queries(other, "rain in oslo") == ["rain in oslo"]
        await one.delete(kept.id)
        assert await queries(one, "rain in oslo") == await queries(other, "rain in oslo") == []
        assert (one.size, other.size, loads) == (20, 20, [])


async def test_a_snapshot_that_was_continued_is_as_one_that_is_loaded(engine: AsyncEngine, loads: list[int]) -> None:
    chosen, there = random.Random(7), list[tuple[str, str | None]]()
    async with opened(engine) as one, opened(engine) as other:
        await one.refresh()
        await other.refresh()
        loads.clear()
        for turn in range(60):
            if there and chosen.random() < 0.4:
                await one.delete(*there.pop(chosen.randrange(len(there))))
            else:
                tenant = chosen.choice([None, "red", "blue"])
                words = [(f"text {chosen.randrange(8)}", chosen.choice(["p.a", "p.b"])) for _ in range(3)]
                asked = [demo(text, api, level=chosen.choice(["task", "api"])) for text, api in words]
                demos, added = await one.add(asked, tenant)
                there += {(one.id, tenant): None for one in demos if one.id in added}
            if turn % 7:
                continue
            async with opened(engine) as fresh:
                expected = content(await fresh.refresh())
                loads.pop()
            assert content(await one.refresh()) == content(await other.refresh()) == expected
    assert loads == []


async def test_vectors_of_an_earlier_snapshot_stay(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo(f"request {n}") for n in range(9)])
        snapshots = [await service.refresh()]
        copies = [snapshots[0].vectors.copy()]
        for n in range(9, 30):
            await service.add([demo(f"request {n}")])
            snapshots.append(await service.refresh())
            copies.append(snapshots[-1].vectors.copy())
        assert all(np.array_equal(one.vectors, copy) for one, copy in zip(snapshots, copies, strict=True))
        assert [len(one.vectors) for one in snapshots] == list(range(9, 31))


async def test_what_an_older_process_has_changed_is_loaded(engine: AsyncEngine, loads: list[int]) -> None:
    async with opened(engine) as one, opened(engine) as other:
        await other.refresh()
        await one.add([demo("rain in oslo")])
        async with write(engine) as connection:
            await connection.execute(delete(CHANGES))
        loads.clear()
        assert await queries(other, "rain in oslo") == ["rain in oslo"]
        async with write(engine) as connection:
            await connection.execute(update(KNOWLEDGE).values(version=KNOWLEDGE.c.version + 1))
        assert await queries(other, "rain in oslo") == ["rain in oslo"]
        assert len(loads) == 2


async def test_few_changes_are_kept_and_rows_of_removed_demos_are_given_up(
    engine: AsyncEngine, loads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_svc.storage._KEPT_VERSIONS", 3)
    monkeypatch.setattr("demo_svc.models._SPARE", 4)
    async with opened(engine, HashEncoder()) as one, opened(engine, HashEncoder()) as other:
        await one.refresh()
        await other.refresh()
        loads.clear()
        for n in range(12):
            (kept,), _ = await one.add([demo(f"request {n}")])
            await one.delete(kept.id)
            assert len((await one.refresh()).entries) <= 6
        assert loads == []
        assert await queries(other, "request 1") == []
        assert len(loads) == 1  # it has missed more changes than are kept
        async with write(engine) as connection:
            assert await connection.scalar(select(func.count()).select_from(CHANGES)) == 3


async def test_demos_are_read_some_at_a_time(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    most, run = 0, Transactions.run

    async def noting(transactions: Transactions, work: Any) -> Any:
        nonlocal most
        found = await run(transactions, work)
        most = max(most, len(found)) if isinstance(found, dict) else most
        return found

    async with opened(engine) as one, opened(engine) as other:
        await other.refresh()
        kept, _ = await one.add([demo(f"request {n}", "p.a", f"p.{n}") for n in range(10)])
        await one.delete(kept[4].id)
        monkeypatch.setattr("demo_svc.storage._AT_ONCE", 3)
        monkeypatch.setattr(Transactions, "run", noting)
        entries = (await one._storage.listing()).entries
        assert [entry.id for entry in entries] == [it.id for n, it in enumerate(kept) if n != 4]
        assert [sorted(entry.apis) for entry in entries] == [sorted(["p.a", f"p.{n}"]) for n in range(10) if n != 4]
        assert content(await other.refresh())[0] == content(await one.refresh())[0]
        assert most == 3
