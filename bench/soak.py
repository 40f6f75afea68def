"""A soak test: durable plans of five steps at a steady rate, failures, and growth of memory.

``python -m bench --only soak --minutes M [--rate R] [--servers N]``. The plan comes from a demonstration, so that each
request does the same work end to end: retrieval, planning by the demonstration, five POSTs in the ledger, the answer.
Several servers are `nestor serve` on ports of their own, over one data folder; requests go to each in turn.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx2

from bench.figures import Figure
from bench.processes import cpu_s, rss_mb, service, upstream_process
from bench.workload import Workload, chain, value_of
from deploy.sockets import free_port
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.demo import Demo
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value
from services.contracts.run import Run, RunStatus

LENGTH = 5
SALT = 1
FIRST = 0
"""Input of the first station."""
QUERY = "Pass the soak parcel through all five stations."
WARM_S = 30.0
SAMPLE_S = 5.0
LONG_H = 8.0
GROWTH = 5.0


@dataclass
class Seen:
    """What was seen of the requests and of the processes.

    Attributes:
        statuses: how many requests had each outcome.
        times_ms: how long each took that succeeded.
        memory: the servers' memory in MB, at seconds since the start.
        cpu_s: processor seconds by the kind of process.
        took_s: seconds from the first request to the last answer.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    times_ms: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    took_s: float = 0.0


@dataclass(frozen=True)
class Stack:
    """The processes of a soak: the servers' URLs and ids, and the id of the upstream."""

    urls: tuple[str, ...]
    servers: tuple[int, ...]
    upstream: int

    def memory_mb(self) -> float:
        """Resident memory of all servers, in MB."""
        return sum(map(rss_mb, self.servers))

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds used so far, by the kind of process."""
        return {
            "servers": sum(map(cpu_s, self.servers)),
            "upstream": cpu_s(self.upstream),
            "clients": cpu_s(os.getpid()),
        }


def measure() -> list[Figure]:
    """Solve for the configured number of minutes, and return the figures."""
    minutes = float(os.environ.get("NESTOR_BENCH_MINUTES", "1"))
    rate = float(os.environ.get("NESTOR_BENCH_RATE", "30"))
    servers = int(os.environ.get("NESTOR_BENCH_SERVERS", "1"))
    env = {
        "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS": '["127.0.0.1"]',
        "NESTOR_GATEWAY_LOG_LEVEL": "WARNING",
        "NESTOR_GATEWAY_POLICY_ALLOW": '["soak.*"]',
    }
    with ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory())
        origin, played = stack.enter_context(upstream_process())
        urls, pids = [], []
        for _ in range(servers):
            port = free_port()
            urls.append(f"http://127.0.0.1:{port}")
            serve = ("deploy.cli", "serve", "--port", str(port), "--data", data)
            child, _ = stack.enter_context(service(*serve, env=env, url=urls[-1], ready="/readyz"))
            pids.append(child.pid)
        seen = asyncio.run(_soaked(Stack(tuple(urls), tuple(pids), played), origin, minutes * 60, rate))
    return _figures(seen, minutes, rate)


def _figures(seen: Seen, minutes: float, rate: float) -> list[Figure]:
    answers, solved = sum(seen.statuses.values()), seen.statuses["200 succeeded"]
    if not solved:
        raise SystemExit(f"no request succeeded: {dict(seen.statuses)}")
    failed = sum(n for s, n in seen.statuses.items() if s.startswith("5"))
    start, end = seen.memory[0][1], seen.memory[-1][1]
    later = seen.memory[len(seen.memory) // 2 :]  # pools and caches fill in the first half
    per_hour = statistics.linear_regression(*zip(*later, strict=True)).slope * 3_600
    quarters = [seen.memory[(len(seen.memory) - 1) * part // 4][1] for part in range(5)]
    print("memory after each quarter, MB:", ", ".join(f"{mb:.0f}" for mb in quarters))
    print("answers:", ", ".join(f"{status} {number:,}" for status, number in sorted(seen.statuses.items())))
    return [
        Figure(
            f"durable solves of {LENGTH} steps a second, for {minutes:g} min",
            solved / seen.took_s,
            "/s",
            rate * 0.98,
            True,
        ),
        Figure("  answered with 5xx, or not at all", failed, "", 0),
        Figure("  refused with 429", seen.statuses["429"], "", 0),
        Figure("  others that did not succeed", answers - solved - failed - seen.statuses["429"], "", 0),
        Figure("  p50", statistics.median(seen.times_ms), "ms"),
        Figure("  p95", statistics.quantiles(seen.times_ms, n=20)[-1], "ms"),
        *(
            Figure(f"  processor time of the {kind} for each solve", 1_000 * used / solved, "ms")
            for kind, used in seen.cpu_s.items()
        ),
        Figure("  memory at the start, after half a minute of it", start, "MB"),
        Figure("  memory at the end", end, "MB"),
        Figure("  growth", 100 * (end / start - 1), "%", GROWTH),
        Figure(
            f"  growth in {LONG_H:g} h, extrapolated from a line through the second half",
            100 * per_hour * LONG_H / start,
            "%",
        ),
    ]


async def _soaked(stack: Stack, origin: str, seconds: float, rate: float) -> Seen:
    gateway = GatewayClient(open_http(stack.urls[0]))
    await _taught(gateway, origin)
    await gateway.aclose()
    warm = Seen()
    await _asked(stack, min(WARM_S, seconds), rate, warm)
    seen = Seen()
    await _asked(stack, seconds, rate, seen)
    return seen


async def _taught(gateway: GatewayClient, origin: str) -> None:
    """Import the stations, and add a demonstration of the request."""
    workload = chain(origin, length=LENGTH, mutating=True, seed=SALT)
    request = ImportRequest(document=json.dumps(_document(workload)), provider="soak")
    events = [event async for event in gateway.import_apis(request)]
    assert isinstance(events[-1], ImportReport)
    await gateway.add_demo(Demo(query=QUERY, plan=_plan(workload)))


def _document(workload: Workload) -> dict[str, object]:
    """An OpenAPI document of the upstream's stations."""
    fixed = [{"name": name, "in": "query", "required": True, "schema": {"type": "string"}} for name in ("ms", "salt")]
    answer = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
        "required": ["value"],
    }
    paths: dict[str, object] = {}
    for node in workload.nodes:
        fed = {"in0": {"type": "integer"}}
        operation: dict[str, object] = {
            "operationId": node.name,
            "summary": f"Pass the soak parcel through station {node.name}",
            "parameters": fixed,
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": {"type": "object", "properties": fed, "required": list(fed)}}
                },
            },
            "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": answer}}}},
        }
        paths[f"/call/{node.name}"] = {"post": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Soak", "version": "1"},
        "servers": [{"url": workload.origin}],
        "paths": paths,
    }


