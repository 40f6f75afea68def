"""Ranking with the real encoder: clauses, exact names, filters, ties; and the index behind its seam."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from retriever_svc.engine.filters import NO_FILTERS, Filters
from retriever_svc.engine.names import ExactNames
from retriever_svc.engine.ranking import RankingOptions, _exact, find
from retriever_svc.engine.sight import Sight
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import record
from retriever_svc.engine.vectors import FlatIndex, as_ids
from retriever_svc.models import Entry, Listing
from services.contracts.api import Api, ApiResponse
from services.encoder import Encoder
from services.words import spaced, words
from tests.unit.retriever_svc.catalogue import api

APIS = (
    api("listHolidays", "Public holidays of a country", path="/holidays/{country}"),
    api("getSunrise", "When the sun rises and sets at a place", path="/sun"),
    api("convertCurrency", "Convert an amount between two currencies", path="/currencies/convert"),
    api("convertUnits", "Convert a quantity from one unit of measure to another", path="/units/convert"),
    api("sendMessage", "Send a text message to a person", path="/messages", method="POST"),
    api("listMessages", "Messages received", path="/messages"),
    api("search", "Find a book in the library", path="/books"),
    api("listHolidays", "Holidays that employees have taken", provider="hr", path="/leave"),
)


def entry_of(number: int, one: Api) -> Entry:
    new = record(one)
    return Entry(
        number, one.id, one.provider, one.name, one.method, one.path, one.summary, one.content_hash, new.text_hash,
        new.lexical,
    )  # fmt: skip


def snapshot_of(apis: tuple[Api, ...], encoder: Encoder, before: Snapshot | None = None, version: int = 1) -> Snapshot:
    entries = sorted((entry_of(number, one) for number, one in enumerate(apis, start=5)), key=lambda entry: entry.id)
    vectors = encoder.encode([record(one).embedded for one in apis])
    by_hash = {record(one).text_hash: vector for one, vector in zip(apis, vectors, strict=True)}
    return (before or Snapshot.empty(encoder.dimension)).advance(Listing(version, tuple(entries)), by_hash)


@pytest.fixture(scope="module")
def snapshot(encoder: Encoder) -> Snapshot:
    return snapshot_of(APIS, encoder)


def ids(snapshot: Snapshot, encoder: Encoder, query: str, k: int = 3, providers: tuple[str, ...] = ()) -> list[str]:
    return [hit.entry.id for hit in find(snapshot, encoder, query, k, 0, Filters(providers), RankingOptions())[1]]


def test_every_clause_gets_its_api(snapshot: Snapshot, encoder: Encoder) -> None:
    query = "What public holidays are there in Norway, convert 30 EUR to NOK and then send a text to Ola"
    clauses, hits = find(snapshot, encoder, query, 4, 0, NO_FILTERS, RankingOptions())
    assert [clause.text for clause in clauses][-1] == query
    best = {clauses[hit.clause].text: hit.entry.name for hit in reversed(hits)}
    assert best["send a text to Ola"] == "sendMessage"
    assert {"listHolidays", "convertCurrency", "sendMessage"} <= {hit.entry.name for hit in hits}
    for hit in hits:
        assert len(hit.clause_scores) == len(clauses)
        assert max(hit.clause_scores) == hit.clause_scores[hit.clause] == hit.score
        assert 0 <= hit.score <= 1
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("zoo.sendMessage", ["zoo.sendMessage"]),
        ("sendmessage", ["zoo.sendMessage"]),
        ("Please call `send_message`, will you", ["zoo.sendMessage"]),
        ("what does convertUnits do with money of other currencies?", ["zoo.convertUnits"]),
        ("search", ["zoo.search"]),
        ("listHolidays", ["hr.listHolidays", "zoo.listHolidays"]),
        ("/holidays/{country}", ["zoo.listHolidays"]),
        ("POST /messages", ["zoo.sendMessage"]),
        ("/messages", ["zoo.listMessages", "zoo.sendMessage"]),
        ("compare getSunrise to zoo.convertCurrency", ["zoo.getSunrise", "zoo.convertCurrency"]),
    ],
)
def test_exact_names_come_first(snapshot: Snapshot, encoder: Encoder, query: str, first: list[str]) -> None:
    assert ids(snapshot, encoder, query)[: len(first)] == first


def test_a_name_that_is_said_often_is_looked_up_once(
    snapshot: Snapshot, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of APIs may have one name: looking at all of them for each word of a request took a minute."""
    looked: list[str] = []
    get = ExactNames.get

    def noting(self: ExactNames, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        looked.append(key)
        return get(self, key, default)

    monkeypatch.setattr(ExactNames, "get", noting)
    assert ids(snapshot, encoder, "/messages " * 200 + "POST /messages- GET /messages. " * 100, k=2) == [
        "zoo.listMessages",
        "zoo.sendMessage",
    ]
    assert len(looked) <= 4


@pytest.mark.parametrize("unit", ["A", "a", "A1", "a.", "A-", "é", "/"])
def test_a_long_word_is_looked_at_in_no_time(snapshot: Snapshot, encoder: Encoder, unit: str) -> None:
    """A pattern lets no other thread run: a word of ten thousand capitals kept the process for most of a second."""
    began = time.thread_time()
    _exact(snapshot, unit * (10_000 // len(unit)), None, Sight.of(snapshot))
    assert time.thread_time() - began < 0.1


def test_a_common_word_is_no_exact_name(snapshot: Snapshot, encoder: Encoder) -> None:
    assert ids(snapshot, encoder, "search when the sun rises in Oslo")[0] == "zoo.getSunrise"


def test_only_the_providers_asked_for(snapshot: Snapshot, encoder: Encoder) -> None:
    assert ids(snapshot, encoder, "public holidays of Norway", 5, ("hr",)) == ["hr.listHolidays"]
    assert ids(snapshot, encoder, "zoo.sendMessage", 5, ("hr",)) == ["hr.listHolidays"]
    assert ids(snapshot, encoder, "public holidays", 5, ("nobody",)) == []


def test_the_budget_holds_and_an_empty_catalogue_answers(snapshot: Snapshot, encoder: Encoder) -> None:
    assert len(ids(snapshot, encoder, "holidays", 100)) == len(APIS)
    assert len(ids(snapshot, encoder, "listHolidays", 1)) == 1
    assert ids(Snapshot.empty(encoder.dimension), encoder, "holidays") == []


@pytest.mark.parametrize("query", ["x", "!!!", "動物園の休日", "a" * 10_000, "the of and", "/", "a b " * 2_500])
def test_any_request_gets_an_answer(snapshot: Snapshot, encoder: Encoder, query: str) -> None:
    assert len(ids(snapshot, encoder, query)) == 3


def test_ties_are_broken_by_id(encoder: Encoder) -> None:
    twins = tuple(api("same", "The very same words", provider=provider) for provider in ("c", "a", "b"))
    twins = tuple(one.model_copy(update={"name": "x", "path": "/x"}) for one in twins)
    snapshot = snapshot_of(tuple(twins), encoder)
    entries = [
        hit.entry.id for hit in find(snapshot, encoder, "words", 3, 0, NO_FILTERS, RankingOptions(dense_weight=0))[1]
    ]
    assert entries == ["a.same", "b.same", "c.same"]


def test_a_snapshot_advances_and_the_old_one_stays_as_it_was(snapshot: Snapshot, encoder: Encoder) -> None:
    changed = (*APIS[1:4], api("sendMessage", "Tell how old a giraffe is", path="/messages", method="POST"))
    after = snapshot_of(changed, encoder, before=snapshot, version=2)
    assert (snapshot.version, snapshot.vectors.size, after.version, after.vectors.size) == (1, 8, 2, 4)
    assert ids(after, encoder, "age of a giraffe", 1) == ["zoo.sendMessage"]
    assert ids(snapshot, encoder, "public holidays of Norway", 1) == ["zoo.listHolidays"]
    assert "zoo.listHolidays" not in ids(after, encoder, "public holidays of Norway", 10)


def test_names_of_outputs_are_searched_whatever_refers_to_whatever() -> None:
    """Sixty definitions that each refer to all sixty, without any property, are walked once each."""
    everything: list[JsonValue] = [{"$ref": f"#/$defs/D{n}"} for n in range(60)]
    definitions: dict[str, Any] = {f"D{n}": {"anyOf": everything} for n in range(60)} | {
        "Last": {"properties": {"seaLevel": {}}}
    }
    answer = ApiResponse(json_schema={"allOf": [*everything, {"type": "array", "items": {"$ref": "#/$defs/Last"}}]})
    one = api("getTide", definitions=definitions, response=answer)
    assert {"sea", "level"} <= set(record(one).lexical.split())


def test_identifiers_become_words() -> None:
    assert spaced("getUserById") == "get User By Id"
    assert spaced("HTTPServer_list-all/{id}") == "HTTP Server list all id"
    assert words("Remind me, reminders") == ["remind", "remind"]
    assert words("The holidays of Île-de-France, cities and parties") == [
        "holiday",
        "ile",
        "de",
        "france",
        "city",
        "party",
    ]


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 12), min_size=1, max_size=5)), max_size=12))
def test_the_flat_index_agrees_with_arithmetic(steps: list[tuple[bool, set[int]]]) -> None:
    chance = np.random.default_rng(1)
    index, expected = FlatIndex(8), dict[int, np.ndarray]()
    for is_upsert, numbers in steps:
        if is_upsert:
            rows = chance.normal(size=(len(numbers), 8)).astype(np.float16).astype(np.float32)  # as they are kept
            index.upsert(as_ids(sorted(numbers)), rows)
            expected |= dict(zip(sorted(numbers), rows, strict=True))
        else:
            index.delete(as_ids(sorted(numbers)))
            expected = {number: row for number, row in expected.items() if number not in numbers}
    query = chance.normal(size=(1, 8)).astype(np.float32)
    for allowed in (None, as_ids([n for n in (1, 3, 5, 7) if n in expected])):
        inside = [n for n in expected if allowed is None or n in allowed]
        best = sorted(inside, key=lambda n: -float(expected[n] @ query[0]))[:3]
        found, _ = index.copy().search(query, 3, allowed)
        assert found[0].tolist() == best
    if expected:
        kept = as_ids(sorted(expected))
        rows = np.stack([expected[int(n)] for n in kept])
        assert np.allclose(index.similarities(query, kept), query @ rows.T, atol=1e-5)
