"""Whether the model's server is worth asking: one that failed is left alone until it gives a token again."""

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
    """A circuit breaker. Requests never wait for a server that failed: it is probed beside them.

    Args:
        probe: asks the server for one token; raises ChatError unless it comes.
        rest_s: how long a server that failed is left alone.
        clock: seconds that only rise.
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
        """Why the server is not to be asked now; None where it is. Where it has rested, a probe begins."""
        if self._why is not None and self._clock() >= self._until:
            self.suspect()
        return self._why

    @property
    def state(self) -> Literal["unknown", "up", "down"]:
        """How the server is, as far as it was asked."""
        if self._why is not None:
            return "down"
        return "up" if self._worked else "unknown"

    @property
    def why(self) -> str:
        """What was wrong with a server that is left alone."""
        return self._why or ""

    @property
    def rests_s(self) -> float:
        """Seconds that a server which failed is left alone."""
        return max(self._until - self._clock(), 0.0) if self._why is not None else 0.0

    def failed(self, why: str, rest_s: float | None = None) -> None:
        """It failed: leave it alone, as long as it says itself if it does."""
        if self._why is None:
            _log.warning("the language model is left alone", why=why)
        self._why = why
        self._until = self._clock() + min(self._rest_s if rest_s is None else rest_s, _LONGEST_REST_S)

    def worked(self) -> None:
        """It gave an answer."""
        if self._why is not None:
            _log.info("the language model is back")
        self._why, self._worked = None, True

    def suspect(self) -> None:
        """Find out whether it is alive, without anybody waiting for that."""
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
        """End a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
