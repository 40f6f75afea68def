"""Lists in pages, against real upstreams on real sockets; the sandbox's own lists among them."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from aiohttp import web
from yarl import URL

from deploy.onebox import sandbox_access
from deploy.sockets import address, listen, serving
from retriever_svc.importers import import_document
from sandbox.main import create_app as create_sandbox
from services.contracts.api import Api
from tests.support.executing import api, key_in, parameter, value
from tests.support.paging import PATH, Page, linked, number, paged, read, token
from tests.support.upstream import Seen, Upstream, serve_upstream
from tests.unit.executor_svc.conftest import Opener


class TestLinks:
    """RFC 8288."""

    @pytest.mark.parametrize(
        "link",
        [
            '<{u}>; rel="next"',
            "<{u}>; rel=next",
            '<{p}>;rel="prev", <{u}>; title="a, b"; REL="last Next"',
            '<{u}>; rel="NEXT"; title="x"',
        ],
    )
    @pytest.mark.parametrize("target", ["{o}/list?page={n}", "/list?page={n}", "?page={n}", "list?page={n}"])
    async def test_they_are_followed(self, upstream: Upstream, opened: Opener, link: str, target: str) -> None:
        def answer(query: dict[str, str]) -> Page:
            page = int(query.get("page", 1))
            to = target.format(o=upstream.origin, n=page + 1)
            return linked([page], link.format(u=to, p="/list?page=0")) if page < 4 else [page]

        paged(upstream, answer)
        result = await (await opened())(api(upstream.origin, PATH))
        assert read(result) == ([1, 2, 3, 4], 4, False)
        assert result.attempts == 1

    @pytest.mark.parametrize(
        "link",
        ["", "next", "<>", '</list?page=2>; rel="prev"', '</list?page=2>; rel="next"; anchor="/other"', "<;,<>>"],
    )
    async def test_other_links_are_not(self, upstream: Upstream, opened: Opener, link: str) -> None:
        paged(upstream, lambda _: linked([1], link))
        assert read(await (await opened())(api(upstream.origin, PATH))) == ([1], 1, False)
        assert upstream.count(PATH) == 1

    @pytest.mark.parametrize(
        "target",
        ["http://{other}/list", "//{other}/list", "https://{host}/list", "http://user@{host}/list", "file:///etc/passwd",
         "javascript:1", "http://[", "http://[::1]@/x", "http://{host}:1/x"],
    )  # fmt: skip
    async def test_one_that_leads_elsewhere_ends_the_list_and_it_is_said(
        self, upstream: Upstream, opened: Opener, target: str
    ) -> None:
        async with serve_upstream() as evil:
            to = target.format(other=evil.host, host=upstream.host)
            paged(upstream, lambda _: linked([1], f'<{to}>; rel="next"'))
            call = await opened({"test.it": {"value": "canary-1234", "hosts": [upstream.host]}})
            result = await call(api(upstream.origin, PATH, security=((key_in("header"),),)))
            assert read(result) == ([1], 1, True)
            assert evil.seen == []
        assert all(seen.path == PATH or seen.path.endswith("/list") for seen in upstream.seen)

    @pytest.mark.parametrize("target", ["/admin/users", "/list/2", "/list/", "/LIST", "/%6cist/../admin", "/list;x=1"])
    async def test_one_to_another_path_is_taken_only_where_all_of_the_host_may_be_read(
        self, upstream: Upstream, opened: Opener, target: str
    ) -> None:
        """Rules allow the path of the operation; an answer must not lead past them."""
        paged(upstream, lambda _: linked([1], f'<{target}>; rel="next"'))

        @upstream.on(str(URL(upstream.origin + PATH).join(URL(target, encoded=True)).raw_path))
        async def other(_: Seen) -> web.Response:
            return web.json_response([2])

        call = await opened()
        assert read(await call(api(upstream.origin, PATH))) == ([1], 1, True)
        assert [seen.path for seen in upstream.seen] == [PATH]
        assert read(await call(api(upstream.origin, PATH), pages_anywhere=True)) == ([1, 2], 2, False)

    async def test_credentials_go_along_and_once(self, upstream: Upstream, opened: Opener) -> None:
        """This upstream repeats the key it was given in the URL of the next page."""

        def answer(query: dict[str, str]) -> Page:
            page = int(query.get("page", 1))
            target = f"/list?k%65y={quote(query['key'])}&page={page + 1}"
            return linked([page], f"<{target}>; rel=next") if page < 3 else [page]

        paged(upstream, answer)
        call = await opened(
            {"test.it": {"value": "canary 1234", "in": "query", "name": "key", "hosts": [upstream.host]}}
        )
        result = await call(api(upstream.origin, PATH, security=((key_in("query", "key"),),)))
        assert read(result) == ([1, 2, 3], 3, False)
        assert [seen.query.count("canary%201234") for seen in upstream.seen] == [1, 1, 1]
        assert "canary" not in repr(result)


async def test_pages_go_on_from_a_constant(upstream: Upstream, opened: Opener) -> None:
    """What is set for the provider is the first page; the next one is not the second."""
    paged(upstream, lambda query: {"items": [int(query["page"])], "total_pages": 3})
    page = number("page").model_copy(update={"constant": 4})
    assert read(await (await opened())(api(upstream.origin, PATH, page))) == (
        {"items": [4, 5, 6], "total_pages": 3},
        3,
        False,
    )


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("page_token", "next_page_token"),
        ("pageToken", "nextPageToken"),
        ("cursor", "next_cursor"),
        ("cursor", "nextCursor"),
        ("cursor", "next"),
        ("nextToken", "nextToken"),
        ("NextToken", "NextToken"),
        ("continuation_token", "continuationToken"),
        ("marker", "next_marker"),
        ("cursor", "cursor"),
        ("page[cursor]", "next_cursor"),
    ],
)
@pytest.mark.parametrize("inside", [None, "meta", "pagination", "page_info"])
@pytest.mark.parametrize("end", [{"leave out": True}, {"value": None}, {"value": ""}])
async def test_tokens(
    upstream: Upstream, opened: Opener, name: str, member: str, inside: str | None, end: dict[str, Any]
) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get(name, "after:0&").removeprefix("after:").removesuffix("&"))
        facts = {member: f"after:{page + 1}&"} if page < 2 else {} if "leave out" in end else {member: end["value"]}
        return {"orders": [page], "of": "me"} | ({inside: facts} if inside else facts)

    paged(upstream, answer)
    result = await (await opened())(api(upstream.origin, PATH, token(name), parameter("q")), q="a b")
    whole, pages, more = read(result)
    assert (whole["orders"], whole["of"], pages, more) == ([0, 1, 2], "me", 3, False)
    assert [seen.query.startswith("q=a%20b") for seen in upstream.seen] == [True] * 3


@pytest.mark.parametrize("last", [False, None])
async def test_a_flag_ends_a_list_whatever_else_is_said(upstream: Upstream, opened: Opener, last: bool | None) -> None:
    paged(upstream, lambda _: {"items": [1], "page_info": {"has_next_page": False, "end_cursor": "x"}, "next": last})
    assert read(await (await opened())(api(upstream.origin, PATH, token("cursor"))))[1:] == (1, False)


@pytest.mark.parametrize(
    "next_", [lambda u: {"next": u}, lambda u: {"links": {"next": u}}, lambda u: {"_links": {"next": {"href": u}}},
              lambda u: {"@odata.nextLink": u}, lambda u: {"paging": {"next": u}}, lambda u: {"next_page_url": u}],
)  # fmt: skip
@pytest.mark.parametrize("absolute", [True, False])
async def test_urls_in_the_body(upstream: Upstream, opened: Opener, next_: Any, absolute: bool) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 1))
        url = f"{upstream.origin if absolute else ''}{PATH}?page={page + 1}"
        return {"results": [page], "count": 3} | next_(url if page < 3 else None)

    paged(upstream, answer)
    whole, pages, more = read(await (await opened())(api(upstream.origin, PATH)))
    assert (whole["results"], whole["count"], pages, more) == ([1, 2, 3], 3, 3, False)


async def test_a_chapter_with_a_next_one_is_no_list(upstream: Upstream, opened: Opener) -> None:
    chapter: dict[str, object] = {"title": "One", "tags": ["a"], "next": "/chapters/2"}
    upstream.replies(PATH, chapter)
    upstream.replies("/linked", web.json_response(chapter, headers={"Link": "</chapters/2>; rel=next"}))
    call = await opened()
    assert read(await call(api(upstream.origin, PATH))) == (chapter, 1, False)
    assert read(await call(api(upstream.origin, "/linked", name="linked"))) == (chapter, 1, False)
    assert upstream.count("/chapters/2") == 0


ALL = list(range(25))


@pytest.mark.parametrize(
    "facts",
    [
        lambda n: {"total": 25},
        lambda n: {"totalCount": 25, "page": n},
        lambda n: {"pages": 3},
        lambda n: {"meta": {"total_pages": 3}},
        lambda n: {"has_more": n < 3},
        lambda n: {"pagination": {"hasNext": n < 3}},
        lambda n: {"next_page": n + 1 if n < 3 else None},
        lambda n: {"size": 10},
        lambda n: {},
    ],
)
@pytest.mark.parametrize("name", ["page", "pageNumber", "page[number]"])
async def test_page_numbers(upstream: Upstream, opened: Opener, facts: Any, name: str) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get(name, 1))
        return {"items": ALL[(page - 1) * 10 : page * 10]} | facts(page)

    paged(upstream, answer)
    result = await (await opened())(api(upstream.origin, PATH, number(name), number("size", default=10)))
    whole, pages, more = read(result)
    assert (whole["items"], pages, more) == (ALL, 3, False)


@pytest.mark.parametrize(
    ("schema", "facts"), [({"default": 0}, {}), ({"minimum": 0}, {}), ({}, {"page": 0}), ({}, {"number": 0})]
)
async def test_pages_that_count_from_nought(upstream: Upstream, opened: Opener, schema: Any, facts: Any) -> None:
    def answer(query: dict[str, str]) -> Page:
        page = int(query.get("page", 0))
        said = dict.fromkeys(facts, page)
        return {"content": ALL[page * 10 : page * 10 + 10], "totalElements": 25} | said

    paged(upstream, answer)
    assert read(await (await opened())(api(upstream.origin, PATH, number("page", **schema))))[0]["content"] == ALL


@pytest.mark.parametrize("facts", [{"total": 25}, {"limit": 10}, {}])
@pytest.mark.parametrize("name", ["offset", "skip", "$skip"])
async def test_offsets(upstream: Upstream, opened: Opener, facts: Any, name: str) -> None:
    def answer(query: dict[str, str]) -> Page:
        start = int(query.get(name, 0))
        return {"items": ALL[start : start + 10]} | facts

    paged(upstream, answer)
    result = await (await opened())(api(upstream.origin, PATH, number(name), number("limit", default=10)))
    whole, pages, more = read(result)
    assert (whole["items"], pages, more) == (ALL, 3, False)


async def test_plain_lists_with_a_total_in_a_header(upstream: Upstream, opened: Opener) -> None:
    def answer(query: dict[str, str]) -> Page:
        start = int(query.get("offset", 0))
        return web.json_response(ALL[start : start + 10], headers={"X-Total-Count": "25"})

    paged(upstream, answer)
    assert read(await (await opened())(api(upstream.origin, PATH, number("offset")))) == (ALL, 3, False)


@pytest.mark.parametrize("arguments", [{"page": 1}, {"size": 5}])
async def test_a_plan_that_says_which_part_it_wants_gets_that(
    upstream: Upstream, opened: Opener, arguments: Any
) -> None:
    paged(upstream, lambda _: {"items": [1], "total": 99})
    operation = api(upstream.origin, PATH, number("page"), number("size"))
    assert read(await (await opened())(operation, **arguments))[1:] == (1, False)
    assert upstream.count(PATH) == 1


async def test_an_argument_of_null_says_nothing(upstream: Upstream, opened: Opener) -> None:
    paged(upstream, lambda query: {"items": [query.get("page", "1")], "pages": 2})
    result = await (await opened())(api(upstream.origin, PATH, number("page")), page=None)
    assert read(result)[0]["items"] == ["1", "2"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_only_reading_is_repeated(upstream: Upstream, opened: Opener, method: str) -> None:
    paged(upstream, lambda _: linked([1], "</list?page=2>; rel=next"))
    assert read(await (await opened())(api(upstream.origin, PATH, method=method))) == ([1], 1, False)
    assert upstream.count(PATH) == 1


@pytest.fixture(scope="module")
def sandbox() -> Iterator[tuple[str, dict[str, Api]]]:
    """The sandbox's credentials, and its operations by name."""
    bound = listen("127.0.0.1", 0)
    host = address(bound)
    access = sandbox_access(host)
    with serving(create_sandbox(access.settings), bound=bound) as url:
        imported = import_document(httpx2.get(f"{url}/openapi.json", timeout=30).text, provider="sandbox")
        yield access.secrets, {made.name: made for made in imported.apis}


