"""Lists of the peers, a page at a time: each element once, whatever is removed in between, and no forged cursor."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.contracts.demo import Demo
from services.contracts.plan import Plan
from tests.support.gateways import FIND, Fakes, Gateway, call, open_gateway, world_api

APIS = [world_api(f"get{n:03}", f"Get {n}") for n in range(120)]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    fakes = Fakes()
    fakes.retriever.apis = {api.id: api for api in APIS}
    async with open_gateway(tmp_path, fakes) as running:
        yield running


async def test_each_api_is_listed_once_although_some_are_removed(gateway: Gateway) -> None:
    first = await gateway.client.search_apis(limit=50)
    for hit in first.hits[:10]:
        del gateway.fakes.retriever.apis[hit.id]
    second = await gateway.client.search_apis(limit=100, cursor=first.next)
    assert [hit.id for hit in (*first.hits, *second.hits)] == [api.id for api in APIS]
    assert second.next is None


async def test_each_demonstration_is_listed_once_although_some_are_removed(gateway: Gateway) -> None:
    added = [
        await gateway.client.add_demo(Demo(query=f"q{n}", plan=Plan(steps=(call("var1", FIND),)))) for n in range(5)
    ]
    first = await gateway.client.demos(limit=2)
    await gateway.client.delete_demo(added[0].id)
    second = await gateway.client.demos(limit=3, cursor=first.next)
    assert [*first.demos, *second.demos] == added
    assert second.next is None


@pytest.mark.parametrize(
    "path",
    [
        "/demos?cursor=x",
        "/demos?cursor=-1",
        f"/demos?cursor={'9' * 30}",
        "/demos?cursor=1&offset=20",
        "/demos?offset=20",
        "/documents?offset=100",
        "/documents?cursor=NOT%20ONE",
        "/documents?cursor=%00",
        "/apis?offset=20",
        "/apis?cursor=%00",
        "/apis?query=x&cursor=world.get001",
        f"/apis?cursor={'x' * 401}",
        "/v1/demos?offset=20",
    ],
)
async def test_a_forged_cursor_and_an_offset_of_earlier_versions_are_refused(gateway: Gateway, path: str) -> None:
    answer = await gateway.http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "cursor" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/demos", "/documents", "/apis", "/apis?query=x"])
async def test_an_offset_of_nothing_is_taken(gateway: Gateway, path: str) -> None:
    """A client of earlier versions that only reads the first page sends it."""
    answer = await gateway.http.get(path, params={"offset": 0})
    assert answer.status_code == 200


async def test_the_console_pages_through_the_catalogue(gateway: Gateway) -> None:
    async def page(path: str, **asked: Any) -> str:
        answer = await gateway.http.get(f"/console/{path}", params=asked)
        assert answer.status_code == 200
        return answer.text

    first = await page("catalogue")
    assert "cursor=world.get049" in first
    assert "From the beginning" not in first
    last = await page("catalogue", cursor="world.get099")
    assert "world.get100" in last
    assert "world.get099" not in last
    assert "cursor=" not in last
    assert "From the beginning" in last
    assert "offset=50" in await page("catalogue", q="get")
