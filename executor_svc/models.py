"""What the runner and an adapter say to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from pydantic import JsonValue

from executor_svc.settings import MAX_TAKEN_BYTES, ExecutorSettings
from services.contracts.api import Api
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Succeeded

MAX_LOOP_VALUES = 200_000
"""Values in the arguments of all calls of a `foreach`: all of them are put together at once."""
COMPARISONS = 4
"""How often what one call takes over may be compared: that is sooner done than sent."""

CallOutcome = Succeeded | Failed | InDoubt


@dataclass(frozen=True, slots=True)
class Call:
    """One call to make.

    Attributes:
        api: the operation.
        arguments: values by parameter name; shared with other steps, so never to be changed.
        key: identifies this call within all runs (run, step, item): equal for every attempt at it, and after a crash.
        deadline: reading of the event loop's clock, in seconds, after which nobody waits for the answer.
        items: of how many items of a list use is made; None: perhaps of all.
        resent: whether a former process may have sent it: then only a success is certain, everything else is in doubt.
        tenant: for whom it is made; None: nobody said, and only what everybody may use is presented.
        pages_anywhere: whether the next page of a list may have another path of the same origin.
        taken_bytes: how much of the arguments are values that others answered, as JSON.
    """

    api: Api
    arguments: Mapping[str, JsonValue]
    key: str
    deadline: float
    items: int | None = None
    resent: bool = False
    tenant: str | None = None
    pages_anywhere: bool = False
    taken_bytes: int = 0


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
        secrets: the names of the secrets that it presented, or was about to.
    """

    outcome: CallOutcome
    request: RequestRecord | None
    attempts: int
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()
    recovered: bool = False
    secrets: tuple[str, ...] = ()


class Unpreviewable(ValueError):
    """No request can be built for a call. The message says why; it is masked."""


class NotBegun(Exception):
    """The run was cancelled before this call was written down: it was not sent, and will not be."""


class Adapter(Protocol):
    """Makes calls. Everything an upstream can do is an outcome; an exception is a bug in the adapter."""

    async def call(self, call: Call) -> CallResult:
        """Make one call, and return before its deadline. Raises NotBegun where its run was cancelled before."""
        ...


class Previewer(Protocol):
    """Shows calls without making them."""

    def preview(self, call: Call) -> RequestRecord:
        """The request that an adapter would send, masked, without its credentials.

        Raises:
            Unpreviewable: no request can be built from these arguments.
        """
        ...


class Caller(Adapter, Previewer, Protocol):
    """Makes calls, and can show them without making them."""


@dataclass(frozen=True, slots=True)
class ForTenant:
    """A :class:`Caller` all of whose calls are made for one tenant."""

    caller: Caller
    tenant: str

    async def call(self, call: Call) -> CallResult:
        """Make one call with what this tenant may use."""
        return await self.caller.call(replace(call, tenant=self.tenant))

    def preview(self, call: Call) -> RequestRecord:
        """The request that would be sent. Raises Unpreviewable."""
        return self.caller.preview(call)


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run. ``run_s`` and ``step_s`` are seconds; ``items`` bounds the elements of a `foreach`.

    ``taken_bytes`` bounds what one call takes over of what others answered, and all calls together that are shown to be
    approved.
    """

    run_s: float
    step_s: float
    items: int
    taken_bytes: int = MAX_TAKEN_BYTES

    @classmethod
    def of(cls, request: ExecuteRequest, settings: ExecutorSettings) -> Self:
        """What the request asks for and the operator allows."""
        step_ms = request.step_deadline_ms or settings.step_deadline_ms
        return cls(request.deadline_ms / 1000, step_ms / 1000, settings.max_items, settings.max_taken_bytes)

    @property
    def compared_bytes(self) -> int:
        """What all conditions of a run compare."""
        return COMPARISONS * self.taken_bytes


class CallState(StrEnum):
    """What the ledger knows of a call."""

    SENT = "sent"
    """The request went out, or was about to, and nothing is known of its outcome."""
    DONE = "done"
    IN_DOUBT = "in_doubt"
    """Somebody has to find out; until then nothing is sent again."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to run an execution: valid as long as the ledger names this owner and this epoch."""

    run_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where executions stand: the tickets of those that run and of those that have ended, and which to cancel."""

    running: frozenset[Ticket]
    ended: frozenset[Ticket]
    cancelled: frozenset[str]

    def lets_begin(self, sending: "Sending") -> bool:
        """Whether a call may be begun by the owner of a running execution: not once somebody has cancelled it."""
        return sending.again or sending.ticket.run_id not in self.cancelled


@dataclass(frozen=True, slots=True)
class Execution:
    """A durable run as it is stored.

    Attributes:
        takeovers: how many processes it lost.
        result: None while it runs.
        traceparent: of the request that it began with.
    """

    run_id: str
    plan_id: str
    status: str
    owner: str
    epoch: int
    takeovers: int
    cancel_requested: bool
    request: ExecuteRequest
    result: ExecutionFinished | None
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A call of an earlier owner. ``result`` is None while it is not known to have ended."""

    state: CallState
    digest: str
    result: CallResult | None


@dataclass(frozen=True, slots=True)
class Admission:
    """Write down a new execution. Of two with the same id the first one counts."""

    ticket: Ticket
    request: ExecuteRequest
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """Write down that a mutating call is about to be sent, unless its run was cancelled.

    Attributes:
        ticket: the right to run the execution.
        key: of the call.
        digest: hash of its arguments.
        again: whether an earlier owner had written it down. Then it is sent in a cancelled run, too: it may have taken
            effect already, and only its answer tells.
    """

    ticket: Ticket
    key: str
    digest: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Write down what came of a call. ``sent``: whether its sending was written down, as for every mutating call."""

    ticket: Ticket
    key: str
    state: CallState
    result: CallResult
    sent: bool


@dataclass(frozen=True, slots=True)
class LargeValue:
    """Keep a value under the hash of its JSON."""

    id: str
    content: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Write down how an execution ended."""

    ticket: Ticket
    finished: ExecutionFinished


Operation = Admission | Sending | Outcome | LargeValue | Conclusion
