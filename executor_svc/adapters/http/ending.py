"""Tells from the pages that were read whether their list goes on, also where no further page can be requested.

Some names mean this in any answer (`has_more`, `next_cursor`). Others may tell something else: the `total` of an
invoice is a sum of money, and the `pages` of a book are not those of a list. They count where the API has parameters
for pages, inside metadata (`meta`, `pagination`), and in an object that holds nothing but a list and facts about it. In
such an object, the vaguest names count only beside another fact about pages, such as `limit` or `next`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pydantic import JsonValue

from executor_svc.adapters.http.paging import (
    CONTAINERS,
    END,
    MAX_NAMES,
    MORE_FLAGS,
    NEXT_URLS,
    PAGE_COUNTS,
    PAGE_NUMBERS,
    SIZES,
    SURE_FLAGS,
    SURE_TOKENS,
    TOTALS,
    Paging,
    facts_of,
    first_fact,
    integer,
    is_one_of,
    next_link,
    next_url,
    total_of,
)
from executor_svc.adapters.http.transport import Reply

_ITEMS: Final = frozenset({"items", "data", "results", "records", "entries", "values", "content", "rows", "elements"})
_WRAPPERS: Final = frozenset({"data", "result", "results", "response", "payload", "body", "content", "embedded"})
_SURE_TOKENS: Final = (*SURE_TOKENS, "nextoffset")
_ABOUT: Final = frozenset(
    {
        *(*TOTALS, *PAGE_COUNTS, *MORE_FLAGS, *PAGE_NUMBERS, *SIZES, *NEXT_URLS, *CONTAINERS, *_SURE_TOKENS),
        *("count", "offset", "skip", "start", "startindex", "cursor", "endcursor", "hasprevious", "hasprev", "prev"),
        *("previous", "prevpage", "previouspage", "self", "object", "kind", "status", "success", "ok", "code"),
        *("message", "error", "errors", "query", "q", "sort", "took", "tookms", "timestamp", "requestid"),
    }
)
"""Names of facts about a list or its answer."""
_VAGUE: Final = frozenset({"total", "totalsize", "pages", "pagecount", "numpages"})
"""Names of counts that may be about anything: a sum of money or of bytes, or a book."""
_OF_PAGES: Final = frozenset(
    {
        *(*MORE_FLAGS, *NEXT_URLS, *_SURE_TOKENS, "limit", "pagesize", "perpage", "itemsperpage", "totalpages"),
        *("lastpage", "pagetotal", "page", "pagenumber", "currentpage", "pageindex", "offset", "skip", "startindex"),
        *("cursor", "endcursor", "hasprevious", "hasprev", "prev", "previous", "prevpage", "previouspage"),
    }
)
"""Names of facts that only a part of a list has."""
_ERRORS: Final = ("error", "errors")
_PRICE: Final = re.compile("price|amount|cost|total|sum|fee|charge|balance", re.IGNORECASE)
_QUANTITY: Final = re.compile("qty|quantity|count|units", re.IGNORECASE)
_MAX_CHARS: Final = 100
_MAX_SUMMED: Final = 200
_MAX_FIELDS: Final = 10
_MAX_COLUMNS: Final = 50
_MAX_PRICE: Final = 10**12


@dataclass(frozen=True, slots=True)
class Said:
    """What a page says of its list.

    Attributes:
        items: the page's items; None if it holds no list, or several that could be meant.
        more: whether another page follows; None if the page does not say.
        total: how many items there are in total, if it says so.
        pages: how many pages there are, if it says so.
        failed: it has an error instead of items.
    """

    items: int | None = None
    more: bool | None = None
    total: int | None = None
    pages: int | None = None
    failed: bool = False

    def counts_more(self, items: int, pages: int) -> bool:
        """Whether it counts more than was read."""
        return self.total > items if self.total is not None else self.pages is not None and self.pages > pages

    @property
    def counts(self) -> bool:
        """Whether it says how many items or pages there are."""
        return self.total is not None or self.pages is not None


def list_member(value: JsonValue) -> str:
    """The member that holds an object's items: its only list, or the only one of its lists with a usual name.

    Looks at the first members only; an answer may have a million.
    """
    if not isinstance(value, dict):
        return ""
    lists = [name for name, member in _members(value) if isinstance(member, list)]
    if len(lists) > 1:
        lists = [name for name in lists if is_one_of(name, _ITEMS)]
    return lists[0] if len(lists) == 1 else ""


def said_by(paging: Paging, reply: Reply, body: JsonValue) -> Said:
    """What a page says of its list. Reads only the first names of a large answer."""
    objects, items = _list_of(body)
    apart = bool(paging.controls) or (items is not None and all(_holds_only(one, name) for one, name in objects))
    facts: dict[str, JsonValue] = {}
    metadata: dict[str, JsonValue] = {}
    for one, _ in objects:
        facts |= facts_of(one)
        metadata |= facts_of(_metadata(one))
    clear = facts if apart else metadata
    more = _more(facts, clear, linked=apart and next_link(reply) is not None)
    failed = not items and any(_has_error(one) for one, _ in objects)
    if items is None or paging.starts_later:
        return Said(None if items is None else len(items), more, failed=failed)
    if not paging.controls and _OF_PAGES.isdisjoint(clear):
        clear = {name: fact for name, fact in clear.items() if name not in _VAGUE} | metadata
    total, pages = total_of(clear, reply), integer(first_fact(clear, PAGE_COUNTS))
    if total is not None and not paging.controls:
        outside = first_fact(clear, TOTALS) != first_fact(metadata, TOTALS)
        rows = [item for item in items[:_MAX_SUMMED] if isinstance(item, dict)]
        total = None if _is_price(total, rows) or (outside and _is_sum(total, rows)) else total
    return Said(len(items), more, total, pages, failed)


def _list_of(body: JsonValue) -> tuple[list[tuple[dict[str, JsonValue], str]], list[JsonValue] | None]:
    """The objects around the page's list, each with the member that leads to it, and the list, if there is one."""
    if not isinstance(body, dict):
        return [], body if isinstance(body, list) else None
    name = list_member(body)
    if not name:  # it may be one level further inside
        inside = [(key, one) for key, one in _members(body) if isinstance(one, dict) and is_one_of(key, _WRAPPERS)]
        found = [(key, one, list_member(one)) for key, one in inside]
        for key, one, inner in found:
            if inner and len(found) == 1:
                items = one[inner]
                return [(body, key), (one, inner)], items if isinstance(items, list) else None
    items = body.get(name)
    return [(body, name)], items if isinstance(items, list) else None


