"""Lists: selects the items that match a request's arguments, and the requested page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from twin.schemas import plain
from twin.state import Item

_SIZES: Final = frozenset(
    {
        *("limit", "pagelimit", "pagesize", "size", "perpage", "itemsperpage", "resultsperpage", "maxresults"),
        *("maxitems", "count", "top", "rows", "first", "max", "num"),
    }
)
_OFFSETS: Final = frozenset({"offset", "pageoffset", "skip", "startindex", "start", "from"})
_PAGES: Final = frozenset({"page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage"})
_SEARCHES: Final = frozenset(
    {"q", "query", "search", "searchterm", "searchtext", "term", "keyword", "keywords", "text"}
)
_MOST: Final = 1_000


def matching(items: Sequence[Item], given: Mapping[str, JsonValue]) -> list[Item]:
    """The items whose fields equal the arguments of the same names and that contain the search words."""
    found = list(items)
    known = {plain(name) for item in items for name in item}
    for name, wanted in given.items():
        bare = plain(name)
        if bare in _SEARCHES and bare not in known and isinstance(wanted, str):
            words = re.findall(r"\w+", wanted.lower())
            found = [item for item in found if all(any(word in text for text in _texts(item)) for word in words)]
        elif bare in known and bare not in _SIZES | _OFFSETS | _PAGES:
            found = [item for item in found if _equals(_field(item, bare), wanted)]
    return found


def paged(items: Sequence[Item], given: Mapping[str, JsonValue]) -> Sequence[Item]:
    """The page of items that the arguments select."""
    said = {
        plain(name): value for name, value in given.items() if isinstance(value, int) and not isinstance(value, bool)
    }
    size = next((value for name, value in said.items() if name in _SIZES and value > 0), _MOST)
    start = next((value for name, value in said.items() if name in _OFFSETS and value > 0), 0)
    page = next((value for name, value in said.items() if name in _PAGES and value > 0), None)
    if page is not None:
        start = (page - 1) * size
    return items[start : start + size]


def _field(item: Item, bare: str) -> JsonValue:
    return next(value for name, value in item.items() if plain(name) == bare) if bare in map(plain, item) else None


def _equals(value: JsonValue, wanted: JsonValue) -> bool:
    """Whether a field equals an argument. Objects are not compared; they always match."""
    if isinstance(wanted, list):
        return not wanted or any(_equals(value, one) for one in wanted)
    if isinstance(value, list):
        return any(_equals(one, wanted) for one in value)
    if isinstance(wanted, dict) or isinstance(value, dict):
        return True
    return str(value).lower() == str(wanted).lower()


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield str(value).lower()
