"""How much memory the answers, and large APIs, take that runs hold until they end, in all and by tenant.

The JSON of a value says little about that: an object with one number has seven bytes as text, and two hundred in
memory.
"""

import asyncio
import codecs
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from executor_svc.models import LARGE_BYTES
from services.contracts.api import Api
from services.telemetry import get_logger

_log = get_logger(__name__)
_VALUE_BYTES: Final = 64
"""Memory for each value, and for each name, besides its text: measured, rounded up."""
_WIDEST: Final = 4
"""Bytes of memory for each byte of a text with a character beyond ASCII."""
_POLL_S: Final = 0.2


class NoRoom(Exception):
    """There is no room for a further answer. The message states the limit."""


def memory_of(body: bytes) -> int:
    """About how many bytes of memory the value of an answer takes. Call it in a thread if the answer is large."""
    text = len(body) * (1 if body.isascii() and b"\\u" not in body else _WIDEST)
    if body.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in (b"[", b"{"):  # a text has no values inside
        return text
    return text + _VALUE_BYTES * sum(map(body.count, (b",", b":", b"[", b"{")))


def memory_of_apis(apis: Iterable[Api]) -> int:
    """About how many bytes of memory the APIs of a plan take; 0 if they are small."""
    written = [api.model_dump_json().encode() for api in apis]
    return sum(map(memory_of, written)) if sum(map(len, written)) > LARGE_BYTES else 0


class HeldAnswers:
    """The answers that all runs of a process hold: ``limit`` bytes of memory at most, half of them for one tenant.

    Attributes:
        share: the bytes for one tenant.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self.share = limit, limit // 2
        self._held: Counter[str] = Counter()
        self._beyond = set[str]()  # the tenants of which a run goes on without room

    def take(self, tenant: str, size: int) -> None:
        """Count an answer of so many bytes. Raises NoRoom."""
        if self._held[tenant] + size > self.share:
            raise NoRoom(f"the answers that a tenant's runs hold take {self.share} bytes of memory at most; try again")
        if self._held.total() + size > self._limit:
            raise NoRoom(f"the answers that all runs hold take {self._limit} bytes of memory at most; try again")
        self._held[tenant] += size

    def take_beyond(self, tenant: str, size: int) -> bool:
        """Count an answer of so many bytes even beyond the limit, for one run of the tenant at a time; else False."""
        if tenant in self._beyond:
            return False
        self._beyond.add(tenant)
        self._held[tenant] += size
        return True

    def end_beyond(self, tenant: str) -> None:
        """The run that was beyond the limit is over."""
        self._beyond.discard(tenant)

    def give_back(self, tenant: str, size: int) -> None:
        """Count answers no longer."""
        self._held[tenant] -= size
        if not self._held[tenant]:
            del self._held[tenant]


class Room:
    """What one run holds. Close it when the run is over."""

    def __init__(self, held: HeldAnswers, tenant: str) -> None:
        self._held, self._tenant, self._taken, self._beyond = held, tenant, 0, False

    def take(self, size: int) -> None:
        """Count a further answer. Raises NoRoom."""
        self._held.take(self._tenant, size)
        self._taken += size

    async def take_in_turn(self, size: int, waits: Callable[[], bool]) -> None:
        """Count answers that the run already had, in another process or before it ended in doubt; wait for the room.

        They were within a tenant's share there. If that was larger, they count as this one, and not more. Once
        ``waits`` says no, they count even without room: what the run has done must be told all the same, and smaller
        answers of others could take the room again and again. One run of a tenant does so at a time.
        """
        size = min(size, self._held.share)
        while True:
            try:
                return self.take(size)
            except NoRoom:
                self._beyond = not waits() and self._held.take_beyond(self._tenant, size)
            if self._beyond:
                _log.warning("a run goes on without room for its earlier answers", tenant=self._tenant, bytes=size)
                self._taken += size
                return None
            await asyncio.sleep(_POLL_S)

    def close(self) -> None:
        """Give everything back."""
        self._held.give_back(self._tenant, self._taken)
        self._taken = 0
        if self._beyond:
            self._held.end_beyond(self._tenant)
            self._beyond = False
