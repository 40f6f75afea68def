"""Storage and rules of the knowledge base, on SQLite and on PostgreSQL."""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import AsyncEngine

from demo_svc import service as demo_service
from demo_svc.models import text_hash
from demo_svc.service import DemoService
from demo_svc.storage import METADATA, DemoStorage
from services.compute import for_tenant
from services.contracts.demo import Demo, demo_id
from services.encoder import Vectors, load_encoder
from services.errors import NotFound, NotReady, ServiceUnavailable, ValidationFailed
from services.storage.engine import create_engine, write
from services.storage.migrate import migrate
from tests.unit.demo_svc.support import HashEncoder, demo, opened


async def queries(service: DemoService, query: str, *apis: str, k: int = 3) -> list[str]:
    return [found.query for found, _ in await service.select(query, apis, k)]


async def test_the_migration_makes_the_tables_that_the_code_uses(engine: AsyncEngine) -> None:
    await migrate(engine, "demo_svc")  # a second time changes nothing
    async with engine.connect() as connection:
        found = await connection.run_sync(
            lambda c: {t: {k["name"] for k in inspect(c).get_columns(t)} for t in inspect(c).get_table_names()}
        )
    expected = {name: {column.name for column in table.columns} for name, table in METADATA.tables.items()}
    assert {name: columns for name, columns in found.items() if name in expected} == expected


