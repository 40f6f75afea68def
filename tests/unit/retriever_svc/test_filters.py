"""Filters against the same rules in plain Python, and what they and pins do to a search."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retriever_svc.engine.filters import NO_FILTERS, Filters, within
from retriever_svc.engine.labels import TAGS
from retriever_svc.engine.ranking import RankingOptions, find, reasons_of
from retriever_svc.engine.saving import SnapshotFiles
from retriever_svc.engine.scoring import candidates, prepare_query
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import record
from retriever_svc.engine.vectors import as_ids, open_indexes
from retriever_svc.models import Entry, Hit, Listing
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.contracts.retrieval import Clause
from services.encoder import Encoder
from tests.unit.retriever_svc.catalogue import api

DIMENSION = 4
TENANTS = ("red", "blue", "default")
ENTRIES = st.lists(
    st.builds(
        Entry,
        number=st.just(0),
        id=st.from_regex(r"[a-cA-C]{1,3}", fullmatch=True),
        provider=st.sampled_from(("zoo", "hr", "shop")),
        name=st.just("op"),
        method=st.sampled_from(("GET", "POST", "REPORT")),
        path=st.just("/"),
        summary=st.just(""),
        content_hash=st.just(""),
        text_hash=st.just("one"),
        lexical=st.just("words"),
        tags=st.lists(st.sampled_from(("Animals", "animals ", "Straße", "x", "y", "z\n")), max_size=5).map(tuple),
        deprecated=st.booleans(),
        tenants=st.lists(st.sampled_from(TENANTS), unique=True, max_size=2).map(tuple),
    ),
    unique_by=lambda one: one.id,
    max_size=12,
)
FILTERS = st.builds(
    Filters,
    providers=st.lists(st.sampled_from(("zoo", "hr", "nobody")), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(("ANIMALS", "strasse", "z", "nothing")), max_size=2).map(tuple),
    methods=st.lists(st.sampled_from(("GET", "REPORT", "PUT")), max_size=2).map(tuple),
    deprecated=st.booleans(),
    tenant=st.none() | st.sampled_from((*TENANTS, "nobody")),
    pinned=st.lists(st.from_regex(r"[a-cA-C]{1,2}", fullmatch=True), max_size=4).map(tuple),
)


def snapshot_of(entries: list[Entry], before: Snapshot | None = None) -> Snapshot:
    listing = Listing(1, tuple(sorted(entries, key=lambda one: one.id)))
    vectors = {one.text_hash: np.full(DIMENSION, 0.5, np.float32) for one in entries}
    return (before or Snapshot.empty(DIMENSION)).advance(listing, vectors)


def numbered(entries: list[Entry]) -> list[Entry]:
    return [Entry(number, *[getattr(one, name) for name in Entry.__slots__[1:]]) for number, one in enumerate(entries)]


def is_theirs(one: Entry, filters: Filters) -> bool:
    return filters.tenant is None or not one.tenants or filters.tenant in one.tenants


def passes(one: Entry, filters: Filters) -> bool:
    """The rules of docs/retrieval.md, one API at a time."""
    wanted, tags = ({tag.strip().casefold() for tag in some} for some in (filters.tags, one.tags))
    return is_theirs(one, filters) and (
        one.id in filters.pinned
        or (
            (not filters.providers or one.provider in filters.providers)
            and (not filters.methods or one.method in filters.methods)
            and (not wanted or bool(wanted & tags))
            and (filters.deprecated or not one.deprecated)
        )
    )


def allowed_ids(snapshot: Snapshot, filters: Filters) -> list[str]:
    positions = filters.allowed(snapshot)
    ids = list(snapshot.entries.ids)
    return ids if positions is None else [ids[position] for position in positions.tolist()]


@given(ENTRIES, FILTERS)
@example([], Filters(tags=("x",), methods=("GET",), deprecated=False, tenant="red", pinned=("a",)))
def test_a_mask_is_the_rules_in_plain_python(entries: list[Entry], filters: Filters) -> None:
    entries = numbered(entries)
    snapshot = snapshot_of(entries)
    assert allowed_ids(snapshot, filters) == sorted(one.id for one in entries if passes(one, filters))
    there = {one.id for one in entries if is_theirs(one, filters)}
    pins = [snapshot.entries.ids[position] for position in filters.pinned_positions(snapshot)]
    assert pins == [key for key in dict.fromkeys(filters.pinned) if key in there]


@given(ENTRIES, ENTRIES, FILTERS)
def test_filters_follow_the_catalogue(before: list[Entry], after: list[Entry], filters: Filters) -> None:
    followed = snapshot_of(numbered(after), before=snapshot_of(numbered(before)))
    assert allowed_ids(followed, filters) == sorted(one.id for one in after if passes(one, filters))


def test_filters_are_saved_with_the_snapshot(tmp_path: Path) -> None:
    entry = Entry(1, "a.b", "a", "b", "POST", "/b", "", "", "one", "words")
    restricted = Entry(
        2, "a.c", "a", "c", "GET", "/c", "", "", "one", "words", tags=("x",), deprecated=True, tenants=("red",)
    )
    files, indexes = SnapshotFiles(tmp_path, DIMENSION), open_indexes("flat", "someone", DIMENSION)
    files.save(snapshot_of([entry, restricted]), "someone")
    loaded = files.load("someone", indexes)
    assert loaded is not None
    assert allowed_ids(loaded, Filters(tags=("X",))) == ["a.c"]
    assert allowed_ids(loaded, Filters(methods=("POST",))) == ["a.b"]
    assert allowed_ids(loaded, Filters(deprecated=False)) == ["a.b"]
    assert allowed_ids(loaded, Filters(tenant="blue")) == ["a.b"]
    assert allowed_ids(loaded, Filters(tenant="red")) == ["a.b", "a.c"]


@given(st.lists(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_a_few_positions_among_many(positions: list[int], allowed: set[int]) -> None:
    assert within(positions, as_ids(sorted(allowed))) == [place for place in positions if place in allowed]


def test_an_api_is_found_by_its_first_tags() -> None:
    tags = tuple(f"t{number}" for number in range(TAGS + 1))
    snapshot = snapshot_of([Entry(1, "a.b", "a", "b", "GET", "/b", "", "", "one", "words", tags=tags)])
    assert allowed_ids(snapshot, Filters(tags=(tags[TAGS - 1],))) == ["a.b"]
    assert allowed_ids(snapshot, Filters(tags=(tags[TAGS],))) == []


# --- with the real encoder -------------------------------------------------------------------------------------------

CODE = ApiResponse(json_schema={"type": "object", "properties": {"country": {"description": "code of the country"}}})
COUNTRY = Parameter(
    name="country", wire_name="country", location=Location.QUERY, required=True, description="code of the country",
    json_schema={"type": "string", "pattern": "^[A-Z]{2}$"},
)  # fmt: skip
NAME = Parameter(name="name", wire_name="name", location=Location.QUERY, required=True, json_schema={"type": "string"})
APIS = (
    api("listHolidays", "Public holidays of a country", path="/holidays", tags=("Calendar",), parameters=(COUNTRY,)),
    api("oldHolidays", "Public holidays of a country", path="/v1/holidays", tags=("Calendar",), deprecated=True),
    api("sendMessage", "Send a text message to a person", path="/messages", method="POST", tags=("talk",)),
    api("findCountry", "Look up an ISO entry", path="/iso", tags=("codes",), response=CODE, parameters=(NAME,)),
    api("holidaysTaken", "Public holidays that employees have taken", provider="hr", path="/leave", tenants=("red",)),
)


@pytest.fixture(scope="module")
def catalogue(encoder: Encoder) -> Snapshot:
    return snapshot_with(APIS, encoder)


def snapshot_with(apis: Sequence[Api], encoder: Encoder) -> Snapshot:
    records = [record(one) for one in apis]
    rows = encoder.encode([new.embedded for new in records])
    vectors = dict(zip([new.text_hash for new in records], rows, strict=True))
    entries = [_entry(number, one) for number, one in enumerate(apis)]
    listing = Listing(1, tuple(sorted(entries, key=lambda entry: entry.id)))
    return Snapshot.empty(encoder.dimension).advance(listing, vectors)


def _entry(number: int, one: Api) -> Entry:
    new = record(one)
    return Entry(
        number, one.id, one.provider, one.name, one.method, one.path, one.summary, one.content_hash, new.text_hash,
        new.lexical, new.inputs, new.outputs, new.open, one.tags, one.deprecated, one.tenants,
    )  # fmt: skip


def hits(
    catalogue: Snapshot, encoder: Encoder, query: str, filters: Filters = NO_FILTERS, k: int = 10, suppliers: int = 0
) -> list[Hit]:
    return find(catalogue, encoder, query, k, suppliers, filters, RankingOptions())[1]


HOLIDAYS = "Which public holidays are there in Norway?"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(tags=("calendar",)), {"zoo.listHolidays", "zoo.oldHolidays"}),
        (Filters(tags=("calendar",), deprecated=False), {"zoo.listHolidays"}),
        (Filters(methods=("POST",)), {"zoo.sendMessage"}),
        (Filters(providers=("hr",)), {"hr.holidaysTaken"}),
        (Filters(providers=("hr",), tenant="blue"), set()),
        (Filters(tags=("no such tag",)), set()),
        (Filters(methods=("POST",), pinned=("zoo.oldHolidays",)), {"zoo.sendMessage", "zoo.oldHolidays"}),
        (Filters(tags=("no such tag",), pinned=("zoo.oldHolidays", "zoo.none")), {"zoo.oldHolidays"}),
        (Filters(tenant="blue", pinned=("hr.holidaysTaken",), methods=("PUT",)), set()),
    ],
)
def test_only_what_passes_is_found(catalogue: Snapshot, encoder: Encoder, filters: Filters, expected: set[str]) -> None:
    assert {hit.entry.id for hit in hits(catalogue, encoder, HOLIDAYS, filters)} == expected


def test_another_tenants_api_is_not_found_by_its_name(catalogue: Snapshot, encoder: Encoder) -> None:
    for query in ("hr.holidaysTaken", "/leave", "call holidaysTaken of hr"):
        assert hits(catalogue, encoder, query, Filters(tenant="red"))[0].entry.id == "hr.holidaysTaken"
        found = hits(catalogue, encoder, query, Filters(tenant="blue"), suppliers=10)
        assert "hr.holidaysTaken" not in {hit.entry.id for hit in found}


def test_pins_come_first_in_their_order_and_within_the_budget(catalogue: Snapshot, encoder: Encoder) -> None:
    filters = Filters(pinned=("zoo.sendMessage", "nobody.knows", "hr.holidaysTaken", "zoo.sendMessage"))
    found = hits(catalogue, encoder, HOLIDAYS, filters, k=3)
    assert [hit.entry.id for hit in found[:2]] == ["zoo.sendMessage", "hr.holidaysTaken"]
    assert len(found) == 3
    assert found[0].score < found[2].score  # a pin keeps the score it has
    assert [hit.entry.id for hit in hits(catalogue, encoder, HOLIDAYS, filters, k=1)] == ["zoo.sendMessage"]


def test_suppliers_pass_the_filters(catalogue: Snapshot, encoder: Encoder) -> None:
    def supplying(filters: Filters) -> list[str]:
        found = hits(catalogue, encoder, "zoo.listHolidays", filters, k=1, suppliers=5)
        return [hit.entry.id for hit in found if hit.role == "supplier"]

    assert supplying(NO_FILTERS) == ["zoo.findCountry"]
    assert supplying(Filters(tags=("calendar", "codes"))) == ["zoo.findCountry"]
    assert supplying(Filters(tags=("calendar",))) == []


def test_every_hit_says_what_found_it(catalogue: Snapshot, encoder: Encoder) -> None:
    query = "Use zoo.listHolidays for Norway"
    found = {
        hit.entry.id: hit.found_by
        for hit in hits(catalogue, encoder, query, Filters(pinned=("zoo.sendMessage",)), k=2, suppliers=5)
    }
    assert found == {
        "zoo.sendMessage": "pinned",
        "zoo.listHolidays": "exact_name",
        "zoo.findCountry": "supplier",
    }


def test_what_counts_more_for_the_score_is_said_to_have_found_it(catalogue: Snapshot, encoder: Encoder) -> None:
    for query in (HOLIDAYS, "tell Ola that I am late", "ISO"):
        for hit in find(catalogue, encoder, query, 10, 0, NO_FILTERS, RankingOptions(dense_weight=0.6))[1]:
            by_meaning = 0.6 * hit.dense >= 0.4 * hit.lexical
            assert hit.found_by == ("meaning" if by_meaning else "words") or hit.found_by == "exact_name"
    only_words = find(catalogue, encoder, HOLIDAYS, 1, 0, NO_FILTERS, RankingOptions(dense_weight=0))[1]
    assert [hit.found_by for hit in only_words] == ["words"]
    only_meaning = find(catalogue, encoder, HOLIDAYS, 1, 0, NO_FILTERS, RankingOptions(dense_weight=1))[1]
    assert [hit.found_by for hit in only_meaning] == ["meaning"]


def test_an_api_that_only_its_provider_speaks_for(encoder: Encoder) -> None:
    """With a depth of one only the nearest APIs are near; the others are looked at because their provider is meant."""
    apis = [api(f"op{number}", f"Holidays of year {number}", path=f"/op{number}") for number in range(6)]
    snapshot = snapshot_with(apis, encoder)
    query = Clause(text="Holidays of year 3", start=0, end=18)
    prepared = prepare_query(snapshot, encoder, (query,), 1, None)
    scores = candidates(prepared, [], 0.6, 0.4)
    reasons = reasons_of(prepared, scores, [], [], 0.6)
    near = prepared.near.tolist()
    assert len(scores.positions) == 6 > len(near) > 0
    for position, reason in zip(scores.positions.tolist(), reasons, strict=True):
        assert (reason == "provider") == (position not in near)
