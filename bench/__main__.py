"""``python -m bench``: what Nestor's speed and size are, against what was hoped for. ``make bench`` runs all of it."""

import argparse
import os
import time
from collections.abc import Callable

from rich.console import Console

from bench.figures import Figure, print_figures


def solve(console: Console) -> list[Figure]:
    """Start, memory, import, and what ``POST /solve`` adds to the requests it makes."""
    from bench.solve import measure

    return measure()


def graphs(console: Console) -> list[Figure]:
    """A graph of 100 calls, beside other ways to run it."""
    from bench.graphs import measure

    return measure(console)


def scale(console: Console) -> list[Figure]:
    """Ten thousand steps in one plan, a thousand runs at a time."""
    from bench.scale import measure

    return measure()


def clone(console: Console) -> list[Figure]:
    """A fresh clone's way to the end of ``make demo``, everything downloaded."""
    from bench.solve import fresh_clone

    return [fresh_clone()]


WIDTH = 110
"""Columns of the tables, also where nobody looks at them."""
SECTIONS: dict[str, Callable[[Console], list[Figure]]] = {
    section.__name__: section for section in (solve, graphs, scale, clone)
}


def main() -> int:
    """Measure and print; returns 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be given more than once")
    parser.add_argument("--no-clone", action="store_true", help="leave out the fresh clone, which downloads everything")
    options = parser.parse_args()
    chosen = options.only or [name for name in SECTIONS if not (name == "clone" and options.no_clone)]
    console, figures = Console(), list[Figure]()
    console.width = max(console.width, WIDTH)
    for name in chosen:
        began = time.perf_counter()
        found = SECTIONS[name](console)
        took_s, load = time.perf_counter() - began, os.getloadavg()[0]
        title = f"{name}: {os.cpu_count()} cores, {took_s:.0f} s, load {load:.1f} at the end"
        print_figures(console, title, found)
        figures += found
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
