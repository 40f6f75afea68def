"""What only the index in cells does: recall, sharing, learning anew; and what its files go through."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from retriever_svc.engine.index.cells import Cells, cells_for
from retriever_svc.engine.index.ivf import IvfIndex, IvfIndexes
from retriever_svc.engine.vectors import Source, as_ids
from services.encoder import Vectors

DIMENSION = 32
SOURCE = Source("encoder@1", DIMENSION, "checksum")


def clustered(count: int, seed: int = 0) -> Vectors:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(200, DIMENSION))
    rows = centres[chance.integers(0, 200, count)] + chance.normal(size=(count, DIMENSION))
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def recall(index: IvfIndex, rows: Vectors, queries: Vectors, allowed: np.ndarray | None = None) -> float:
    among = np.arange(len(rows)) if allowed is None else allowed
    right = among[np.argsort(-(queries @ rows[among].T), axis=1)[:, :10]]
    found, _ = index.search(queries, 10, allowed)
    return float(np.mean([np.isin(ids, best).mean() for ids, best in zip(found, right, strict=True)]))


def test_most_neighbours_are_found_though_most_vectors_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever_svc.engine.index.cells._FEWEST_LOOKED_AT", 1_000)
    rows = clustered(20_000)
    index = IvfIndex(DIMENSION, train_at=1_000, recent=1_000)
    index.upsert(np.arange(20_000), rows)
    queries = clustered(50, seed=1)
    assert 0.9 <= recall(index, rows, queries) < 1
    for allowed in (np.arange(0, 20_000, 2), np.arange(0, 20_000, 7), np.arange(100)):
        assert recall(index, rows, queries, allowed) >= 0.9


@pytest.mark.parametrize(("size", "cells"), [(1, 2), (1_000, 64), (100_000, 512), (400_000, 1_024), (1_000_000, 2_048)])
def test_the_number_of_cells(size: int, cells: int) -> None:
    assert cells_for(size) == cells


def trained_for(index: IvfIndex) -> int:
    assert index.cells is not None
    return index.cells.trained_for


def test_cells_are_learned_late_and_anew_when_there_are_four_times_as_many_or_as_few() -> None:
    index = IvfIndex(DIMENSION, train_at=100, recent=50)
    rows = clustered(1_000)
    index.upsert(np.arange(100), rows[:100])
    assert index.cells is None
    index.upsert(np.arange(100, 200), rows[100:200])
    assert trained_for(index) == 200
    index.upsert(np.arange(200, 800), rows[200:800])
    assert trained_for(index) == 200
    index.upsert(np.arange(800, 1_000), rows[800:])
    assert trained_for(index) == 1_000
    index.delete(np.arange(240, 1_000))
    assert trained_for(index) == 240
    assert recall(index, rows[:240], rows[:20]) >= 0.9


def test_a_small_change_leaves_the_cells_shared_and_many_have_them_written_anew() -> None:
    index = IvfIndex(DIMENSION, train_at=100, recent=50)
    index.upsert(np.arange(1_000), clustered(1_000))
    other = index.copy()
    other.upsert(as_ids([1, 2, 3]), clustered(3, seed=1))
    other.delete(as_ids([4]))
    assert other.cells is index.cells
    other.upsert(np.arange(500, 560), clustered(60, seed=2))
    assert other.cells is not index.cells
    assert other.size == 999


def test_dead_vectors_do_not_pile_up() -> None:
    index = IvfIndex(DIMENSION, train_at=100, recent=50)
    index.upsert(np.arange(1_000), clustered(1_000))
    index.delete(np.arange(300))
    assert index.cells is not None
    assert len(index.cells.ids) == index.size == 700


def test_the_same_catalogue_gives_the_same_answers_on_every_replica() -> None:
    rows, queries = clustered(3_000), clustered(20, seed=1)
    answers = []
    for _ in range(2):
        index = IvfIndex(DIMENSION, train_at=100)
        index.upsert(np.arange(3_000), rows)
        answers.append(index.search(queries, 10))
    assert np.array_equal(answers[0][0], answers[1][0])
    assert np.array_equal(answers[0][1], answers[1][1])


def test_vectors_written_anew_keep_their_codes_and_others_are_cut_off_gently() -> None:
    sample, more = clustered(500), clustered(500, seed=1)
    cells = Cells.trained(sample, np.arange(500), [(np.arange(500), sample)])
    grown = cells.replaced(np.ones(500, bool), np.arange(1_000), [(np.arange(500, 1_000), more)])
    assert np.abs(cells.vectors(np.arange(500)) - sample).max() < 0.01
    assert np.array_equal(grown.vectors(np.arange(500)), cells.vectors(np.arange(500)))
    assert np.mean(np.abs(grown.vectors(np.arange(500, 1_000)) - more) < 0.01) > 0.99


def test_a_process_killed_while_it_saves_leaves_the_file_before(tmp_path: Path) -> None:
    indexes, path = IvfIndexes(DIMENSION, train_at=100), tmp_path / "vectors"
    index = indexes.empty()
    index.upsert(np.arange(200), clustered(200))
    index.save(path, SOURCE)
    program = (
        "import os, sys; from pathlib import Path; import numpy as np\n"
        "from retriever_svc.engine.index.ivf import IvfIndex; from retriever_svc.engine.vectors import Source\n"
        "os.replace = lambda *_: os._exit(9)  # all is written, and the name is not changed yet\n"
        "IvfIndex(32).save(Path(sys.argv[1]), Source('encoder@1', 32, 'checksum'))\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    left = [entry for entry in tmp_path.iterdir() if entry != path]
    assert len(left) == 1
    loaded = indexes.load(path, SOURCE)
    assert loaded is not None
    assert loaded.size == 200
    index.save(path, SOURCE)  # the one that left it may still be at it
    assert left[0].exists()
    yesterday = time.time() - 86_400
    os.utime(left[0], (yesterday, yesterday))
    index.save(path, SOURCE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["vectors"]


def test_two_processes_map_the_same_file(tmp_path: Path) -> None:
    indexes, path = IvfIndexes(DIMENSION, train_at=100), tmp_path / "vectors"
    rows = clustered(500)
    index = indexes.empty()
    index.upsert(np.arange(500), rows)
    index.save(path, SOURCE)
    mapped = indexes.load(path, SOURCE)
    assert mapped is not None
    assert str(path) in Path("/proc/self/maps").read_text()
    program = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from retriever_svc.engine.index.ivf import IvfIndexes; from retriever_svc.engine.vectors import Source\n"
        "path, source = Path(sys.argv[1]), Source('encoder@1', 32, 'checksum')\n"
        "index = IvfIndexes(32, train_at=100).load(path, source).copy()\n"
        "index.delete(np.arange(400)); index.save(path, source)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert recall(mapped, rows, rows[:20]) >= 0.9
    newer = indexes.load(path, SOURCE)
    assert newer is not None
    assert (mapped.size, newer.size) == (500, 100)
