"""The graph of calls that every runner is given: ten wide, ten deep, edges at random, each call fed by two others.

Only the standard library: the peers import it where Nestor's own packages are not installed.
"""

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

WIDTH = 10
DEPTH = 10
DELAYS = ("none", "even", "jitter")
EVEN_MS = 50.0
JITTER_MS = (25.0, 75.0)


@dataclass(frozen=True, slots=True)
class Node:
    """One call. ``needs`` are the calls whose values it sends; the upstream holds its answer for ``delay_ms``."""

    name: str
    needs: tuple[str, ...]
    delay_ms: float
    mutating: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph, and where its calls go. Nodes stand after those they need.

    ``salt`` travels in every URL: no two runs send the same ones, which clients would remember. ``keyed``: the upstream
    knows a POST that comes again by its `Idempotency-Key`.
    """

    origin: str
    nodes: tuple[Node, ...]
    salt: int
    keyed: bool = False

    def critical_path_s(self) -> float:
        """Seconds of the longest chain of delays: no runner can be faster."""
        ends: dict[str, float] = {}
        for node in self.nodes:
            ends[node.name] = max((ends[need] for need in node.needs), default=0.0) + node.delay_ms
        return max(ends.values()) / 1000

    def expected(self) -> dict[str, int]:
        """The value of every call, worked out without making any."""
        values: dict[str, int] = {}
        for node in self.nodes:
            values[node.name] = value_of(node.name, self.salt, [values[need] for need in node.needs])
        return values


def value_of(name: str, salt: int, inputs: list[int]) -> int:
    """What the upstream answers: it depends on every input and its place, so that a mix-up cannot go unseen."""
    return zlib.crc32(":".join([name, *map(str, [salt, *inputs])]).encode())


def layered(origin: str, *, delay: str, mutating: str, seed: int, width: int = WIDTH, depth: int = DEPTH) -> Workload:
    """The graph of 100 calls, or another of this form. Its edges are always the same; ``seed`` decides the jitter.

    Args:
        origin: where the upstream is.
        delay: one of :data:`DELAYS`.
        mutating: which calls are POSTs: ``none``, ``one`` (in the middle), ``all``, or all of them ``keyed``.
        seed: of the jitter, and the salt; another for every run.
        width: how many calls a layer has.
        depth: how many layers there are.
    """
    edges, jitter = random.Random(1), random.Random(seed)
    nodes = []
    for number in range(width * depth):
        layer, place = divmod(number, width)
        above = [f"s{layer - 1}_{other}" for other in edges.sample(range(width), 2)] if layer else []
        held = {"none": 0.0, "even": EVEN_MS, "jitter": jitter.uniform(*JITTER_MS)}[delay]
        changes = mutating in ("all", "keyed") or (mutating == "one" and number == width * depth // 2)
        nodes.append(Node(f"s{layer}_{place}", tuple(above), held, changes))
    return Workload(origin, tuple(nodes), seed, keyed=mutating == "keyed")


def chain(origin: str, *, length: int, mutating: bool, seed: int, delay_ms: float = 0.0) -> Workload:
    """One call after another, each fed by the last."""
    nodes = [Node(f"s{place}", (f"s{place - 1}",) if place else (), delay_ms, mutating) for place in range(length)]
    return Workload(origin, tuple(nodes), seed)


def query(workload: Workload, node: Node, values: Mapping[str, int]) -> dict[str, str]:
    """The query of a node's request; a POST sends its inputs as a JSON body instead."""
    asked = {"ms": f"{node.delay_ms:.3f}", "salt": str(workload.salt)}
    return asked if node.mutating else asked | {key: str(value) for key, value in inputs(node, values).items()}


def inputs(node: Node, values: Mapping[str, int]) -> dict[str, int]:
    """What a node sends, by argument name."""
    return {f"in{place}": values[need] for place, need in enumerate(node.needs)}
