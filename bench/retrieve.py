"""The retriever as a separate process over a catalogue of realistic size: latency, memory, and restart time.

The data is a folder in the format of ``evals/data.py``. Its tools become one OpenAPI document per provider, imported
like any other. Its requests are sent unchanged.
"""

import asyncio
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from bench.catalogue import documents
from bench.figures import Figure, Skipped
from bench.hostile import hostile
from bench.processes import cpu_s, peak_rss_mb, rss_mb, service
from deploy.sockets import free_port
from evals.data import Dataset, read_dataset
from services.clients.base import open_http
from services.clients.retriever import RetrieverClient
from services.contracts.api import Api, ImportReport, ImportRequest

DATA = "NESTOR_BENCH_DATA"
ONE_AFTER_ANOTHER = 400
CLIENTS = 8
CHANGES = 5
SEED = 11


def measure() -> list[Figure]:
    """Import the documents, and measure the service on their APIs."""
    dataset = given()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite+aiosqlite:///{folder}/catalogue.db"
        return [*imported(database, documents(dataset.apis)), *served(database, queries(dataset))]


def given() -> Dataset:
    """The folder of tools and requests that ``--data`` names.

    Raises:
        Skipped: ``--data`` is not given.
    """
    data = os.environ.get(DATA)
    if not data:
        raise Skipped(f"no data: give --data FOLDER or set {DATA} (a folder of tools and requests)")
    return read_dataset(Path(data))


def queries(dataset: Dataset) -> list[str]:
    """The distinct requests, in a random but fixed order."""
    asked = dict.fromkeys(one.query for one in dataset.instances)
    return random.Random(SEED).sample(list(asked), len(asked))


def imported(database: str, documents: Mapping[str, str]) -> list[Figure]:
    """Import all documents twice."""
    with replica(database) as (child, url, _):
        first_s, first = asyncio.run(imported_into(url, documents))
        again_s, again = asyncio.run(imported_into(url, documents))
        total = sum(report.added + report.updated + report.unchanged for report in first)
        changed = sum(report.added + report.updated + report.removed for report in again)
        if changed:
            raise SystemExit(f"the second import has changed {changed} operations")
        title = f"{len(first)} documents, {total:,} operations"
        return [
            Figure(f"import and embed {title}", first_s, "s", 300),
            Figure("import the same again", again_s, "s", 20),
            Figure("memory after both", rss_mb(child.pid), "MB", 450),
            Figure("  the most it has been", peak_rss_mb(child.pid), "MB"),
        ]


def served(database: str, asked: Sequence[str]) -> list[Figure]:
    """Start with an existing catalogue, and send requests."""
    with replica(database) as (child, url, start_s):
        warm, alone, together = asked[:20], asked[20 : 20 + ONE_AFTER_ANOTHER], asked[20 + ONE_AFTER_ANOTHER :]
        asyncio.run(_ask(url, warm, 1))
        took, _ = asyncio.run(_ask(url, alone, 1))
        before = cpu_s(child.pid)
        crowded, seconds = asyncio.run(_ask(url, together, CLIENTS))
        worked = cpu_s(child.pid) - before
        odd, _ = asyncio.run(_ask(url, hostile(asked, SEED), 1))
        memory = rss_mb(child.pid)
        with replica(database) as (_, other, _):
            adds, follows = asyncio.run(_change(url, other))
        return [
            Figure("ready after a restart", start_s, "s", 3),
            Figure("POST /retrieve, p50", statistics.median(took), "ms", 15),
            Figure("POST /retrieve, p99", statistics.quantiles(took, n=100)[-1], "ms", 40),
            Figure(f"requests a second, {CLIENTS} clients", len(together) / seconds, "", 150, at_least=True),
            Figure(f"  their latency, p50 of {len(together)}", statistics.median(crowded), "ms"),
            Figure("  processor time a request", 1_000 * worked / len(together), "ms"),
            Figure(f"hostile queries, p50 of {len(odd)}", statistics.median(odd), "ms"),
            Figure("  p99", statistics.quantiles(odd, n=100)[-1], "ms"),
            Figure("memory after all that", memory, "MB", 450),
            Figure("add one API to the catalogue, p50", statistics.median(adds), "s"),
            Figure("another replica answers with it, the slowest", max(follows), "s", 2),
        ]


@contextmanager
def replica(database: str) -> Iterator[tuple["subprocess.Popen[bytes]", str, float]]:
    """A retriever process on the database. Yields the process, its URL, and the seconds until it was ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {"NESTOR_RETRIEVER_DATABASE_URL": database, "NESTOR_RETRIEVER_LOG_LEVEL": "WARNING"}
    with service("deploy.serve", "retriever_svc", "--port", str(port), env=env, url=url, ready="/readyz") as found:
        yield found[0], url, found[1]


async def imported_into(url: str, documents: Mapping[str, str]) -> tuple[float, list[ImportReport]]:
    """Import documents, by provider. Returns the seconds for all of them, and the reports."""
    client, reports = RetrieverClient(open_http(url)), []
    began = time.perf_counter()
    for provider, document in documents.items():
        request = ImportRequest(document=document, provider=provider)
        events = [event async for event in client.import_document(request)]
        if isinstance(events[-1], ImportReport):
            reports.append(events[-1])
    seconds = time.perf_counter() - began
    await client.aclose()
    return seconds, reports


async def _ask(url: str, asked: Sequence[str], clients: int) -> tuple[list[float], float]:
    """Send requests from ``clients`` concurrent clients. Returns the milliseconds of each, and the seconds for all."""
    waiting, took = list(reversed(asked)), list[float]()

    async def client(session: aiohttp.ClientSession) -> None:
        while waiting:
            began = time.perf_counter()
            async with session.post(f"{url}/retrieve", json={"query": waiting.pop()}) as answer:
                answer.raise_for_status()
                await answer.read()
            took.append((time.perf_counter() - began) * 1_000)

    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(clients)))
        return took, time.perf_counter() - began


async def _change(url: str, other: str) -> tuple[list[float], list[float]]:
    """Add APIs to one replica. Returns the seconds of each call, and then until the other replica has the API."""
    here, there = RetrieverClient(open_http(url)), RetrieverClient(open_http(other))
    adds, follows = [], []
    for number in range(CHANGES):
        api = Api(id=f"bench.new{number}", provider="bench", name=f"new{number}", summary="Feed the bench's lions")
        began = time.perf_counter()
        await here.create(api)
        added = time.perf_counter()
        while (await there.search(provider="bench", limit=100)).total <= number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        adds.append(added - began)
        follows.append(time.perf_counter() - added)
    await here.delete_provider("bench")
    await here.aclose()
    await there.aclose()
    return adds, follows
