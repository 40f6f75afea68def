"""What all fakes share: simulated outages and delays, and a comparison of texts."""

import asyncio
import re
from typing import ClassVar

from services.errors import DeadlineExceeded, ServiceUnavailable


class Fake:
    """A service in memory. ``calls`` lists the called methods in order, including calls while it was down."""

    service: ClassVar[str]

    def __init__(self) -> None:
        self.down = False
        self.delay_s = 0.0
        self.calls: list[str] = []

    async def ready(self) -> None:
        """Raise ServiceUnavailable or DeadlineExceeded unless ready."""
        await self._arrive("ready", 2.0)

    async def _arrive(self, call: str, timeout_s: float | None = None) -> None:
        """Record a call. Raises what a client raises if the service is down or too slow."""
        self.calls.append(call)
        if self.down:
            raise ServiceUnavailable(f"{self.service} does not answer.", service=self.service)
        if timeout_s is not None and self.delay_s >= timeout_s:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceeded(f"{self.service} did not answer within {timeout_s:g} s.", service=self.service)
        await asyncio.sleep(self.delay_s)


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case. A camel-case name is split into words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return frozenset(re.findall(r"\w+", spaced.lower().replace("_", " ")))


def overlap(query: str, text: str) -> float:
    """The share of the query's words that occur in the text, 0 to 1."""
    asked = words(query)
    return len(asked & words(text)) / len(asked) if asked else 0.0
