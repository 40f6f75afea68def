"""Answers: typed values, or the reason why not."""

from typing import Any

import pytest

from executor_svc.adapters.http.response import MAX_DEPTH, BadResponse, decode, decode_error, parse_json
from tests.support.executing import api


def decoded(body: bytes, content_type: str, promised: str | None = "application/json", status: int = 200) -> Any:
    return decode(api("http://x", answers=promised), status, content_type, body)


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
        (b"", "", "application/json", None),
        (b"", "text/plain", "text/plain", ""),
    ],
)
def test_values(body: bytes, content_type: str, promised: str | None, value: Any) -> None:
    assert decoded(body, content_type, promised) == value


def test_no_content_has_no_value() -> None:
    assert decoded(b"", "application/json", status=204) is None


@pytest.mark.parametrize(
    ("body", "content_type", "promised", "words"),
    [
        (b"<html>", "text/html", "application/json", "expected application/json, got text/html"),
        (b"{}", "application/json", "image/png", "expected image/png"),
        (b"{}", "application/json", "text/plain", "expected text/plain"),
        (b"x", "image/gif", "image.png/*", "expected"),
        (b"", "application/json", "application/json", "not valid JSON"),
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
        (b"\xff", "text/plain; charset=utf-8", "text/plain", "is not utf-8"),
        (b"x", "text/plain; charset=zlib", "text/plain", "charset 'zlib' is not known"),
        (b"x", "text/plain; charset=unicode_escape", "text/plain", "is not known"),
    ],
)
def test_lies(body: bytes, content_type: str, promised: str, words: str) -> None:
    with pytest.raises(BadResponse, match=words):
        decoded(body, content_type, promised)


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
