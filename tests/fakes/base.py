"""What all fakes share: being down, being slow, and comparing texts."""

import asyncio
import re
from typing import ClassVar

from services.errors import DeadlineExceeded, ServiceUnavailable


class Fake:
    """A service in memory. ``calls`` lists the methods that were called, in order, also while it was down."""

    service: ClassVar[str]

    def __init__(self) -> None:
        self.down = False
        self.delay_s = 0.0
        self.calls: list[str] = []

    async def ready(self) -> None:
        """Raise unless ready."""
        await self._arrive("ready", 2.0)

    async def _arrive(self, call: str, timeout_s: float | None = None) -> None:
        """A call has come in. Raises what a client raises where the service is down or too slow."""
        self.calls.append(call)
        if self.down:
            raise ServiceUnavailable(f"{self.service} does not answer.", service=self.service)
        if timeout_s is not None and self.delay_s >= timeout_s:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceeded(f"{self.service} did not answer within {timeout_s:g} s.", service=self.service)
        await asyncio.sleep(self.delay_s)


def words(text: str) -> frozenset[str]:
    """The words of a text, in lower case; a name in camel case is several."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return frozenset(re.findall(r"\w+", spaced.lower().replace("_", " ")))


def overlap(query: str, text: str) -> float:
    """The share of the query's words that the text has, 0 to 1."""
    asked = words(query)
    return len(asked & words(text)) / len(asked) if asked else 0.0