class TestSandbox:
    """The lists of the sandbox, in each of its five kinds, are whole and begin as they do in one large page."""

    @pytest.mark.parametrize(
        ("name", "arguments", "member", "large"),
        [
            ("searchCountries", {"name": "an"}, "items", {"size": 100}),
            ("searchAirports", {"query": "port", "country_code": "PT"}, "items", {"limit": 100}),
            ("listCurrencies", {}, "items", {"limit": 100}),
            ("listSubdivisions", {"country_code": "TR"}, None, {"limit": 100}),
            ("searchProducts", {}, "items", {"size": 100}),
            ("listCustomerOrders", {"customer_id": "cus_10"}, "orders", {"page_size": 50}),
        ],
    )
    async def test_whole(
        self,
        sandbox: tuple[str, dict[str, Api]],
        opened: Opener,
        name: str,
        arguments: Any,
        member: str | None,
        large: Any,
    ) -> None:
        call, operation = await opened(json.loads(sandbox[0]), max_pages=50), sandbox[1][name]
        if name == "listCustomerOrders":
            order = {"customer_id": "cus_10", "lines": [{"sku": "AUD-1001"}]}
            for index in range(25):
                value(await call(sandbox[1]["createOrder"], key=f"run/{index}", **order))
        whole, once = await call(operation, **arguments), await call(operation, **arguments, **large)
        items, expected = (value(r)[member] if member else value(r) for r in (whole, once))
        assert items[:100] == expected
        assert len({json.dumps(item) for item in items}) == len(items)
        assert not member or len(items) == value(whole).get("total", len(items))
        assert (whole.pages > 1, once.pages, whole.more) == (True, 1, False)
        assert whole.violations == once.violations == ()
