"""``python -m bench.worker RUNNER [DATABASE]``: one runner in a process of its own, told line by line what to run.

A line of standard input is a JSON object, ``{"origin", "delay", "mutating", "seed"}`` for one graph or ``{"origin",
"runs", "rounds", "length", "seed"}`` for many chains at a time; the answer is ``{"seconds"}``. Every value is checked.
"""

import asyncio
import importlib
import itertools
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import uvloop

from bench.workload import Workload, chain, layered


class Runner(Protocol):
    """A way to run a graph of calls."""

    async def open(self) -> None:
        """Get ready."""

    def prepare(self, workload: Workload) -> None:
        """Whatever is done before a graph can be run; it is not timed."""

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph; the value of every node."""

    async def close(self) -> None:
        """Let go of everything."""


def runner(name: str, database: str) -> Runner:
    """The runner of that name. Each imports what it needs, and nothing the others need."""
    module, build = _RUNNERS[name]
    made: Runner = build(importlib.import_module(module), database)
    return made


_RUNNERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "nestor": ("bench.lanes", lambda module, database: module.Lane(database)),
    "aiohttp": ("bench.peers.plain", lambda module, _: module.PlainAiohttp()),
    "httpx2": ("bench.peers.plain", lambda module, _: module.PlainHttpx2()),
    "langgraph": ("bench.peers.langgraph", lambda module, _: module.LangGraph(None)),
    "langgraph-durable": ("bench.peers.langgraph", lambda module, database: module.LangGraph(database)),
    "dbos-steps": ("bench.peers.dbos", lambda module, database: module.Dbos(database, steps=True)),
    "dbos-workflow": ("bench.peers.dbos", lambda module, database: module.Dbos(database, steps=False)),
}


async def one(chosen: Runner, task: dict[str, Any]) -> float:
    """Seconds that a graph of 100 calls takes."""
    workload = layered(task["origin"], delay=task["delay"], mutating=task["mutating"], seed=task["seed"])
    chosen.prepare(workload)
    began = time.perf_counter()
    values = await chosen.run(workload)
    seconds = time.perf_counter() - began
    check(workload, values)
    return seconds


async def many(chosen: Runner, task: dict[str, Any]) -> float:
    """Seconds that chains take, so many at a time, round after round."""
    seeds = itertools.count(task["seed"])
    total = task["runs"] * task["rounds"]
    workloads = [chain(task["origin"], length=task["length"], mutating=True, seed=next(seeds)) for _ in range(total)]
    for workload in workloads:
        chosen.prepare(workload)
    left = iter(workloads)

    async def follow() -> None:
        for workload in left:
            check(workload, await chosen.run(workload))

    began = time.perf_counter()
    await asyncio.gather(*(follow() for _ in range(task["runs"])))
    return time.perf_counter() - began


def check(workload: Workload, values: dict[str, int]) -> None:
    """Every call answered what it had to. Raises ValueError."""
    if values != workload.expected():
        raise ValueError("a call was given another's value")


async def main() -> None:
    """Do what standard input says, until it ends."""
    logging.disable(logging.INFO)
    name, database = sys.argv[1], (*sys.argv[2:], "")[0]
    chosen = runner(name, database)
    await chosen.open()
    print(json.dumps({"ready": name}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = json.loads(line)
        seconds = await (many if "runs" in task else one)(chosen, task)
        print(json.dumps({"seconds": seconds}), flush=True)
    await chosen.close()


if __name__ == "__main__":
    uvloop.run(main())
