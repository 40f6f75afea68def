"""What is to be removed must be what a plan removes."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.proving.wrong_target import Vocabulary, wrong_removal_reason
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
    assert bool(wrong_removal_reason(query, plan(step("a", "cancel_order", id="77")), {CANCEL.id: CANCEL})) is refused


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
