"""A cache of the answers of ``POST /retrieve``, as bytes. An answer is valid while the catalogue is unchanged."""

import hashlib

from services.contracts.retrieval import RetrieveRequest
from services.storage.cache import Cache


class AnswerCache:
    """Answers, keyed by the request and the digest of the catalogue. An answer expires after ``ttl_s`` seconds."""

    def __init__(self, cache: Cache, ttl_s: float) -> None:
        self._cache, self._ttl_s = cache, ttl_s

    async def get(self, catalogue: str, request: RetrieveRequest) -> bytes | None:
        """The answer's JSON, or None if it is not cached."""
        return await self._cache.get(_key(catalogue, request)) if self._ttl_s else None

    async def keep(self, catalogue: str, request: RetrieveRequest, answer: bytes) -> None:
        """Keep an answer."""
        if self._ttl_s:
            await self._cache.set(_key(catalogue, request), answer, self._ttl_s)


def _key(catalogue: str, request: RetrieveRequest) -> str:
    return f"retrieve:{catalogue}:{hashlib.sha256(request.model_dump_json().encode()).hexdigest()}"
