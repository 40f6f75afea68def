"""Replicas stay in sync with the catalogue, idle ones too; a restart begins from the index that was saved."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from retriever_svc.engine.ranking import RankingOptions
from retriever_svc.engine.texts import record
from retriever_svc.importers import Limits
from retriever_svc.main import create_app
from retriever_svc.models import Delta
from retriever_svc.service import CatalogueService
from retriever_svc.settings import RetrieverSettings
from retriever_svc.storage import CatalogueStorage
from retriever_svc.tables import EMBEDDINGS
from services.compute import ComputePool
from services.contracts.api import Api, ImportReport, ImportRequest
from services.encoder import Vectors
from services.storage.engine import create_engine, write
from services.storage.migrate import migrate
from tests.support.redis import RedisServer
from tests.unit.retriever_svc.catalogue import api
from tests.unit.retriever_svc.documents import document, operation
from tests.unit.retriever_svc.test_catalogue import CountingEncoder

HOLIDAYS = api("listHolidays", "Public holidays of a country")
SUN = api("getSunrise", "When the sun rises at a place")
HANG_S = 30
NEVER_S = 3_600


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@asynccontextmanager
async def replica(url: str, encoder: CountingEncoder, **options: Any) -> AsyncIterator[CatalogueService]:
    """A whole retriever on this database: nothing of it is asked, unless the test does."""
    app: FastAPI = create_app(RetrieverSettings(database_url=url, **options), encoder=encoder)
    async with app.router.lifespan_context(app):
        service: CatalogueService = app.state.service
        yield service


async def until_size(service: CatalogueService, size: int) -> None:
    """Wait until an idle replica holds so many APIs."""
    async with asyncio.timeout(HANG_S):
        while service.size != size:  # noqa: ASYNC110 - nothing tells: it is the service that is watched
            await asyncio.sleep(0.01)


async def changes_are_followed(one: CatalogueService, two: CatalogueService) -> None:
    await one.create(HOLIDAYS)
    await until_size(two, 1)
    await two.create(SUN)
    await until_size(one, 2)
    await one.delete_provider("zoo")
    await until_size(two, 0)
    assert (await one.status()).catalogue_version == (await two.status()).index_version == 3


async def test_idle_replicas_are_told_by_postgresql(postgres_url: str, encoder: CountingEncoder) -> None:
    async with (
        replica(postgres_url, encoder, version_check_s=NEVER_S) as one,
        replica(postgres_url, encoder, version_check_s=NEVER_S) as two,
    ):
        await changes_are_followed(one, two)


async def test_idle_replicas_are_told_by_redis(
    tmp_path: Path, redis_server: RedisServer, encoder: CountingEncoder
) -> None:
    url, options = f"sqlite+aiosqlite:///{tmp_path}/c.db", {"version_check_s": NEVER_S, "redis_url": redis_server.url}
    async with replica(url, encoder, **options) as one, replica(url, encoder, **options) as two:
        await changes_are_followed(one, two)


async def test_idle_replicas_look_for_themselves(database_url: str, encoder: CountingEncoder) -> None:
    down = {"redis_url": "redis://127.0.0.1:1/0"}  # configured, and away
    async with replica(database_url, encoder, **down) as one, replica(database_url, encoder, **down) as two:
        await changes_are_followed(one, two)


class CountingStorage(CatalogueStorage):
    """The real storage; it counts how often the catalogue was looked at and compared, and can be held up."""

    looked = compared = kept = 0

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def version(self) -> int:
        self.looked += 1
        await self.go.wait()
        return await super().version()

    async def changes(self, known: Mapping[int, str]) -> Delta:
        self.compared += 1
        delta = await super().changes(known)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return delta

    async def keep_vectors(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        self.kept += 1
        await super().keep_vectors(encoder, vectors)


@asynccontextmanager
async def counted(url: str, encoder: CountingEncoder) -> AsyncIterator[tuple[CatalogueService, CountingStorage]]:
    async with AsyncExitStack() as stack:
        engine = create_engine(url)
        stack.push_async_callback(engine.dispose)
        await migrate(engine, "retriever_svc")
        pools = ComputePool(1, 64), ComputePool(1, 64)
        for pool in pools:
            stack.push_async_callback(pool.close)
        storage = CountingStorage(engine)
        yield CatalogueService(storage, encoder, *pools, options=RankingOptions(), limits=Limits()), storage


async def test_changes_in_a_row_are_followed_all_at_once(tmp_path: Path, encoder: CountingEncoder) -> None:
    async with counted(f"sqlite+aiosqlite:///{tmp_path}/c.db", encoder) as (service, storage):
        await service.sync()
        before = storage.compared
        for number in range(6):
            await service.create(api(f"op{number}", "Feed the lions"))
        assert storage.compared == before
        results = await asyncio.gather(*(service.find("lions", 10) for _ in range(4)))
        assert [(found.version, len(found.hits)) for found in results] == [(6, 6)] * 4
        assert storage.compared - before == 1


async def test_searches_that_wait_look_once_and_readiness_waits_for_none(
    tmp_path: Path, encoder: CountingEncoder
) -> None:
    async with counted(f"sqlite+aiosqlite:///{tmp_path}/c.db", encoder) as (service, storage):
        await service.sync()
        await service.create(HOLIDAYS)
        storage.go.clear()
        looked = storage.looked
        searches = [asyncio.create_task(service.find("holidays", 3)) for _ in range(20)]
        async with asyncio.timeout(HANG_S):
            while storage.looked == looked:  # noqa: ASYNC110 - nothing tells when the first has begun
                await asyncio.sleep(0.01)
            await service.check_index()
        assert not any(search.done() for search in searches)
        storage.go.set()
        assert {len((await search).hits) for search in searches} == {1}
        assert storage.looked == looked + 1


async def test_searches_beside_changes_share_the_updates(tmp_path: Path, encoder: CountingEncoder) -> None:
    async with counted(f"sqlite+aiosqlite:///{tmp_path}/c.db", encoder) as (service, storage):
        await service.sync()
        await service.create(HOLIDAYS)
        answered = dict[int, int]()

        async def search(number: int) -> None:
            if number % 4 == 3:
                await service.sync()
            else:
                await service.find(f"holidays {number}", 3)
            answered[number] = storage.compared
            # While all others wait, another small change comes.
            await service.refresh()
            await storage.update(replace(record(HOLIDAYS), lexical=f"day {number}"), encoder.name, {})

        storage.go.clear()
        compared, looked = storage.compared, storage.looked
        first = asyncio.create_task(search(0))
        async with asyncio.timeout(HANG_S):
            while storage.looked == looked:  # noqa: ASYNC110 - nothing tells when the first has begun
                await asyncio.sleep(0.01)
        # A change that the first one's check may have missed: the others need a later one.
        await service.refresh()
        others = [asyncio.create_task(search(number)) for number in range(1, 20)]
        await asyncio.sleep(0)
        storage.go.set()
        await asyncio.gather(first, *others)
        assert max(answered.values()) - compared <= 2


async def test_what_is_gone_when_its_vectors_are_read_is_not_embedded(tmp_path: Path, encoder: CountingEncoder) -> None:
    new = api("getMoon", "When the moon rises", provider="sky")
    async with counted(f"sqlite+aiosqlite:///{tmp_path}/c.db", encoder) as (service, storage):
        await service.create(HOLIDAYS)
        await service.sync()
        await service.create(SUN)
        await service.update(HOLIDAYS.id, HOLIDAYS.model_copy(update={"summary": "Feed the lions"}))
        await service.create(new)

        async def change() -> None:
            await storage.delete_provider("sky")
            later = record(HOLIDAYS.model_copy(update={"summary": "Weigh a giraffe"}))
            await storage.update(later, encoder.name, {later.text_hash: encoder.encode([later.embedded])[0]})
            embedded.append(encoder.texts)

        embedded, storage.meanwhile = list[int](), change
        snapshot = await service.sync()
        assert (encoder.texts, storage.kept) == (embedded[0], 0)
        # What was replaced is still what it was, until the next update.
        assert set(snapshot.entries.ids) == {HOLIDAYS.id, SUN.id}
        assert {entry.summary for entry in snapshot.entries} == {SUN.summary, HOLIDAYS.summary}
        after = await service.sync()
        assert (after.version, len(after.entries)) == (6, 2)
        assert (encoder.texts, storage.kept) == (embedded[0], 0)
        assert (await ids(service, "giraffe weight"))[0] == HOLIDAYS.id


async def test_of_equal_texts_the_one_that_is_left_is_embedded(tmp_path: Path, encoder: CountingEncoder) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/c.db"
    twins = [SUN.model_copy(update={"id": f"{SUN.provider}.{name}"}) for name in ("first", "second")]
    async with counted(url, encoder) as (service, storage):
        for twin in twins:
            await service.create(twin)
        await forget_vectors(url)  # as after a change of encoder
        storage.meanwhile = lambda: storage.delete(twins[1].id)
        before = encoder.texts
        await service.sync()
        assert (encoder.texts, storage.kept) == (before + 1, 1)
        text = record(twins[0]).text_hash
        assert await storage.embedded(encoder.name, [text]) == {text}
        assert await ids(service, "sun rise") == [twins[0].id]


async def test_only_what_differs_is_read(database_url: str, encoder: CountingEncoder) -> None:
    async with counted(database_url, encoder) as (service, storage):
        await service.create(HOLIDAYS)
        await service.create(SUN)
        known = (await storage.changes({})).stamps
        assert (len(known), (await storage.changes(known)).changed) == (2, ())
        # The same API, found by other words: its document tells no difference, its stamp does.
        reworded = replace(record(SUN), lexical="dawn")
        await storage.update(reworded, encoder.name, {})
        delta = await storage.changes(known)
        assert [(entry.id, entry.lexical) for entry in delta.changed] == [(SUN.id, "dawn")]
        await storage.delete(HOLIDAYS.id)
        delta = await storage.changes(delta.stamps)
        assert (delta.version, len(delta.stamps), delta.changed) == (4, 1, ())
        await service.sync()
        assert service._snapshot.lexical.scores(["dawn"]).max() > 0
        assert service._snapshot.lexical.scores(["sun"]).max() == 0


async def forget_vectors(url: str) -> None:
    engine = create_engine(url)
    async with write(engine) as connection:
        await connection.execute(sa.delete(EMBEDDINGS))
    await engine.dispose()


async def ids(service: CatalogueService, query: str) -> list[str]:
    return [found.id for _, found in (await service.find(query, 5)).hits]


async def test_a_restart_begins_from_what_was_saved(tmp_path: Path, encoder: CountingEncoder) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/c.db"
    async with replica(url, encoder) as service:
        await service.create(HOLIDAYS)
        await service.create(SUN)
        await service.sync()
    await forget_vectors(url)
    again = CountingEncoder()
    async with replica(url, again) as service:
        assert (service.size, again.texts) == (2, 0), "nothing but the saved index has the vectors any more"
        assert await ids(service, "sun rise") == [SUN.id, HOLIDAYS.id]


async def test_a_saved_index_that_is_older_is_brought_up_to_date(
    postgres_url: str, tmp_path: Path, encoder: CountingEncoder
) -> None:
    kept = {"index_folder": tmp_path / "index"}
    changed = SUN.model_copy(update={"summary": "How much a giraffe weighs"})
    async with replica(postgres_url, encoder, **kept) as service:
        await service.create(HOLIDAYS)
        await service.create(SUN)
        await service.create(api("gone", "Will not be there"))
        await service.sync()
    async with replica(postgres_url, encoder) as service:  # this one saves nothing
        await service.update(SUN.id, changed)
        await service.delete("zoo.gone")
        await service.create(api("new", "Feed the lions"))
    before = encoder.texts
    async with replica(postgres_url, encoder, **kept) as service:
        assert (encoder.texts, service.size) == (before, 3)
        assert (await service.status()).index_version == 6
        assert (await ids(service, "giraffe weight"))[0] == SUN.id
        assert (await ids(service, "feed lions"))[0] == "zoo.new"


async def test_the_index_of_another_catalogue_is_not_taken_for_this_one(
    tmp_path: Path, encoder: CountingEncoder
) -> None:
    """The same folder, the same version, the same numbers: only the content differs."""
    kept = {"index_folder": tmp_path / "index"}

    async def only(database: str, one: Api) -> None:
        async with replica(f"sqlite+aiosqlite:///{tmp_path}/{database}.db", encoder, **kept) as service:
            if service.size == 0:
                await service.create(one)
            assert await ids(service, "anything") == [one.id]

    await only("a", HOLIDAYS)
    await only("b", SUN)
    await only("a", HOLIDAYS)


async def test_a_damaged_index_is_made_anew(tmp_path: Path, encoder: CountingEncoder) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/c.db"
    async with replica(url, encoder) as service:
        await service.create(SUN)
        await service.sync()
    for path in (tmp_path / "c.db.index").iterdir():
        path.write_bytes(b"not an index")
    async with replica(url, encoder) as service:
        assert await ids(service, "sun rise") == [SUN.id]
    async with replica(url, encoder) as service:
        assert await ids(service, "sun rise") == [SUN.id]


async def test_an_imported_document_is_found_by_the_next_search_and_by_other_replicas(
    tmp_path: Path, encoder: CountingEncoder
) -> None:
    """The road from a document to an answer: import, sync, search; the other replica is asked nothing."""
    url = f"sqlite+aiosqlite:///{tmp_path}/catalogue.db"
    async with replica(url, encoder) as one, replica(url, encoder) as two:
        for size, summary in enumerate(("Public holidays of a country", "When the sun rises at a place"), start=1):
            text = json.dumps(document({f"/{size}": {"get": operation(operationId=f"get{size}", summary=summary)}}))
            request = ImportRequest(document=text, provider=f"zoo{size}")
            report = [event async for event in await one.documents.open(request)][-1]
            assert isinstance(report, ImportReport)
            assert (await ids(one, summary))[0] == f"zoo{size}.get{size}"
            await until_size(two, size)
            assert (await ids(two, summary))[0] == f"zoo{size}.get{size}"
            assert (await two.status()).index_version == report.catalogue_version == size
