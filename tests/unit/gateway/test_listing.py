"""Lists of runs: pages, searches and counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.listing import SEARCHED_CHARS, Filter
from gateway.storage import RunStore
from gateway.tables import RUNS
from services.contracts.feedback import Feedback, Judged, Verdict
from services.contracts.run import Run, RunStatus
from services.ownership.ticket import Ticket
from services.storage.engine import Transactions, create_engine, read, write
from services.storage.migrate import migrate
from tests.unit.gateway.runs import REQUEST, a_run


def a_run_at(moment: datetime, status: RunStatus = RunStatus.SUCCEEDED) -> Run:
    """A run that began then."""
    run, ms = a_run(status), int(moment.timestamp() * 1000)
    return run.model_copy(update={"id": f"run_{ms:012x}{run.id[16:]}", "created_at": moment})


async def test_runs_are_counted_by_interval_and_status(stores: list[RunStore]) -> None:
    first = datetime(2027, 1, 1, tzinfo=UTC)
    hours = [first + timedelta(hours=n) for n in range(4)]
    for minutes, status in (
        (-1, "failed"),
        (1, "failed"),
        (2, "failed"),
        (3, "planned"),
        (150, "failed"),
        (999, "planned"),
    ):
        run = a_run_at(first + timedelta(minutes=minutes), RunStatus(status))
        await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    counted = await stores[1].listing.counts("default", first, hours[1:])
    assert counted == [
        {RunStatus.FAILED: 2, RunStatus.PLANNED: 1},
        {},
        {RunStatus.FAILED: 1, RunStatus.PLANNED: 1},
    ]
    assert await stores[1].listing.counts("other", first, hours[1:]) == [{}, {}, {}]


async def asked(store: RunStore, *queries: str, tenant: str = "default") -> list[str]:
    """The ids of new runs with these queries."""
    runs = [a_run(RunStatus.FAILED).model_copy(update={"query": query, "tenant": tenant}) for query in queries]
    for at, run in enumerate(runs):
        runs[at] = run = run.model_copy(update={"id": f"run_{at:03}"})
        await store.insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    return [run.id for run in runs]


async def test_a_search_looks_at_the_beginning_of_so_many_runs(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queries of all runs may be hostile: a long one is compared with a long text at each of its characters."""
    monkeypatch.setattr("gateway.listing.SEARCHED_RUNS", 3)
    end = SEARCHED_CHARS - 4
    ids = await asked(stores[0], "Rooms", "b", "c", "ROOMS", "e", "f", "x" * end + "room", "x" * (end + 1) + "room")
    pages, cursor = list[list[str]](), None
    while not pages or cursor:
        page = await stores[0].listing.page(Filter("default", text="rOOm"), limit=1, cursor=cursor)
        pages.append([run.id for run in page.runs])
        cursor = page.next
    assert pages == [[ids[6]], [ids[3]], [ids[0]]]
    none = await stores[0].listing.page(Filter("default", text="zzz"), limit=1, cursor=None)
    assert (none.runs, none.next) == ((), ids[5])
    assert not (await stores[0].listing.page(Filter("other", text="room"), limit=1, cursor=None)).runs


async def test_lists_show_the_beginning_of_requests(stores: list[RunStore]) -> None:
    """A hundred requests of 10,000 characters were a page of 4 MB."""
    await asked(stores[0], "\U0001f600" * 10_000)
    for which in (Filter("default"), Filter("default", text="\U0001f600")):
        page = await stores[0].listing.page(which, limit=1, cursor=None)
        assert [run.query for run in page.runs] == ["\U0001f600" * SEARCHED_CHARS]


async def test_runs_by_feedback_are_found_among_so_many_runs(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.listing.SEARCHED_RUNS", 3)
    ids = await asked(stores[0], *("abcdefg"))
    for run_id in (*ids[1:5], ids[6]):
        await stores[0].judge(run_id, Feedback(verdict=Verdict.CONFIRMED, principal="desk", at=datetime.now(UTC)))

    async def pages(which: Filter) -> list[list[str]]:
        found, cursor = list[list[str]](), None
        while not found or cursor:
            page = await stores[0].listing.page(which, limit=3, cursor=cursor)
            found.append([run.id for run in page.runs])
            cursor = page.next
        return found

    assert await pages(Filter("default", judged=Judged.NONE)) == [[ids[5]], [], [ids[0]]]
    assert await pages(Filter("default", judged=Judged.CONFIRMED)) == [[ids[6], ids[4], ids[3]], [ids[2], ids[1]]]
    assert await pages(Filter("default", (RunStatus.PLANNED,), judged=Judged.CONFIRMED)) == [[], []]


HOURS = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in range(4)]
FAILED_BETWEEN = Filter(
    "default", (RunStatus.IN_DOUBT, RunStatus.FAILED, RunStatus.IN_DOUBT), after=HOURS[0], before=HOURS[3]
)


