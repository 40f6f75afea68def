"""Turns at reading all APIs of a provider, which may have 200 MB of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from services.errors import Overloaded
from services.fair_slots import FairSlots

_AT_ONCE: Final = 2
_WAITING, _WAITING_EACH, _WAIT_S = 256, 16, 60.0


class WholeReads:
    """Two reads at a time, of two tenants; tenants take turns."""

    def __init__(self) -> None:
        self._turns = FairSlots(_AT_ONCE, _WAITING, each=1, what="reads of whole providers")

    @asynccontextmanager
    async def turn(self, tenant: str | None) -> AsyncIterator[None]:
        """Hold a turn of this tenant (None: the operator).

        Raises:
            Overloaded: too many wait, all together or of this tenant, or it was not its turn within a minute.
        """
        if self._turns.waits(tenant or "") >= _WAITING_EACH:
            raise Overloaded("Too many active reads of whole providers of this tenant.", retry_after_s=1)
        async with self._turns.slot(tenant or "", _WAIT_S):
            yield
