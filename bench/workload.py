"""The graph of calls for all runners: ten wide, ten deep, with random edges. Each call takes inputs from two others.

It uses only the standard library, because peers import it where Nestor's packages are not installed.
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
    """One call. ``needs`` are the calls whose values it sends. The upstream responds after ``delay_ms``."""

    name: str
    needs: tuple[str, ...]
    delay_ms: float
    mutating: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph, and the origin that its calls go to. Nodes follow those they need.

    ``salt`` is part of every URL, so that URLs differ between runs and clients cannot cache them. ``keyed``: the
    upstream recognises a repeated POST by its `Idempotency-Key`.
    """

    origin: str
    nodes: tuple[Node, ...]
    salt: int
    keyed: bool = False

    def critical_path_s(self) -> float:
        """Seconds of the longest chain of delays, a lower bound for every runner."""
        ends: dict[str, float] = {}
        for node in self.nodes:
            ends[node.name] = max((ends[need] for need in node.needs), default=0.0) + node.delay_ms
        return max(ends.values()) / 1000

    def expected(self) -> dict[str, int]:
        """The value of every call, computed without making calls."""
        values: dict[str, int] = {}
        for node in self.nodes:
            values[node.name] = value_of(node.name, self.salt, [values[need] for need in node.needs])
        return values


def value_of(name: str, salt: int, inputs: list[int]) -> int:
    """The upstream's response value. It depends on every input and its position, so that mix-ups are detected."""
    return zlib.crc32(":".join([name, *map(str, [salt, *inputs])]).encode())


def layered(origin: str, *, delay: str, mutating: str, seed: int, width: int = WIDTH, depth: int = DEPTH) -> Workload:
    """The graph of 100 calls, or another of this form. Its edges are always the same; ``seed`` determines the jitter.

    Args:
        origin: origin of the upstream.
        delay: one of :data:`DELAYS`.
        mutating: which calls are POSTs: ``none``, ``one`` (in the middle), ``all``, or all of them ``keyed``.
        seed: seed of the jitter, also the salt; different for every run.
        width: number of calls per layer.
        depth: number of layers.
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
    """A chain of calls. Each takes the value of the previous one."""
    nodes = [Node(f"s{place}", (f"s{place - 1}",) if place else (), delay_ms, mutating) for place in range(length)]
    return Workload(origin, tuple(nodes), seed)


def query(workload: Workload, node: Node, values: Mapping[str, int]) -> dict[str, str]:
    """The query parameters of a node's request. A POST sends its inputs as a JSON body instead."""
    asked = {"ms": f"{node.delay_ms:.3f}", "salt": str(workload.salt)}
    return asked if node.mutating else asked | {key: str(value) for key, value in inputs(node, values).items()}


def inputs(node: Node, values: Mapping[str, int]) -> dict[str, int]:
    """The inputs that a node sends, by argument name."""
    return {f"in{place}": values[need] for place, need in enumerate(node.needs)}
