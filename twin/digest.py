"""The server side of HTTP Digest (RFC 7616): SHA-256, quality of protection ``auth``."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import Final
from urllib.request import parse_http_list, parse_keqv_list

from twin.received import Received

_REALM: Final = "twin"
_MOST_NONCES: Final = 1_000


class Challenges:
    """The issued nonces, each with the count of the last request that used it."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def new(self) -> str:
        """A WWW-Authenticate header with a new nonce."""
        nonce = secrets.token_hex(16)
        self._counts[nonce] = 0
        if len(self._counts) > _MOST_NONCES:
            self._counts.popitem(last=False)
        return f'Digest realm="{_REALM}", qop="auth", algorithm=SHA-256, nonce="{nonce}"'

    def met(self, user: str, password: str, request: Received) -> bool:
        """Whether the request answers one of the challenges and is not a replay."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "digest":
            return False
        try:
            given = parse_keqv_list(parse_http_list(shown))
            count = int(given["nc"], 16)
            wanted = _answer(user, password, request.method, given)
            target = request.path + (f"?{request.query}" if request.query else "")
            is_ours = (given["username"], given["realm"], given["uri"]) == (user, _REALM, target)
            is_new = count > self._counts.get(given["nonce"], count)
            right = secrets.compare_digest(given["response"].encode(), wanted.encode())
        except (KeyError, ValueError, UnicodeEncodeError):
            return False
        if is_ours and is_new and right:
            self._counts[given["nonce"]] = count
            return True
        return False


def _answer(user: str, password: str, method: str, given: dict[str, str]) -> str:
    own, asked = _hash(f"{user}:{_REALM}:{password}"), _hash(f"{method}:{given['uri']}")
    return _hash(":".join((own, given["nonce"], given["nc"], given["cnonce"], "auth", asked)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
