"""Scalability: ten thousand steps in one plan, and a thousand small concurrent runs in one executor process."""

import asyncio
import json
import tempfile

import aiohttp

from bench.figures import Figure
from bench.lanes import prepared
from bench.processes import peak_rss_mb, service, upstream, worker
from bench.workload import Workload, chain
from deploy.sockets import free_port
from services.contracts.execution import ExecuteRequest

RUNS = 1_000
LENGTH = 5
DELAY_MS = 50.0


def measure() -> list[Figure]:
    """The figures of both measurements."""
    with tempfile.TemporaryDirectory() as folder, upstream() as origin:
        return [*_large(folder, origin), *_crowd(folder, origin)]


def _large(folder: str, origin: str) -> list[Figure]:
    """Plans of two sizes. If anything were quadratic, the larger one would take more time per step."""
    asked = {"delay": "none", "mutating": "none"}
    with worker("nestor", f"sqlite+aiosqlite:///{folder}/large.db") as chosen:
        chosen.seconds(origin=origin, seed=1, **asked)
        small = min(chosen.seconds(origin=origin, seed=seed, **asked) for seed in range(2, 7))
        large = chosen.times(origin=origin, seed=7, width=100, depth=100, **asked)
    return [
        Figure("10,000 steps: prove the plan", large["preparing"], "s"),
        Figure("10,000 steps: run it, no delays", large["seconds"], "s"),
        Figure("a step of 10,000 over a step of 100", large["seconds"] / small / 100, ""),
    ]


def _crowd(folder: str, origin: str) -> list[Figure]:
    """Runs through ``POST /execute`` of a real executor process: first in the memory lane, then in the durable one."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "NESTOR_EXECUTOR_DATABASE_URL": f"sqlite+aiosqlite:///{folder}/crowd.db",
        "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS": '["127.0.0.1"]',
        "NESTOR_EXECUTOR_LOG_LEVEL": "WARNING",
    }
    figures = []
    with service("deploy.serve", "executor_svc", "--port", str(port), env=env, url=url, ready="/readyz") as (child, _):
        for lane, mutating in (("memory lane", False), ("durable lane, SQLite", True)):
            took_s = asyncio.run(_all_at_once(url, origin, mutating))
            name = f"{RUNS:,} runs of {LENGTH} steps at a time, {lane}"
            figures += [
                Figure(f"{name}: all done", took_s, "s"),
                Figure(f"{name}: peak memory", peak_rss_mb(child.pid), "MB", 1_000),
            ]
    return figures


async def _all_at_once(url: str, origin: str, mutating: bool) -> float:
    """Seconds until the last of the runs has succeeded."""
    workloads = [chain(origin, length=LENGTH, mutating=mutating, seed=seed, delay_ms=DELAY_MS) for seed in range(RUNS)]
    bodies = [_body(number, workload) for number, workload in enumerate(workloads)]
    clock = asyncio.get_running_loop().time
    began = clock()
    timeout, connector = aiohttp.ClientTimeout(total=120), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(
            *(_run(session, url, body, workload) for body, workload in zip(bodies, workloads, strict=True))
        )
    return clock() - began


async def _run(session: aiohttp.ClientSession, url: str, body: bytes, workload: Workload) -> None:
    headers = {"Content-Type": "application/json"}
    async with session.post(f"{url}/execute", data=body, headers=headers) as answer:
        last = json.loads((await answer.read()).splitlines()[-1])
    values = {record["step"]: record["outcome"]["value"]["value"] for record in last["records"]}
    if values != workload.expected():
        raise SystemExit(f"a run has failed: {last['status']}")


def _body(number: int, workload: Workload) -> bytes:
    compiled = prepared(workload)
    run_id = f"run-{compiled.plan.id[:8]}-{number}"
    asked = ExecuteRequest(run_id=run_id, compiled=compiled, approved=compiled.plan.id, deadline_ms=100_000)
    return asked.model_dump_json().encode()
