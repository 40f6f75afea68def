"""The lower bounds: asyncio and an HTTP client, without persistence, checks, or reports."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import httpx2

from bench.runner import Runner
from bench.workload import Node, Workload, inputs, query

Call = Callable[[Node, dict[str, int]], Awaitable[int]]


async def run_graph(workload: Workload, call: Call) -> dict[str, int]:
    """Start every call as soon as the calls it needs are complete."""
    values: dict[str, int] = {}
    tasks: dict[str, asyncio.Task[None]] = {}

    async def step(node: Node) -> None:
        for need in node.needs:
            await tasks[need]
        values[node.name] = await call(node, values)

    async with asyncio.TaskGroup() as group:
        for node in workload.nodes:
            tasks[node.name] = group.create_task(step(node))
    return values


class PlainAiohttp(Runner):
    """aiohttp with one session."""

    async def open(self) -> None:
        """Open the session."""
        self.session = open_session()

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph. Returns the value of every node."""

        async def call(node: Node, values: dict[str, int]) -> int:
            return await fetch(self.session, workload, node, values)

        return await run_graph(workload, call)

    async def close(self) -> None:
        """Close the session."""
        await self.session.close()


class PlainHttpx2(Runner):
    """httpx2 with one client."""

    async def open(self) -> None:
        """Open the client."""
        limits = httpx2.Limits(max_connections=256, max_keepalive_connections=256)
        self.client = httpx2.AsyncClient(limits=limits, trust_env=False)

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph. Returns the value of every node."""

        async def call(node: Node, values: dict[str, int]) -> int:
            url = f"{workload.origin}/call/{node.name}"
            if node.mutating:
                answer = await self.client.post(url, params=query(workload, node, values), json=inputs(node, values))
            else:
                answer = await self.client.get(url, params=query(workload, node, values))
            return int(answer.json()["value"])

        return await run_graph(workload, call)

    async def close(self) -> None:
        """Close the client."""
        await self.client.aclose()


def open_session() -> aiohttp.ClientSession:
    """A session for calls to the upstream."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256))


async def fetch(session: aiohttp.ClientSession, workload: Workload, node: Node, values: dict[str, int]) -> int:
    """One call with aiohttp. The steps of the frameworks use it too."""
    url = f"{workload.origin}/call/{node.name}"
    body = inputs(node, values) if node.mutating else None
    method = "POST" if node.mutating else "GET"
    async with session.request(method, url, params=query(workload, node, values), json=body) as answer:
        return int((await answer.json())["value"])
