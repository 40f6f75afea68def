"""A graph of 100 calls, ten wide and ten deep, run by Nestor's lanes and by other runners.

Every runner is a separate process with the same event loop (uvloop) and calls the same upstream. The runners alternate,
and the tables show medians. The first run of each is not counted. Preparation is not timed: Nestor's planning and
proving, LangGraph's compiling. Nestor's figures include everything that ``POST /execute`` does except the socket:
checks of the plan, events as JSON, records of every request, metrics.

* *0 ms*: the upstream answers at once; the figure is the run's duration divided by its steps, in milliseconds.
* *50 ms*: every call takes 50 ms, so all calls of a layer end together: the worst case for a single thread.
* *jitter*: calls take 25 to 75 ms, as real ones do. A runner that waits for whole layers is slower by half.

The last two are makespans as multiples of the critical path, which is a lower bound for every runner.
"""

import itertools
import statistics
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass

from bench.figures import Figure, Report
from bench.processes import Worker, postgres, upstream, worker
from bench.workload import DELAYS, DEPTH, WIDTH, layered

ROUNDS = {"none": 15, "even": 9, "jitter": 7}
BURST = {"runs": 50, "rounds": 6, "length": 5}


@dataclass(frozen=True)
class Contestant:
    """A runner, its database, and which of the calls are POSTs."""

    label: str
    runner: str
    database: str
    mutating: str


def contestants(folder: str, postgres_url: str) -> list[Contestant]:
    """All contestants: first those without persistence, then those with it."""
    sqlite = f"sqlite+aiosqlite:///{folder}/nestor.db"
    return [
        Contestant("limit: asyncio + aiohttp", "aiohttp", "", "none"),
        Contestant("limit: asyncio + httpx2", "httpx2", "", "none"),
        Contestant("Nestor, memory lane", "nestor", sqlite, "none"),
        Contestant("LangGraph", "langgraph", "", "none"),
        Contestant("Nestor, durable, one POST, SQLite", "nestor", sqlite, "one"),
        Contestant("Nestor, durable, one POST, PostgreSQL", "nestor", postgres_url, "one"),
        Contestant("Nestor, durable, all POSTs, SQLite", "nestor", sqlite, "all"),
        Contestant("Nestor, durable, all POSTs, PostgreSQL", "nestor", postgres_url, "all"),
        Contestant("Nestor, durable, all POSTs, keyed, SQLite", "nestor", sqlite, "keyed"),
        Contestant("Nestor, durable, all POSTs, keyed, PostgreSQL", "nestor", postgres_url, "keyed"),
        Contestant("LangGraph, SQLite, durable", "langgraph-durable", f"{folder}/langgraph.db", "all"),
        Contestant("DBOS, a step per call, SQLite", "dbos-steps", f"sqlite:///{folder}/steps.db", "all"),
        Contestant("DBOS, calls not kept, SQLite", "dbos-workflow", f"sqlite:///{folder}/workflow.db", "all"),
    ]


_DURABLE = {"none": 1.0, "even": 1.15, "jitter": 1.15}
TARGETS = {
    "Nestor, memory lane": {"none": 0.3, "even": 1.08, "jitter": 1.03},
    "Nestor, durable, one POST, SQLite": _DURABLE,
    "Nestor, durable, one POST, PostgreSQL": _DURABLE,
    "Nestor, durable, all POSTs, SQLite": _DURABLE,
    "Nestor, durable, all POSTs, PostgreSQL": _DURABLE,
    "Nestor, durable, all POSTs, keyed, SQLite": _DURABLE,
    "Nestor, durable, all POSTs, keyed, PostgreSQL": _DURABLE,
}
"""Targets, in the units of the columns."""

COLUMNS = {"none": "0 ms: ms a step", "even": "50 ms: / path", "jitter": "jitter: / path"}


def measure(report: Report) -> list[Figure]:
    """Run everything, print the results, and return the figures that have targets."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        taking_part = contestants(folder, stack.enter_context(postgres()))
        fast, precise = stack.enter_context(upstream()), stack.enter_context(upstream("--precise"))
        started = {(c.runner, c.database) for c in taking_part}
        workers = {key: stack.enter_context(worker(*key)) for key in sorted(started)}
        results = _take_turns(taking_part, workers, {"none": fast, "even": precise, "jitter": precise})
        rates = {c.label: _burst(workers[c.runner, c.database], fast) for c in taking_part if c.mutating == "all"}
    columns = ("", *COLUMNS.values(), "steps/s, 50 runs")
    rows = [
        (
            c.label,
            *(f"{results[c, delay]:.3f}" for delay in DELAYS),
            f"{rates[c.label]:,.0f}" if c.label in rates else "",
        )
        for c in taking_part
    ]
    report.table("100 calls, 10 wide, 10 deep", columns, rows)
    by_label = {c.label: c for c in taking_part}
    figures = [
        Figure(f"{label}; {COLUMNS[delay]}", results[by_label[label], delay], "", target)
        for label, targets in TARGETS.items()
        for delay, target in targets.items()
    ]
    return figures + [
        Figure(f"{label}; 50 runs of five steps at a time", rates[label], "steps/s", 500, at_least=True)
        for label in rates
        if label in TARGETS
    ]


def _take_turns(
    taking_part: list[Contestant], workers: dict[tuple[str, str], Worker], origins: dict[str, str]
) -> dict[tuple[Contestant, str], float]:
    """The median of every contestant under every delay, in the units of the columns."""
    seeds = itertools.count(1)
    found: dict[tuple[Contestant, str], list[float]] = defaultdict(list)
    for contestant in taking_part:  # the first run opens connections and fills caches
        _once(workers, contestant, origins["none"], "none", next(seeds))
    for delay, rounds in ROUNDS.items():
        for _ in range(rounds):
            seed = next(seeds)
            for contestant in taking_part:
                found[contestant, delay].append(_once(workers, contestant, origins[delay], delay, seed))
    return {key: statistics.median(values) for key, values in found.items()}


def _once(workers: dict[tuple[str, str], Worker], contestant: Contestant, origin: str, delay: str, seed: int) -> float:
    """One run: milliseconds per step, or the multiple of the critical path."""
    asked = {"delay": delay, "mutating": contestant.mutating, "seed": seed}
    seconds = workers[contestant.runner, contestant.database].seconds(origin=origin, **asked)
    path_s = layered(origin, delay=delay, mutating=contestant.mutating, seed=seed).critical_path_s()
    return seconds / path_s if path_s else seconds * 1000 / (WIDTH * DEPTH)


def _burst(chosen: Worker, origin: str) -> float:
    """Steps per second with many concurrent short runs. Every step is a POST."""
    seconds = chosen.seconds(origin=origin, seed=1_000_000, **BURST)
    return BURST["runs"] * BURST["rounds"] * BURST["length"] / seconds
