"""Keeps a replica at the catalogue's version, also while nobody asks it anything, and tells the others of changes."""

import asyncio
import time
from contextlib import suppress

from retriever_svc.service import CatalogueService
from services.errors import ServiceError
from services.storage.signals import Signals
from services.telemetry import get_logger

_LEAST_S, _MOST_S = 0.1, 1.0
_SHARE = 3
"""Pause between two looks at the catalogue, however often it changes: so many times as long as the last one took."""
_SAVED_S = 30.0
"""Between two times that a changing index is saved; it is saved at the end in any case."""
_log = get_logger(__name__)


class Follower:
    """What runs beside the requests of a replica.

    Args:
        service: of the replica.
        signals: between the replicas.
        check_s: seconds after which the catalogue's version is looked at, whether or not a signal has come.
    """

    def __init__(self, service: CatalogueService, signals: Signals, check_s: float) -> None:
        self._service, self._signals = service, signals
        self._check_s = max(check_s, _LEAST_S)
        self._woken = asyncio.Event()
        self._saved_at = -_SAVED_S

    async def run(self) -> None:
        """Follow and tell until cancelled; then save the index."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._tell())
                group.create_task(self._signals.listen(self._woken.set))
        finally:
            await self._service.save()

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_s):
                    await self._woken.wait()
            self._woken.clear()
            began = time.monotonic()
            try:
                await self._service.follow()
                await self._save_now_and_then()
            except ServiceError as error:
                _log.warning("catalogue_not_followed", reason=error.detail)
            except Exception as error:  # noqa: BLE001 - who no longer looks would answer from a stale catalogue for ever
                _log.error("bug", what="following the catalogue", exc_info=error)
            await asyncio.sleep(min(max(_SHARE * (time.monotonic() - began), _LEAST_S), _MOST_S))

    async def _tell(self) -> None:
        while True:
            await self._service.changed.wait()
            self._service.changed.clear()
            self._woken.set()
            await self._signals.send()

    async def _save_now_and_then(self) -> None:
        if time.monotonic() - self._saved_at >= _SAVED_S:
            await self._service.save()
            self._saved_at = time.monotonic()
