"""Looking for the next page costs little, whatever an answer holds: it is done on the event loop."""

import time
from itertools import product

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import JsonValue

from executor_svc.adapters.http.listing import Listing, ListLimits
from executor_svc.adapters.http.paging import MAX_NAMES, paging_of, plain
from executor_svc.adapters.http.request import Credentials, build_request
from executor_svc.adapters.http.transport import Reply
from services.contracts.api import Api
from tests.support.executing import api, parameter

PLAIN_API = api("https://api.example", "/list")
CURSOR_API = api("https://api.example", "/list", parameter("cursor"))
REPLY = Reply(200, CIMultiDictProxy(CIMultiDict()), b"", truncated=False)
_AT_MOST_S = 1.0


def listing(operation: Api, answer: JsonValue) -> Listing:
    paging = paging_of(operation)
    assert paging is not None
    return Listing(paging, ListLimits(10, 1_000, 10_000_000), build_request(operation, {}, "key"), REPLY, answer)


def like_metadata(count: int) -> dict[str, JsonValue]:
    names = ("meta" + "".join(signs) for signs in product("_-.:", repeat=8))
    return {name: {f"fact{at}": at} for at, name in zip(range(count), names, strict=False)}


@pytest.mark.parametrize(
    "answer",
    [
        {"items": [1], **like_metadata(30_000)},
        {"items": [1], "meta": {f"fact{at}": at for at in range(200_000)}, **like_metadata(30_000)},
        {"items": [1], **{f"name{at}": at for at in range(500_000)}},
        {f"items{at}": [] for at in range(500_000)},
        {"items": [1], "next_cursor": "é" * 5_000_000},
        {"items": [1], "next": "/" + "é" * 5_000_000},
        {"data": {f"items{at}": [] for at in range(500_000)}, **{f"data{'_' * at}": {} for at in range(1, 1_000)}},
        {"items": [{f"price{at}": at for at in range(500_000)}] * 2, "total": 9},
    ],
    ids=["metadata", "large metadata", "members", "lists", "cursor", "url", "wrapped", "prices"],
)
@pytest.mark.parametrize("operation", [PLAIN_API, CURSOR_API], ids=["plain", "cursor"])
def test_it_is_found_in_bounded_time(operation: Api, answer: JsonValue) -> None:
    plain.cache_clear()
    began = time.thread_time()
    read = listing(operation, answer)
    assert read.may_have_more in (True, False)
    assert read.next_request(Credentials()) is None
    assert time.thread_time() - began < _AT_MOST_S
    assert plain.cache_info().misses <= 3 * MAX_NAMES


def test_a_cursor_too_long_for_a_url_leaves_the_list_unfinished() -> None:
    read = listing(CURSOR_API, {"items": [1], "next_cursor": "a" * 100_000})
    assert read.next_request(Credentials()) is None
    assert read.more


def test_no_long_name_stays_in_memory() -> None:
    plain.cache_clear()
    assert not listing(PLAIN_API, {"x" * 1_000_000: 1, "y" * 1_000_000: {}}).may_have_more
    assert listing(CURSOR_API, {"z" * 1_000_000: [], "meta": {"a" * 1_000_000: 1}}).next_request(Credentials()) is None
    assert plain.cache_info().currsize <= len(("cursor", "items", "meta")) + 1


def test_facts_about_the_list_count_wherever_they_stand() -> None:
    read = listing(CURSOR_API, {"items": [1], "Meta": {"nextCursor": "in meta"}, "next_cursor": "own", "paging": {}})
    request = read.next_request(Credentials())
    assert request is not None
    assert request.query == ("cursor=own",)
