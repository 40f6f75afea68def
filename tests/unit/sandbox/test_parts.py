"""Properties of the parts below the endpoints."""

import contextlib
import math
from decimal import Decimal

import pytest
from fastapi import Response
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sandbox.domains.currencies import round_money
from sandbox.errors import NotFound, StorageFull, Unprocessable, clean
from sandbox.geodesy import EARTH_RADIUS_KM, Point, distance_km, initial_bearing
from sandbox.paging import slice_by_cursor
from sandbox.reference import Reference, fold, match_rank
from sandbox.state import Collection, Counters, IdempotencyLedger, TokenStore

points = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


class Item(BaseModel):
    id: str = ""
    value: int = 0


@given(points, points)
def test_distance_is_a_metric_on_the_sphere(start: Point, end: Point) -> None:
    there = distance_km(start, end)
    assert 0 <= there <= math.pi * EARTH_RADIUS_KM + 1e-6
    assert there == pytest.approx(distance_km(end, start), abs=1e-6)
    assert distance_km(start, start) == 0
    assert 0 <= initial_bearing(start, end) < 360


@given(st.lists(st.integers(), max_size=60), st.integers(1, 20))
def test_following_cursors_gives_every_item_once(items: list[int], limit: int) -> None:
    seen: list[int] = []
    cursor: str | None = None
    for _ in range(len(items) + 1):
        part, cursor = slice_by_cursor(items, cursor, limit)
        seen += part
        if cursor is None:
            break
    assert cursor is None
    assert seen == items


@given(st.text(alphabet="ABCDabcd0123_-", min_size=1, max_size=30))
def test_a_foreign_cursor_is_refused_or_reads_as_a_position(cursor: str) -> None:
    with contextlib.suppress(Unprocessable):
        slice_by_cursor([1, 2, 3], cursor, 2)


@given(st.text())
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_matches_are_ranked() -> None:
    assert [match_rank("niger", name) for name in ("niger", "nigeria", "the niger", "chad")] == [0, 1, 2, None]


@given(st.text(alphabet=st.characters(), max_size=50))
def test_clean_text_can_be_sent(text: str) -> None:
    clean(text).encode("utf-8")


def test_lone_surrogates_are_cleaned() -> None:
    assert clean("a\ud800b") == "a?b"


def test_rates_read_both_ways() -> None:
    rates = Reference().rates
    assert rates.day.isoformat() == "2026-10-30"
    assert rates.rate("EUR", "USD") == Decimal("1.1172")
    assert float(rates.rate("USD", "JPY") * rates.rate("JPY", "USD")) == pytest.approx(1)
    with pytest.raises(NotFound):
        rates.rate("EUR", "XXX")


def test_money_is_rounded_to_minor_units() -> None:
    assert round_money(Decimal("2.345"), "EUR") == 2.34
    assert round_money(Decimal("2.5"), "JPY") == 2
    assert round_money(Decimal("2.3456"), "BHD") == 2.346


def test_a_collection_keeps_its_cap() -> None:
    items = Collection[Item]("item", "it", 2, seed=[Item(id="it_1")])
    made = items.add(lambda identifier: Item(id=identifier))
    assert made.id == "it_2"
    items.add(lambda identifier: Item(id=identifier))
    with pytest.raises(StorageFull):
        items.add(lambda identifier: Item(id=identifier))
    items.remove("it_2")
    assert items.add(lambda identifier: Item(id=identifier)).id == "it_4"  # ids are never used twice
    with pytest.raises(NotFound):
        items.get("it_2")


def test_the_ledger_forgets_the_oldest_key() -> None:
    ledger = IdempotencyLedger(2)
    calls: list[str] = []

    def send(key: str) -> None:
        ledger.once("op", key, Item(), Response(), lambda: calls.append(key) or Item())  # type: ignore[func-returns-value]

    for key in ("a", "b", "b", "c", "a"):
        send(key)
    assert calls == ["a", "b", "c", "a"]


def test_a_replay_is_the_first_answer_even_after_changes() -> None:
    ledger = IdempotencyLedger(2)
    first = ledger.once("op", "k", Item(value=1), Response(), lambda: Item(id="one"))
    response = Response()
    assert ledger.once("op", "k", Item(value=1), response, lambda: Item(id="two")) is first
    assert response.headers["idempotent-replayed"] == "true"
    with pytest.raises(Unprocessable):
        ledger.once("op", "k", Item(value=2), Response(), lambda: Item(id="three"))


def test_tokens_expire_and_are_capped() -> None:
    now = 0.0
    store = TokenStore(10, 2, lambda: now)
    first, second, third = (store.issue(frozenset({str(number)})) for number in range(3))
    assert store.find(first) is None
    grant = store.find(second)
    assert grant is not None
    assert grant.scopes == {"1"}
    now = 10.0
    assert store.find(third) is None


def test_counters_are_capped() -> None:
    counters = Counters(2)
    assert [counters.next(key)[0] for key in ("a", "a", "b", "c", "a")] == [1, 2, 1, 1, 1]
