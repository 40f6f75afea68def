"""Where lists end: one that goes on is never taken for a whole one, and a whole list or no list for no part."""

from typing import Any

import pytest
from aiohttp import web

from services.contracts.api import Location, RequestBody
from tests.support.executing import api, parameter
from tests.support.paging import PATH, Page, linked, number, paged, read, token
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener

TWO: list[dict[str, Any]] = [{"id": 1}, {"id": 2}]


async def more(upstream: Upstream, opened: Opener, answer: Page, *parameters: Any, **arguments: Any) -> bool:
    upstream.replies(PATH, answer)
    result = await (await opened())(api(upstream.origin, PATH, *parameters), **arguments)
    assert result.pages == 1
    return read(result)[2]


@pytest.mark.parametrize(
    "answer",
    [
        {"items": TWO, "has_more": True},
        {"id": "u1", "name": "Ada", "posts": TWO, "hasMore": True},
        {"items": TWO, "next_cursor": "abc"},
        {"items": TWO, "nextPageToken": 3},
        {"items": TWO, "meta": {"next": "abc"}},
        {"items": TWO, "next_page": 2},
        {"items": TWO, "next": "/other?page=2"},
        {"items": TWO, "links": {"next": {"href": "/other?page=2"}}},
        {"items": TWO, "total": 500, "limit": 2},
        {"items": TWO, "total": 500, "next": None},
        {"items": TWO, "pages": 3, "per_page": 2},
        {"countries": TWO, "total_count": 3, "query": "a"},
        {"items": [{"price": 100}, {"price": 150}], "total": 3_000, "offset": 0},
        {"items": [{"version": 2}, {"version": 2}], "total": 4, "page": 1},
        {"items": [{"votes": 40}, {"votes": 17}], "total": 57, "has_more": True},
        {"items": [{"votes": 40}, {"votes": 17}], "meta": {"total": 57}},
        {"id": "u1", "name": "Ada", "posts": TWO, "meta": {"total": 3}},
        {"items": TWO, "page": 1, "total_pages": 2},
        {"items": TWO, "has_more": False, "total": 3},
        {"data": {"items": TWO, "total": 3, "page": 1}, "code": 0},
        {"_embedded": {"orders": TWO}, "page": {"size": 2, "totalElements": 3, "totalPages": 2, "number": 0}},
        {"orders": TWO, "returns": TWO, "has_more": True},
        web.json_response(TWO, headers={"X-Total-Count": "3"}),
        web.json_response({"items": TWO}, headers={"Link": "</other>; rel=next"}),
    ],
)
async def test_an_answer_says_that_its_list_goes_on(upstream: Upstream, opened: Opener, answer: Page) -> None:
    """The API has no parameters for pages, so that no other page can be requested."""
    assert await more(upstream, opened, answer)


