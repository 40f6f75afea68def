"""Measures whether a flood from one tenant slows another tenant: its latency alone, and during the flood."""

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from bench.figures import Figure
from bench.solve import TEMPLATES, beside_sandbox, queries
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.solve import SolveRequest

LONG = ("convert 5 miles to km and " * 100)[:2_400].strip()
SLOW = {"query": "Answer slowly, after 29 seconds.", "wait": False}
SLOW_OPTIONS = {"pinned": ["sandbox.answerSlowly"], "top_k": 1, "demos": 0, "deadline_ms": 60_000}
PRINCIPALS = [
    {"name": "operator", "tenant": "default", "token": "operator-token"},
    {"name": "desk", "tenant": "office", "token": "desk-token"},
    {"name": "kiosk", "tenant": "guests", "token": "kiosk-token"},
]
ASKED = 30
PLANNING = 4
RUNNING = 4
PAUSE_S = 0.05
"""Pause between two runs that a flooding client starts or tries to start."""
FACTOR = 2.0


def measure() -> list[Figure]:
    """Run Nestor in one process and the sandbox in another. One tenant floods with long sentences and slow runs."""
    with beside_sandbox(NESTOR_GATEWAY_PRINCIPALS=json.dumps(PRINCIPALS)) as nestor:
        return asyncio.run(_measured(nestor.url, nestor.document))


async def _measured(url: str, document: str) -> list[Figure]:
    operator = GatewayClient(open_http(url), "operator-token")
    everyones = ImportRequest(document=document, provider="sandbox", tenants=())  # the flooding tenant needs APIs too
    events = [event async for event in operator.import_apis(everyones)]
    await operator.aclose()
    assert isinstance(events[-1], ImportReport)
    victim = GatewayClient(open_http(url), "desk-token")
    await _times(victim, len(TEMPLATES))  # warm-up: uses every API once
    idle = await _times(victim)
    async with _flood(url) as answers:
        flooded = await _times(victim)
    await victim.aclose()
    refused = answers[429]
    return [
        Figure("a tenant's POST /solve, p95, alone", _p95(idle), "ms"),
        Figure("  while another tenant floods, p95", _p95(flooded), "ms"),
        Figure("  over the first", _p95(flooded) / _p95(idle), "", FACTOR),
        Figure("  p50 over p50", statistics.median(flooded) / statistics.median(idle), ""),
        Figure("  the flood's requests", answers.total(), ""),
        Figure("  of them refused with 429", refused, ""),
    ]


async def _times(client: GatewayClient, number: int = ASKED) -> list[float]:
    """Latencies of sequential requests, in milliseconds. Their order is always the same."""
    found = []
    for query in itertools.islice(itertools.cycle(queries()), number):
        began = time.perf_counter()
        await client.solve(SolveRequest(query=query))
        found.append((time.perf_counter() - began) * 1000)
    return found


@asynccontextmanager
async def _flood(url: str) -> AsyncIterator[Counter[int]]:
    """Flood with long sentences and slow runs of another tenant. Counts the responses by status."""
    answers: Counter[int] = Counter()
    headers = {"Authorization": "Bearer kiosk-token"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=120) as http:

        async def send(path: str, body: object, pause_s: float) -> None:
            while True:
                answers[(await http.post(path, json=body)).status_code] += 1
                await asyncio.sleep(pause_s)

        long = {"query": LONG, "options": {"deadline_ms": 25_000}}
        slow = SLOW | {"options": SLOW_OPTIONS}
        tasks = [asyncio.create_task(send("/plan", long, 0.0)) for _ in range(PLANNING)]
        tasks += [asyncio.create_task(send("/solve", slow, PAUSE_S)) for _ in range(RUNNING)]
        await asyncio.sleep(2)
        try:
            yield answers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
