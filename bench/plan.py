"""Retriever and planner as separate processes over a catalogue of tools: from words to a proved plan.

The data is a folder in the format of ``evals/data.py``. The targets are for Seal-Tools, which has 4,076 tools.
"""

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.catalogue import documents
from bench.figures import Figure
from bench.processes import cpu_s, peak_rss_mb, rss_mb, service
from bench.retrieve import given, imported_into, queries, replica
from deploy.sockets import free_port
from services.clients.base import open_http
from services.clients.planner import PlannerClient
from services.clients.retriever import RetrieverClient
from services.contracts.api import Api
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import RetrieveRequest
from services.contracts.solve import SolveOptions

WARM = 20
ASKED = 300
AT_ONCE = 20


def measure() -> list[Figure]:
    """Let the planner read the catalogue as after an import, and send requests to both services."""
    dataset = given()
    with (
        tempfile.TemporaryDirectory() as folder,
        replica(f"sqlite+aiosqlite:///{folder}/catalogue.db") as (_, retriever, _),
        _planner() as (child, url, start_s),
    ):
        asyncio.run(imported_into(retriever, documents(map(_addressed, dataset.apis))))
        fresh = rss_mb(child.pid)
        read_s = asyncio.run(_read(retriever, url))
        before = cpu_s(child.pid)
        both, alone = asyncio.run(_ask(retriever, url, queries(dataset)[: WARM + ASKED]))
        worked = cpu_s(child.pid) - before
        return [
            Figure("planner ready after its start", start_s, "s", 2),
            Figure("  its memory then", fresh, "MB"),
            Figure(f"reading {len(dataset.apis):,} APIs, in the background after an import", read_s, "s"),
            Figure(f"from words to a proved plan, retrieval included, p50 of {len(both)}", _p(both, 50), "ms", 50),
            Figure("  p95", _p(both, 95), "ms", 100),
            Figure("  the planner's part, p50", _p(alone, 50), "ms"),
            Figure("  p95", _p(alone, 95), "ms"),
            Figure("  its processor time a request", 1_000 * worked / (WARM + len(both)), "ms"),
            Figure("planner's memory after all that", rss_mb(child.pid), "MB", 400),
            Figure("  the most it has been", peak_rss_mb(child.pid), "MB"),
        ]


@contextmanager
def _planner() -> Iterator[tuple["subprocess.Popen[bytes]", str, float]]:
    """A planner process. Yields the process, its URL, and the seconds until it was ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {"NESTOR_PLANNER_LOG_LEVEL": "WARNING"}
    with service("deploy.serve", "planner_svc", "--port", str(port), env=env, url=url, ready="/readyz") as found:
        yield found[0], url, found[1]


def _addressed(api: Api) -> Api:
    """Give tools without a path a unique one, because a document has one operation per path and method."""
    return api if api.path != "/" else api.model_copy(update={"path": f"/{api.id}"})


async def _read(retriever_url: str, planner_url: str) -> float:
    """Seconds that the planner needs to read the catalogue."""
    retriever, planner = RetrieverClient(open_http(retriever_url)), PlannerClient(open_http(planner_url))
    seconds, page = 0.0, await retriever.search(limit=AT_ONCE)
    while True:
        apis = [await retriever.get(hit.id) for hit in page.hits]
        began = time.perf_counter()
        await planner.read(apis)
        seconds += time.perf_counter() - began
        if page.next is None:
            break
        page = await retriever.search(limit=AT_ONCE, cursor=page.next)
    await retriever.aclose()
    await planner.aclose()
    return seconds


async def _ask(retriever_url: str, planner_url: str, asked: Sequence[str]) -> tuple[list[float], list[float]]:
    """Latencies of sequential requests in milliseconds: of both services together, and of the planner alone."""
    retriever, planner = RetrieverClient(open_http(retriever_url)), PlannerClient(open_http(planner_url))
    both, alone = [], []
    for query in asked:
        began = time.perf_counter()
        found = await retriever.retrieve(RetrieveRequest(query=query, k=SolveOptions().top_k))
        between = time.perf_counter()
        await planner.plan(PlanRequest(query=query, clauses=found.clauses, candidates=found.candidates))
        alone.append(1_000 * (time.perf_counter() - between))
        both.append(1_000 * (time.perf_counter() - began))
    await retriever.aclose()
    await planner.aclose()
    return both[WARM:], alone[WARM:]


def _p(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]
