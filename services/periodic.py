"""Work that a service repeats in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final

from services.errors import ServiceError
from services.outages import Outage
from services.telemetry import get_logger

_log = get_logger(__name__)
_RETRY_S: Final = 1.0
_FINISH_S: Final = 1.0


class PeriodicTask:
    """Repeats work, beginning now, until :func:`stop`. An outage or a bug does not end it.

    Args:
        work: what to repeat.
        every_s: seconds between two times; at least a second after an outage.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        self._work, self._every_s = work, every_s
        self._outage = Outage(work.__qualname__)
        self.stopping = asyncio.Event()
        self.task = asyncio.create_task(self._repeat(), name=work.__qualname__)

    async def _repeat(self) -> None:
        while not self.stopping.is_set():
            pause_s = self._every_s
            try:
                await self._work()
                self._outage.worked()
            except (ServiceError, TimeoutError) as error:
                pause_s = max(pause_s, _RETRY_S)
                self._outage.failed(error)
            except Exception as error:  # noqa: BLE001 - the next time must come all the same
                _log.error("bug", what=self._work.__qualname__, exc_info=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self.stopping.wait()


async def stop(periodic: Collection[PeriodicTask], wait_s: float) -> None:
    """Let them finish their current work. Cancelling them in the middle would lose a database connection."""
    for one in periodic:
        one.stopping.set()
    tasks = [one.task for one in periodic]
    await asyncio.wait(tasks, timeout=wait_s)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def repeating(work: Callable[[], Awaitable[None]], every_s: float) -> AsyncIterator[None]:
    """Repeat work until the end of the context. See :class:`PeriodicTask`."""
    task = PeriodicTask(work, every_s)
    try:
        yield
    finally:
        await stop([task], _FINISH_S)
