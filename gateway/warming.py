"""Has the planner read the catalogue before anybody asks: an API that it has read costs a request nothing.

What is not read yet, or was dropped, is read when it is first a candidate; so nothing here has to succeed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from services.clients import Planner, Retriever
from services.contracts.retrieval import LookupRequest
from services.errors import DeadlineExceeded, ServiceError
from services.telemetry import get_logger

_log = get_logger(__name__)
_LOOK_EVERY_S: Final = 5.0
_PAGE: Final = 100
_AT_ONCE: Final = 10
"""APIs that the planner is given to read at a time: a fraction of a second of one processor."""


class Warmer:
    """Follows the catalogue, and hands on what changed.

    Args:
        retriever: has the catalogue.
        planner: reads it.
        most: APIs handed on for one version of the catalogue; 0 turns it off.
    """

    def __init__(self, retriever: Retriever, planner: Planner, most: int) -> None:
        self._retriever, self._planner, self._most = retriever, planner, most
        self._version = -1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Follow until the end of the context."""
        if not self._most:
            yield
            return
        task = asyncio.create_task(self._follow(), name="warming the planner")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        while True:
            try:
                await self.look()
            except (ServiceError, TimeoutError) as error:
                _log.info("planner_not_warmed", reason=str(error))
            except Exception as error:  # noqa: BLE001 - an API that cannot be read must not stop the others for ever
                _log.error("bug", what="warming the planner", exc_info=error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def look(self) -> None:
        """Hand the catalogue on, where it is another than last time.

        Raises:
            ServiceError: retriever or planner cannot be asked; the next look starts anew.
        """
        version = (await self._retriever.status()).catalogue_version
        if version == self._version:
            return
        for offset in range(0, self._most, _PAGE):
            page = await self._retriever.search(limit=min(_PAGE, self._most - offset), offset=offset)
            ids = [hit.id for hit in page.hits]
            for start in range(0, len(ids), _AT_ONCE):
                if not await self._hand_on(ids[start : start + _AT_ONCE]):
                    self._version = version  # the planner gains nothing by it
                    return
            if offset + len(ids) >= page.total or not ids:
                break
        self._version = version

    async def _hand_on(self, ids: list[str]) -> bool:
        """These APIs, and a rest as long as it took: requests come first. Whether the planner has read any of them."""
        began = time.monotonic()
        apis = (await self._retriever.lookup(LookupRequest(ids=tuple(ids)))).apis
        try:
            read = (await self._planner.read(apis)).read if apis else len(ids)
        except DeadlineExceeded as error:  # asked for again, they would take as long; the others are not read by then
            _log.info("apis_not_warmed", ids=ids, reason=str(error))
            read = len(ids)
        await asyncio.sleep(time.monotonic() - began)
        return read > 0
