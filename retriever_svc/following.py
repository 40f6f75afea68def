"""Keeps a replica at the catalogue's version, even without requests, and signals its own changes to the others."""

import asyncio
import time
from contextlib import suppress

from retriever_svc.service import CatalogueService
from services.errors import ServiceError
from services.storage.signals import Signals
from services.telemetry import get_logger

_LEAST_S, _MOST_S = 0.1, 1.0
_SHARE = 3
"""Pause between two checks of the catalogue, as a multiple of the time that the last one took."""
_SAVED_S = 30.0
"""Seconds between two saves of a changing index. It is always saved at the end."""
_log = get_logger(__name__)


class Follower:
    """The background tasks of a replica.

    Args:
        service: the replica's catalogue.
        signals: the channel between the replicas.
        check_s: seconds after which the catalogue's version is checked even if no signal came.
    """

    def __init__(self, service: CatalogueService, signals: Signals, check_s: float) -> None:
        self._service, self._signals = service, signals
        self._check_s = max(check_s, _LEAST_S)
        self._woken = asyncio.Event()
        self._saved_at = -_SAVED_S

    async def run(self) -> None:
        """Follow changes and signal own ones until cancelled; then save the index."""
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
            except Exception as error:  # noqa: BLE001 - if this loop ends, the replica answers from a stale catalogue
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
