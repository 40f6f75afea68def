"""What is to be changed must be what a plan changes."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.proving.wrong_target import Vocabulary, wrong_change_reason
from services.contracts.api import Location
from tests.unit.planner_svc.building import api, param, plan, step

CANCEL = api("cancel_order", param("id", required=True, at=Location.PATH), method="DELETE", path="/orders/{id}")


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("close my account 77", True),
        ("cancel my order 77", False),
        ("cancel 77", False),
        ("is my account closed?", False),
        ('change it: deleted "no", account "77"', False),
    ],
)
def test_another_thing_is_not_removed(query: str, refused: bool) -> None:
    assert bool(wrong_change_reason(query, plan(step("a", "cancel_order", id="77")), {CANCEL.id: CANCEL})) is refused


SHOW = api("get_order", param("id", required=True, at=Location.PATH), method="GET", path="/orders/{id}")


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("delete order 77", True),
        ("Could you please remove my order 77?", True),
        ("show order 77", False),
        ("delete what is in order 77 and show it", False),
        ("was order 77 deleted?", False),
    ],
)
def test_to_show_a_thing_is_not_to_remove_it(query: str, refused: bool) -> None:
    assert bool(wrong_change_reason(query, plan(step("a", "get_order", id="77")), {SHOW.id: SHOW})) is refused


def test_a_word_of_the_operation_asks_for_no_removal() -> None:
    price = api("get_price", param("id", required=True, at=Location.PATH), path="/close/{id}", method="GET")
    assert not wrong_change_reason("close price 77", plan(step("a", "get_price", id="77")), {price.id: price})


NOTE = api(
    "updateSubscription",
    param("id", required=True, at=Location.PATH),
    param("status", {"type": "string", "enum": ["active", "on_hold"]}),
    method="PATCH",
    path="/subscriptions/{id}",
)
BOOK = api("createBooking", param("room", required=True), method="POST", path="/bookings")


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("pause my subscription 5", "pause “subscription”"),
        ("Could you please suspend subscription 5?", "suspend “subscription”"),
        ("Can we put subscription 5 on hold?", "put “subscription”"),
        ("would you mind freezing card 5?", "freezing “card”"),
        ("freeze card 5", "freeze “card”"),
        ("get rid of account 5", "get “account”"),
        ("refund order 5", "refund “order”"),
        ("please ship my order 5 tomorrow", "ship “order”"),
        ("get rid of order 5", ""),
        ("throw out order 5", ""),
        ("call off my order 5", ""),
        ("scrap order 5", ""),
        ("order 5 has to go", ""),
        ("refund order 5 and cancel order 6", ""),
        ("my subscription bores me, so end order 5", ""),
        ("5", ""),
    ],
)
def test_only_what_an_operation_has_words_for_is_done(query: str, refused: str) -> None:
    reason = wrong_change_reason(query, plan(step("a", "cancel_order", id="5")), {CANCEL.id: CANCEL})
    assert (f"asks to {refused}." in reason) if refused else not reason


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("pause my subscription 5", False),  # an update may do anything to its thing
        ("put plan 5 on hold", False),  # an option's word
        ("freeze card 5", True),
        ("Add a note, and freeze the card", True),
        ("freeze a card", False),  # no certain thing
    ],
)
def test_an_update_may_do_anything_to_its_own_thing(query: str, refused: bool) -> None:
    subject = plan(step("a", "updateSubscription", id="5", status="on_hold"))
    assert bool(wrong_change_reason(query, subject, {NOTE.id: NOTE})) is refused


def test_a_thing_that_is_a_value_of_the_plan_is_covered() -> None:
    taken = plan(step("a", "createBooking", room="atrium"))
    assert wrong_change_reason("take my atrium 5", taken, {BOOK.id: BOOK}) == ""
    assert wrong_change_reason("take my canteen 5", taken, {BOOK.id: BOOK})


def alike(one: str, other: str) -> bool:
    """What two words that are alike are, said plainly."""
    short, long = sorted((one, other), key=len)
    ends = len(long) - len(short) < 2 and long.startswith(short[:-1])
    return one == other or (len(short) >= 4 and (long.startswith(short) or ends))


WORDS = st.text("ab", max_size=8)


@given(WORDS, st.frozensets(WORDS, max_size=6))
def test_a_vocabulary_has_what_is_like_one_of_its_words(word: str, known: frozenset[str]) -> None:
    assert (word in Vocabulary(known)) == any(alike(word, other) for other in known)


def test_a_vocabulary_looks_at_few_of_its_words() -> None:
    """Each word of a request would be compared with all that begin alike."""
    looked = itertools.count()

    class Noting(str):
        __slots__ = ()

        def startswith(self, *args: Any) -> bool:
            next(looked)
            return super().startswith(*args)

        def __getitem__(self, part: Any) -> "Noting":
            return Noting(super().__getitem__(part))

    known = Vocabulary([Noting(f"abc{number}") for number in range(5_000)])
    assert not any(f"abcd{number}x" in known for number in range(600))
    assert next(looked) <= 600
