"""``python -m bench.worker RUNNER [DATABASE]``: one runner in a separate process, controlled through standard input.

Each line of standard input is a JSON object: the arguments of :func:`bench.workload.layered` for one graph, or
``origin``, ``runs``, ``rounds``, ``length`` and ``seed`` for many concurrent chains. The output is
``{"seconds", "preparing"}``. Every value is checked.
"""

import asyncio
import gc
import importlib
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import uvloop

from bench.runner import Runner
from bench.workload import Workload, chain, layered


def runner(name: str, database: str) -> Runner:
    """The runner of that name. Imports only the modules that this runner needs."""
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


async def one(chosen: Runner, task: dict[str, Any]) -> dict[str, float]:
    """Seconds that one graph and its preparation take."""
    workload = layered(**task)
    began = time.perf_counter()
    chosen.prepare(workload)
    prepared = time.perf_counter()
    answer = await chosen.run(workload)
    ended = time.perf_counter()
    check(workload, chosen.values(answer))
    return {"seconds": ended - prepared, "preparing": prepared - began}


async def many(chosen: Runner, task: dict[str, Any]) -> dict[str, float]:
    """Seconds that many chains of POSTs and their preparation take, with ``runs`` chains running concurrently."""
    total, length = task["runs"] * task["rounds"], task["length"]
    seeds = range(task["seed"], task["seed"] + total)
    began = time.perf_counter()
    workloads = [chain(task["origin"], length=length, mutating=True, seed=seed) for seed in seeds]
    for workload in workloads:
        chosen.prepare(workload)
    left, answers = iter(workloads), list[tuple[Workload, Any]]()

    async def follow() -> None:
        for workload in left:
            answers.append((workload, await chosen.run(workload)))

    prepared = time.perf_counter()
    await asyncio.gather(*(follow() for _ in range(task["runs"])))
    ended = time.perf_counter()
    for workload, answer in answers:
        check(workload, chosen.values(answer))
    return {"seconds": ended - prepared, "preparing": prepared - began}


def check(workload: Workload, values: dict[str, int]) -> None:
    """Raise ValueError unless every call returned the expected value."""
    if values != workload.expected():
        raise ValueError("a call was given another's value")


def freeze_loaded_objects() -> None:
    """Freeze loaded objects, as Nestor's services do after start. It avoids long garbage collections in all runners."""
    gc.collect()
    gc.freeze()


async def main() -> None:
    """Run the tasks from standard input until it ends."""
    logging.disable(logging.INFO)
    name, database = sys.argv[1], (*sys.argv[2:], "")[0]
    chosen = runner(name, database)
    await chosen.open()
    freeze_loaded_objects()
    print(json.dumps({"ready": name}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = json.loads(line)
        print(json.dumps(await (many if "runs" in task else one)(chosen, task)), flush=True)
    await chosen.close()


if __name__ == "__main__":
    uvloop.run(main())
