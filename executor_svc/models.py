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
    """What came of a call.

    Attributes:
        outcome: success, failure or doubt.
        request: as it went out, masked; None where none could be built.
        attempts: how often it was sent, tried or done.
        pages: how many pages of a list were fetched.
        more: whether the list goes on beyond them.
        violations: where the answer breaks the API's response schema.
        recovered: whether all this was read from the ledger after a crash.
    """

    outcome: CallOutcome
    request: RequestRecord | None
    attempts: int
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()
    recovered: bool = False


class Unpreviewable(ValueError):
    """No request can be built for a call. The message says why; it is masked."""


class Adapter(Protocol):
    """Makes calls. Everything an upstream can do is an outcome; an exception is a bug in the adapter."""

    async def call(self, call: Call) -> CallResult:
        """Make one call, and return before its deadline."""
        ...


class Previewer(Protocol):
    """Shows calls without making them."""

    def preview(self, call: Call) -> RequestRecord:
        """The request that an adapter would send, masked, without its credentials.

        Raises:
            Unpreviewable: no request can be built from these arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run. ``run_s`` and ``step_s`` are seconds; ``items`` bounds the elements of a `foreach`."""

    run_s: float
    step_s: float
    items: int
