"""Requests are split into the parts that each ask for one thing, with true offsets and in linear time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine.clauses import MAX_CLAUSES, MAX_SPLIT_CHARS, split_clauses


@pytest.mark.parametrize(
    ("query", "clauses"),
    [
        ("Which public holidays does Portugal have in May 2027?", []),
        ("convert 10 USD to EUR and then send it to Bob", ["convert 10 USD to EUR", "send it to Bob"]),
        ("What is the time and what is the weather in Rome?", ["What is the time", "what is the weather in Rome?"]),
        ("Find my order, cancel the booking; also remind me.", ["Find my order", "cancel the booking", "remind me"]),
        ("First get the code. After that, list its holidays.", ["get the code", "list its holidays"]),
        ("Convert 3.5 km to miles", []),
        ("Ask Dr. Smith about e.g. the airport", []),
        ("Translate 'stop. and then go' into French", []),
        ("the population and area of France", []),
        ("Book a room from next Friday until Sunday", []),
        ("Next week I need a car, cancel the booking", ["Next week I need a car", "cancel the booking"]),
        ("Get the code, next monitor it", ["Get the code", "monitor it"]),
        ("Get the code, next send it to Bob", ["Get the code", "send it to Bob"]),
        ("- book a table\n- call a taxi", ["book a table", "call a taxi"]),
        ("Store the name, email and phone", []),
        ("Book the room. Thanks!", []),
        ("  ", []),
    ],
)  # fmt: skip
def test_splitting(query: str, clauses: list[str]) -> None:
    assert [clause.text for clause in split_clauses(query)] == clauses


@given(
    st.text(max_size=400)
    | st.lists(st.sampled_from(["and", "then", ",", ".", "get", "the", "\n", "'", "x"])).map(" ".join)
)
def test_offsets_are_true_and_clauses_do_not_overlap(query: str) -> None:
    clauses = split_clauses(query)
    assert len(clauses) != 1
    assert len(clauses) <= MAX_CLAUSES
    assert all(query[clause.start : clause.end] == clause.text for clause in clauses)
    assert all(one.end <= two.start for one, two in itertools.pairwise(clauses))


def test_many_clauses_are_bounded_and_lose_nothing() -> None:
    clauses = split_clauses("Get the weather. " * 100)
    assert len(clauses) == MAX_CLAUSES
    assert clauses[-1].text.count("weather") == 100 - MAX_CLAUSES + 1


def test_what_a_request_costs_to_encode_is_bounded() -> None:
    """No clause but the last, of which an encoder reads a bounded part, is of text beyond the limit."""
    query = ("Get the weather of " + "a very " * 50 + "distant city. ") * 40
    clauses = split_clauses(query)
    assert 2 < len(clauses) < MAX_CLAUSES
    assert all(clause.end <= MAX_SPLIT_CHARS for clause in clauses[:-1])
    assert clauses[-1].end == len(query.rstrip(". "))


@pytest.mark.parametrize(
    "piece", ["and ", ", then ", "'", " ", "\n", "a. ", "1) ", "first ", "- ", ",", "after ", '"x']
)
def test_long_requests_end(piece: str) -> None:
    """Whatever backtracks over blanks or quotes would need hours for these."""
    assert len(split_clauses(piece * 300_000 + "x")) <= MAX_CLAUSES
