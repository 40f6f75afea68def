"""Measure an exported encoder against the fp32 torch model it came from.

    python -m training.retriever.measure_encoder --tools tools.jsonl.gz --instances instances.jsonl --split dev

prints cosine agreement with torch, recall@5 and all-tools@5 of both for whole queries, latency of one short query, load
time and resident memory. Tools and instances are JSON lines: ``{name, description, parameters: {...}}`` and
``{query, split, calls: [{api}]}``. Needs the ``train`` requirements. Runs on Linux (memory is read from /proc).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from services.encoder import DEFAULT_MODEL, Encoder, Vectors, load_encoder
from training.shared.base import default_source

QUERY = "Find the public holidays in the country of my next flight and book a hotel for the longest weekend"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines, gzipped if the name ends in ``.gz``."""
    content = path.read_bytes()
    lines = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in lines.splitlines()]


def tool_text(tool: dict[str, Any]) -> str:
    """One line per tool: the words of its name, its description and its parameters' names."""
    words = _HUMP.sub(" ", tool["name"].rsplit(".", 1)[-1]).replace("_", " ")
    return f"{words}: {tool['description']} {', '.join(tool['parameters'])}"


def sample(
    tools: list[dict[str, Any]], instances: list[dict[str, Any]], limits: tuple[int, int]
) -> tuple[list[dict[str, Any]], list[tuple[str, set[str]]]]:
    """Sample tools and queries up to the limits. The queries' gold tools are always included."""
    rng = random.Random(7)  # noqa: S311 - a repeatable sample, not a secret
    rng.shuffle(instances)
    queries = [(row["query"], {call["api"] for call in row["calls"]}) for row in instances[: limits[1]]]
    gold = set().union(*(names for _, names in queries))
    rest = [tool for tool in tools if tool["name"] not in gold]
    rng.shuffle(rest)
    kept = [tool for tool in tools if tool["name"] in gold]
    return kept + rest[: max(0, limits[0] - len(kept))], queries


def recall_at_5(tools: Vectors, queries: Vectors, names: list[str], gold: list[set[str]]) -> tuple[float, float]:
    """Percentages: gold tools among the first five, and queries with all their gold tools there."""
    found = [
        {names[i] for i in row} & wanted
        for row, wanted in zip(np.argsort(-queries @ tools.T)[:, :5], gold, strict=True)
    ]
    every = [len(hits) == len(wanted) for hits, wanted in zip(found, gold, strict=True)]
    return 100 * sum(map(len, found)) / sum(map(len, gold)), 100 * sum(every) / len(every)


def resident_mb() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def latency_ms(encoder: Encoder, rounds: int = 300) -> float:
    """Median time to encode one short query."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        encoder.encode([QUERY])
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="exported model: name or directory (default: %(default)s)"
    )
    parser.add_argument("--source", help="the torch model to compare with (default: the wheel's all-MiniLM-L6-v2)")
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--instances", type=Path, required=True)
    parser.add_argument("--split", help="use only the instances of this split")
    parser.add_argument("--max-tools", type=int, default=5000)
    parser.add_argument("--max-queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    before, start = resident_mb(), time.perf_counter()
    encoder = load_encoder(args.model, args.threads)
    print(
        f"{encoder.name}: loaded in {time.perf_counter() - start:.2f} s, {resident_mb() - before:.0f} MB more resident"
    )
    print(f"one query of {len(QUERY.split())} words: {latency_ms(encoder):.2f} ms (median)")

    instances = [row for row in read_lines(args.instances) if args.split in (None, row["split"])]
    tools, queries = sample(read_lines(args.tools), instances, (args.max_tools, args.max_queries))
    texts, asked = [tool_text(tool) for tool in tools], [query for query, _ in queries]
    before, start = resident_mb(), time.perf_counter()
    ours = encoder.encode(texts), encoder.encode(asked)
    spent = time.perf_counter() - start
    print(f"{len(texts)} tools, {len(asked)} queries in {spent:.1f} s, {resident_mb() - before:.0f} MB more resident")

    torch_model = load_encoder(args.source or str(default_source()))
    theirs = torch_model.encode(texts), torch_model.encode(asked)
    cosines = np.concatenate([(a * b).sum(axis=1) for a, b in zip(ours, theirs, strict=True)])
    lowest, low = np.quantile(cosines, [0, 0.01])
    print(f"cosine with torch: mean {cosines.mean():.5f}, 1st percentile {low:.5f}, min {lowest:.5f}")
    names, gold = [tool["name"] for tool in tools], [wanted for _, wanted in queries]
    for label, vectors in (("exported", ours), ("torch", theirs)):
        recall, complete = recall_at_5(*vectors, names, gold)
        print(f"{label}: recall@5 {recall:.2f}, all-tools@5 {complete:.2f}")


if __name__ == "__main__":
    main()
