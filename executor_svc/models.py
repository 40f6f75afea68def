"""The interface between the runner, adapters and the ledger."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from pydantic import JsonValue

from executor_svc.settings import MAX_TAKEN_BYTES, ExecutorSettings
from services.contracts.api import Api
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Succeeded
from services.ownership.ticket import Ticket

MAX_LOOP_VALUES = 100_000
"""Limit on the values of all loops of a plan: of a condition for each item, and of the arguments for each call.

No other run makes progress while a loop's conditions are checked and its calls are built.
"""
COMPARISONS = 4
"""Conditions may compare this multiple of `copied_bytes`, since comparing is cheaper than sending."""

LARGE_BYTES = 64 * 1024
"""Size of values above which work on them is done in a thread."""

_BUG = "a bug of the executor ended the call; the details are in its log"

CallOutcome = Succeeded | Failed | InDoubt
Confirm = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call to make.

    Attributes:
        api: the operation.
        arguments: values by parameter name; shared with other steps, so they must not be changed.
        key: identifies this call among all runs (run, step, item). It is the same for every attempt, and after a crash.
        deadline: reading of the event loop's clock, in seconds, after which nobody waits for the answer.
        items: how many items of a list the plan uses; None if it may use all.
        resent: whether a former process may have sent it. Then any result but a success is in doubt.
        tenant: the tenant that it is made for; None if unknown. Then it may use only secrets without a tenant list.
        pages_anywhere: whether the next page of a list may have another path of the same origin.
        value_bytes: size of the values that its arguments copy from other answers and from the plan, in bytes of JSON.
        confirm: called just before it is sent; raises Fenced if it may not be sent any more. None: it always may.
    """

    api: Api
    arguments: Mapping[str, JsonValue]
    key: str
    deadline: float
    items: int | None = None
    resent: bool = False
    tenant: str | None = None
    pages_anywhere: bool = False
    value_bytes: int = 0
    confirm: "Confirm | None" = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        outcome: success, failure or doubt.
        request: the request as sent, masked; None if none could be built.
        attempts: how often it was sent or tried.
        pages: how many pages of a list were fetched.
        more: whether the list continues after these pages, or an answer was only a part.
        violations: where the answer breaks the API's response schema.
        recovered: whether the result was read from the ledger after a crash.
        secrets: the names of the secrets that it presented, or was about to present.
        bytes: size of the answers that its value was read from.
        memory: about how many bytes of memory the value takes; 0 once they are counted.
    """

    outcome: CallOutcome
    request: RequestRecord | None
    attempts: int
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()
    recovered: bool = False
    secrets: tuple[str, ...] = ()
    bytes: int = 0
    memory: int = 0


class Unpreviewable(ValueError):
    """No request can be built for a call. The message says why and is masked."""


class NotBegun(Exception):
    """The run was cancelled before this call was recorded. It was not sent and will not be."""


def crashed(call: Call, *, may_be_sent: bool) -> CallResult:
    """The result of a call that a bug ended. A change that may have been sent is in doubt: it must not be resent."""
    if call.api.mutating and may_be_sent:
        return CallResult(InDoubt(message=f"{_BUG}; the request may have been sent"), None, 1)
    # The attempt counts: with it, the gateway audits the secrets that the call may have presented.
    return CallResult(Failed(reason="internal_error", message=_BUG), None, int(may_be_sent))


class Adapter(Protocol):
    """Makes calls. Everything that an upstream does is an outcome; an exception is a bug in the adapter."""

    async def call(self, call: Call) -> CallResult:
        """Make one call, and return before its deadline. Raises NotBegun if its run was cancelled before."""
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
    """Makes calls and can preview them."""


@dataclass(frozen=True, slots=True)
class ForTenant:
    """A :class:`Caller` that makes all calls for one tenant."""

    caller: Caller
    tenant: str

    async def call(self, call: Call) -> CallResult:
        """Make one call with the secrets that this tenant may use."""
        return await self.caller.call(replace(call, tenant=self.tenant))

    def preview(self, call: Call) -> RequestRecord:
        """The request that would be sent. Raises Unpreviewable."""
        return self.caller.preview(call)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run. ``run_s`` and ``step_s`` are in seconds; ``items`` bounds the elements of a `foreach`.

    ``copied_bytes`` bounds the values that one call copies from other answers. It is also the bound for all calls
    together that are shown for approval.
    """

    run_s: float
    step_s: float
    items: int
    copied_bytes: int = MAX_TAKEN_BYTES

    @classmethod
    def of(cls, request: ExecuteRequest, settings: ExecutorSettings) -> Self:
        """The limits from the request and the settings."""
        step_ms = request.step_deadline_ms or settings.step_deadline_ms
        return cls(request.deadline_ms / 1000, step_ms / 1000, settings.max_items, settings.max_taken_bytes)

    @property
    def compared_bytes(self) -> int:
        """Bound on the values that all conditions of a run compare."""
        return COMPARISONS * self.copied_bytes


