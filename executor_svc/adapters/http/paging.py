"""Finds the next page of a list. Sends nothing itself.

Tries in this order:

1. `Link: rel="next"` (RFC 8288).
2. A token or cursor in the body, if the API has a parameter for it.
3. The URL of the next page in the body.
4. Page numbers and offsets, if the API has a parameter for them and the body says, or its length suggests, that there
   is more.

Names are compared without case and punctuation.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Final

from pydantic import JsonValue

from executor_svc.adapters.http.request import MAX_URL_CHARS, Credentials, HttpRequest
from executor_svc.adapters.http.serialise import encode, without
from executor_svc.adapters.http.transport import Reply
from services.contracts.api import Api, Location, Parameter
from services.urls import url_of

_TOKEN_PARAMETERS: Final = frozenset(
    {
        *("pagetoken", "nextpagetoken", "cursor", "nextcursor", "pagecursor", "nexttoken", "continuationtoken"),
        *("continuation", "paginationtoken", "marker", "startcursor"),
    }
)
_PAGE_PARAMETERS: Final = frozenset({"page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage"})
_OFFSET_PARAMETERS: Final = frozenset({"offset", "pageoffset", "skip", "startindex", "start"})
_SIZE_PARAMETERS: Final = frozenset(
    {
        *("limit", "pagelimit", "pagesize", "size", "perpage", "itemsperpage", "resultsperpage", "maxresults"),
        *("maxitems", "count", "top", "rows", "first"),
    }
)
_CONTROLS: Final = _TOKEN_PARAMETERS | _PAGE_PARAMETERS | _OFFSET_PARAMETERS | _SIZE_PARAMETERS
SURE_TOKENS: Final = (
    *("nextpagetoken", "nextcursor", "nexttoken", "nextcontinuationtoken", "continuationtoken", "nextmarker"),
    "nextpagecursor",
)
"""Names that mean the next page's token in any answer."""
_NEXT_TOKENS: Final = (*SURE_TOKENS, "endcursor", "next")
NEXT_URLS: Final = ("next", "nexturl", "nextlink", "nextpage", "nextpageurl", "odatanextlink", "nexthref")
TOTALS: Final = ("total", "totalcount", "totalitems", "totalresults", "totalsize", "totalrecords", "totalelements")
PAGE_COUNTS: Final = ("pages", "totalpages", "pagecount", "numpages", "lastpage", "pagetotal")
SURE_FLAGS: Final = ("hasmore", "hasnext", "hasnextpage", "moreresults")
MORE_FLAGS: Final = (*SURE_FLAGS, "more")
PAGE_NUMBERS: Final = ("page", "pagenumber", "currentpage", "pageindex", "number")
SIZES: Final = ("limit", "pagesize", "size", "perpage", "itemsperpage")
CONTAINERS: Final = frozenset({"meta", "metadata", "pagination", "paging", "pageinfo", "page", "links"})
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\";,]+))", re.IGNORECASE)
_MAX_LINK_CHARS: Final = 16 * 1024
MAX_NAMES: Final = 1_000
"""Members of an answer whose names are read. All of this runs on the event loop, and an answer may have a million."""
_MAX_NAME_CHARS: Final = 100
"""Longer names mean nothing here. They are not read, since the names that are read stay in memory."""
END: Final = object()


