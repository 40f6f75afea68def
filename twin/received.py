"""A request as it arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

MAX_FIELDS = 10_000


@dataclass(frozen=True, slots=True)
class Received:
    """A request.

    Attributes:
        method: in capitals.
        path: as it was sent, percent-encoded.
        query: as it was sent, percent-encoded.
        headers: by lower-case name.
        body: the raw bytes.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def query_pairs(self) -> list[tuple[str, str]]:
        """The query's names and values, decoded."""
        return parse_qsl(self.query, keep_blank_values=True)[:MAX_FIELDS]

    def cookies(self) -> list[tuple[str, str]]:
        """The cookies' names and values."""
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return [(name, value) for name, _, value in pairs if name][:MAX_FIELDS]
