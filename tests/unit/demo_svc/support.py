"""Small parts the tests of the demo service share."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
from sqlalchemy.ext.asyncio import AsyncEngine

from demo_svc.service import DemoService
from demo_svc.storage import DemoStorage
from services.compute import ComputePool
from services.contracts.demo import Demo
from services.contracts.plan import LiteralValue, Plan, Step
from services.encoder import Encoder, TokenEncoding, Vectors


class HashEncoder:
    """A real if simple encoder: hashed bags of words, so equal words mean near vectors. Counts what it encodes."""

    def __init__(self, name: str = "hash-words@1", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded.extend(texts)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                digest = hashlib.sha256(word.encode()).digest()
                vectors[row, digest[0] % self.dimension] += 1 if digest[1] % 2 else -1
            vectors[row, 0] += 1e-3  # never all zeros
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        raise NotImplementedError("demos are compared as whole texts")


def demo(query: str, *apis: str, level: str = "task", argument: object = 1) -> Demo:
    """A demo whose plan calls the APIs one after the other."""
    steps = tuple(
        Step.model_validate({"id": f"var{n}", "api": api, "arguments": {"x": LiteralValue(value=argument)}})
        for n, api in enumerate(apis or ("p.a",), start=1)
    )
    return Demo.model_validate({"level": level, "query": query, "plan": Plan(steps=steps)})


@asynccontextmanager
async def opened(engine: AsyncEngine, encoder: Encoder | None = None) -> AsyncIterator[DemoService]:
    pool, storage = ComputePool(1, 16), DemoStorage(engine)
    try:
        yield DemoService(storage, encoder or HashEncoder(), pool, threshold=0.8)
    finally:
        await pool.close()
        storage.close()
