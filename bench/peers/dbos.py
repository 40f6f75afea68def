"""DBOS: the graph as a durable workflow, its calls as steps of their own or not.

One per process: DBOS is a singleton. Steps that run side by side are matched by the order in which they start, which
changes from run to run: good enough to be timed, not to be recovered.
"""

import asyncio

import aiohttp
from dbos import DBOS, DBOSConfig

from bench.peers.plain import fetch, open_session, run_graph
from bench.workload import Node, Workload

_SESSIONS: list[aiohttp.ClientSession] = []


@DBOS.step()
async def _step(workload: Workload, node: Node, values: dict[str, int]) -> int:
    return await fetch(_SESSIONS[0], workload, node, values)


@DBOS.workflow()
async def _steps(workload: Workload) -> dict[str, int]:
    small = Workload(workload.origin, (), workload.salt)  # a step's arguments are not written, only its result

    async def call(node: Node, values: dict[str, int]) -> int:
        return await _step(small, node, values)

    return await run_graph(workload, call)


@DBOS.workflow()
async def _whole(workload: Workload) -> dict[str, int]:
    async def call(node: Node, values: dict[str, int]) -> int:
        return await fetch(_SESSIONS[0], workload, node, values)

    return await run_graph(workload, call)


class Dbos:
    """DBOS with aiohttp.

    Args:
        url: of the system database.
        steps: a step for each call; False: the workflow alone is written down, so a crash repeats every call.
    """

    def __init__(self, url: str, *, steps: bool) -> None:
        self._url, self._workflow = url, _steps if steps else _whole

    async def open(self) -> None:
        """Launch DBOS."""
        _SESSIONS.append(open_session())
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._url,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
        DBOS(config=config)
        await asyncio.to_thread(DBOS.launch)

    def prepare(self, workload: Workload) -> None:
        """Nothing to prepare."""

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph; the value of every node."""
        return await self._workflow(workload)

    async def close(self) -> None:
        """End DBOS."""
        await asyncio.to_thread(DBOS.destroy)
        await _SESSIONS.pop().close()
