"""Answers: typed values, or the reason why not."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor_svc.adapters.http.response import MAX_DEPTH, BadResponse, decode, decode_error, parse_json
from tests.support.executing import api


def decoded(
    body: bytes, content_type: str, promised: str | None = "application/json", status: int = 200, method: str = "GET"
) -> Any:
    return decode(api("http://x", answers=promised, method=method), status, content_type, body)


@pytest.mark.parametrize(
    ("body", "content_type", "promised", "value"),
    [
        (b'{"a":1}', "application/json; charset=utf-8", "application/json", {"a": 1}),
        (b"[1]", "application/vnd.api+json", "application/json", [1]),
        (b"[1]", "text/plain", "application/json", [1]),
        (b"[1]", "", "application/json", [1]),
        (b"[1]", "APPLICATION/JSON", None, [1]),
        (b"\xef\xbb\xbf1", "application/json", None, 1),
        (b"18446744073709551617", "application/json", None, 2**64 + 1),
        ("grüß".encode(), "text/plain", "text/plain", "grüß"),
        ("grüß".encode("latin-1"), "text/plain; charset=ISO-8859-1", "text/plain", "grüß"),
        (b"<a/>", "application/xml", "application/xml", "<a/>"),
        (b"\x00\x01", "image/png", "image/png", {"media_type": "image/png", "base64": "AAE="}),
        (b"\x00\x01", "image/webp", "image/*", {"media_type": "image/webp", "base64": "AAE="}),
        (b"", "text/plain", "text/plain", ""),
    ],
)
def test_values(body: bytes, content_type: str, promised: str | None, value: Any) -> None:
    assert decoded(body, content_type, promised) == value


def test_no_content_has_no_value() -> None:
    assert decoded(b"", "application/json", status=204) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_change_is_made_even_where_the_answer_is_empty(method: str) -> None:
    assert decoded(b"", "", method=method) is None


@pytest.mark.parametrize(
    ("body", "content_type", "promised", "words"),
    [
        (b"<html>", "text/html", "application/json", "expected application/json, got text/html"),
        (b"{}", "application/json", "image/png", "expected image/png"),
        (b"{}", "application/json", "text/plain", "expected text/plain"),
        (b"x", "image/gif", "image.png/*", "expected"),
        (b"", "application/json", "application/json", "not valid JSON"),
        (b"", "", "application/json", "is empty; expected application/json"),
        (b" ", "", "application/json", "not valid JSON"),
        (
            b'{"a":1,"a":1}',
            "application/json",
            "application/json",
            "two members with the same name at line 1 column 12$",
        ),
        (b'[{"b":{"a":1,"\\u0061":2}}]', "application/json", "application/json", "two members with the same name"),
        ('{"ä":1}'.encode("latin-1"), "application/json; charset=iso-8859-1", "application/json", "not valid JSON"),
        ("[1]".encode("utf-16"), "application/json; charset=utf-16", "application/json", "not valid JSON"),
        (b'{"a":1}{"a":1}', "application/json", "application/json", "not valid JSON"),
        (b")]}',\n[1]", "application/json", "application/json", "not valid JSON"),
        (b"{", "application/json", "application/json", "not valid JSON"),
        (b"NaN", "application/json", "application/json", "not valid JSON"),
        (b"[Infinity]", "application/json", "application/json", "not valid JSON"),
        (b"1e400", "application/json", "application/json", "not valid JSON"),
        (b"[-1E+999]", "application/json", "application/json", "not valid JSON"),
        (b'"\\ud800"', "application/json", "application/json", "not valid JSON"),
        (b'"\xff"', "application/json", "application/json", "not valid JSON"),
        (b"1" * 5000, "application/json", "application/json", "not valid JSON"),
        (b"[" * 100_000, "application/json", "application/json", "not valid JSON"),
        (b"[" * 150 + b"]" * 150, "application/json", "application/json", "deeper than 100"),
        (b"\xff", "text/plain; charset=utf-8", "text/plain", "is not valid utf-8"),
        (b"x", "text/plain; charset=zlib", "text/plain", "charset 'zlib' is not known"),
        (b"x", "text/plain; charset=unicode_escape", "text/plain", "is not known"),
    ],
)
def test_lies(body: bytes, content_type: str, promised: str, words: str) -> None:
    with pytest.raises(BadResponse, match=words):
        decoded(body, content_type, promised)


@pytest.mark.parametrize("body", [b'{"s3cret":1,"s3cret":2}', b'{"s3cret at line 9":1,"s3cret at line 9":2}'])
def test_what_is_said_of_bad_json_holds_nothing_of_it(body: bytes) -> None:
    with pytest.raises(BadResponse) as raised:
        parse_json(body)
    assert "s3cret" not in str(raised.value)


NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_every_value_comes_through_as_it_was(value: Any, escaped: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=escaped).encode()) == value


@given(st.binary(max_size=60) | st.text('[]{},:"0123456789.eE+-ntfasul\\', max_size=40).map(str.encode))
def test_any_bytes_are_read_as_another_parser_does_or_refused(body: bytes) -> None:
    try:
        value = parse_json(body)
    except BadResponse:
        return
    assert json.loads(body.decode("utf-8-sig")) == value


@given(
    st.booleans(),
    st.integers(1, 330) | st.integers(195, 215),
    st.sampled_from(["", ".0", ".5"]),
    st.sampled_from(["", "e", "E+", "e0", "E-"]),
    st.sampled_from([1, 9, 90, 99, 100, 120, 298, 308, 309, 400]),
)
@example(False, 251, "", "e", 99)
@example(True, 300, "", "E+", 9)
@example(False, 210, ".0", "e", 99)
def test_no_number_becomes_infinite(negative: bool, digits: int, rest: str, sign: str, exponent: int) -> None:
    number = f"{'-' * negative}{'9' * digits}{rest}{sign}{exponent if sign else ''}"
    try:
        value: Any = parse_json(b'{"n": [' + number.encode() + b"]}")
    except BadResponse:
        assert math.isinf(float(number))
        return
    (found,) = value["n"]
    assert not isinstance(found, float) or math.isfinite(found)


def test_depth_is_counted_not_guessed() -> None:
    assert parse_json(b"[" + b"{}," * 200 + b"{}]") == [{}] * 201
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(BadResponse):
        parse_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("body", "content_type", "truncated", "detail"),
    [
        (b'{"error":"x"}', "application/problem+json", False, {"error": "x"}),
        (b'{"error":', "application/json", False, '{"error":'),
        (b'{"error":"x', "application/json", True, '{"error":"x [...]'),
        (b"\xffoops", "text/plain", False, "\ufffdoops"),
        (b"\x00" * 9, "image/png", True, "(more than 9 bytes of image/png)"),
        (b"", "", False, None),
    ],
)
def test_error_bodies_are_kept(body: bytes, content_type: str, truncated: bool, detail: Any) -> None:
    assert decode_error(content_type, body, truncated=truncated) == detail
