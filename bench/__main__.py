"""``python -m bench``: measures Nestor's speed and size and compares them with targets. ``make bench`` runs all."""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figure, Report, Skipped


def solve(report: Report) -> list[Figure]:
    """Startup, memory, import, and the overhead of ``POST /solve`` over the requests it makes."""
    from bench.solve import measure

    return measure()


def graphs(report: Report) -> list[Figure]:
    """A graph of 100 calls, compared with other runners."""
    from bench.graphs import measure

    return measure(report)


def scale(report: Report) -> list[Figure]:
    """Ten thousand steps in one plan, and a thousand concurrent runs."""
    from bench.scale import measure

    return measure()


def fairness(report: Report) -> list[Figure]:
    """One tenant's latency while another tenant floods the service."""
    from bench.fairness import measure

    return measure()


def floods(report: Report) -> list[Figure]:
    """Incomplete requests and large bodies from unauthenticated clients."""
    from bench.floods import measure

    return measure()


def faults(report: Report) -> list[Figure]:
    """How requests end while the language model's server fails in every known way."""
    from bench.faults import measure

    return measure()


def soak(report: Report) -> list[Figure]:
    """Durable solves at a steady rate, and the growth of memory; runs only with ``--only soak``."""
    from bench.soak import measure

    return measure()


def reads(report: Report) -> list[Figure]:
    """Reading stored runs of several megabytes."""
    from bench.reads import measure

    return measure()


def retrieve(report: Report) -> list[Figure]:
    """The retriever over a catalogue of realistic size; needs ``--data``."""
    from bench.retrieve import measure

    return measure()


def peers(report: Report) -> list[Figure]:
    """The retriever's ranking compared with langgraph-bigtool and graph-tool-call; needs ``--data``."""
    from bench.retrieve_peers import measure

    measure(report)
    return []


def plan(report: Report) -> list[Figure]:
    """From words to a proved plan, over a catalogue of tools; needs ``--data``."""
    from bench.plan import measure

    return measure()


def index(report: Report) -> list[Figure]:
    """A million vectors: build, recall, search, memory."""
    from bench.index import measure

    return measure()


def imports(report: Report) -> list[Figure]:
    """A document of 250 operations in 2 MB, read and indexed."""
    from bench.imports import measure

    return measure()


def console(report: Report) -> list[Figure]:
    """The console: layout of large graphs, page size, first paint, and memory."""
    from bench.console import measure

    return measure()


def clone(report: Report) -> list[Figure]:
    """The time from a fresh clone to the end of ``make demo``, including all downloads."""
    from bench.solve import fresh_clone

    return [fresh_clone()]


_MEASURED = (
    solve,
    imports,
    graphs,
    scale,
    fairness,
    floods,
    faults,
    reads,
    console,
    index,
    retrieve,
    plan,
    peers,
    clone,
    soak,
)
SECTIONS: dict[str, Callable[[Report], list[Figure]]] = {section.__name__: section for section in _MEASURED}


def main() -> int:
    """Measure and print. Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be given more than once")
    parser.add_argument("--no-clone", action="store_true", help="leave out the fresh clone, which downloads everything")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="for `retrieve`, `plan`, `peers`; default: $NESTOR_BENCH_DATA"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="for `soak`: how long; default 1")
    parser.add_argument("--rate", type=float, metavar="R", help="for `soak`: requests a second; default 30")
    parser.add_argument("--servers", type=int, metavar="N", help="for `soak`: processes of `nestor serve`; default 1")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="an .npz where `peers` keeps its vectors")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page, as docs/speed.md")
    options = parser.parse_args()
    if options.data is not None:
        os.environ["NESTOR_BENCH_DATA"] = str(options.data)
    if options.cache is not None:
        os.environ["NESTOR_BENCH_CACHE"] = str(options.cache)
    for name, value in (("MINUTES", options.minutes), ("RATE", options.rate), ("SERVERS", options.servers)):
        if value is not None:
            os.environ[f"NESTOR_BENCH_{name}"] = str(value)
    left_out = {"soak"} | ({"clone"} if options.no_clone else set())
    chosen = options.only or [name for name in SECTIONS if name not in left_out]
    report, figures = Report(), list[Figure]()
    for name in chosen:
        began = time.perf_counter()
        try:
            found = SECTIONS[name](report)
        except Skipped as reason:
            report.note(f"{name}: skipped, {reason}")
            continue
        took_s, load = time.perf_counter() - began, os.getloadavg()[0]
        title = f"{name}: {os.cpu_count()} cores, {took_s:.0f} s, load {load:.1f} at the end"
        if found:
            report.figures(title, found)
        figures += found
    if options.write is not None:
        report.write(options.write)
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
