"""What of a request may be a value: kinds, values, units."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.reading.numbers import number
from planner_svc.reading.readings import number_in
from planner_svc.reading.text import shape, split_name, stem, stems
from planner_svc.reading.values import Span, find_spans, number_in_context

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


def spans(text: str, *kinds: str) -> list[Span]:
    """The spans of these kinds."""
    return [span for span in find_spans(text, NOW) if span.kind in kinds]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("1,234,567.5", 1234567.5),
        ("-74.006", -74.006),
        ("twenty-five", 25),
        ("two hundred and five", 205),
        ("3 million", 3_000_000),
        ("1.5k", 1500),
        ("a dozen", None),
        ("two dozen", 24),
        ("dozen", 12),
        ("twelvish", None),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ('Rename it to "Blue Train"', "quoted", "Blue Train"),
        ("Write to ann.lee@example.org today", "email", "ann.lee@example.org"),
        ("Shorten https://example.com/a?b=1.", "url", "https://example.com/a?b=1"),
        ("Call +351 21 123 4567 now", "phone", "+351 21 123 4567"),
        ("Track parcel PX-20931, please", "code", "PX-20931"),
        ("Where is shelf_12?", "code", "shelf_12"),
        ("Is NL91 ABNA 0417 1643 00 valid", "code", "NL91 ABNA 0417 1643 00"),
        ("How many words has this text: The cat sat", "quoted", "The cat sat"),
    ],
)
def test_kinds(text: str, kind: str, value: str) -> None:
    assert value in [span.value for span in spans(text, kind)]


def test_a_number_knows_its_unit() -> None:
    assert [(s.value, s.unit) for s in spans("12 boxes and 3.5 degrees Celsius", "number")] == [
        (12, stem("boxes")),
        (3.5, stem("Celsius")),
    ]


def test_compass_points_sign_coordinates() -> None:
    found = spans("the point 48.2 north, 16.37 west", "number")
    assert [(s.value, s.unit) for s in found] == [(48.2, stem("latitude")), (-16.37, stem("longitude"))]


def test_number_words_that_point_back_count_nothing() -> None:
    assert not spans("add the two together, all three", "number")
    assert [s.value for s in spans("ship one AB-12", "number")] == [1]


def test_nothing_inside_quotes_is_a_value_of_its_own() -> None:
    assert not spans('note "delete order 12 on 2027-01-01"', "number", "moment", "code")


@given(st.text(max_size=400))
def test_any_text_can_be_searched(text: str) -> None:
    for span in find_spans(text, NOW):
        assert 0 <= span.start < span.end <= len(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [("countries", "country"), ("boxes", "box"), ("feet", "foot"), ("shipped", "ship"), ("litres", "liter")],
)
def test_stems_meet(left: str, right: str) -> None:
    assert stem(left) == stem(right)


def test_names_are_split_and_shapes_compared() -> None:
    assert split_name("countryCode") == split_name("country_code") == ["country", "code"]
    assert shape("PX-20931") == shape("AB-1") == "A-9"
    assert stems("Which of the branches are open?") == [stem("branch"), stem("open")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("€23,50", 23.5),
        ("23,5 kg", 23.5),
        ("1.234,50", 1234.5),
        ("1,234", 1234),
        ("1,234.50", 1234.5),
        ("1,2,3", None),
        ("23,", None),
    ],
)
def test_a_comma_before_one_or_two_digits_is_a_decimal_one(text: str, value: float | None) -> None:
    assert number_in(text) == value


@pytest.mark.parametrize(
    ("text", "said", "words", "value"),
    [
        ("log one and a half hours", "one", ("hour",), 1.5),
        ("log 2 and a quarter hours", "2", ("hour",), 2.25),
        ("64.13 N 21.9 W", "21.9", ("lon",), -21.9),
        ("64.13 N 21.9 W", "64.13", ("latitud",), 64.13),
        ("21.9 west", "21.9", ("longitud",), -21.9),
        ("21.9 W", "21.9", ("power",), 21.9),
    ],
)
def test_the_words_after_a_number_count(text: str, said: str, words: tuple[str, ...], value: float) -> None:
    start = text.index(said)
    read = number_in(said)
    assert read is not None
    assert number_in_context(text, start, start + len(said), words, read) == value
