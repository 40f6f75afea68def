"""Threads for work on large requests and answers, so that the event loop goes on meanwhile.

The work is charged to :data:`~services.compute.for_tenant`, so that tenants share the threads fairly.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, ParamSpec, TypeVar

from executor_svc.models import LARGE_BYTES
from services.compute import ComputePool
from services.errors import Overloaded

P = ParamSpec("P")
T = TypeVar("T")


BESIDE: Final = LARGE_BYTES + 1
"""A size for work that takes long whatever the size of its values: it is done in a thread."""


class NotDone(Exception):
    """The work was not done before the deadline, or too much work is waiting."""

    def __init__(self, reason: Literal["timeout", "overloaded"]) -> None:
        super().__init__(reason)
        self.reason = reason


class Workers:
    """Runs work on values: at once if they are small, in a thread of ``pool`` if they are large."""

    def __init__(self, pool: ComputePool) -> None:
        self._pool = pool

    async def run(
        self, size: int, deadline: float | None, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of ``work`` on values of ``size`` bytes. ``deadline``: a reading of the loop's clock, or None.

        Raises:
            NotDone: there was no result in time, or too much work is waiting.
        """
        if size <= LARGE_BYTES:
            return work(*args, **kwargs)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._pool.run(work, *args, **kwargs)
        except TimeoutError:
            raise NotDone("timeout") from None
        except Overloaded:
            raise NotDone("overloaded") from None