@dataclass(frozen=True, slots=True)
class Paging:
    """How the lists of one API are paged.

    Attributes:
        controls: the arguments with which a plan selects a part of the list.
        repeatable: whether further pages may be requested.
        token, page, offset: the parameters that select a page; None where there is none.
        size: how many items a page has, if the API says so.
    """

    controls: frozenset[str]
    repeatable: bool
    token: Parameter | None
    page: Parameter | None
    offset: Parameter | None
    size: int | None

    def selects_part(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Whether the plan itself selects a part of the list. In a body, a member of an argument may do so as well."""
        if any(arguments.get(name) is not None for name in self.controls):
            return True
        objects = () if self.repeatable else (value for value in arguments.values() if isinstance(value, dict))
        return any(is_one_of(name, _CONTROLS) for value in objects for name in islice(value, MAX_NAMES))

    @property
    def starts_later(self) -> bool:
        """Whether each call sends a fixed position, so that the first page may not be the list's beginning."""
        return any(one is not None and one.constant is not None for one in (self.token, self.page, self.offset))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a list is read: pages, items in total, items on the last page, and the first page's number."""

    pages: int
    items: int
    last_items: int
    first: int | None


class NextPageUnavailable(Exception):
    """The list continues, but the next page cannot be requested."""


def paging_of(api: Api) -> Paging | None:
    """How an API's lists are paged. None if a call may change something: then its answer is not taken for a list."""
    if api.mutating:
        return None
    repeatable = api.method == "GET" and api.body is None
    places = {Location.QUERY} if repeatable else {Location.QUERY, Location.BODY}
    among = {plain(p.wire_name): p for p in api.parameters if p.location in places}

    def find(names: frozenset[str], *, number: bool) -> Parameter | None:
        fitting = (p for name, p in among.items() if name in names and (not number or _takes_number(p)))
        return next(fitting, None)

    token = find(_TOKEN_PARAMETERS, number=False)
    page = find(_PAGE_PARAMETERS, number=True)
    offset = find(_OFFSET_PARAMETERS, number=True)
    size = find(_SIZE_PARAMETERS, number=True)
    return Paging(
        controls=frozenset(p.name for p in (token, page, offset, size) if p is not None),
        repeatable=repeatable,
        token=token,
        page=page,
        offset=offset,
        size=integer(size.constant or size.json_schema.get("default")) if size is not None else None,
    )


def first_number(paging: Paging, body: JsonValue) -> int | None:
    """The number of the first page or of its first item, from the body, the parameter's constant or its schema."""
    parameter = paging.page or paging.offset
    if parameter is None:
        return None
    name = plain(parameter.wire_name)
    said = first_fact(facts_of(body), (name, *PAGE_NUMBERS) if paging.page else (name,))
    schema = parameter.json_schema
    guess = None if name == "pageindex" else 1 if paging.page else 0
    declared = (integer(parameter.constant), integer(schema.get("default")), integer(schema.get("minimum")))
    found = (integer(said), *declared, guess)
    return next((number for number in found if number is not None), None)


def next_page(
    paging: Paging,
    request: HttpRequest,
    credentials: Credentials,
    reply: Reply,
    body: JsonValue,
    progress: Progress,
    *,
    anywhere: bool = False,
) -> HttpRequest | None:
    """The request for the page after this one; None at the end of the list, or where it cannot be told.

    An upstream can name any URL as the next page, but the policy has checked only the operation's path. So another path
    is followed only if the whole origin may be read (``anywhere``).

    Raises:
        NextPageUnavailable: there is more, but at another origin, at a path that must not be read, or with an
            unknown kind of paging.
    """
    if not paging.repeatable:
        return None
    facts = facts_of(body)
    url: str | object | None = next_link(reply)
    if url is None:
        if first_fact(facts, MORE_FLAGS) is False:
            return None
        if paging.token is not None and (token := _token(paging.token, facts)) is not None:
            return None if token is END else _with(request, paging.token, str(token)[:MAX_URL_CHARS])
        url = next_url(facts)
    if url is END:
        return None
    if isinstance(url, str):
        return _at(url, paging, request, credentials, body, anywhere=anywhere)
    numbered = bool(paging.controls) and _has_next_page(paging, reply, facts, progress)
    return _numbered(paging, request, facts, progress) if numbered else None


def _numbered(paging: Paging, request: HttpRequest, facts: Mapping[str, JsonValue], progress: Progress) -> HttpRequest:
    """The request for the next page, by page number or by offset. Raises NextPageUnavailable."""
    for parameter, done, said in (
        (paging.page, progress.pages, integer(facts.get("nextpage"))),
        (paging.offset, progress.items, integer(facts.get("nextoffset"))),
    ):
        if parameter is not None and said is not None:
            return _with(request, parameter, str(said))
        if parameter is not None and progress.first is not None:
            return _with(request, parameter, str(progress.first + done))
    raise NextPageUnavailable


def _has_next_page(paging: Paging, reply: Reply, facts: Mapping[str, JsonValue], progress: Progress) -> bool:
    """Whether there is another numbered page: as the body says, or else by how full the last page was."""
    if first_fact(facts, MORE_FLAGS) is True or integer(first_fact(facts, ("nextpage", "nextoffset"))):
        return True
    if (paging.page is None and paging.offset is None) or not progress.last_items:
        return False
    pages, total = integer(first_fact(facts, PAGE_COUNTS)), total_of(facts, reply)
    if paging.page is not None and pages is not None:
        return progress.pages < pages
    if total is not None:
        return progress.items < total
    size = integer(first_fact(facts, SIZES)) or paging.size
    return size is not None and progress.last_items >= size


def total_of(facts: Mapping[str, JsonValue], reply: Reply) -> int | None:
    """How many items the list has in total, as the body or else a header says."""
    total = integer(first_fact(facts, TOTALS))
    header = reply.headers.get("X-Total-Count", "")
    return int(header[:18]) if total is None and header.isascii() and header.isdecimal() else total


def _token(parameter: Parameter, facts: Mapping[str, JsonValue]) -> str | int | object | None:
    """The token of the next page; END if the body says that there is none; None if the body does not say."""
    name = plain(parameter.wire_name)
    for key in (f"next{name}", *_NEXT_TOKENS, name):
        value = facts.get(key, False)
        if value is None or value == "" or (value == 0 and value is not False):
            return END
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and not (key == "next" and "/" in value):
            return value
    return None


def next_url(facts: Mapping[str, JsonValue]) -> str | object | None:
    """The URL of the next page; END if the body says that there is none; None if the body does not say."""
    for key in NEXT_URLS:
        value = facts.get(key, False)
        value = value.get("href") if isinstance(value, dict) else value
        if value in (None, ""):
            return END
        if isinstance(value, str) and ("/" in value or value.startswith("?")):
            return value
    return None


def next_link(reply: Reply) -> str | None:
    """The target of `Link: <...>; rel="next"` (RFC 8288, section 3). Skips links with another context (`anchor`)."""
    if "Link" not in reply.headers:
        return None
    for target, parameters in _LINK.findall(", ".join(reply.headers.getall("Link"))[:_MAX_LINK_CHARS]):
        relation = _REL.search(parameters)
        relations = (relation[1] or relation[2] or "").lower().split() if relation else []
        if "next" in relations and "anchor" not in parameters.lower():
            return str(target)
    return None


def _at(
    target: str, paging: Paging, request: HttpRequest, credentials: Credentials, body: JsonValue, *, anywhere: bool
) -> HttpRequest | None:
    """The request for a page that has a URL. It carries credentials, so the origin must be the same.

    An object may link to a next object without being a page of a list, as a chapter does. So for objects the path must
    be the same, too. If it differs, the list counts as unfinished only if the API has parameters for pages.

    Raises:
        NextPageUnavailable: the URL has another origin, or a path that must not be followed.
    """
    try:
        url = url_of(target[:MAX_URL_CHARS], request.url(Credentials()))
        same = url.origin() == request.origin and url.user is None and url.password is None
    except ValueError:
        raise NextPageUnavailable from None
    if isinstance(body, dict) and not paging.controls and not (same and url.raw_path == request.path):
        return None
    if not same or (url.raw_path != request.path and (isinstance(body, dict) or not anywhere)):
        raise NextPageUnavailable
    pairs = (pair for pair in url.raw_query_string.split("&") if pair)
    return replace(request, path=url.raw_path, query=tuple(without(pairs, credentials.query)))


def _with(request: HttpRequest, parameter: Parameter, value: str) -> HttpRequest:
    name = encode(parameter.wire_name)
    kept = (pair for pair in request.query if pair.partition("=")[0] != name)
    return replace(request, query=(*kept, f"{name}={encode(value)}"))


def facts_of(body: JsonValue) -> dict[str, JsonValue]:
    """The body's data besides its items, by plain name: its own members and those of metadata objects."""
    if not isinstance(body, dict):
        return {}
    facts: dict[str, JsonValue] = {}
    inner: dict[str, JsonValue] = {}
    left = MAX_NAMES
    for name, value in islice(body.items(), MAX_NAMES):
        if isinstance(value, dict) and is_one_of(name, CONTAINERS):
            for inside, fact in islice(value.items(), left):
                left -= 1
                if len(inside) <= _MAX_NAME_CHARS:
                    inner.setdefault(plain(inside), fact)
        elif not isinstance(value, list) and len(name) <= _MAX_NAME_CHARS:
            facts[plain(name)] = value
    return inner | facts


def first_fact(facts: Mapping[str, JsonValue], names: Sequence[str]) -> JsonValue:
    """The first of these facts that the body holds."""
    return next((value for name in names if (value := facts.get(name)) is not None), None)


def _takes_number(parameter: Parameter) -> bool:
    kind = parameter.json_schema.get("type")
    return kind in ("integer", "number") or (isinstance(kind, list) and bool({"integer", "number"} & {*map(str, kind)}))


def integer(value: JsonValue) -> int | None:
    """The value if it is a number that can count something, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else None


def is_one_of(name: str, known: Container[str]) -> bool:
    """Whether a name of an answer's member is, in its plain form, among these."""
    return len(name) <= _MAX_NAME_CHARS and plain(name) in known


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name without case and punctuation: `next_page_token`, `nextPageToken` and `NextPageToken` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
