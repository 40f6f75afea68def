"""Masks secrets in answers. Upstreams echo headers, URLs and bodies, in various encodings.

This protects against echoes, not against malicious upstreams: one that received a secret can always encode it in
another way.

A mask tells the reader that a secret was in this place. So an answer is masked only with the secrets that its own call
presented, and only where a whole secret occurs. Masking parts would confirm a partly correct guess.
"""

import base64
import html
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

from pydantic import JsonValue

MASK: Final = "***"
MIN_SECRET_CHARS: Final = 6
"""Shorter secrets are refused, because masking them would garble ordinary text."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{1,400})?")
"""Secrets that an upstream may return as a JSON number."""
_PIECE: Final = 65_536
"""Characters searched at a time, so that other threads can run in between."""
_MARGIN_STEP: Final = 1_024
_MOST_NESTED: Final = 128
"""Characters of a secret that is masked in forms of its forms, too, three hundred texts: long ones would take minutes
to compile. Long tokens seldom have a character that is escaped anywhere."""
_DEEPEST_ESCAPE: Final = 64
"""Backslashes that represent one backslash in JSON text nested six levels deep in JSON text."""


class Masker:
    """Replaces these secrets in texts and JSON values with ``***``, in every form of :func:`forms`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        given = frozenset(secrets)
        self._forms = _Forms(form for secret in given for form in forms(secret))
        numbers = (secret for secret in given if len(secret) >= MIN_SECRET_CHARS and _NUMBER.fullmatch(secret))
        self._numbers = frozenset(map(json.loads, numbers))

    def text(self, text: str) -> str:
        """The text with secrets masked."""
        return self._forms.masked(text)

    def cut_text(self, text: str) -> str:
        """The masked text of a truncated text, cut further back so that it cannot end with a part of a secret.

        The number of characters cut is a multiple of 1,024. It depends only on the secrets, never on the text.
        """
        masked = self.text(text)
        return masked[: max(0, len(masked) - self._forms.margin)]

    def json(self, value: JsonValue) -> JsonValue:
        """The value with secrets masked in every string, number and member name; the same object if it holds none."""
        return self._json(value) if self._forms.all else value

    def _json(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            masked = [self._json(element) for element in value]
            return masked if any(a is not b for a, b in zip(masked, value, strict=True)) else value
        if isinstance(value, dict):
            pairs = {self.text(name): self._json(member) for name, member in value.items()}
            same = (
                all(a is b for a, b in zip(pairs.values(), value.values(), strict=False))
                and pairs.keys() == value.keys()
            )
            return value if same else pairs
        return MASK if self._numbers and value in self._numbers and not isinstance(value, bool) else value


@lru_cache(maxsize=256)
def masker_of(secrets: frozenset[str]) -> Masker:
    """A masker for the secrets that one call presented. Cached, since most calls present the same secrets."""
    return Masker(secrets)


class _Forms:
    """The texts to mask, and one pattern for all of them.

    Attributes:
        all: the texts.
        margin: the most characters that one of them can match with repeated escaping, rounded up to a multiple of
            1,024; 0 if there are no texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.all = frozenset(texts)
        self._shortest = min(map(len, self.all), default=0)
        longest = max(map(_longest, self.all), default=0)
        self.margin = -(-longest // _MARGIN_STEP) * _MARGIN_STEP
        # The longest first, grouped by their beginning: a flat list of alternatives is far slower.
        ordered = sorted(self.all, key=lambda text: (_beginning(text), -len(text)))
        groups = (
            (start, [_pattern(text[len(start) :]) for text in same]) for start, same in groupby(ordered, _beginning)
        )
        self._pattern = re.compile("|".join(f"{_pattern(start)}(?:{'|'.join(rest)})" for start, rest in groups))

    def masked(self, text: str) -> str:
        if not self.all or len(text) < self._shortest:
            return text
        return self._pattern.sub(MASK, text) if len(text) <= _PIECE else self._in_pieces(text)

    def _in_pieces(self, text: str) -> str:
        """Mask a long text in pieces, including matches that cross the border between two pieces."""
        parts, kept, start = list[str](), 0, 0
        while start < len(text):
            end = start + _PIECE
            match = self._pattern.search(text, start, end + self.margin)
            if match is None or match.start() >= end:
                start = end
                continue
            parts += text[kept : match.start()], MASK
            kept = start = match.end()
        return "".join([*parts, text[kept:]]) if parts else text


def forms(secret: str) -> set[str]:
    """The forms in which a secret may appear: as it is, in URLs, JSON, HTML, base64 and hexadecimal digits."""
    pointer = secret.replace("~", "~0").replace("/", "~1")  # RFC 6901: the path of a violation
    as_text = {secret, pointer, unquote_plus(secret), *_in_html(secret)}
    escaped = {secret, *_in_urls(secret), *_in_json(secret)}
    short = len(secret) <= _MOST_NESTED
    twice = {form for inner in _in_json(secret) for form in _in_urls(inner)} if short else set()
    as_digits = {form for inner in (escaped if short else (secret,)) for form in _in_digits(inner.encode())}
    return {form for form in as_text | escaped | twice | as_digits if len(form) >= MIN_SECRET_CHARS}


def _beginning(form: str) -> str:
    """The first character of a form, or all backslashes that it begins with."""
    return form[: len(form) - len(form.lstrip("\\"))] or form[0]


def _longest(form: str) -> int:
    """The most characters that :func:`_pattern` may match. Runs of backslashes count up to a sensible limit."""
    return len(form) + 8 * form.count("%") + _DEEPEST_ESCAPE * form.count("\\")


def _pattern(form: str) -> str:
    """A pattern for the form escaped any number of times: a URL in a URL, or JSON in JSON, as debug pages show them."""
    backslashes = r"(?<!\\)\\++"  # each run of backslashes is tried only once, whatever its length
    return re.sub(r"(?:\\\\)+", lambda _: backslashes, re.escape(form)).replace("%", "%(?:25){0,4}")


def _in_urls(text: str) -> list[str]:
    """Percent-encoded forms. Encoders differ in the characters that they leave, and in the case of the digits."""
    upper = [quote(text, safe=left) for left in ("", "/", "*", "!'()*", ";,/?:@&=+$!*'()#")] + [quote_plus(text)]
    return upper + [re.sub("%[0-9A-F]{2}", lambda digits: digits[0].lower(), form) for form in upper]


def _in_json(text: str) -> list[str]:
    """JSON string forms, with and without escaping of non-ASCII. Some encoders escape the slash and `<>&'`, too."""
    found: set[str] = set()
    for ascii_only in (True, False):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for more in ("(?!)", "[<>&]", "[<>&']"):
            lower = re.sub(more, lambda char: f"\\u{ord(char[0]):04x}", plain)
            found |= {lower, re.sub(r"\\u[0-9a-f]{4}", lambda digits: "\\u" + digits[0][2:].upper(), lower)}
    return [*found, *(form.replace("/", "\\/") for form in found)]


def _in_html(text: str) -> list[str]:
    escaped = html.escape(text)
    decimal = escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return [escaped, escaped.replace("&#x27;", "&apos;"), decimal, html.escape(text, quote=False)]


def _in_digits(content: bytes) -> list[str]:
    """Hexadecimal and base64 forms. Base64 of a longer text is matched by the digits that encode only the secret."""
    found = [content.hex(), content.hex().upper()]
    for offset, mixed in ((0, 0), (1, 2), (2, 3)):
        digits = base64.b64encode(b"\0" * offset + content).decode()[mixed : (offset + len(content)) * 8 // 6]
        found += [digits, digits.replace("+", "-").replace("/", "_")]
    return found