def _plan(workload: Workload) -> Plan:
    steps = []
    for node in workload.nodes:
        arguments: dict[str, Value] = {"ms": LiteralValue(value="0"), "salt": LiteralValue(value=str(SALT))}
        before = Reference(step=node.needs[0], path=("value",)) if node.needs else LiteralValue(value=FIRST)
        arguments["in0"] = before
        steps.append(Step(id=node.name, api=f"soak.{node.name}", arguments=arguments))
    last = Reference(step=steps[-1].id, path=("value",))
    return Plan(steps=tuple(steps), answer=(AnswerOutput(name="value", value=last),))


async def _asked(stack: Stack, seconds: float, rate: float, seen: Seen) -> None:
    """Send ``rate`` requests per second, even if the responses do not keep up."""
    expected = FIRST
    for place in range(LENGTH):
        expected = value_of(f"s{place}", SALT, [expected])
    options = {"backend": "demonstrated", "pinned": [f"soak.s{n}" for n in range(LENGTH)], "top_k": LENGTH}
    body = {"query": QUERY, "options": options}
    tasks: set[asyncio.Task[None]] = set()
    limits = httpx2.Limits(max_connections=500)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
        began, sent, sampled, before = time.perf_counter(), 0, 0.0, stack.cpu_s()
        while (now := time.perf_counter() - began) < seconds:
            if now >= sampled:
                seen.memory.append((now, stack.memory_mb()))
                sampled = now + SAMPLE_S
            task = asyncio.create_task(
                _solve(http, f"{stack.urls[sent % len(stack.urls)]}/solve", body, expected, seen)
            )
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
            await asyncio.sleep(max(sent / rate - (time.perf_counter() - began), 0))
        await asyncio.gather(*tasks)
        seen.took_s = time.perf_counter() - began
        seen.memory.append((seen.took_s, stack.memory_mb()))
        seen.cpu_s = {kind: used - before[kind] for kind, used in stack.cpu_s().items()}


async def _solve(http: httpx2.AsyncClient, url: str, body: object, expected: int, seen: Seen) -> None:
    began = time.perf_counter()
    try:
        response = await http.post(url, json=body)
    except httpx2.HTTPError as error:
        seen.statuses[f"5xx {type(error).__name__}"] += 1
        return
    took_ms, said = (time.perf_counter() - began) * 1000, ""
    if response.status_code == 200:
        run = Run.model_validate_json(response.content)
        right = run.status is RunStatus.SUCCEEDED and run.answer.values[0].value == expected
        said = f" {run.status.value}" if right or run.status is not RunStatus.SUCCEEDED else " wrong"
    if said == " succeeded":
        seen.times_ms.append(took_ms)
    seen.statuses[f"{response.status_code}{said}"] += 1
