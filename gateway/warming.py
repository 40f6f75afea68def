"""Warms the planner's cache: has it read the catalogue's APIs before a request needs them.

The planner reads an API that is not cached when it is first a candidate, so a failure here does no harm.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from services.clients import Planner, Retriever
from services.contracts.retrieval import LookupRequest
from services.errors import DeadlineExceeded
from services.periodic import repeating
from services.telemetry import get_logger

_log = get_logger(__name__)
_POLL_S: Final = 5.0
_PAGE: Final = 100
_AT_ONCE: Final = 10
"""APIs that the planner reads per call. They take a fraction of a second of one processor."""


class Warmer:
    """Polls the catalogue, and sends its APIs to the planner when it changes.

    Args:
        retriever: holds the catalogue.
        planner: reads the APIs.
        most: maximum number of APIs sent for one version of the catalogue; 0 turns warming off.
    """

    def __init__(self, retriever: Retriever, planner: Planner, most: int) -> None:
        self._retriever, self._planner, self._most = retriever, planner, most
        self._version = -1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Poll until the end of the context."""
        if not self._most:
            yield
            return
        async with repeating(self.warm, _POLL_S):
            yield

    async def warm(self) -> None:
        """Send the catalogue to the planner if its version changed since the last time.

        Raises:
            ServiceError: the retriever or the planner failed; the next call starts from the beginning.
        """
        version = (await self._retriever.status()).catalogue_version
        if version == self._version:
            return
        cursor = None
        for sent in range(0, self._most, _PAGE):
            page = await self._retriever.search(limit=min(_PAGE, self._most - sent), cursor=cursor)
            ids = [hit.id for hit in page.hits]
            for start in range(0, len(ids), _AT_ONCE):
                if not await self._send_apis(ids[start : start + _AT_ONCE]):
                    self._version = version  # the planner read none of them
                    return
            if (cursor := page.next) is None:
                break
        self._version = version

    async def _send_apis(self, ids: list[str]) -> bool:
        """Send these APIs, then pause for as long as that took, so that requests come first.

        Returns:
            Whether the planner has read any of them.
        """
        began = time.monotonic()
        apis = (await self._retriever.lookup(LookupRequest(ids=tuple(ids)))).apis
        try:
            read = (await self._planner.read(apis)).read if apis else len(ids)
        except DeadlineExceeded as error:  # a retry would take as long and delay the other APIs
            _log.info("apis_not_warmed", ids=ids, reason=str(error))
            read = len(ids)
        await asyncio.sleep(time.monotonic() - began)
        return read > 0