async def test_runs_by_status_and_time_are_listed_page_by_page(stores: list[RunStore]) -> None:
    runs = [a_run_at(hour, status) for hour in HOURS for status in RunStatus]
    for run in runs:
        await stores[0].insert(Ticket(run.id, "a", 0), run, REQUEST, None)
    ids = [run.id for run in runs if run.status in FAILED_BETWEEN.status and run.created_at in HOURS[1:3]]
    for limit in (1, 2, 5):
        found, cursor = list[str](), None
        while not found or cursor:
            page = await stores[0].listing.page(FAILED_BETWEEN, limit=limit, cursor=cursor)
            found += [run.id for run in page.runs]
            cursor = page.next
        assert found == sorted(ids, reverse=True)
    long_ago = Filter("default", before=datetime(1, 1, 1, tzinfo=UTC))
    assert (await stores[0].listing.page(long_ago, limit=5, cursor=None)).runs == ()
    last = Filter("default", after=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert (await stores[0].listing.page(last, limit=5, cursor=None)).runs == ()


async def test_pages_by_status_and_time_read_no_other_runs(tmp_path: Path) -> None:
    """Pages for which there are no runs would else read all runs of a tenant, again and again."""
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    await migrate(engine, "gateway")
    store, asked_for = RunStore(Transactions(engine)), list[tuple[str, Any]]()

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        asked_for.append((statement, parameters))

    sa.event.listen(engine.sync_engine, "before_cursor_execute", note)
    for which in (FAILED_BETWEEN, Filter("default", before=HOURS[0])):
        await store.listing.page(which, limit=5, cursor=None)
    sa.event.remove(engine.sync_engine, "before_cursor_execute", note)
    ways = list[str]()
    async with read(engine) as connection:
        for statement, parameters in asked_for:
            if statement.startswith("SELECT"):
                rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                ways += [row.detail for row in rows if " runs " in row.detail]
    assert {way.partition("(")[2] for way in ways} == {
        "tenant=? AND status=? AND id>? AND id<?)",
        "id=?)",
        "tenant=? AND id<?)",
    }
    store.close()
    await engine.dispose()


async def test_a_search_skips_no_run_if_one_is_deleted_meanwhile(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.listing.SEARCHED_RUNS", 3)
    ids = await asked(stores[0], "room", "a", "b", "c", "d")
    scalar = AsyncConnection.scalar

    async def deleted_before(self: AsyncConnection, *args: Any) -> Any:
        """Another process deletes a run between the two reads of a search."""
        monkeypatch.setattr(AsyncConnection, "scalar", scalar)
        assert await stores[1].delete(ids[3], "default")
        return await scalar(self, *args)

    monkeypatch.setattr(AsyncConnection, "scalar", deleted_before)
    page = await stores[0].listing.page(Filter("default", text="room"), limit=5, cursor=None)
    assert (page.runs, page.next) == ((), ids[2])


async def test_runs_that_name_an_api_are_read_one_at_a_time_and_charged(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may hold several megabytes, and two hundred are looked through."""
    charged, read_before = list[int](), list[int]()
    monkeypatch.setattr(stores[0].listing, "_on_read", lambda tenant, size: charged.append(size))
    named = '"api":"x.y"'
    await asked(stores[0], named, "other", named, named)  # quotation marks in a value do not name it
    documents = {n: f'{{"id":"{n}",{named}}}' for n in range(4)}
    async with write(stores[0]._engine) as connection:
        for n in (0, 2, 3):
            changed = RUNS.update().where(RUNS.c.id == f"run_{n:03}").values(document=documents[n])
            await connection.execute(changed)
    size = len(documents[0])

    async def found(newest: int, most_bytes: int, tenant: str = "default") -> list[str]:
        charged.clear()
        read_before.clear()
        documents = list[str]()
        async for document in stores[0].listing.naming("x.y", tenant, newest, most_bytes):
            read_before.append(len(charged))
            documents.append(document)
        return documents

    assert await found(4, 1_000) == [documents[3], documents[2], documents[0]]
    assert (read_before, charged) == ([1, 2, 3], [size] * 3)
    assert await found(3, 1_000) == [documents[3], documents[2]]
    assert await found(4, 2 * size) == [documents[3], documents[2]]
    assert await found(4, 1_000, "other") == []


async def test_searches_of_one_tenant_leave_connections_to_others(
    stores: list[RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool has 15 connections, and a request that gets none for 30 s ends with 503."""
    at_once, most, go_on = 0, 0, asyncio.Event()

    @asynccontextmanager
    async def slow(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await go_on.wait()
        async with read(engine) as connection:
            yield connection
        at_once -= 1

    monkeypatch.setattr("gateway.listing.read", slow)
    store = stores[0]
    now = datetime.now(UTC)
    ways = (
        partial(store.listing.page, Filter("default", text="x"), limit=1, cursor=None),
        partial(store.listing.page, Filter("default", judged=Judged.REJECTED), limit=1, cursor=None),
        partial(store.listing.counts, "default", now, [now]),
    )
    searches = [asyncio.create_task(ways[n % 3]()) for n in range(20)]
    await asyncio.sleep(0)
    other = asyncio.create_task(store.listing.page(Filter("other", text="x"), limit=1, cursor=None))
    listed = asyncio.create_task(store.listing.page(Filter("default"), limit=1, cursor=None))
    await asyncio.sleep(0)
    assert at_once == 4
    go_on.set()
    await asyncio.gather(*searches, other, listed)
    assert most == 4
