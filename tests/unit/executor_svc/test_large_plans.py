"""The APIs of plans count in memory while their runs are active."""

import asyncio
from itertools import islice

from aiohttp import web

from services.contracts.api import Api, ApiResponse
from services.contracts.base import JsonSchema
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.plan import content_hash
from services.errors import Overloaded
from tests.support.durable import House
from tests.support.executing import api, compiled, step
from tests.support.upstream import Seen, Upstream

SCHEMA: JsonSchema = {"type": "object", "properties": {f"p{number}": {} for number in range(16_000)}}
"""Some 3.2 MB in memory."""


def calling(upstream: Upstream, method: str, *, large: bool) -> Api:
    made = api(upstream.origin, "/slow", method=method)
    if not large:
        return made
    bare = made.model_copy(update={"response": ApiResponse(json_schema=SCHEMA), "content_hash": ""})
    return bare.model_copy(update={"content_hash": content_hash(bare.model_dump(mode="json"))})


async def test_runs_of_large_plans_are_refused_beyond_a_tenants_share(house: House, upstream: Upstream) -> None:
    executor, answer = await house.executor(max_held_bytes=16_000_000), asyncio.Event()

    @upstream.on("/slow")
    async def slow(_: Seen) -> web.StreamResponse:
        await answer.wait()
        return web.json_response({})

    async def ended(run_id: str, method: str, *, large: bool = True, tenant: str = "one") -> str:
        called = calling(upstream, method, large=large)
        asked = ExecuteRequest(run_id=run_id, compiled=compiled([called], step("a", called)), tenant=tenant)
        try:
            last = [event async for event in executor.execute(asked)][-1]
        except Overloaded as error:
            return error.detail
        assert isinstance(last, ExecutionFinished)
        return last.status

    begun = [asyncio.create_task(ended(f"{n}", method)) for n, method in enumerate(["GET", "POST"] * 3)]
    for refusal in islice(asyncio.as_completed(begun), 4):
        await refusal
    others = [
        asyncio.create_task(ended("small", "GET", large=False)),
        asyncio.create_task(ended("other", "POST", tenant="two")),
    ]
    answer.set()
    found = await asyncio.gather(*begun, *others)
    refused = [one for one in found if one != "succeeded"]
    assert len(refused) == 4
    assert all(one.startswith("Nothing was sent: the answers that a tenant's runs hold take") for one in refused)
    assert await ended("again", "POST") == "succeeded"