def _more(facts: Mapping[str, JsonValue], clear: Mapping[str, JsonValue], *, linked: bool) -> bool | None:
    """Whether another page follows, by all ``facts`` with sure names and by the ``clear`` ones; None: not said."""
    flag = first_fact(facts, SURE_FLAGS)
    flag = flag if isinstance(flag, bool) else clear.get("more")
    if isinstance(flag, bool):
        return flag
    for key, among in (*((key, facts) for key in _SURE_TOKENS), ("nextpage", clear), ("next", clear)):
        token = among.get(key, False)
        if isinstance(token, str | int) and token:
            return True
        if token in (None, "", 0) and token is not False:
            return False
    url = next_url(clear)
    return True if linked or isinstance(url, str) else False if url is END else None


def _holds_only(one: Mapping[str, JsonValue], name: str) -> bool:
    """Whether an object holds nothing but the member ``name`` and facts about a list."""
    return len(one) <= MAX_NAMES and all(key == name or is_one_of(key, _ABOUT) for key in one)


def _members(one: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    return islice(one.items(), MAX_NAMES)


def _metadata(one: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in _members(one) if isinstance(value, dict)}


def _has_error(one: Mapping[str, JsonValue]) -> bool:
    return any(value and is_one_of(name, _ERRORS) for name, value in _members(one))


def _is_price(total: int, rows: Sequence[Mapping[str, JsonValue]]) -> bool:
    """Whether a total is about the sum of the rows' prices, each times its quantity if it has one.

    Not exactly, since taxes, fees and discounts change it.
    """
    names = [name for name, _ in _members(rows[0]) if len(name) <= _MAX_CHARS] if rows else []
    prices = [name for name in names if _PRICE.search(name)][:_MAX_FIELDS]
    quantities = [name for name in names if _QUANTITY.search(name)][:_MAX_FIELDS]
    sums = [sum(_number(row, price) for row in rows) for price in prices]
    sums += [sum(_number(row, a) * _number(row, b) for row in rows) for a in prices for b in quantities]
    return any(one / 2 < total < 2 * one for one in sums)


def _is_sum(total: int, rows: Sequence[Mapping[str, JsonValue]]) -> bool:
    """Whether a total is exactly the sum of a numeric column, as of votes or minutes.

    Ids are not summed, and a column with the same number in all rows may give any round total by chance.
    """
    numeric = (name for name, value in _members(rows[0]) if isinstance(value, int | float)) if rows else ()
    columns = [[_number(row, name) for row in rows] for name in islice(numeric, _MAX_COLUMNS) if name.lower() != "id"]
    return any(sum(column) == total and (len(rows) == 1 or len({*column}) > 1) for column in columns)


def _number(row: Mapping[str, JsonValue], name: str) -> int | float:
    value = row.get(name)
    return value if isinstance(value, int | float) and abs(value) < _MAX_PRICE else 0
