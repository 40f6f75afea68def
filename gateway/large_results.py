"""Turns at parsing and storing what the executor tells of runs, if it is large.

That is done on the event loop, a tenth of a second for some megabytes. If all runs of a tenant did so as soon as they
can, everybody else would wait for them together: in turns others wait for one at a time.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from services.fair_slots import FairSlots

_FREE_BYTES: Final = 65_536
_TURNS: Final = 2
"""Turns at once, one of a tenant."""
_WAITING: Final = 100_000
_WAIT_S: Final = 86_400.0
"""The calls are made already, so no run gives up."""


class LargeResults:
    """The turns of this process."""

    def __init__(self) -> None:
        self._turns = FairSlots(_TURNS, _WAITING, 1, "large results")

    @asynccontextmanager
    async def turn(self, tenant: str, size: int) -> AsyncGenerator[None, None]:
        """A turn of a tenant, if ``size`` in bytes is large."""
        if size <= _FREE_BYTES:
            yield
            return
        async with self._turns.slot(tenant, _WAIT_S):
            yield