class CallState(StrEnum):
    """The state of a call in the ledger."""

    SENT = "sent"
    """The request was sent, or was about to be, and its outcome is unknown."""
    DONE = "done"
    IN_DOUBT = "in_doubt"
    """A person has to find out the outcome. Until then the call is not resent."""


@dataclass(frozen=True, slots=True)
class ExecutionStates:
    """The state of executions: tickets of those that run, tickets of those that ended, and the cancelled run ids."""

    running: frozenset[Ticket]
    ended: frozenset[Ticket]
    cancelled: frozenset[str]

    def lets_begin(self, intent: "SendIntent") -> bool:
        """Whether a running execution may start this call. A cancelled one may only repeat calls."""
        return intent.again or intent.ticket.run_id not in self.cancelled


@dataclass(frozen=True, slots=True)
class Execution:
    """A durable run as it is stored.

    Attributes:
        takeovers: how often another process took it over.
        admitted: whether its request is one that an executor with this proof key admitted.
        result: None while it runs.
        traceparent: the trace context of the request that started it.
    """

    run_id: str
    plan_id: str
    status: str
    owner: str
    epoch: int
    takeovers: int
    cancel_requested: bool
    request: ExecuteRequest
    admitted: bool
    result: ExecutionFinished | None
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of an earlier owner.

    Attributes:
        state: a call that is not intact is in doubt.
        digest: hash of its arguments; set while the outcome is unknown.
        result: None until the outcome is known.
        intact: whether an executor with this proof key wrote the record, and its stored value is there.
    """

    state: CallState
    digest: str
    result: CallResult | None
    intact: bool = True


def not_intact(digest: str) -> RecordedCall:
    """A call whose record cannot be relied on."""
    return RecordedCall(CallState.IN_DOUBT, digest, None, intact=False)


@dataclass(frozen=True, slots=True)
class Admission:
    """Record a new execution. If the id exists, nothing is written."""

    ticket: Ticket
    request: ExecuteRequest
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class SendIntent:
    """Record that a mutating call is about to be sent, unless its run was cancelled.

    Attributes:
        ticket: the right to run the execution.
        key: the call's key.
        digest: hash of its arguments.
        again: whether an earlier owner had recorded it. Then it is sent even in a cancelled run: it may already have
            taken effect, and only its answer shows this.
    """

    ticket: Ticket
    key: str
    digest: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Record the outcome of a call. ``sent``: whether its sending was recorded, as for every mutating call."""

    ticket: Ticket
    key: str
    state: CallState
    result: CallResult
    sent: bool


@dataclass(frozen=True, slots=True)
class LargeValue:
    """Store a value under the hash of its JSON."""

    id: str
    content: str


def value_id_of(content: str | bytes) -> str:
    """The id of a large value: the hash of its JSON."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Record how an execution ended."""

    ticket: Ticket
    finished: ExecutionFinished


Operation = Admission | SendIntent | Outcome | LargeValue | Conclusion
