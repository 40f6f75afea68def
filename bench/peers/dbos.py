"""DBOS: the graph as a durable workflow, with or without a step for each call.

One per process, because DBOS is a singleton. DBOS matches concurrent steps by the order in which they start, which
changes from run to run. This is good enough for timing, but not for recovery.
"""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from dbos import DBOS, DBOSConfig

from bench.peers.plain import fetch, open_session, run_graph
from bench.runner import Runner
from bench.workload import Node, Workload

_SESSIONS: list[aiohttp.ClientSession] = []


async def _call(workload: Workload, node: Node, values: dict[str, int]) -> int:
    return await fetch(_SESSIONS[0], workload, node, values)


async def _with_steps(workload: Workload) -> dict[str, int]:
    small = Workload(workload.origin, (), workload.salt)

    async def call(node: Node, values: dict[str, int]) -> int:
        return await _STEP(small, node, values)

    return await run_graph(workload, call)


async def _whole(workload: Workload) -> dict[str, int]:
    async def call(node: Node, values: dict[str, int]) -> int:
        return await _call(workload, node, values)

    return await run_graph(workload, call)


_STEP: Callable[[Workload, Node, dict[str, int]], Awaitable[int]] = DBOS.step()(_call)
_WITH_STEPS: Callable[[Workload], Awaitable[dict[str, int]]] = DBOS.workflow()(_with_steps)
_WHOLE: Callable[[Workload], Awaitable[dict[str, int]]] = DBOS.workflow()(_whole)


class Dbos(Runner):
    """DBOS with aiohttp.

    Args:
        url: URL of the system database.
        steps: whether each call is a step. False: only the workflow is persisted, so a crash repeats every call.
    """

    def __init__(self, url: str, *, steps: bool) -> None:
        self._url, self._workflow = url, _WITH_STEPS if steps else _WHOLE

    async def open(self) -> None:
        """Launch DBOS."""
        _SESSIONS.append(open_session())
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._url,
            "log_level": "ERROR",
        }
        DBOS(config=config)
        await asyncio.to_thread(DBOS.launch)

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph. Returns the value of every node."""
        return await self._workflow(workload)

    async def close(self) -> None:
        """Shut down DBOS."""
        await asyncio.to_thread(DBOS.destroy)
        await _SESSIONS.pop().close()
