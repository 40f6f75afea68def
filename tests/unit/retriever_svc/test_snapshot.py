"""Snapshots: one that followed changes, or was saved and loaded, is the one made anew."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine.saving import SnapshotFiles
from retriever_svc.engine.snapshot import Snapshot, exact_key
from retriever_svc.engine.vectors import open_indexes
from retriever_svc.models import Entry, Listing
from services.encoder import Vectors

DIMENSION = 4
NAMES = [f"op{number}" for number in range(8)]
INDEXES = open_indexes("flat", "someone", DIMENSION)


def entry(number: int, name: str, provider: str, words: str) -> Entry:
    return Entry(
        number=number,
        id=f"{provider}.{name}",
        provider=provider,
        name=name,
        method="GET",
        path=f"/{name}/{{id}}",
        summary=f"Überblick über {words}\n",
        content_hash=f"content of {provider} {words}",
        text_hash=f"text of {words}",
        lexical=words,
        inputs="city\tname of the city",
        outputs=words.upper(),
        open=bool(number % 2),
    )


def vector(text_hash: str) -> Vectors:
    chosen = np.random.default_rng(sum(text_hash.encode())).normal(size=DIMENSION).astype(np.float32)
    return chosen / np.linalg.norm(chosen)


def made(entries: list[Entry], before: Snapshot | None = None, version: int = 1) -> Snapshot:
    listing = Listing(version, tuple(sorted(entries, key=lambda one: one.id)))
    vectors = {one.text_hash: vector(one.text_hash) for one in entries}
    return (before or Snapshot.empty(DIMENSION)).advance(listing, vectors)


def same(one: Snapshot, other: Snapshot) -> None:
    """Whatever a search may ask of them has the same answer."""
    assert list(one.entries) == list(other.entries)
    assert one.numbers.tolist() == other.numbers.tolist()
    assert dict(one.positions) == dict(other.positions)
    assert one.open.tolist() == other.open.tolist()
    assert {key: places.tolist() for key, places in one.providers.items()} == {
        key: places.tolist() for key, places in other.providers.items()
    }
    for name in [*NAMES, "/op1/{id}", "zoo.op1", "hr.op2"]:
        assert one.exact.get(exact_key(name)) == other.exact.get(exact_key(name))
    for words in (["a"], ["b", "c"], ["A"]):
        assert np.array_equal(one.lexical.scores(words), other.lexical.scores(words))
        assert np.array_equal(one.outputs.scores(words), other.outputs.scores(words))
    if len(one.entries):
        query = vector("anything")[None]
        assert np.allclose(
            one.vectors.similarities(query, one.numbers), other.vectors.similarities(query, other.numbers), atol=1e-6
        )
    assert one.facts.supplies.tolist() == other.facts.supplies.tolist()
    for key in {*one.facts.supplies.flat}:
        for owner, name in enumerate(one.names):
            theirs = other.names.index(name) if name in other.names else -1
            assert one.supply_index.positions(owner, [key], 99) == other.supply_index.positions(theirs, [key], 99)
    assert one.vectors.size == other.vectors.size == len(one.entries)
    assert one.digest == other.digest


CATALOGUES = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["zoo", "hr", "Änderung\nmit"])),
    st.sampled_from(["a", "b c", "a a b", ""]),
    max_size=10,
)


@given(st.lists(CATALOGUES, min_size=1, max_size=5))
def test_what_followed_changes_is_what_is_made_anew(generations: list[dict[tuple[str, str], str]]) -> None:
    numbers: dict[tuple[str, str], int] = {}
    snapshot = Snapshot.empty(DIMENSION)
    for version, catalogue in enumerate(generations, start=1):
        gone = numbers.keys() - catalogue.keys()
        numbers = {key: number for key, number in numbers.items() if key not in gone}
        for key in catalogue:
            numbers.setdefault(key, 100 * version + len(numbers))  # a number is never given again
        entries = [entry(numbers[key], *key, words) for key, words in catalogue.items()]
        snapshot = made(entries, snapshot, version)
        same(snapshot, made(entries, version=version))


def test_names_are_found_as_they_are_written() -> None:
    snapshot = made([entry(1, "listPets", "zoo", "a"), entry(2, "list-pets", "hr", "b"), entry(3, "other", "hr", "c")])
    assert snapshot.exact.get(exact_key("LISTPETS")) == (snapshot.positions[1],)
    assert snapshot.exact.get(exact_key("list_pets")) == (snapshot.positions[2],)
    assert snapshot.exact.get(exact_key("/listPets/{id}")) == (snapshot.positions[1],)
    assert snapshot.exact.get(exact_key("hr.other")) == (snapshot.positions[3],)
    for nothing in ("", "/", "listpet", "!!!"):
        assert snapshot.exact.get(exact_key(nothing)) == ()


ENTRIES = [entry(1, "op1", "zoo", "a"), entry(2, "op2", "new\nline", "b c"), entry(4, "op1", "hr", "a a b")]


@pytest.mark.parametrize("kind", ["flat", "auto", "ivf"])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, kind: str) -> None:
    indexes = open_indexes(kind, "someone", DIMENSION)  # type: ignore[arg-type]
    files = SnapshotFiles(tmp_path / "index", DIMENSION)
    assert files.load("someone", indexes) is None
    snapshot = Snapshot.empty(DIMENSION, indexes.empty()).advance(
        Listing(7, tuple(sorted(ENTRIES, key=lambda one: one.id))), {e.text_hash: vector(e.text_hash) for e in ENTRIES}
    )
    files.save(snapshot, "someone")
    loaded = SnapshotFiles(tmp_path / "index", DIMENSION).load("someone", indexes)
    assert loaded is not None
    assert loaded.version == 7
    same(loaded, snapshot)
    changed = [*ENTRIES[1:], replace(ENTRIES[0], lexical="c", text_hash="text of c")]
    same(made(changed, loaded, 8), made(changed, version=8))


def test_only_the_last_one_saved_is_kept(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path, DIMENSION)
    for count in (1, 2, 3):
        files.save(made(ENTRIES[:count], version=count), "someone")
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))  # what is younger might be another process's, which has not got further yet
    assert len(list(tmp_path.iterdir())) == 2
    loaded = files.load("someone", INDEXES)
    assert loaded is not None
    same(loaded, made(ENTRIES, version=3))


@pytest.mark.parametrize("damage", ["catalogue", ".vectors"])
@pytest.mark.parametrize("place", [0.0, 0.4, 0.999])
def test_a_damaged_file_is_no_file(tmp_path: Path, damage: str, place: float) -> None:
    files = SnapshotFiles(tmp_path, DIMENSION)
    files.save(made(ENTRIES), "someone")
    path = next(path for path in tmp_path.iterdir() if path.name.endswith(damage))
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    assert files.load("someone", INDEXES) is None
    path.write_bytes(content[: len(content) // 2])
    assert files.load("someone", INDEXES) is None
    path.unlink()
    assert files.load("someone", INDEXES) is None


def test_what_another_encoder_has_made_is_not_loaded(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path, DIMENSION)
    files.save(made(ENTRIES), "someone")
    assert files.load("someone else", INDEXES) is None
    assert SnapshotFiles(tmp_path, 2 * DIMENSION).load("someone", INDEXES) is None
    assert files.load("someone", INDEXES) is not None


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = SnapshotFiles(tmp_path / "file" / "index", DIMENSION)
    files.save(made(ENTRIES), "someone")
    assert files.load("someone", INDEXES) is None
