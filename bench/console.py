"""Benchmarks of the console: layout time of graphs, page size, first paint, and memory."""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bench.figures import Figure
from bench.processes import rss_mb
from deploy.onebox import RunningStack, running_stack
from gateway.console.flow import Flow
from gateway.console.graph import draw
from gateway.console.layout import place
from services.clients import GatewayClient, open_http
from services.contracts.run import Run, RunStatus
from services.contracts.start import StartOptions, StartRequest
from services.telemetry import configure_logging
from tests.support.browser import find_chromium, open_browser

_COUNTS: Final = (250, 800)
_ROWS: Final = 10
_ROUNDS: Final = 15
_VISITS: Final = 5
_SCREENS: Final = ("runs", "review", "catalogue", "ops")
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]"


def measure() -> list[Figure]:
    """Run plans of many steps against the sandbox, and measure the console's pages about them."""
    configure_logging(level="WARNING", json=False)
    with tempfile.TemporaryDirectory(prefix="nestor-") as data, running_stack(Path(data)) as found:
        return asyncio.run(_measure(found))


async def _measure(found: RunningStack) -> list[Figure]:
    gateway, http = GatewayClient(open_http(found.gateway_url), found.token), open_http(found.gateway_url)
    figures, sizes = list[Figure](), dict[str, float]()
    try:
        for count in _COUNTS:
            request = StartRequest(
                calls=_calls(count), query=f"{count} dates", options=StartOptions(deadline_ms=300_000)
            )
            run = await gateway.start(request)
            assert run.status is RunStatus.SUCCEEDED, run.reason
            page = (await http.get(f"/console/runs/{run.id}")).raise_for_status()
            bound = 50 if count == _COUNTS[0] else None
            figures += [
                Figure(f"a plan of {count} steps: lay out every step", _median_ms(partial(_place, run)), "ms", bound),
                Figure(f"a plan of {count} steps: draw the graph", _median_ms(partial(_draw, run)), "ms", bound),
                Figure(f"a plan of {count} steps: the run's page", len(page.content) / 1_000, "kB", 100),
            ]
        before_mb = rss_mb(os.getpid())
        for _ in range(_ROUNDS):
            for name in _SCREENS:
                page = (await http.get(f"/console/{name}")).raise_for_status()
                sizes[name] = len(page.content) / 1_000
        grown = Figure("memory that looking at these pages takes", rss_mb(os.getpid()) - before_mb, "MB", 30)
        figures += [Figure(f"the page of {name}", size, "kB", 100) for name, size in sizes.items()]
        return [*figures, grown, *await _painted(f"{found.gateway_url}/console")]
    finally:
        await gateway.aclose()
        await http.aclose()


async def _painted(url: str) -> list[Figure]:
    """Time to first contentful paint in Chromium; no figures if Chromium is not installed."""
    chromium = find_chromium()
    if chromium is None:
        return []
    figures = []
    with tempfile.TemporaryDirectory(prefix="nestor-") as folder:
        async with open_browser(chromium, Path(folder)) as page:
            for name in _SCREENS:
                took = []
                for _ in range(_VISITS):
                    await page.open(f"{url}/{name}")
                    await page.until(f"{_PAINT} !== undefined")
                    took.append(float(await page.evaluate(f"{_PAINT}.startTime")))
                figures.append(Figure(f"the page of {name}: first paint", statistics.median(took), "ms", 300))
    return figures


def _calls(count: int) -> tuple[dict[str, JsonValue], ...]:
    """Layers of steps. Each step takes a date from a step of the previous layer."""
    dates = [f"$s{n - _ROWS + (n % 3 == 0)}.date$" if n >= _ROWS else "2026-01-01" for n in range(count)]
    steps: list[dict[str, JsonValue]] = [
        {"name": "sandbox.addToDate", "arguments": {"date": date, "days": n % 28}, "label": f"s{n}"}
        for n, date in enumerate(dates)
    ]
    return (*steps, {"name": "var_result", "arguments": {"last": f"$s{count - 1}.date$"}})


def _place(run: Run) -> object:
    flow = Flow(run)
    return place(flow.layers, [edge for edge in flow.bindings if edge[1] != "answer"])


def _draw(run: Run) -> object:
    return draw(Flow(run))


def _median_ms(work: Callable[[], object]) -> float:
    took = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took)
