"""One suite for all vector indexes: they agree with arithmetic, change, are copied, saved and loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retriever_svc.engine.index.flat import FlatIndexes
from retriever_svc.engine.index.ivf import IvfIndexes
from retriever_svc.engine.index.pgvector import PgVectorIndexes
from retriever_svc.engine.vectors import Ids, Indexes, Source, VectorIndex, as_ids, open_indexes
from services.encoder import Vectors
from tests.support.examples import examples

DIMENSION = 16
SOURCE = Source("encoder@1", DIMENSION, "checksum")
TOLERANCE = 0.02
"""Of a cosine: what eight bits a component may cost."""

LOCAL: dict[str, Callable[[], Indexes]] = {
    "flat": lambda: FlatIndexes(DIMENSION),
    "ivf": lambda: IvfIndexes(DIMENSION, train_at=100, recent=20),
    "ivf, exact so far": lambda: IvfIndexes(DIMENSION, train_at=100_000),
}


@pytest.fixture(params=[*LOCAL, "pgvector"])
def indexes(request: pytest.FixtureRequest) -> Iterator[Indexes]:
    if request.param in LOCAL:
        opened = LOCAL[request.param]()
    else:
        opened = PgVectorIndexes(request.getfixturevalue("postgres_url"), SOURCE.encoder, DIMENSION)
    yield opened
    opened.close()


def unit(count: int, seed: int = 0) -> Vectors:
    # No component is small or large: a sample of a hundred shows how far they reach, which the quantiser has to know.
    chance = np.random.default_rng(seed)
    rows: Vectors = chance.uniform(0.5, 1, (count, DIMENSION)).astype(np.float32)
    rows *= chance.choice([-1, 1], (count, DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def filled(indexes: Indexes, rows: Vectors, first: int = 0) -> VectorIndex:
    index = indexes.empty()
    index.upsert(np.arange(first, first + len(rows)), rows)
    return index


def agrees(
    index: VectorIndex, expected: dict[int, Vectors], queries: Vectors, k: int, allowed: Ids | None = None
) -> None:
    """Whether a search finds what is there and allowed, scores it rightly, and misses no better one by much."""
    ids = np.array([n for n in expected if allowed is None or n in allowed], np.int64)
    found, scores = index.search(queries, k, allowed)
    assert found.shape == scores.shape == (len(queries), min(k, len(ids)))
    for query, numbers, given_scores in zip(queries, found.tolist(), scores, strict=True):
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) <= set(ids.tolist())
        true = np.array([expected[n] @ query for n in numbers])
        assert np.allclose(given_scores, true, atol=TOLERANCE)
        assert (np.diff(given_scores) <= 0).all()
        best = np.sort([expected[int(n)] @ query for n in ids])[::-1][: len(true)]
        assert np.allclose(np.sort(true)[::-1], best, atol=TOLERANCE)


def test_finds_the_nearest(indexes: Indexes) -> None:
    rows = unit(300)
    agrees(filled(indexes, rows), dict(enumerate(rows)), rows[:5], 10)


def test_an_empty_index_finds_nothing(indexes: Indexes) -> None:
    index = indexes.empty()
    assert index.size == 0
    for allowed in (None, as_ids([1, 2])):
        ids, scores = index.search(unit(2), 5, allowed)
        assert ids.shape == scores.shape == (2, 0)


@pytest.mark.parametrize("allowed", [[], [3], [7, 250, 299, 299], [1, 1_000_000], range(0, 300, 2), range(300)])
def test_a_filter_leaves_the_nearest_of_the_allowed(indexes: Indexes, allowed: list[int]) -> None:
    rows = unit(300)
    agrees(filled(indexes, rows), dict(enumerate(rows)), unit(4, seed=1), 10, as_ids(sorted(set(allowed))))


def test_ids_may_be_large_and_far_apart(indexes: Indexes) -> None:
    rows, numbers = unit(200), (np.arange(200) * 10**12).tolist()
    index = indexes.empty()
    index.upsert(as_ids(numbers), rows)
    agrees(index, dict(zip(numbers, rows, strict=True)), rows[:3], 5)
    agrees(index, dict(zip(numbers, rows, strict=True)), rows[:3], 5, as_ids(numbers[50:60]))


def test_more_asked_for_than_there_are(indexes: Indexes) -> None:
    rows = unit(150)
    agrees(filled(indexes, rows), dict(enumerate(rows)), rows[:2], 1_000)


def test_a_replaced_vector_is_found_in_its_new_place_only(indexes: Indexes) -> None:
    rows = unit(300)
    index = filled(indexes, rows)
    moved = -rows[7:8]
    index.upsert(as_ids([7]), moved)
    assert index.size == 300
    agrees(index, dict(enumerate(rows)) | {7: moved[0]}, np.concatenate([rows[7:8], moved]), 5)


def test_a_deleted_vector_is_not_found(indexes: Indexes) -> None:
    rows = unit(300)
    index = filled(indexes, rows)
    index.delete(as_ids([5, 6, 4_000]))
    assert index.size == 298
    kept = {n: row for n, row in enumerate(rows) if n not in (5, 6)}
    agrees(index, kept, rows[5:7], 10)
    agrees(index, kept, rows[5:7], 10, as_ids([4, 5, 6]))


def test_everything_may_be_deleted_and_come_back(indexes: Indexes) -> None:
    rows = unit(300)
    index = filled(indexes, rows)
    index.delete(np.arange(300))
    assert index.size == 0
    assert index.search(rows[:2], 3)[0].shape == (2, 0)
    index.upsert(np.arange(300), rows)
    agrees(index, dict(enumerate(rows)), rows[:5], 10)


def test_similarities_are_those_of_the_ids_in_their_order(indexes: Indexes) -> None:
    rows, queries = unit(300), unit(3, seed=1)
    index = filled(indexes, rows)
    index.upsert(as_ids([10, 300]), -rows[10:12])
    numbers = as_ids([299, 10, 0, 300])
    expected = queries @ np.stack([rows[299], -rows[10], rows[0], -rows[11]]).T
    assert np.allclose(index.similarities(queries, numbers), expected, atol=TOLERANCE)
    assert index.similarities(queries, as_ids([])).shape == (3, 0)


def test_a_published_index_does_not_see_what_its_copy_goes_through(indexes: Indexes) -> None:
    rows = unit(300)
    published = filled(indexes, rows)
    working = published.copy()
    working.delete(np.arange(0, 200))
    working.upsert(np.arange(200, 260), -rows[200:260])
    agrees(published, dict(enumerate(rows)), rows[:3], 10)
    agrees(published, dict(enumerate(rows)), rows[:3], 10, np.arange(150, 250))
    assert np.allclose(published.similarities(rows[200:201], as_ids([200])), 1, atol=TOLERANCE)
    changed = {n: -row if n < 260 else row for n, row in enumerate(rows) if n >= 200}
    agrees(working, changed, rows[:3], 10)
    assert (published.size, working.size) == (300, 100)


@pytest.mark.parametrize("memory_mapped", [True, False])
def test_what_was_saved_is_loaded_and_may_be_changed(indexes: Indexes, tmp_path: Path, memory_mapped: bool) -> None:
    rows, path = unit(320), tmp_path / "new" / "vectors"
    index = filled(indexes, rows[:300])
    index.upsert(np.arange(295, 310), rows[295:310])
    index.delete(as_ids([3, 301]))
    index.save(path, SOURCE)
    loaded = indexes.load(path, SOURCE, memory_mapped=memory_mapped)
    assert loaded is not None
    assert loaded.size == 308
    expected = {n: row for n, row in enumerate(rows[:310]) if n not in (3, 301)}
    agrees(loaded, expected, rows[:5], 10)
    agrees(loaded, expected, rows[:5], 10, np.arange(0, 300, 7))
    changed = loaded.copy()
    for start in range(0, 320, 10):  # more than may wait outside of the cells: they are written anew
        changed.upsert(np.arange(start, start + 10), -rows[start : start + 10])
    agrees(changed, dict(enumerate(-rows)), rows[:5], 10)
    agrees(loaded, expected, rows[:5], 10)
    changed.save(path, SOURCE)
    agrees(loaded, expected, rows[:5], 10)


@pytest.mark.parametrize("memory_mapped", [True, False])
def test_a_loaded_index_can_be_saved_again(indexes: Indexes, tmp_path: Path, memory_mapped: bool) -> None:
    rows, path = unit(310), tmp_path / "vectors"
    index = filled(indexes, rows[:300])
    for number in range(300, 310):
        index.save(path, SOURCE)
        loaded = indexes.load(path, SOURCE, memory_mapped=memory_mapped)
        assert loaded is not None
        index = loaded.copy()
        index.upsert(as_ids([number]), rows[number : number + 1])
    agrees(index, dict(enumerate(rows)), rows[300:], 10)


def test_an_empty_index_can_be_saved(indexes: Indexes, tmp_path: Path) -> None:
    indexes.empty().save(tmp_path / "vectors", SOURCE)
    loaded = indexes.load(tmp_path / "vectors", SOURCE)
    assert loaded is not None
    assert loaded.size == 0


@pytest.mark.parametrize(
    "other",
    [
        Source("encoder@2", DIMENSION, "checksum"),
        Source("encoder@1", 8, "checksum"),
        Source("encoder@1", DIMENSION, ""),
    ],
)
def test_a_file_made_from_something_else_is_not_loaded(indexes: Indexes, tmp_path: Path, other: Source) -> None:
    filled(indexes, unit(300)).save(tmp_path / "vectors", other)
    assert indexes.load(tmp_path / "vectors", SOURCE) is None
    assert indexes.load(tmp_path / "vectors", other) is not None


@pytest.mark.parametrize("content", [b"", b"x", b"\x00" * 48, b"NESTORVX" * 6, b"{}" * 5_000])
def test_a_foreign_file_is_not_loaded(indexes: Indexes, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    assert indexes.load(path, SOURCE) is None


def test_what_is_no_file_is_not_loaded(indexes: Indexes, tmp_path: Path) -> None:
    assert indexes.load(tmp_path, SOURCE) is None
    assert indexes.load(tmp_path / "nothing", SOURCE) is None
    assert indexes.load(tmp_path / "no" / "folder", SOURCE) is None


def test_a_damaged_file_is_not_loaded(indexes: Indexes, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    filled(indexes, unit(150)).save(path, SOURCE)
    whole = path.read_bytes()
    chance = np.random.default_rng(0)
    for place in {0, 4, len(whole) - 1, len(whole) - 40, len(whole) - 48, *chance.integers(0, len(whole), 30).tolist()}:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(chance.integers(8))
        path.write_bytes(damaged)
        assert indexes.load(path, SOURCE) is None, place
    for length in (1, 47, 48, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert indexes.load(path, SOURCE) is None, length
    path.write_bytes(whole)
    assert indexes.load(path, SOURCE) is not None


def test_an_index_of_another_kind_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    filled(LOCAL["flat"](), unit(150)).save(path, SOURCE)
    assert LOCAL["ivf"]().load(path, SOURCE) is None


def test_a_file_that_cannot_be_written_leaves_the_one_before(indexes: Indexes, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    index = filled(indexes, unit(150))
    index.save(path, SOURCE)
    path.with_name("folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        index.save(path.with_name("folder"), SOURCE)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "vectors"]
    assert indexes.load(path, SOURCE) is not None


STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "delete", "copy", "reload"]), st.integers(0, 160), st.integers(1, 90)),
    max_size=10,
)


@settings(examples(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_any_history_agrees_with_arithmetic(
    indexes: Indexes, tmp_path: Path, steps: list[tuple[str, int, int]]
) -> None:
    index, expected = indexes.empty(), dict[int, Vectors]()
    for number, (step, first, count) in enumerate(steps):
        ids = np.arange(first, first + count)
        if step == "upsert":
            rows = unit(count, seed=number)
            index.upsert(ids, rows)
            expected |= dict(zip(ids.tolist(), rows, strict=True))
        elif step == "delete":
            index.delete(ids)
            expected = {n: row for n, row in expected.items() if n not in ids}
        elif step == "copy":
            index = index.copy()
        else:
            index.save(tmp_path / "vectors", SOURCE)
            loaded = indexes.load(tmp_path / "vectors", SOURCE, memory_mapped=count % 2 == 0)
            assert loaded is not None
            index = loaded
    assert index.size == len(expected)
    agrees(index, expected, unit(2, seed=99), 5)
    agrees(index, expected, unit(2, seed=99), 5, np.arange(0, 250, 3))
    if expected:
        kept = as_ids(sorted(expected))
        queries = unit(2, seed=99)
        assert np.allclose(
            index.similarities(queries, kept), queries @ np.stack([expected[int(n)] for n in kept]).T, atol=TOLERANCE
        )


@pytest.mark.parametrize("kind", ["auto", "flat", "ivf"])
def test_the_setting_opens_an_index(kind: str) -> None:
    rows = unit(50)
    agrees(filled(open_indexes(kind, "encoder@1", DIMENSION), rows), dict(enumerate(rows)), rows[:2], 3)  # type: ignore[arg-type]
