"""What the runner and an adapter say to each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from services.contracts.api import Api
from services.contracts.run import Failed, InDoubt, RequestRecord, Succeeded

CallOutcome = Succeeded | Failed | InDoubt


@dataclass(frozen=True, slots=True)
class Call:
    """One call to make.

    Attributes:
        api: the operation.
        arguments: values by parameter name; shared with other steps, so never to be changed.
        key: identifies this call within all runs (run, step, item): equal for every attempt at it, and after a crash.
        deadline: reading of the event loop's clock, in seconds, after which nobody waits for the answer.
    """

    api: Api
    arguments: Mapping[str, JsonValue]
    key: str
    deadline: float


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call. ``request`` is None where none could be built; ``attempts`` counts sends, tried or done."""

    outcome: CallOutcome
    request: RequestRecord | None
    attempts: int


class Adapter(Protocol):
    """Makes calls. Everything an upstream can do is an outcome; an exception is a bug in the adapter."""

    async def call(self, call: Call) -> CallResult:
        """Make one call, and return before its deadline."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run. ``run_s`` and ``step_s`` are seconds; ``items`` bounds the elements of a `foreach`."""

    run_s: float
    step_s: float
    items: int
