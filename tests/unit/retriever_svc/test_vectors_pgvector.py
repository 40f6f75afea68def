"""What only the index in PostgreSQL does: rows shared by replicas, and removed when nobody can want them any more."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from deploy.sockets import refusing
from retriever_svc.engine.index.pgvector import PgVectorIndex, PgVectorIndexes
from retriever_svc.engine.vectors import Source, as_ids, open_indexes
from services.encoder import Vectors
from services.errors import ServiceUnavailable
from services.storage.engine import create_engine

DIMENSION = 16
SOURCE = Source("encoder@1", DIMENSION, "checksum")


def unit(count: int, seed: int = 0) -> Vectors:
    rows: Vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.fixture
def replicas(postgres_url: str) -> Iterator[tuple[PgVectorIndexes, PgVectorIndexes]]:
    first, second = (PgVectorIndexes(postgres_url, SOURCE.encoder, DIMENSION) for _ in range(2))
    yield first, second
    first.close()
    second.close()


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement on the one table of vectors, which it calls TABLE."""

    async def run() -> list[tuple[object, ...]]:
        engine = create_engine(url)
        async with engine.begin() as connection:
            query = (
                "SELECT tablename FROM pg_tables WHERE tablename LIKE 'vectors_%' AND tablename NOT LIKE '%_unwanted'"
            )
            (table,) = (await connection.execute(text(query))).scalars().all()
            result = await connection.execute(text(statement.replace("TABLE", table)))
            rows = [tuple(row) for row in result.all()] if result.returns_rows else []
        await engine.dispose()
        return rows

    return asyncio.run(run())


def row_count(url: str) -> object:
    return execute(url, "SELECT count(*) FROM TABLE")[0][0]


def found(index: PgVectorIndex, query: Vectors, k: int = 3) -> list[int]:
    numbers: list[int] = index.search(query, k)[0][0].tolist()
    return numbers


def test_replicas_that_make_the_same_change_share_its_rows(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes], postgres_url: str
) -> None:
    rows = unit(50)
    ahead, behind = (replica.empty() for replica in replicas)
    ahead.upsert(np.arange(50), rows)
    behind.upsert(np.arange(50)[::-1], rows[::-1])
    assert row_count(postgres_url) == 50
    assert found(ahead, rows[:1]) == found(behind, rows[:1])


def test_a_replica_behind_sees_neither_half_a_change_nor_a_whole_one(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes],
) -> None:
    rows = unit(300)
    ahead, behind = (replica.empty() for replica in replicas)
    for index in (ahead, behind):
        index.upsert(np.arange(100), rows[:100])
    query = rows[:1]
    before = found(behind, query, 10)
    # Nearer to the query than all that was there, and more of them than a search asks for at first.
    near = query + 0.01 * unit(200, seed=1)
    ahead.upsert(np.arange(1_000, 1_200), near / np.linalg.norm(near, axis=1, keepdims=True))
    ahead.delete(as_ids(before[:5]))
    ahead.upsert(as_ids(before[5:]), -rows[:5])
    assert found(behind, query, 10) == before
    assert np.allclose(behind.similarities(query, as_ids([0, 7])), query @ rows[[0, 7]].T, atol=1e-5)
    assert not set(found(ahead, query, 10)) & set(before)
    assert len(found(ahead, query, 260)) == 260


def test_rows_that_nobody_wants_are_removed_after_a_while(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes], postgres_url: str
) -> None:
    index = replicas[0].empty()
    index.upsert(np.arange(50), unit(50))
    index.delete(np.arange(10))
    assert row_count(postgres_url) == 50
    index.upsert(np.arange(5), unit(5))  # they come back, and are wanted again
    execute(postgres_url, "UPDATE TABLE_unwanted SET since = since - interval '2 hours'")
    index.delete(as_ids([49]))
    assert row_count(postgres_url) == 45
    assert index.size == 44
    assert found(index, unit(1)) == found(index, unit(1))


def test_what_a_saved_index_consists_of_is_wanted_again_once_it_is_loaded(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes], postgres_url: str, tmp_path: Path
) -> None:
    index = replicas[0].empty()
    index.upsert(np.arange(50), unit(50))
    index.save(tmp_path / "vectors", SOURCE)
    index.delete(np.arange(50))
    loaded = replicas[1].load(tmp_path / "vectors", SOURCE)
    assert loaded is not None
    assert execute(postgres_url, "SELECT count(*) FROM TABLE_unwanted") == [(0,)]
    assert found(loaded, unit(50)[7:8])[0] == 7


@pytest.mark.parametrize("loss", ["DELETE FROM TABLE WHERE id = 7", "UPDATE TABLE SET id = 1000 WHERE id = 7"])
def test_an_index_is_not_loaded_where_its_rows_are_gone(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes], postgres_url: str, tmp_path: Path, loss: str
) -> None:
    index = replicas[0].empty()
    index.upsert(np.arange(50), unit(50))
    index.save(tmp_path / "vectors", SOURCE)
    execute(postgres_url, loss)
    assert replicas[1].load(tmp_path / "vectors", SOURCE) is None


def test_many_allowed_are_found_by_the_graph(
    replicas: tuple[PgVectorIndexes, PgVectorIndexes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever_svc.engine.index.pgvector._EXACT", 500)
    rows, allowed = unit(2_000), np.arange(0, 2_000, 2)
    index = replicas[0].empty()
    index.upsert(np.arange(2_000), rows)
    query = unit(5, seed=1)
    right = allowed[np.argsort(-(query @ rows[allowed].T), axis=1)[:, :10]]
    ids, scores = index.search(query, 10, allowed)
    assert ids.shape == scores.shape == (5, 10)
    assert (ids % 2 == 0).all()
    assert np.mean([np.isin(a, b).mean() for a, b in zip(ids, right, strict=True)]) > 0.8


def test_a_server_that_is_not_there_is_a_503() -> None:
    with refusing() as url:
        host = url.removeprefix("http://")
        indexes = PgVectorIndexes(f"postgresql+asyncpg://postgres@{host}/none", "encoder@1", DIMENSION)
        with pytest.raises(ServiceUnavailable):
            indexes.empty()
        indexes.close()


@pytest.mark.parametrize(("url", "dimension"), [("sqlite+aiosqlite:///x.db", 384), ("postgresql+asyncpg://x/y", 2_001)])
def test_what_pgvector_cannot_do_is_refused_at_the_start(url: str, dimension: int) -> None:
    with pytest.raises(ValueError, match="pgvector"):
        open_indexes("pgvector", "encoder@1", dimension, url)