@pytest.mark.parametrize(
    "answer",
    [
        {"items": TWO},
        {"items": TWO, "total": 2},
        {"items": TWO, "total": 2, "has_more": False, "next": None, "next_cursor": "", "pages": 1},
        {"items": TWO, "next_cursor": None},
        {"items": [], "total": 0},
        {"items": TWO, "limit": 100, "offset": 0, "count": 2},
        {"items": TWO, "page_info": {"end_cursor": "abc", "has_next_page": False}},
        {"data": {"items": TWO, "total": 2}, "code": 0},
        web.json_response(TWO, headers={"X-Total-Count": "2"}),
        web.json_response(TWO, headers={"X-Total-Count": "many"}),
        # Not about the list:
        {"items": [{"sku": "a", "price": 100}, {"sku": "b", "price": 150}], "total": 250},
        {"lines": [{"sku": "a", "price": 100, "quantity": 3}, {"sku": "b", "price": 50, "quantity": 1}], "total": 385},
        {"id": 1, "lines": TWO, "currency": "EUR", "total": 250},
        {"lines": TWO, "total": {"amount": 250, "currency": "EUR"}},
        {"lines": TWO, "total": 250.5},
        {"items": TWO, "totalPrice": 250},
        {"items": [{"sku": "a", "qty": 2}], "total": 120, "status": "ok"},
        {"items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 3}], "total_items": 5},
        {"results": [{"option": "a", "votes": 40}, {"option": "b", "votes": 17}], "total": 57},
        {"data": [{"task": "a", "minutes": 90}], "total": 90},
        {"data": [{"task": "a", "minutes": 90}], "total": 90, "limit": 10},
        {"items": ["first", "second"], "pages": 320},
        {"items": TWO, "total": 120, "total_items": 2},
        {"title": "A", "authors": ["B"], "pages": 320, "next": "next-one"},
        {"orders": TWO, "returns": TWO, "total": 40},
        {"orders": TWO, "total_customers": 40},
        {"name": "Ada", "team": TWO, "stats": {"total": 40, "has_more": True}},
        {"status": "open", "total": 40, "next": "/orders/2"},
        {"title": "A", "tags": ["b"], "more": True},
    ],
)
async def test_an_answer_that_says_no_such_thing(upstream: Upstream, opened: Opener, answer: Page) -> None:
    assert not await more(upstream, opened, answer)


@pytest.mark.parametrize("parameters", [[number("limit")], [token("cursor")], [number("offset", default=0)]])
async def test_a_part_that_the_plan_selects_is_no_cut_list(
    upstream: Upstream, opened: Opener, parameters: list[Any]
) -> None:
    assert not await more(upstream, opened, {"items": TWO, "total": 500}, *parameters, **{parameters[0].name: 2})


@pytest.mark.parametrize(("arguments", "expected"), [({"q": "a"}, True), ({"q": "a", "limit": 2}, False)])
@pytest.mark.parametrize("answer", [{"items": TWO, "has_more": True}, linked(TWO, "</list?page=2>; rel=next")])
async def test_a_search_by_post_is_not_repeated_but_told_as_cut(
    upstream: Upstream, opened: Opener, arguments: Any, expected: bool, answer: Page
) -> None:
    upstream.replies(PATH, answer)
    limit = number("limit").model_copy(update={"location": Location.BODY})
    search = api(upstream.origin, PATH, parameter("q", "body"), limit, method="POST", body=RequestBody())
    result = await (await opened())(search.model_copy(update={"effect": "read"}), **arguments)
    assert (result.pages, result.more) == (1, expected)
    assert upstream.count(PATH) == 1


async def test_a_limit_inside_a_whole_body_selects_a_part(upstream: Upstream, opened: Opener) -> None:
    upstream.replies(PATH, {"items": TWO, "has_more": True})
    search = api(upstream.origin, PATH, parameter("body", "body"), method="POST", body=RequestBody(whole=True))
    result = await (await opened())(search.model_copy(update={"effect": "read"}), body={"limit": 2})
    assert not result.more


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"error": "rate limit exceeded"}, True),
        ({}, True),
        ({"items": []}, True),
        ({"items": [], "total": 6, "next": None}, True),
        ({"items": [3, 4, 5, 6]}, False),
    ],
)
async def test_a_list_that_ends_below_its_total_is_cut(
    upstream: Upstream, opened: Opener, second: Page, expected: bool
) -> None:
    upstream.replies(PATH, {"items": [1, 2], "total": 6}, second)
    result = await (await opened())(api(upstream.origin, PATH, number("page")))
    assert read(result)[2] is expected


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"error": "rate limit exceeded"}, True),
        ({"errors": ["no more"], "items": None}, True),
        ({}, True),
        ({"has_more": True}, True),
        ({"next_cursor": None}, False),
        ({"has_more": False}, False),
        ({"items": []}, False),
        ({"items": [3]}, False),
    ],
)
async def test_a_page_that_was_promised_is_missing(
    upstream: Upstream, opened: Opener, second: Page, expected: bool
) -> None:
    upstream.replies(PATH, {"items": [1, 2], "next_cursor": "x"}, second)
    result = await (await opened())(api(upstream.origin, PATH, token("cursor")))
    assert read(result)[2] is expected


@pytest.mark.parametrize(("second", "expected"), [({}, False), ({"message": "no more"}, False), ({"error": "x"}, True)])
async def test_a_page_that_was_only_guessed_may_be_missing(
    upstream: Upstream, opened: Opener, second: Page, expected: bool
) -> None:
    upstream.replies(PATH, {"items": [1, 2]}, second)
    result = await (await opened())(api(upstream.origin, PATH, number("page"), number("size", default=2)))
    assert read(result)[2] is expected


async def test_pages_that_count_from_nought_undeclared_leave_a_gap_that_is_told(
    upstream: Upstream, opened: Opener
) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 0))
        return {"items": list(range(25))[page * 10 : page * 10 + 10], "total": 25}

    paged(upstream, answer)
    whole, _, cut = read(await (await opened())(api(upstream.origin, PATH, number("page"))))
    assert len(whole["items"]) < 25
    assert cut


async def test_what_a_constant_leaves_out_is_not_missing(upstream: Upstream, opened: Opener) -> None:
    paged(upstream, lambda query: {"items": [int(query["page"])] if int(query["page"]) < 7 else [], "total": 6})
    page = number("page").model_copy(update={"constant": 4})
    whole, _, cut = read(await (await opened())(api(upstream.origin, PATH, page)))
    assert (whole["items"], cut) == ([4, 5, 6], False)