async def test_a_demo_is_kept_whole_and_added_once(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        nasty = demo("zero \x00 and é 漢 \U0001f600", "p.a", "p.b", argument={"deep": [1, 2.5, None, "\x00"]})
        (kept,), added = await service.add([nasty])
        assert added == {kept.id} == {demo_id(nasty)}
        assert await service.get(kept.id) == nasty.model_copy(update={"id": kept.id})
        version = (await service.refresh()).version
        assert (await service.add([kept, nasty]))[1] == set()
        assert (await service.refresh()).version == version
        assert (await service.page(10, 0)).total == 1


async def test_two_plans_for_one_request_are_two_demos_with_one_vector(engine: AsyncEngine) -> None:
    encoder = HashEncoder()
    async with opened(engine, encoder) as service:
        _, added = await service.add([demo("same words", "p.a"), demo("same words", "p.b"), demo("same words", "p.a")])
        assert len(added) == 2
        assert encoder.encoded == ["same words"]


@pytest.mark.parametrize("argument", ["x" * 270_000, "é" * 50_000, list(range(5_001))], ids=["text", "ASCII", "values"])
async def test_a_large_demo_is_refused(engine: AsyncEngine, argument: object) -> None:
    async with opened(engine) as service:
        with pytest.raises(ValidationFailed, match=r"Demo 1: The (demo is larger|plan has more) than"):
            await service.add([demo("q0"), demo("q1", argument=argument)])
        assert (await service.page(10, 0)).total == 0
        await service.add([demo("q", argument=list(range(4_999))), demo("q", argument="x" * 250_000)])


async def test_a_demo_that_calls_many_apis_is_refused(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        names = [f"p.a{n}" for n in range(33)]
        with pytest.raises(ValidationFailed, match="Demo 1: The plan calls more than 32 APIs") as caught:
            await service.add([demo("q"), demo("q", *names)])
        assert caught.value.extensions["errors"][0]["field"] == "body.demos.1.plan"
        assert (await service.page(10, 0)).total == 0
        await service.add([demo("q", *names[:32], *names[:32])])  # counted once each


async def test_a_demo_of_an_earlier_version_that_calls_many_apis_is_not_selected(engine: AsyncEngine) -> None:
    names = [f"p.a{n}" for n in range(33)]
    async with opened(engine) as one, opened(engine) as other:
        many, few = (one.model_copy(update={"id": demo_id(one)}) for one in (demo("q", *names), demo("q", *names[:32])))
        await other.refresh()
        await one._storage.add([many, few])
        for service in (one, other):  # one loads all demos, the other what has changed
            assert await service.same("q", set(names), 9) == [few]
            assert [len(apis) for apis in await service.apis_of_same("q")] == [32]
            assert [found for found, _ in await service.select("q", names, 9)] == [few]
            assert (await service.page(10, 0, ["p.a32"])).demos == (many,)  # so that it can be found and deleted


async def test_a_large_demo_of_an_earlier_version_is_not_selected(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        large, small = (
            one.model_copy(update={"id": demo_id(one)}) for one in (demo("q", argument="x" * 270_000), demo("q"))
        )
        await service._storage.add([large, small])
        assert await service.same("q", {"p.a"}, 9) == [small]
        await service.add([])
        assert [found for found, _ in await service.select("q", ["p.a"], 9)] == [small]
        assert (await service.page(10, 0)).demos == (large, small)  # so that it can be found and deleted
        assert await service.get(large.id) == large


async def test_select_add_and_delete(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        assert await queries(service, "holidays in spain", "p.a") == []
        await service.add(
            [
                demo("holidays in spain", "p.a"),
                demo("holidays in sunny spain", "p.a", "p.b"),
                demo("how p.b is called", "p.b", level="api"),
            ]
        )
        assert await queries(service, "holidays in spain", "p.b", "p.a") == [
            "holidays in spain", "holidays in sunny spain", "how p.b is called",
        ]  # fmt: skip
        assert await queries(service, "holidays in spain", "p.a") == ["holidays in spain"]
        (first, match), *_ = await service.select("holidays in spain", ["p.a"], 1)
        assert match.similarity == pytest.approx(1, abs=1e-6)
        await service.delete(first.id)
        assert await queries(service, "holidays in spain", "p.a") == []
        with pytest.raises(NotFound):
            await service.delete(first.id)
        with pytest.raises(NotFound):
            await service.get(first.id)


async def test_demos_of_like_wording_come_besides(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo("turn 45 miles into kilometres", "p.a"), demo("turn 9 miles into yards", "p.b")])
        await service.add([demo("rain in oslo", "p.a"), demo("how p.a is called", "p.a", level="api")])
        for _ in range(2):  # the second time of what is known
            chosen = await service.select("turn 3 stones into grams", ["p.a"], 1, alike=2)
            assert [(one.query, match.level) for one, match in chosen] == [
                ("how p.a is called", "api"), ("turn 45 miles into kilometres", "task"),
            ]  # fmt: skip
        (only, _), *more = await service.select("turn 3 stones into grams", ["p.a"], 0, alike=1)
        assert (only.query, more) == ("turn 45 miles into kilometres", [])
        await service.delete(only.id)
        assert await service.select("turn 3 stones into grams", ["p.a"], 0, alike=1) == []
        (same, _), *more = await service.select("rain in oslo", ["p.a"], 1, alike=2)
        assert (same.query, more) == ("rain in oslo", [])  # nothing comes twice


async def test_a_replica_follows_what_another_one_adds_and_deletes(engine: AsyncEngine) -> None:
    async with opened(engine) as one, opened(engine) as other:
        assert await queries(other, "rain in oslo") == []
        (kept,), _ = await one.add([demo("rain in oslo")])
        assert await queries(other, "rain in oslo") == ["rain in oslo"]
        await one.delete(kept.id)
        assert await queries(other, "rain in oslo") == []


async def test_replicas_that_add_the_same_demos_at_once(engine: AsyncEngine) -> None:
    demos = [demo(f"request number {n}") for n in range(20)]
    async with opened(engine) as one, opened(engine) as other:
        results = await asyncio.gather(*(service.add(demos) for service in (one, other) for _ in range(3)))
        assert sum(len(added) for _, added in results) == 20
        assert (await one.page(1, 0)).total == 20


async def test_a_text_is_encoded_once_for_each_encoder(engine: AsyncEngine) -> None:
    first, again, newer = HashEncoder(), HashEncoder(), HashEncoder("hash-words@2", 32)
    async with opened(engine, first) as service:
        await service.add([demo("rain in oslo"), demo("sun in rome")])
        assert sorted(first.encoded) == ["rain in oslo", "sun in rome"]
    async with opened(engine, again) as service:
        await service.refresh()
        await service.add([demo("rain in oslo", "p.b")])
        assert again.encoded == []
    async with opened(engine, newer) as service:
        assert (await service.refresh()).vectors.shape == (3, 32)
        assert sorted(newer.encoded) == ["rain in oslo", "sun in rome"]
        assert await queries(service, "sun in rome", "p.a") == ["sun in rome"]


async def test_a_vector_goes_with_the_last_demo_of_its_text(engine: AsyncEngine) -> None:
    encoder = HashEncoder()
    async with opened(engine, encoder) as service:
        kept, _ = await service.add([demo("twice", "p.a"), demo("twice", "p.b")])
        await service.delete(kept[0].id)
        assert list(await DemoStorage(engine).vectors(encoder.name, [text_hash("twice")])) == [text_hash("twice")]
        await service.delete(kept[1].id)
        assert await DemoStorage(engine).vectors(encoder.name, [text_hash("twice")]) == {}


async def test_a_vector_that_is_missing_is_made_again(engine: AsyncEngine) -> None:
    encoder = HashEncoder()
    async with opened(engine, encoder) as service:
        await service.add([demo("lost")])
        async with write(engine) as connection:
            await connection.execute(METADATA.tables["embeddings"].delete())
    async with opened(engine, encoder) as service:
        assert await queries(service, "lost") == ["lost"]


async def test_an_import_with_one_bad_demo_adds_none(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        bad = demo("calls two", "p.a", "p.b", level="api")
        with pytest.raises(ValidationFailed) as caught:
            await service.add([demo("fine"), bad])
        assert caught.value.extensions["errors"][0]["field"] == "body.demos.1.plan"
        with pytest.raises(ValidationFailed, match="must be the hash"):
            await service.add([demo("fine").model_copy(update={"id": "0" * 64})])
        assert (await service.page(10, 0)).total == 0


async def test_more_demos_than_one_statement_binds(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        demos = [demo(f"request {n} of many") for n in range(2_500)]
        assert len((await service.add(demos))[1]) == 2_500
        assert (await service.add(demos))[1] == set()
        assert service.size == 2_500


async def test_readiness_tells_what_is_missing(tmp_path: object) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/demos.db")
    await migrate(engine, "demo_svc")
    async with opened(engine) as service:
        with pytest.raises(NotReady):
            await service.check_snapshot()
        await service.refresh()
        await service.check_snapshot()
    await engine.dispose()
    nowhere = create_engine("postgresql+asyncpg://nobody@127.0.0.1:9/nothing")
    with pytest.raises(ServiceUnavailable, match="postgresql"):
        await DemoStorage(nowhere).ping()
    with pytest.raises(ServiceUnavailable, match="postgresql"):
        await DemoStorage(nowhere).version()
    await nowhere.dispose()


async def test_the_shipped_encoder_tells_paraphrases_from_other_requests(tmp_path: object) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/demos.db")
    await migrate(engine, "demo_svc")
    async with opened(engine, load_encoder()) as service:
        await service.add(
            [
                demo("Which public holidays does Norway have in 2026?"),
                demo("Convert 20 miles to kilometres"),
                demo("Book a table for four tomorrow evening"),
            ]
        )
        assert await queries(service, "what are the public holidays in Norway in 2026") == [
            "Which public holidays does Norway have in 2026?"
        ]
        assert await queries(service, "Sing me a song about the sea") == []
        snapshot = await service.refresh()
        assert np.allclose(np.linalg.norm(snapshot.vectors, axis=1), 1, atol=1e-5)
    await engine.dispose()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(lambda t: t.strip())


@given(TEXTS, st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS, st.lists, max_leaves=4))
def test_an_id_depends_on_query_and_plan_alone(query: str, argument: object) -> None:
    one = demo(query, argument=argument)
    assert demo_id(one) == demo_id(one.model_copy(update={"source": "elsewhere"}))
    assert demo_id(one) == demo_id(Demo.model_validate_json(one.model_dump_json(ensure_ascii=True)))
    assert demo_id(one) != demo_id(demo(query + "x", argument=argument))
    assert demo_id(one) != demo_id(demo(query, "p.other", argument=argument))


async def test_a_tenants_demos_are_selected_for_it_alone(engine: AsyncEngine) -> None:
    async with opened(engine) as service:

        async def chosen(tenant: str | None, k: int = 5) -> list[str]:
            found = await service.select("rain in oslo", ["p.a", "p.b"], k, alike=5, tenant=tenant)
            return [one.query for one, _ in found]

        await service.add([demo("rain in oslo", "p.a"), demo("how p.a is called", "p.a", level="api")])
        await service.add([demo("rain in oslo", "p.b"), demo("how p.b is called", "p.b", level="api")], "red")
        await service.add([demo("rain in oslo today", "p.b")], "blue")
        common = ["rain in oslo", "how p.a is called"]
        assert await chosen(None) == await chosen("green") == common
        assert await chosen("red") == ["rain in oslo", "rain in oslo", "how p.a is called", "how p.b is called"]
        assert await chosen("blue") == ["rain in oslo", "rain in oslo today", "how p.a is called"]
        assert [(await service.page(10, 0, (), tenant)).total for tenant in (None, "red", "blue")] == [2, 4, 3]
        assert (await service.page(10, 0, ("p.b",), "blue")).total == 1


async def test_demos_of_the_same_text_are_found_without_encoding(engine: AsyncEngine) -> None:
    encoder = HashEncoder()
    async with opened(engine, encoder) as service:
        shared, other = demo("rain in oslo", "p.a"), demo("rain in bergen", "p.a")
        early, late = demo("rain in oslo", "p.b"), demo("rain in oslo", "p.c", level="api")
        await service.add([shared, other])
        await service.add([early], "red")
        await service.add([late], "red")
        await service.add([demo("rain in oslo", "p.d")], "blue")
        encoder.encoded.clear()

        async def same(query: str, tenant: str | None, k: int = 5) -> list[tuple[str, ...]]:
            return [one.apis for one in await service.same(query, {"p.a", "p.b", "p.c", "p.d"}, k, tenant)]

        assert await same("rain in oslo", "red") == [("p.b",), ("p.c",), ("p.a",)]
        assert await same("rain in oslo", "red", k=2) == [("p.b",), ("p.c",)]
        assert await service.apis_of_same("rain in oslo", "red") == [("p.b",), ("p.c",), ("p.a",)]
        assert [one.apis for one in await service.same("rain in oslo", {"p.a", "p.c"}, 5, "red")] == [
            ("p.c",),
            ("p.a",),
        ]
        assert await same("rain in oslo", "green") == await same("rain in oslo", None) == [("p.a",)]
        assert await same("Rain in oslo", "red") == await same("rain", "red") == []
        assert encoder.encoded == []
        await service.add([early])  # now it is everyone's as well, and still one demo
        assert await same("rain in oslo", "red") == [("p.b",), ("p.c",), ("p.a",)]


async def test_an_equal_demo_of_another_tenant_is_another(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        (kept,), added = await service.add([demo("same words", "p.a")], "red")
        assert added == {kept.id} == {demo_id(kept)}
        assert (await service.add([kept], "red"))[1] == set()
        for tenant in (None, "blue"):
            with pytest.raises(NotFound):
                await service.get(kept.id, tenant)
            with pytest.raises(NotFound):
                await service.delete(kept.id, tenant)
        assert (await service.add([kept], "blue"))[1] == {kept.id}
        assert (await service.add([kept]))[1] == {kept.id}
        assert (await service.add([kept], "green"))[1] == set()  # it is everyone's
        assert len(await service.select("same words", ["p.a"], 5, tenant="red")) == 1
        await service.delete(kept.id, "red")
        assert await service.get(kept.id, "red") == kept
        await service.delete(kept.id)
        with pytest.raises(NotFound):
            await service.get(kept.id, "red")
        assert await service.get(kept.id, "blue") == kept


async def test_another_tenants_many_demos_do_not_hide_ones_own(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_svc.selector._SCANNED", 3)
    async with opened(engine) as service:
        await service.add([demo("rain in oslo", "p.a", argument=n) for n in range(9)], "blue")
        await service.add([demo("rain in bergen", "p.a")], "red")
        found = await service.select("rain in oslo", ["p.a"], 0, alike=1, tenant="red")
        assert [one.query for one, _ in found] == ["rain in bergen"]


class BusyEncoder(HashEncoder):
    """Needs a while for each text."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        began = time.thread_time()
        while time.thread_time() - began < 0.02 * len(texts):
            pass
        return super().encode(texts)


async def test_an_import_gives_way_to_another_tenants_request(engine: AsyncEngine) -> None:
    encoder = BusyEncoder()
    async with opened(engine, encoder) as service, asyncio.TaskGroup() as group:
        await service.add([demo("Wash a lion")])
        for_tenant.set("red")
        importing = group.create_task(service.add([demo(f"Feed lion {n}") for n in range(200)], "red"))
        async with asyncio.timeout(60):
            while len(encoder.encoded) < 70:  # noqa: ASYNC110 - nothing tells how far an import is
                await asyncio.sleep(0.001)
        for_tenant.set("blue")
        await service.select("Wash the lion", [], 3, tenant="blue")
        assert not importing.done()
        assert encoder.encoded.index("Wash the lion") < 125


async def test_of_the_same_text_only_the_wanted_are_parsed(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(engine) as service:
        await service.add([demo("q", "p.a", argument=n) for n in range(20)])
        parsed, parse = list[str](), Demo.model_validate_json

        def counted(document: str) -> Demo:
            parsed.append(document)
            return parse(document)

        monkeypatch.setattr(Demo, "model_validate_json", counted)
        assert len(await service.apis_of_same("q")) == 20
        assert parsed == []
        assert len(await service.same("q", {"p.a"}, 3)) == len(parsed) == 3


async def test_large_demos_are_parsed_on_the_pool_in_the_tenants_turn(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(engine) as service:
        await service.add([demo("small"), demo("large", argument="x" * 70_000)], "red")
        parsed, parse = list[str](), demo_service._parsed

        def noting(documents: Mapping[str, str]) -> dict[str, Demo]:
            parsed.append(for_tenant.get() if threading.current_thread() is not threading.main_thread() else "loop")
            return parse(documents)

        monkeypatch.setattr(demo_service, "_parsed", noting)
        for_tenant.set("red")
        for query in ("small", "large"):
            assert [one.query for one in await service.same(query, {"p.a"}, 3, "red")] == [query]
        assert parsed == ["loop", "red"]
