"""Keeps a replica at the catalogue's version, even without requests, and signals its own changes to the others."""

import asyncio
import time
from contextlib import suppress

from retriever_svc.service import CatalogueService
from services.errors import ServiceError
from services.outages import Outage
from services.storage.signals import Signals
from services.telemetry import get_logger

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.1, 1.0
_PAUSE_FACTOR = 3
"""Pause between two checks of the catalogue, as a multiple of the time that the last one took."""
_SAVE_INTERVAL_S = 30.0
"""Seconds between two saves of a changing index. It is always saved at the end."""
_log = get_logger(__name__)


class Synchroniser:
    """The background tasks of a replica.

    Args:
        service: the replica's catalogue.
        signals: the channel between the replicas.
        check_s: seconds after which the catalogue's version is checked even if no signal came.
    """

    def __init__(self, service: CatalogueService, signals: Signals, check_s: float) -> None:
        self._service, self._signals = service, signals
        self._check_s = max(check_s, _MIN_PAUSE_S)
        self._wake = asyncio.Event()
        self._saved_at = -_SAVE_INTERVAL_S
        self._outage = Outage("following the catalogue")

    async def run(self) -> None:
        """Apply changes of others and signal own ones until cancelled; then save the index."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sync_on_signal())
                group.create_task(self._signal_changes())
                group.create_task(self._signals.listen(self._wake.set))
        finally:
            await self._service.save()

    async def _sync_on_signal(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_s):
                    await self._wake.wait()
            self._wake.clear()
            began = time.monotonic()
            try:
                await self._service.sync()
                await self._save_if_due()
                self._outage.worked()
            except ServiceError as error:
                self._outage.failed(error)
            except Exception as error:  # noqa: BLE001 - if this loop ends, the replica answers from a stale catalogue
                _log.error("bug", what="following the catalogue", exc_info=error)
            await asyncio.sleep(min(max(_PAUSE_FACTOR * (time.monotonic() - began), _MIN_PAUSE_S), _MAX_PAUSE_S))

    async def _signal_changes(self) -> None:
        while True:
            await self._service.changed.wait()
            self._service.changed.clear()
            self._wake.set()
            await self._signals.send()

    async def _save_if_due(self) -> None:
        if time.monotonic() - self._saved_at >= _SAVE_INTERVAL_S:
            await self._service.save()
            self._saved_at = time.monotonic()
