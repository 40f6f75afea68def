"""Finds the operation of a request."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from services.contracts.api import Api
from twin.problems import Refused

_EXPRESSION = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of a path between two slashes: ``texts`` around the parameters called ``names``."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    def read(self, text: str) -> dict[str, str] | None:
        """The raw parameter values in a segment of a request's path; None if it does not match."""
        if not self.names:
            return {} if unquote(text) == unquote(self.texts[0]) else None
        if not text.startswith(self.texts[0]):
            return None
        place, found = len(self.texts[0]), {}
        for name, literal in zip(self.names[:-1], self.texts[1:-1], strict=True):
            end = text.find(literal, place + 1) if literal else text.rfind(".")
            if end <= place:
                return None
            found[name], place = text[place:end], end + len(literal)
        last = self.texts[-1]
        end = len(text) - len(last)
        if end <= place or not text.endswith(last):
            return None
        return found | {self.names[-1]: text[place:end]}

    @property
    def noun(self) -> str:
        """Its text without a format suffix such as `.json`; empty if it has parameters."""
        return re.sub(r"\.(json|xml)$", "", unquote(self.texts[0])) if not self.names else ""


def segments_of(api: Api) -> tuple[Segment, ...]:
    """The segments of an API's path, prefixed by its server's path. Query and trailing slash are left out."""
    path = urlsplit(api.server).path.rstrip("/") + api.path
    parts = path.partition("?")[0].partition("#")[0].strip("/").split("/")
    pieces = [_EXPRESSION.split(part) for part in parts]
    return tuple(Segment(tuple(piece[::2]), tuple(piece[1::2])) for piece in pieces)


@dataclass(frozen=True, slots=True)
class Match:
    """The operation of a request, and the raw values of the parameters in its path."""

    api: Api
    values: Mapping[str, str]


class Routes:
    """Finds operations. If several match, the one with the most specific path is used.

    Args:
        apis: the operations.
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        self._routes: defaultdict[int, list[tuple[tuple[Segment, ...], Api]]] = defaultdict(list)
        for api in apis:
            segments = segments_of(api)
            self._routes[len(segments)].append((segments, api))
        for routes in self._routes.values():
            routes.sort(key=lambda route: ([bool(one.names) for one in route[0]], "?" not in route[1].path))

    def find(self, method: str, path: str, query: str) -> Match:
        """The operation of this method and raw path.

        Raises:
            Refused: 404, or 405 if the path exists with other methods only.
        """
        parts = path.strip("/").split("/")
        allowed: dict[str, None] = {}
        for segments, api in self._routes.get(len(parts), ()):
            values = _read(segments, parts)
            if values is None or not _has(query, api.path):
                continue
            if api.method == method:
                return Match(api, values)
            allowed[api.method] = None
        if allowed:
            raise Refused(405, "no operation of this path has this method", headers={"Allow": ", ".join(allowed)})
        raise Refused(404, "no operation has this path")


def _read(segments: tuple[Segment, ...], parts: list[str]) -> dict[str, str] | None:
    values: dict[str, str] = {}
    for segment, part in zip(segments, parts, strict=True):
        found = segment.read(part)
        if found is None:
            return None
        values |= found
    return values


def _has(query: str, path: str) -> bool:
    """Whether the request's query contains the query pairs of the document's path."""
    wanted = parse_qsl(path.partition("#")[0].partition("?")[2], keep_blank_values=True)
    if not wanted:
        return True
    given = parse_qsl(query, keep_blank_values=True)
    return all(pair in given for pair in wanted)
