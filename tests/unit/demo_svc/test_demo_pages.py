"""Pages of demos, and which rows are read for them."""

from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from services.storage.engine import create_engine
from services.storage.migrate import migrate
from tests.unit.demo_svc.support import demo, opened


async def test_list_by_api_and_by_page(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", "p.a", "p.b" if n % 2 else "p.A") for n in range(5)])
        everything = await service.page(10, 0)
        assert [d.query for d in everything.demos] == ["q0", "q1", "q2", "q3", "q4"]
        assert everything.next is None
        first = await service.page(3, 0)
        last = await service.page(2, first.next or 0, ())
        assert ([d.query for d in last.demos], last.total, last.next) == (["q3", "q4"], 5, None)
        odd = await service.page(1, 0, ("p.b",))
        assert ([d.query for d in odd.demos], odd.total) == (["q1"], 2)
        odd = await service.page(1, odd.next or 0, ("p.b",))
        assert ([d.query for d in odd.demos], odd.next) == (["q3"], None)
        assert (await service.page(10, 0, ("p.B",))).total == 0


async def test_a_page_of_an_api_reads_no_other_demos(tmp_path: object) -> None:
    engine, asked = create_engine(f"sqlite+aiosqlite:///{tmp_path}/demos.db"), list[tuple[str, Any]]()
    await migrate(engine, "demo_svc")
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", f"p.{n}") for n in range(50)])
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: asked.append((told[2], told[3])))
        assert (await service.page(10, 0, ("p.7",))).total == 1
        async with engine.connect() as connection:
            steps = [
                row.detail
                for text, values in list(asked)
                for row in await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            ]
        assert any("demo_apis" in step for step in steps)
        assert not [step for step in steps if step.startswith("SCAN demos")]
    await engine.dispose()


async def test_demos_are_found_without_reading_those_of_others(tmp_path: object) -> None:
    """In a row of SQLite, what lies behind the document cannot be read without it."""
    engine, asked = create_engine(f"sqlite+aiosqlite:///{tmp_path}/demos.db"), list[tuple[str, Any]]()
    await migrate(engine, "demo_svc")
    async with opened(engine) as service:
        await service.add([demo("q", f"p.{n}") for n in range(30)], "red")

        def note(_connection: Any, _cursor: Any, text: str, values: Any, *_: Any) -> None:
            asked.append((text, values))

        for source in (engine.sync_engine, service._storage._reads._sync):
            event.listen(source, "before_cursor_execute", note)
        assert len(await service.apis_of_same("q", "red")) == 20
        assert (await service.page(10, 0, (), "blue")).total == 0
        assert (await service.page(10, 0, ("p.1",), "blue")).total == 0
        async with engine.connect() as connection:
            steps = [
                row.detail
                for text, values in list(asked)
                for row in await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
                if " demos " in f"{row.detail} "
            ]
        assert len(steps) > 5
        assert not [step for step in steps if "COVERING INDEX" not in step and "rowid=?" not in step]
    await engine.dispose()


async def test_few_sizes_beyond_those_of_a_page_are_read(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo_svc.storage._SIZED", 2)
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", argument="x" * 120_000) for n in range(9)])
        asked = list[str]()
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
        page = await service.page(9, 0)
        assert ([one.query for one in page.demos], page.total) == (["q0", "q1"], 9)
        assert sum("length" in statement for statement in asked) == 2


async def test_a_page_after_removed_demos_skips_none(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", "p.a") for n in range(5)])
        first = await service.page(2, 0)
        for seen in first.demos:
            await service.delete(seen.id)
        after = await service.page(2, first.next or 0, ())
        assert [d.query for d in after.demos] == ["q2", "q3"]


async def test_the_bytes_of_a_page_are_bounded(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo_svc.storage._PAGE_BYTES", 200_000)
    sizes = (90_000, 90_000, 90_000, 220_000, 50_000)
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", argument="x" * size) for n, size in enumerate(sizes)])
        pages, after = [], 0
        while True:
            page = await service.page(10, after)
            pages.append([one.query for one in page.demos])
            if page.next is None:
                break
            after = page.next
        assert pages == [["q0", "q1"], ["q2"], ["q3"], ["q4"]]


async def test_demos_of_several_apis_are_listed_once(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo("q0", "p.a", "p.b"), demo("q1", "p.b"), demo("q2", "p.c")])
        page = await service.page(10, 0, ("p.a", "p.b"))
        assert [one.query for one in page.demos] == ["q0", "q1"]
        assert page.total == 2


async def test_a_page_is_small(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo(f"q{n}", argument="x" * 100_000) for n in range(4)])
        assert [one.query for one in (await service.page(10, 0)).demos] == ["q0", "q1"]
