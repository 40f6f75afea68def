"""Startup, memory, import, overhead of solving, and the time from a fresh clone to the end of ``make demo``."""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2

from bench.figures import Figure
from bench.processes import rss_mb, service
from deploy.onebox import sandbox_access
from deploy.sockets import free_port
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest

ROOT = Path(__file__).resolve().parents[1]
COUNTRIES = ("Portugal", "Denmark", "Japan", "Brazil", "Kenya", "Poland", "Chile", "Austria", "Ireland", "Peru")
TEMPLATES = (
    "Convert {number} miles to kilometers.",
    "Which public holidays does {country} have in {year}?",
    "Which official languages does {country} have?",
)


def queries() -> list[str]:
    """Sentences that need one call or two nested calls. All are different, so that no response is repeated."""
    return [
        template.format(number=7 * number + 0.5, country=country, year=2026 + number % 5)
        for number, country in enumerate(COUNTRIES)
        for template in TEMPLATES
    ]


class Beside(NamedTuple):
    """A running Nestor, and the document of the sandbox beside it."""

    url: str
    process: subprocess.Popen[bytes]
    start_s: float
    document: str


@contextmanager
def beside_sandbox(**more: str) -> Iterator[Beside]:
    """Start Nestor, with these environment variables too, and the sandbox as two processes."""
    host, port = f"127.0.0.1:{free_port()}", free_port()
    access, url = sandbox_access(host), f"http://127.0.0.1:{port}"
    given = access.settings.model_dump(exclude_none=True)
    shown = {name: getattr(value, "get_secret_value", lambda v=value: str(v))() for name, value in given.items()}
    sandbox = {f"NESTOR_SANDBOX_{name.upper()}": value for name, value in shown.items()}
    nestor = {
        "NESTOR_EXECUTOR_SECRETS": access.secrets,
        "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS": json.dumps([host]),
        "NESTOR_GATEWAY_LOG_LEVEL": "WARNING",
        **more,
    }
    serve = ("deploy.cli", "serve", "--port", str(port))
    with (
        tempfile.TemporaryDirectory() as data,
        service("sandbox", "--port", host.split(":")[1], env=sandbox, url=f"http://{host}", ready="/openapi.json"),
        service(*serve, "--data", data, env=nestor, url=url, ready="/readyz") as (process, start_s),
    ):
        yield Beside(url, process, start_s, httpx2.get(f"http://{host}/openapi.json").text)


def measure() -> list[Figure]:
    """Start Nestor and the sandbox as two processes, and measure Nestor."""
    with beside_sandbox() as nestor:
        import_s = asyncio.run(_import(nestor.url, nestor.document))
        overheads = asyncio.run(_overheads(nestor.url))
        return [
            Figure("start of everything in one process", nestor.start_s, "s", 4),
            Figure("memory after import and solving", rss_mb(nestor.process.pid), "MB", 600),
            Figure("import of the sandbox", import_s, "s", 5),
            Figure("POST /solve overhead, p50", statistics.median(overheads), "ms", 80),
            Figure("POST /solve overhead, p95", statistics.quantiles(overheads, n=20)[-1], "ms"),
        ]


async def _import(url: str, document: str) -> float:
    gateway = GatewayClient(open_http(url))
    began = time.perf_counter()
    events = [event async for event in gateway.import_apis(ImportRequest(document=document, provider="sandbox"))]
    assert isinstance(events[-1], ImportReport)
    await gateway.aclose()
    return time.perf_counter() - began


async def _overheads(url: str) -> list[float]:
    """Milliseconds of each solve, minus the time that its requests take when they are sent directly in sequence."""
    gateway, direct = GatewayClient(open_http(url)), httpx2.AsyncClient()
    found = []
    for number, query in enumerate(queries()):
        began = time.perf_counter()
        run = await gateway.solve(SolveRequest(query=query))
        total_ms = (time.perf_counter() - began) * 1000
        if run.status is not RunStatus.SUCCEEDED:
            raise SystemExit(f"not solved: {run.query}")
        upstream_ms = await _replay(direct, run)
        if number >= len(TEMPLATES):  # skip the warm-up: the first request of each template
            found.append(total_ms - upstream_ms)
    await gateway.aclose()
    await direct.aclose()
    return found


async def _replay(direct: httpx2.AsyncClient, run: Run) -> float:
    """Milliseconds of the run's critical path (the sum of the slowest request of each stage)."""
    took: dict[str, float] = {}
    for record in run.steps:
        request = record.requests[0]
        began = time.perf_counter()
        await direct.request(request.method, request.url, json=request.body if request.body is not None else None)
        took[record.step] = (time.perf_counter() - began) * 1000
    stages = run.proof.stages if run.proof else ()
    return sum(max(took.get(step, 0.0) for step in stage) for stage in stages)


def fresh_clone() -> Figure:
    """Clone the committed state, and run ``make demo`` with nothing installed (includes downloads)."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), f"{folder}/nestor"], check=True)
        # Without pip's cache, as on a new machine.
        env = os.environ | {"PIP_NO_CACHE_DIR": "1"}
        subprocess.run(["make", "demo"], cwd=f"{folder}/nestor", check=True, stdout=subprocess.DEVNULL, env=env)
        return Figure("fresh clone to the end of make demo", time.perf_counter() - began, "s", 180)
