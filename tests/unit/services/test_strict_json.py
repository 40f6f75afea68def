"""`loads_strict` gives the value the bytes stand for, or InvalidRequest, and nothing else."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.errors import InvalidRequest
from services.http import loads_strict

DEPTH = 20
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(st.binary())
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b'"\\ud800"')
@example(b"1e999")
@example(b"-" + b"9" * 5_000)
@example(b"[" * 1_000_000)
@example(b"[" * 3 + b"9" * 20 + b"]" * 3)
@example(b"NaN")
def test_any_bytes_are_a_value_or_refused(body: bytes) -> None:
    try:
        value = loads_strict(body, max_depth=DEPTH)
    except InvalidRequest:
        return
    assert json.loads(body) == value


@given(VALUES, st.booleans())
@example(2**63, True)
@example(2**64, True)
@example([-(2**63) - 1, 1.0], False)
@example({"id": 123456789012345678901234567890}, True)
def test_valid_json_is_read_as_the_standard_library_reads_it(value: Any, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    if depth(value) > DEPTH:
        with pytest.raises(InvalidRequest, match="nested deeper"):
            loads_strict(body, max_depth=DEPTH)
        return
    read = loads_strict(body, max_depth=DEPTH)
    assert read == value
    assert repr(read) == repr(json.loads(body))  # also the types: 1 is not 1.0, nor True


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_without_a_value_are_refused(number: str) -> None:
    with pytest.raises(InvalidRequest):
        loads_strict(f'{{"a": [{number}]}}'.encode(), max_depth=DEPTH)


def test_a_number_of_many_digits_is_read_exactly_or_refused() -> None:
    assert loads_strict(b"9" * 300, max_depth=DEPTH) == int("9" * 300)
    with pytest.raises(InvalidRequest, match="infinity"):
        loads_strict(b"9" * 400, max_depth=DEPTH)
    assert math.isclose(loads_strict(b"0." + b"3" * 5_000, max_depth=DEPTH), 1 / 3)


@pytest.mark.parametrize("allowed", [1, 2, 64, 500])
def test_the_depth_is_counted_exactly(allowed: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        assert loads_strict(opening * (allowed - 1) + b"[]" + closing * (allowed - 1), max_depth=allowed) is not None
        with pytest.raises(InvalidRequest, match=f"deeper than {allowed} levels"):
            loads_strict(opening * allowed + b"[]" + closing * allowed, max_depth=allowed)


@pytest.mark.parametrize(
    "body", [b"[" + b"[]," * 40 + b"[]]", b'{"a": [' + b"0," * 50 + b"0]}", b"[" + b"{}," * 50 + b"0]"]
)
def test_values_are_counted_before_they_are_made(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loads_strict(body, max_depth=DEPTH, max_values=200) == json.loads(body)
    monkeypatch.delattr("services.http.orjson.loads")  # not even called
    with pytest.raises(InvalidRequest, match="more than 40 values"):
        loads_strict(body, max_depth=DEPTH, max_values=40)


CONFUSING = st.text(alphabet='a",\\[{0') | st.integers()


@given(st.recursive(CONFUSING, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)))
def test_what_stands_in_strings_is_no_value(value: Any) -> None:
    """In pieces of any size, all values are counted, and no comma or bracket of a string."""
    body = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.http._LARGE", 3)
        assert loads_strict(body, max_depth=DEPTH, max_values=2 * _values(value)) == value
        with pytest.raises(InvalidRequest):
            loads_strict(body, max_depth=DEPTH, max_values=_values(value) - 1)


@pytest.mark.parametrize("length", [19, 40, 200])
def test_a_long_number_is_found_across_pieces(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.http._LARGE", 7)
    number = int("9" * length)
    assert loads_strict(b'["a", %d, "b"]' % number, max_depth=DEPTH) == ["a", number, "b"]


def _values(value: Any) -> int:
    if isinstance(value, list):
        return 1 + sum(map(_values, value))
    return 1 + sum(map(_values, value.values())) if isinstance(value, dict) else 1
