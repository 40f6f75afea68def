"""Requests that are as expensive as possible, or meaningless. All are different, so that caches do not help."""

import random
from collections.abc import Callable, Sequence

from services.contracts.base import MAX_QUERY_CHARS

ROUNDS = 25


def hostile(asked: Sequence[str], seed: int) -> list[str]:
    """Requests of eight kinds, made from the words of real ones."""
    chance = random.Random(seed)
    words = " ".join(asked[:200]).split()

    def some(count: int) -> list[str]:
        return chance.choices(words, k=count)

    kinds: tuple[Callable[[], str], ...] = (
        lambda: " ".join(some(2_000)),
        lambda: ", then get the ".join(some(500)),
        lambda: ". ".join(" ".join(some(30)) for _ in range(100)),
        lambda: " ".join(chance.choices("abcdefghij", k=4_000)),
        lambda: "".join(chance.choices("门票多少钱然后添加动物。", k=4_000)),
        lambda: "".join(chance.choices("?!.,;:'\"()[]🦁 ", k=4_000)),
        lambda: "".join(chance.choices("abcdefghij", k=MAX_QUERY_CHARS)),
        lambda: chance.choice(words)[:1] + str(chance.random()),
    )
    return [kind().strip()[:MAX_QUERY_CHARS] or "?" for _ in range(ROUNDS) for kind in kinds]
