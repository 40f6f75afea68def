"""Conditions in a request."""

import time

import pytest

from planner_svc.reading.conditions import CONDITION


@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("cancel it if it is late", "late"),
        ("cancel it if  the bird   weighs  more than 5 kg", "more than 5 kg"),
        ("cancel it unless they agree", "agree"),
        ("see if it is late", None),
    ],
)
def test_the_state_of_a_condition(query: str, state: str | None) -> None:
    found = CONDITION.search(query)
    assert (found and found["state"]) == state


@pytest.mark.parametrize("query", ["if" + " " * 3_000, ("if" + " " * 50) * 60, "if a" + " " * 3_000])
def test_thousands_of_spaces_are_read_at_once(query: str) -> None:
    began = time.process_time()
    assert CONDITION.search(query) is None
    assert time.process_time() - began < 1
