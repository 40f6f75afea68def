"""Answers of ``POST /retrieve``, kept as the bytes that were sent, for as long as what they were made from stands."""

import hashlib

from services.contracts.retrieval import RetrieveRequest
from services.storage.cache import Cache


class AnswerCache:
    """Answers by request and by the digest of the catalogue they were found in; each is forgotten after ``ttl_s``."""

    def __init__(self, cache: Cache, ttl_s: float) -> None:
        self._cache, self._ttl_s = cache, ttl_s

    async def get(self, catalogue: str, request: RetrieveRequest) -> bytes | None:
        """The answer's JSON, or None where it must be found anew."""
        return await self._cache.get(_key(catalogue, request)) if self._ttl_s else None

    async def keep(self, catalogue: str, request: RetrieveRequest, answer: bytes) -> None:
        """Keep an answer."""
        if self._ttl_s:
            await self._cache.set(_key(catalogue, request), answer, self._ttl_s)


def _key(catalogue: str, request: RetrieveRequest) -> str:
    return f"retrieve:{catalogue}:{hashlib.sha256(request.model_dump_json().encode()).hexdigest()}"
