"""The catalogue on SQLite and PostgreSQL: what is stored is searchable, atomic, embedded once, seen by all replicas."""

import asyncio
from collections.abc import Sequence

import pytest

from retriever_svc.engine.filters import NO_FILTERS, Filters
from retriever_svc.importers import with_content_hash
from services.contracts.api import ImportRequest
from services.encoder import Encoder, TokenEncoding, Vectors, load_encoder
from services.errors import Conflict, NotFound
from tests.unit.retriever_svc.catalogue import api, found, imported, open_service

HOLIDAYS = api("listHolidays", "Public holidays of a country")
SUN = api("getSunrise", "When the sun rises at a place")


class CountingEncoder:
    """The real encoder; it counts the texts it is given."""

    def __init__(self, name: str = "") -> None:
        self._encoder: Encoder = load_encoder()
        self._name = name or self._encoder.name
        self.texts = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return self._encoder.encode(texts)

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        return self._encoder.encode_tokens(text, special=special)


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


async def test_create_update_delete(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        assert (await service.status()).catalogue_version == 0
        await service.create(HOLIDAYS.model_copy(update={"content_hash": "whatever"}))
        assert await service.get("zoo.listHolidays") == HOLIDAYS
        with pytest.raises(Conflict):
            await service.create(HOLIDAYS)
        await service.create(SUN)
        changed = with_content_hash(SUN.model_copy(update={"summary": "How much a giraffe weighs"}))
        assert await service.update(SUN.id, changed) == changed
        result = await service.find("weight of a giraffe", 1)
        assert (result.version, result.hits[0][1]) == (3, changed)
        with pytest.raises(Conflict):
            await service.update("zoo.other", changed)
        with pytest.raises(NotFound):
            await service.update("zoo.other", api("other"))
        await service.delete(SUN.id)
        for missing in (service.get(SUN.id), service.delete(SUN.id), service.delete_provider("nobody")):
            with pytest.raises(NotFound):
                await missing
        status = await service.status()
        assert (status.catalogue_version, status.index_version, status.apis) == (4, 4, 1)
        await service.delete_provider("zoo")
        assert (await service.find("holidays", 5)).hits == ()


async def test_an_import_replaces_the_provider(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        first = await imported(service, HOLIDAYS, SUN)
        assert (first.added, first.updated, first.unchanged, first.removed, first.catalogue_version) == (2, 0, 0, 0, 1)
        again = await imported(service, HOLIDAYS, SUN)
        assert (again.unchanged, again.catalogue_version) == (2, 1)
        await imported(service, api("other", "Another provider's", provider="hr"), provider="hr")
        renamed = api("getSunrise", "When the sun sets at a place")
        third = await imported(service, renamed, api("new", "Something new"))
        assert (third.added, third.updated, third.unchanged, third.removed) == (1, 1, 0, 1)
        status = await service.status()
        assert status.providers == {"hr": 1, "zoo": 2}
        assert status.catalogue_version == status.index_version == third.catalogue_version == 3


async def test_a_failed_import_changes_nothing(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        await imported(service, HOLIDAYS)
        foreign = api("x", provider="hr").model_copy(update={"id": HOLIDAYS.id})
        with pytest.raises(Conflict):
            await imported(service, api("fine", provider="hr"), foreign, provider="hr")
        assert (await service.status()).providers == {"zoo": 1}
        assert (await service.status()).catalogue_version == 1
        stream = service.documents.apply(
            await service.documents.prepare(found(SUN), ImportRequest(document="-", provider="zoo"))
        )
        await anext(stream)
        await stream.aclose()  # the client went away half-way
        assert (await service.status()).providers == {"zoo": 1}


async def test_a_text_is_embedded_once(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        await imported(service, HOLIDAYS, SUN)
        assert encoder.texts == 2
        await imported(service, HOLIDAYS, with_content_hash(SUN.model_copy(update={"deprecated": True})))
        assert encoder.texts == 2
        await imported(service, HOLIDAYS, SUN, api("new", "Something new"))
        assert encoder.texts == 3
    async with open_service(database_url, encoder) as service:
        assert encoder.texts == 3
        assert (await service.find("sun rise", 1)).hits[0][1].id == SUN.id


async def test_another_encoder_embeds_anew_at_start_and_once(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        await imported(service, HOLIDAYS, SUN)
    other = CountingEncoder("another@1")
    async with open_service(database_url, other) as service:
        assert (other.texts, (await service.status()).encoder) == (2, "another@1")
    async with open_service(database_url, other):
        assert other.texts == 2


async def test_other_replicas_see_changes(database_url: str, encoder: CountingEncoder) -> None:
    fresh = {"version_check_s": 0.0}
    async with open_service(database_url, encoder, **fresh) as one, open_service(database_url, encoder, **fresh) as two:
        await imported(one, HOLIDAYS, SUN)
        result = await two.find("public holidays", 1)
        assert (result.version, result.hits[0][1].id) == (1, HOLIDAYS.id)
        await one.delete(HOLIDAYS.id)
        result = await two.find("public holidays", 5)
        assert (result.version, [a.id for _, a in result.hits]) == (2, [SUN.id])


async def test_a_stale_index_never_answers_with_a_changed_api(database_url: str, encoder: CountingEncoder) -> None:
    async with (
        open_service(database_url, encoder) as one,
        open_service(database_url, encoder, version_check_s=3_600) as two,
    ):
        await imported(one, HOLIDAYS, SUN)
        await two.sync()
        changed = with_content_hash(HOLIDAYS.model_copy(update={"deprecated": True}))
        await one.update(HOLIDAYS.id, changed)
        result = await two.find("public holidays", 2)
        assert (result.version, changed in [a for _, a in result.hits]) == (2, True)


async def test_searches_during_changes_see_whole_versions(database_url: str, encoder: CountingEncoder) -> None:
    def generation(n: int) -> list[object]:
        return [api(f"op{i}", f"Generation {n} of thing {i}") for i in range(6)]

    async with open_service(database_url, encoder, version_check_s=0.0) as service:
        await imported(service, *generation(0))  # type: ignore[arg-type]

        async def look() -> None:
            for _ in range(25):
                result = await service.find("generation of thing", 6)
                generations = {a.summary.split()[1] for _, a in result.hits}
                assert generations == {str(result.version - 1)}

        async def change() -> None:
            for n in range(1, 6):
                await imported(service, *generation(n))  # type: ignore[arg-type]

        async with asyncio.TaskGroup() as group:
            group.create_task(look())
            group.create_task(look())
            group.create_task(change())


async def test_concurrent_writers_lose_nothing(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as one, open_service(database_url, encoder) as two:
        async with asyncio.TaskGroup() as group:
            for n in range(10):
                group.create_task((one, two)[n % 2].create(api(f"op{n}", f"Thing number {n}")))
        await one.sync()
        status = await one.status()
        assert (status.apis, status.catalogue_version, status.index_version) == (10, 10, 10)


async def test_nul_and_other_scripts_survive(database_url: str, encoder: CountingEncoder) -> None:
    odd = api("odd", "a\x00b \u52d5\u7269\u5712 \U0001f992", description="\x00")
    async with open_service(database_url, encoder) as service:
        assert await service.create(odd) == odd
        assert await service.get(odd.id) == odd


async def test_a_page_after_removed_apis_skips_none(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        await imported(service, *(api(f"op{n:02}", f"Thing {n}", method="GET" if n % 2 else "PUT") for n in range(12)))
        for filters, after in ((NO_FILTERS, "zoo.op03"), (Filters(methods=("PUT",)), "zoo.op10")):
            *_, seen, further = await service.listing(filters, 3)
            for entry in seen:
                await service.delete(entry.id)
            *_, page, _ = await service.listing(filters, 1, further or "")
            assert [entry.id for entry in page] == [after]


async def test_pages(database_url: str, encoder: CountingEncoder) -> None:
    async with open_service(database_url, encoder) as service:
        await imported(service, *(api(f"op{n:02}", f"Thing {n}") for n in range(12)))
        version, total, page, further = await service.listing(NO_FILTERS, 10)
        assert (version, total, len(page), further) == (1, 12, 10, "zoo.op09")
        *_, page, further = await service.listing(NO_FILTERS, 2, "zoo.op09")
        assert ([entry.id for entry in page], further) == (["zoo.op10", "zoo.op11"], None)
        _, total, hits = await service.search("thing", Filters(("zoo",)), 5, 3)
        assert (total, len(hits)) == (12, 5)
        everything = (await service.search("thing", Filters(("zoo",)), 12, 0))[2]
        assert list(everything[3:8]) == list(hits)
        assert [a.id for a in await service.lookup(["zoo.op03", "nope", "zoo.op01"])] == ["zoo.op03", "zoo.op01"]
