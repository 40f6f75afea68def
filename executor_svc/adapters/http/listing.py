"""Joins pages into one value. Lists are concatenated; an object keeps the first page's members and joins its list."""

from dataclasses import dataclass, replace
from typing import Self

from pydantic import JsonValue

from executor_svc.adapters.http.ending import list_member, said_by
from executor_svc.adapters.http.paging import NextPageUnavailable, Paging, Progress, first_number, next_page
from executor_svc.adapters.http.request import MAX_URL_CHARS, Credentials, HttpRequest
from executor_svc.adapters.http.response import BadResponse
from executor_svc.adapters.http.transport import Reply


@dataclass(frozen=True, slots=True)
class ListLimits:
    """How far lists are followed: pages, items, and total bytes of all pages."""

    pages: int
    items: int
    bytes: int

    def for_items(self, wanted: int | None) -> Self:
        """The limits with at most ``wanted`` items, if the plan uses only that many."""
        return self if wanted is None or wanted >= self.items else replace(self, items=wanted)


class Listing:
    """A list that is being read, starting with its first page.

    Attributes:
        pages: the number of pages read.
        more: whether the list continues after them.

    Args:
        anywhere: whether the next page may have another path of the same origin.
    """

    def __init__(
        self,
        paging: Paging,
        limits: ListLimits,
        request: HttpRequest,
        reply: Reply,
        value: JsonValue,
        *,
        anywhere: bool = False,
    ) -> None:
        self.pages, self.more = 1, False
        self._paging, self._limits, self._anywhere = paging, limits, anywhere
        self._request, self._reply, self._page = request, reply, value
        self._whole, self._member = value, list_member(value)
        self._bytes, self._seen = len(reply.body), set[str]()
        self._last = self._items_of(value) or []
        self._items = self._last
        self._first, self._said = first_number(paging, value), said_by(paging, reply, value)

    @property
    def value(self) -> JsonValue:
        """All pages as one value."""
        if self.pages == 1:
            return self._whole
        return {**self._whole, self._member: self._items} if isinstance(self._whole, dict) else self._items

    def next_request(self, credentials: Credentials) -> HttpRequest | None:
        """The request for the next page. None if there is none, or if a limit is reached."""
        if self.more:
            return None
        progress = Progress(self.pages, len(self._items), len(self._last), self._first)
        try:
            request = next_page(
                self._paging, self._request, credentials, self._reply, self._page, progress, anywhere=self._anywhere
            )
        except NextPageUnavailable:
            self.more = True
            return None
        if request is None:
            self.more = self._goes_on()
            return None
        self._seen.add(self._request.url_text(Credentials()))
        url = request.url_text(Credentials())
        full = self.pages >= self._limits.pages or len(self._items) >= self._limits.items
        if full or url in self._seen or len(url) > MAX_URL_CHARS or not self.is_list:
            self.more = True
            return None
        self._request = request
        return request

    def add(self, reply: Reply, value: JsonValue) -> None:
        """Add the requested page. Ignores one that repeats the last one, exceeds the byte limit or holds no list.

        Raises:
            BadResponse: it is not a page of this list.
        """
        items = self._items_of(value)
        if items is None:
            raise BadResponse("it is not a list like the first page")
        self._bytes += len(reply.body)
        if self._bytes > self._limits.bytes or (items and items == self._last) or not self._may_follow(reply, value):
            self.more = True
            return
        self._reply, self._page, self._last = reply, value, items
        self._items = [*self._items, *items]
        self.pages += 1

    @property
    def may_have_more(self) -> bool:
        """Whether other pages may follow the first: the API has pages, or the answer holds a list."""
        return bool(self._paging.controls) or self._said.items is not None or bool(self._said.more)

    @property
    def is_list(self) -> bool:
        """Whether the location of the items is known."""
        return self._member != "" or isinstance(self._whole, list)

    def _items_of(self, value: JsonValue) -> list[JsonValue] | None:
        """The items of a page; none of an object without its list. Some upstreams end a list with one."""
        if isinstance(self._whole, dict) and isinstance(value, dict):
            value = value.get(self._member) or []
        return value if isinstance(value, list) else None

    def _goes_on(self) -> bool:
        """Whether the list continues although the next page cannot be told: as the last or the first page says."""
        last = self._said if self.pages == 1 else said_by(self._paging, self._reply, self._page)
        read = len(self._items) if self.is_list else self._said.items or 0
        counted = any(one.counts_more(read, self.pages) for one in (last, self._said))
        return counted or (last.failed if last.more is None else last.more)

    def _may_follow(self, reply: Reply, value: JsonValue) -> bool:
        """Whether this can be the next page: it has items, or is the end and contradicts no page before it.

        Some upstreams answer with an object without the list at the end, but others do so when something is wrong.
        """
        if not isinstance(value, dict) or isinstance(value.get(self._member), list):
            return True
        said = said_by(self._paging, reply, value)
        if said.more is not None or self._said.counts:
            return said.more is not True and not self._said.counts_more(len(self._items), self.pages)
        promised = said_by(self._paging, self._reply, self._page).more
        return not said.failed and not promised
