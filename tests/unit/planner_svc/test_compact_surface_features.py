"""What a request's words look like."""

import numpy as np
import pytest

from planner_svc.backends.compact.boundaries import plausible
from planner_svc.backends.compact.surface_features import (
    SURFACE_FEATURES,
    codes,
    quotations,
    sentence_ends,
    surface_features_of,
)

NAMES = ("capital", "capitals", "digit", "code", "quoted", "opens", "first", "last", "within")


def told(query: str, word: str) -> set[str]:
    """What is said of one word, read as one token."""
    start = query.index(word)
    (row,) = surface_features_of(query, [(start, start + len(word))])
    assert len(row) == SURFACE_FEATURES == len(NAMES)
    return {name for name, value in zip(NAMES, row, strict=True) if value}


def test_words_are_told_by_their_look() -> None:
    query = "Find Alice in NASA. Then mail 'the big one' to order_17, 42 times"
    assert told(query, "Find") == {"capital", "opens"}
    assert told(query, "Alice") == {"capital"}
    assert told(query, "NASA") == {"capital", "capitals"}
    assert told(query, "Then") == {"capital", "opens"}
    assert told(query, "the") == {"quoted", "first"}
    assert told(query, "one") == {"quoted", "last"}
    assert told(query, "order_17") == {"digit", "code"}
    assert told(query, "42") == {"digit"}
    assert told(query, "times") == set()


def test_a_part_of_a_word_knows_the_whole_word() -> None:
    whole, part = surface_features_of("use iPhone now", [(4, 6), (6, 10)])
    assert whole[NAMES.index("code")] == part[NAMES.index("code")] == 1
    assert (whole[NAMES.index("within")], part[NAMES.index("within")]) == (0, 1)


def test_special_tokens_look_like_nothing() -> None:
    assert not surface_features_of("Find it", [(0, 0), (7, 7)]).any()
    assert surface_features_of("", [(0, 0)]).shape == (1, SURFACE_FEATURES)


def test_quotations_and_sentences() -> None:
    query = "Say \u201cHi. You\u201d to Bob's friend. Then stop.\nNow"
    assert [query[slice(*place)] for place in quotations(query)] == ["Hi. You"]
    assert [query[at:].split()[0] for at in sentence_ends(query)] == ["Then", "Now"]
    assert sentence_ends("Order two for St. Agnes and Dr. Miller") == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("errors in log 7f3c1d50-checkout, from 3 March 2026 08:00", ["7f3c1d50-checkout"]),
        (
            "under /content/acme/nl and with K3y!store9. For a@b.example?",
            ["/content/acme/nl", "K3y!store9", "a@b.example"],
        ),
        ("merge JVBERi0xLjQKMQ== and (https://x.example/a,b)", ["JVBERi0xLjQKMQ==", "https://x.example/a"]),
        ("key=abc12def name=x on 0x9c1f0d6b2e", ["abc12def", "0x9c1f0d6b2e"]),
        ("20x30cm 3-bedroom 10am-2pm 5km/h 2h30m Q3-2025 A4 8D 100k 24/7 and/or 2026-06-01T00:00:00Z KT-1290", []),
    ],
)
def test_codes(query: str, found: list[str]) -> None:
    assert [query[start:end] for start, end in codes(query)] == found


def test_a_part_of_a_code_is_no_value() -> None:
    query = "log 7f3c1d50-ab here"
    offsets = [(0, 0), (0, 3), (4, 12), (12, 13), (13, 15), (16, 20), (0, 0)]
    likely = plausible(query, offsets)
    assert likely[2, 4] == likely[1, 4] == likely[2, 5] == likely[1, 5] == 1
    assert {float(likely[span]) for span in ((2, 2), (4, 4), (1, 2), (4, 5))} == {0}


def test_no_value_starts_within_a_word() -> None:
    query = "Disable app 5GB"
    likely = plausible(query, [(0, 2), (2, 7), (8, 11), (12, 13), (13, 15)])
    assert {float(likely[1, at]) for at in range(1, 5)} == {0}
    assert [float(likely[at, at]) for at in (0, 2, 3, 4)] == [1, 1, 1, 1]


def test_any_characters_can_be_looked_at() -> None:
    query = "\u200b'\"`\u2028 ß😀 '' \x00" * 30
    assert np.isfinite(surface_features_of(query, [(at, at + 1) for at in range(len(query))])).all()
