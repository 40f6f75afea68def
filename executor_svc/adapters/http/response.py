"""Decodes answers to JSON values, or gives the reason why they do not fit the API."""

import base64
import codecs
import re
from typing import Final

import jiter
import orjson
from pydantic import JsonValue

from services.contracts.api import Api
from services.errors import InvalidRequest
from services.http import MAX_VALUES, scan_json
from services.media_types import essence, is_json

CUT: Final = " [...]"
"""Ends a truncated text."""
MAX_DEPTH: Final = 100
"""Deepest nesting of an answer. Answers are sent on inside events, which have a limit too."""
_HUGE_DIGITS: Final = 200
"""No double is beyond 1e309. With an exponent of at most two digits, a number beyond it has 210 digits in a row."""
_HUGE_NUMBER = re.compile(rb"[eE]\+?\d{3}|\d{%d}" % _HUGE_DIGITS)
_PIECE: Final = 65_536
_CHARSETS: Final = frozenset(
    {
        *("utf-8", "utf-8-sig", "ascii", "utf-16", "utf-16-le", "utf-16-be", "koi8-r"),
        *("iso8859-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15"),
        *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254"),
        *("shift_jis", "euc_jp", "euc_kr", "gb2312", "gbk", "gb18030", "big5"),
    }
)
_TEXT_TYPES: Final = frozenset(
    {"application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson"}
)
_MAX_ERROR_VALUES: Final = 1_000
"""Values of an error's JSON. One with more is kept as text: an error of 16 kB may be 16,000 values."""
_NO_CONTENT: Final = frozenset({204, 205, 304})


class BadResponse(ValueError):
    """The answer does not match its own headers, or not the API."""


def decode(api: Api, status: int, content_type: str, body: bytes, max_values: int = MAX_VALUES) -> JsonValue:
    """The value of a successful answer: JSON as it is, text as a string, other bytes as ``{media_type, base64}``.

    Raises:
        BadResponse: the media type is wrong, the JSON is invalid or holds more than ``max_values`` values, the charset
            is wrong or unknown, or the body is empty although JSON is expected.
    """
    if api.method == "HEAD" or status in _NO_CONTENT:
        return None
    promised, received = essence(api.response.media_type or ""), essence(content_type)
    if not body and (not promised or not received):
        if is_json(promised) and not api.mutating:  # a mutating call succeeded even if its answer is empty
            raise BadResponse(f"the answer is empty; expected {promised}")
        return None
    if not _fits(promised, received):
        raise BadResponse(f"expected {promised}, got {received or 'no media type'}")
    if is_json(received) or (is_json(promised) and received in ("", "text/plain")):
        return parse_json(body, max_values)
    if _is_text(received or promised):
        return _text(body, content_type)
    return {"media_type": received or "application/octet-stream", "base64": base64.b64encode(body).decode()}


def decode_error(content_type: str, body: bytes, *, truncated: bool) -> JsonValue:
    """The body of an error, decoded as far as possible. Never raises."""
    if not body:
        return None
    received = essence(content_type)
    if is_json(received) and not truncated:
        try:
            return parse_json(body, _MAX_ERROR_VALUES)
        except BadResponse:
            pass
    if is_json(received) or _is_text(received) or not received:
        text = body.decode("utf-8", "replace")
        return text + CUT if truncated else text
    return f"({'more than ' if truncated else ''}{len(body)} bytes of {received})"


def parse_json(body: bytes, max_values: int = MAX_VALUES) -> JsonValue:
    """Parse strict JSON with integers of any size.

    Objects with duplicate member names are refused: parsers differ in which one they use (RFC 8259, section 4), so an
    upstream and a proxy may read the same body differently.

    Raises:
        BadResponse: empty, not UTF-8, not JSON, NaN or infinite numbers, lone surrogates, nested too deep, or more than
            ``max_values`` values. The values are counted before parsing: a value may use forty times its bytes.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    try:
        if len(body) > max_values:
            scan_json(body, max_values)
    except InvalidRequest:
        raise BadResponse(f"the answer has more than {max_values} values") from None
    try:
        value: JsonValue = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
        if _has_huge_number(body):
            orjson.loads(body)  # jiter reads 1e400 as infinity; orjson refuses it
    except ValueError as error:
        raise BadResponse(f"the answer is not valid JSON: {_why(error)}") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise BadResponse(f"the answer is nested deeper than {MAX_DEPTH} levels")
    return value


def _has_huge_number(body: bytes) -> bool:
    """Whether the body may hold a huge number. Searches in pieces, because one long search would hold the GIL."""
    pieces = range(0, len(body), _PIECE)
    return any(_HUGE_NUMBER.search(body, start, start + _PIECE + _HUGE_DIGITS) for start in pieces)


def _why(error: ValueError) -> str:
    """A message without the upstream's data. Parser messages name only positions, except for these two."""
    text = str(error)
    if isinstance(error, UnicodeError):
        return "not UTF-8"
    if text.startswith("Detected duplicate key"):
        return "an object has two members with the same name" + "".join(text.rpartition(" at ")[1:])
    return text[:200]


def _deeper_than(value: JsonValue, limit: int) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+xml", "+yaml"))


def _fits(promised: str, received: str) -> bool:
    """Whether the received media type is acceptable for the promised one: both must be of the same family."""
    if promised in ("", "*/*", received) or not received:
        return True
    if is_json(promised):
        return is_json(received) or received == "text/plain"
    if promised.endswith("/*"):
        return received.startswith(promised[:-1])
    if _is_text(promised):
        return _is_text(received)
    return not is_json(received) and not _is_text(received)


def _text(body: bytes, content_type: str) -> str:
    match = re.search(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]{1,40})", content_type, re.IGNORECASE)
    name = match[1] if match else "utf-8"
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        codec = ""
    if codec not in _CHARSETS:
        raise BadResponse(f"the answer's charset {name!r} is not known")
    try:
        return body.decode("utf-8-sig" if codec == "utf-8" else codec)
    except UnicodeDecodeError:
        raise BadResponse(f"the answer declares {name}, but is not valid {name}") from None
