"""Implements ``nestor train corpus``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, get_args

from rich.console import Console

from evals.data import DataError, read_all
from training.corpus.agreement import SECOND, compare
from training.corpus.catalogue import Corpus, Part, Vendor, shipped, told
from training.corpus.export import export
from training.corpus.requests import Kind, Request, check_requests, read_requests
from training.shared.cards import table
from training.shared.leaks import NearDuplicates

_PARTS: Final[tuple[Part, ...]] = get_args(Part)


@dataclass(slots=True)
class _Part:
    vendors: int = 0
    systems: int = 0
    requests: list[Request] = field(default_factory=list)


def check_corpus(documents: Path, vendors: Sequence[str], against: Sequence[Path], folder: Path | None = None) -> int:
    """Check that every plan compiles and that no request is close to another one or to an evaluation set.

    Args:
        documents: folder of the vendors' documents.
        vendors: whose requests to check; all if empty.
        against: folders of data whose requests, of all splits, must not be in the corpus.
        folder: of the corpus; by default the shipped one.

    Returns:
        The exit status: 1 if there are problems, which are printed, else 0. The statistics are always printed.
    """
    corpus = Corpus(folder or shipped(), documents)
    err, parts, wrong = Console(stderr=True), {name: _Part() for name in _PARTS}, 0
    try:
        apart = [(place.name, NearDuplicates(one.query for one in read_all(place).instances)) for place in against]
        chosen = _chosen(corpus, vendors)
    except DataError as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    for vendor in chosen:
        try:
            apis = corpus.apis(vendor)
            requests = read_requests(corpus.file(vendor))
        except DataError as error:
            err.print(str(error), markup=False, soft_wrap=True)
            wrong += 1
            continue
        part = parts[vendor.part]
        part.vendors, part.systems = part.vendors + bool(vendor.documents), part.systems + (not vendor.documents)
        part.requests += requests
        problems = [f"{problem.request}: {problem.text}" for problem in check_requests(requests, apis, vendor.name)]
        for name, measured in apart:
            near = ((one.id, measured.of(one.query)) for one in requests)
            problems += [f"{request}: {name} asks {query!r}" for request, query in near if query is not None]
        for problem in problems:
            print(problem)
        wrong += len(problems)
    print(_statistics(parts))
    second = corpus.folder / SECOND
    if second.exists():
        try:
            found = compare((one for part in parts.values() for one in part.requests), second)
        except DataError as error:
            err.print(str(error), markup=False, soft_wrap=True)
            return 1
        print(f"solved twice: {found.solved}; same calls: {found.calls}; the same as a whole: {found.whole}")
    print(f"{wrong} problems")
    return 1 if wrong else 0


def list_apis(documents: Path, vendor: str, folder: Path | None = None) -> int:
    """Print a vendor's APIs as a writer of requests reads them; return the exit status."""
    corpus = Corpus(folder or shipped(), documents)
    try:
        for one in _chosen(corpus, [vendor]):
            print(told(corpus.apis(one)))
    except DataError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        return 1
    return 0


def export_corpus(documents: Path, part: str, out: Path, folder: Path | None = None) -> int:
    """Write a part as a folder that `nestor train data` and `nestor eval plan` read; return the exit status."""
    try:
        count = export(Corpus(folder or shipped(), documents), part, out)
    except DataError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        return 1
    print(f"{out}: {count:,} requests")
    return 0


def _chosen(corpus: Corpus, names: Sequence[str]) -> list[Vendor]:
    """The vendors with these names; if none are given, all that have requests."""
    known = {vendor.name: vendor for vendor in corpus.vendors}
    if unknown := [name for name in names if name not in known]:
        raise DataError(f"there is no vendor called {unknown[0]!r} in vendors.json")
    return [known[name] for name in names] or [one for one in corpus.vendors if corpus.file(one).exists()]


def _statistics(parts: Mapping[Part, _Part]) -> str:
    kinds = get_args(Kind)
    rows = []
    for name, part in parts.items():
        count = Counter[str](one.kind for one in part.requests)
        calls = sum(len(one.calls) for one in part.requests)
        words = median(len(one.query.split()) for one in part.requests) if part.requests else 0
        numbers = [part.vendors, part.systems, len(part.requests), *(count[kind] for kind in kinds), calls, words]
        rows.append([name, *(f"{number:,.0f}" for number in numbers)])
    return table(["part", "vendors", "systems", "requests", *kinds, "calls", "median words"], rows)
