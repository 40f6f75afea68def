"""Reading stored runs of several megabytes: time, processor time, and how long other requests wait meanwhile."""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx2
from pydantic import JsonValue

from bench.figures import Figure
from bench.floods import health_ms
from bench.processes import cpu_s, service
from deploy.sockets import free_port
from gateway.storage import RunStore, new_run_id
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.ownership.ticket import Ticket
from services.storage.engine import Transactions, create_engine

SIZES_MB = (1, 4, 8)
"""Large runs: their answers and requests may have 4 MB each."""
STEPS = 8
READS = 10
STALL_MS = 100.0


def measure() -> list[Figure]:
    """Start Nestor, write runs into its database, and read each of them some times."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {"NESTOR_GATEWAY_LOG_LEVEL": "ERROR", "NESTOR_GATEWAY_LIMITS": json.dumps({"requests_per_s": None})}
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        serve = ("deploy.cli", "serve", "--port", str(port), "--data", str(data))
        child, _ = stack.enter_context(service(*serve, env=env, url=url, ready="/readyz"))
        runs = asyncio.run(_written(data))
        return [
            figure
            for size, run_id in zip(SIZES_MB, runs, strict=True)
            for figure in asyncio.run(_read(size, f"{url}/runs/{run_id}", port, child.pid))
        ]


async def _written(data: Path) -> list[str]:
    """Store a run of each size. Returns their ids."""
    engine = create_engine(f"sqlite+aiosqlite:///{data}/gateway.db")
    store, ids = RunStore(Transactions(engine)), []
    for size in SIZES_MB:
        run = large_run(size * 1_000_000)
        await store.insert(Ticket(run.id, "bench", 0), run, SolveRequest(query=run.query), None)
        ids.append(run.id)
    store.close()
    await engine.dispose()
    return ids


def large_run(size: int) -> Run:
    """A run that has succeeded, of about ``size`` bytes, most of them in the answers of its steps."""
    steps = tuple(
        StepRecord(
            step=f"s{number}",
            api="bench.list",
            outcome=Succeeded(value=list(_items(size // STEPS)), status=200),
            started_ms=0,
            duration_ms=0,
            attempts=1,
        )
        for number in range(STEPS)
    )
    query = "List everything."
    return Run(id=new_run_id(), status=RunStatus.SUCCEEDED, query=query, created_at=datetime.now(UTC), steps=steps)


def _items(size: int) -> Iterator[JsonValue]:
    """Items as services list them, together of about ``size`` bytes."""
    number = 0
    while size > 0:
        item: dict[str, JsonValue] = {
            "id": number,
            "name": f"Item number {number} of the list",
            "price": number * 1.25,
            "active": number % 3 == 0,
            "tags": ["red", "blue"],
            "owner": {"id": number % 97, "mail": f"user{number}@example.com"},
        }
        yield item
        size -= len(json.dumps(item, separators=(",", ":"))) + 1
        number += 1


async def _read(size: int, url: str, port: int, pid: int) -> list[Figure]:
    """Read a run some times, and ask for ``/healthz`` in between."""
    slowest, times, used = 0.0, list[float](), cpu_s(pid)
    async with httpx2.AsyncClient(timeout=60) as http:
        reading = asyncio.create_task(_times_ms(http, url, times))
        while not reading.done():
            slowest = max(slowest, await health_ms(port))
            await asyncio.sleep(0.002)
        await reading
    return [
        Figure(f"GET /runs/{{id}} of {size} MB, p50", statistics.median(times), "ms"),
        Figure("  processor time", 1_000 * (cpu_s(pid) - used) / READS, "ms"),
        Figure("  /healthz meanwhile, the slowest", slowest, "ms", STALL_MS),
    ]


async def _times_ms(http: httpx2.AsyncClient, url: str, times: list[float]) -> None:
    for _ in range(READS):
        began = time.perf_counter()
        (await http.get(url)).raise_for_status()
        times.append((time.perf_counter() - began) * 1_000)
