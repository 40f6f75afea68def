"""Lists in pages that do not end, do not go on, or go wrong: how far they are followed, and what is said of it."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.support.executing import api, failed, value
from tests.support.paging import PATH, Page, linked, number, paged, read, token
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener


def endless(upstream: Upstream) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 1))
        return linked([page, page], f"</list?page={page + 1}>; rel=next")

    paged(upstream, answer)


async def test_lists_are_followed_up_to_a_number_of_pages(upstream: Upstream, opened: Opener) -> None:
    endless(upstream)
    whole, pages, more = read(await (await opened(max_pages=3))(api(upstream.origin, PATH)))
    assert (whole, pages, more) == ([1, 1, 2, 2, 3, 3], 3, True)
    assert upstream.count(PATH) == 3


async def test_and_up_to_a_number_of_items(upstream: Upstream, opened: Opener) -> None:
    endless(upstream)
    result = await (await opened(max_list_items=3))(api(upstream.origin, PATH))
    assert read(result) == ([1, 1, 2, 2], 2, True)


async def test_and_up_to_a_number_of_bytes(upstream: Upstream, opened: Opener) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 1))
        return linked([str(page) * 400], f"</list?page={page + 1}>; rel=next")

    paged(upstream, answer)
    result = await (await opened(max_response_bytes=1_000))(api(upstream.origin, PATH))
    assert read(result) == (["1" * 400, "2" * 400], 2, True)
    assert upstream.count(PATH) == 3


@pytest.mark.parametrize("back_to", ["/list?page=1", "/list?page=2", "/list"])
async def test_a_list_that_bites_its_tail_ends(upstream: Upstream, opened: Opener, back_to: str) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 0))
        return linked([page], f"<{'/list?page=' + str(page + 1) if page < 2 else back_to}>; rel=next")

    paged(upstream, answer)
    whole, pages, more = read(await (await opened())(api(upstream.origin, PATH)))
    assert more
    assert whole == list(range(pages))
    assert pages <= 4


async def test_a_token_that_does_not_change_ends_the_list(upstream: Upstream, opened: Opener) -> None:
    count = iter(range(99))
    paged(upstream, lambda _: {"items": [next(count)], "next_cursor": "same"})
    whole, pages, more = read(await (await opened())(api(upstream.origin, PATH, token("cursor"))))
    assert (whole["items"], pages, more) == ([0, 1], 2, True)


async def test_an_upstream_that_does_not_heed_the_page_is_not_read_twice(upstream: Upstream, opened: Opener) -> None:
    paged(upstream, lambda _: {"items": [1, 2], "total": 99})
    whole, pages, more = read(await (await opened())(api(upstream.origin, PATH, number("page"))))
    assert (whole["items"], pages, more) == ([1, 2], 1, True)
    assert upstream.count(PATH) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"items": [1], "others": [2], "orders": [3], "next_cursor": "x"} | {"items": None},
        {"data": {"items": [1]}, "next_cursor": "x"},
        {"has_more": True, "items": [1]},
    ],
)
async def test_a_list_that_cannot_be_followed_does_not_look_complete(
    upstream: Upstream, opened: Opener, body: Any
) -> None:
    paged(upstream, lambda _: body)
    name = "limit" if "has_more" in body else "cursor"
    parameters = [number("limit")] if name == "limit" else [token("cursor")]
    assert read(await (await opened())(api(upstream.origin, PATH, *parameters))) == (body, 1, True)
    assert upstream.count(PATH) == 1


@pytest.mark.parametrize(
    ("second", "reason", "words"),
    [
        (web.Response(status=500), "upstream_error", "page 2 of the list: the upstream answered 500"),
        (web.Response(text="<html>", content_type="text/html"), "bad_response", "page 2 of the list: expected"),
        (web.json_response("no list"), "bad_response", "page 2 of the list: it is not a list like the first page"),
    ],
)
async def test_half_a_list_does_not_pass_for_a_list(
    upstream: Upstream, opened: Opener, second: web.Response, reason: str, words: str
) -> None:
    upstream.replies(PATH, linked([1], "</list?page=2>; rel=next"), second)
    result = await (await opened())(api(upstream.origin, PATH))
    assert failed(result, reason).message.startswith(words)
    assert (result.attempts, result.pages) == (1, 1)


async def test_a_page_is_tried_again_by_itself(upstream: Upstream, opened: Opener) -> None:
    link = linked([1], "</list?page=2>; rel=next")
    upstream.replies(PATH, link, web.Response(status=503), web.json_response([2]))
    result = await (await opened())(api(upstream.origin, PATH))
    assert read(result) == ([1, 2], 2, False)
    assert (result.attempts, upstream.count(PATH)) == (2, 3)


async def test_the_deadline_holds_for_all_pages_together(upstream: Upstream, opened: Opener) -> None:
    @upstream.on(PATH)
    async def slow(seen: Seen) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return linked([len(upstream.seen)], f"</list?page={len(upstream.seen) + 1}>; rel=next")

    result = await (await opened(max_pages=1_000))(api(upstream.origin, PATH), within_s=0.5)
    failed(result, "timeout")


async def test_each_page_is_checked_against_the_schema(upstream: Upstream, opened: Opener) -> None:
    upstream.replies(PATH, linked([1], "</list?page=2>; rel=next"), web.json_response(["x"]))
    operation = api(upstream.origin, PATH)
    response = operation.response.model_copy(update={"json_schema": {"items": {"type": "integer"}, "maxItems": 1}})
    result = await (await opened())(operation.model_copy(update={"response": response, "content_hash": "h"}))
    assert value(result) == [1, "x"]
    assert result.violations == ("/0: type integer",)
