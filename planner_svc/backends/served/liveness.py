"""A circuit breaker for the model's server: after a failure it is not asked until it gives a token again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from services.clients.chat import ChatError
from services.telemetry import get_logger

_log = get_logger(__name__)
_LONGEST_REST_S: Final = 300.0


class Liveness:
    """A circuit breaker. Requests never wait for a server that failed: a probe runs in the background.

    Args:
        probe: asks the server for one token; raises ChatError if none comes.
        rest_s: how long a failed server is not asked.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, probe: Callable[[], Awaitable[None]], rest_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe, self._rest_s, self._clock = probe, rest_s, clock
        self._why: str | None = None
        self._until = 0.0
        self._worked = False
        self._probing: asyncio.Task[None] | None = None

    def trouble(self) -> str | None:
        """Why the server must not be asked now, or None. Starts a probe if the rest is over."""
        if self._why is not None and self._clock() >= self._until:
            self.suspect()
        return self._why

    @property
    def state(self) -> Literal["unknown", "up", "down"]:
        """The server's state as far as it is known."""
        if self._why is not None:
            return "down"
        return "up" if self._worked else "unknown"

    @property
    def why(self) -> str:
        """The last failure of a server that is down; empty otherwise."""
        return self._why or ""

    @property
    def rests_s(self) -> float:
        """Seconds until a failed server may be probed."""
        return max(self._until - self._clock(), 0.0) if self._why is not None else 0.0

    def failed(self, why: str, rest_s: float | None = None) -> None:
        """Record a failure: the server rests for ``rest_s``, if it gave one, or else for the default."""
        if self._why is None:
            _log.warning("the language model gets no requests until it answers again", why=why)
        self._why = why
        self._until = self._clock() + min(self._rest_s if rest_s is None else rest_s, _LONGEST_REST_S)

    def worked(self) -> None:
        """Record an answer."""
        if self._why is not None:
            _log.info("the language model is back")
        self._why, self._worked = None, True

    def suspect(self) -> None:
        """Probe the server in the background."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        try:
            await self._probe()
        except ChatError as error:
            self.failed(str(error), error.retry_after_s)
        else:
            self.worked()

    async def aclose(self) -> None:
        """Cancel a running probe."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
