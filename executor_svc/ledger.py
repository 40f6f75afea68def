"""The effects ledger, a write-ahead log: each mutating call is recorded before it is sent.

One writer task commits all queued operations in one transaction, so all waiting calls of all runs share a commit
(group commit). The order of operations is kept: an outcome is on disk before, or together with, the sending of a call
that was built from it. So callers wait only for sendings and conclusions, never for outcomes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic import JsonValue
from pydantic_core import from_json

from executor_svc.models import (
    Admission,
    Call,
    Caller,
    CallResult,
    CallState,
    Conclusion,
    ExecutionStates,
    LargeValue,
    NotBegun,
    Operation,
    Outcome,
    Previewer,
    RecordedCall,
    SendIntent,
    Unpreviewable,
    crashed,
    not_intact,
)
from executor_svc.storage import LedgerStore
from executor_svc.values import ValueStore
from executor_svc.workers import NotDone, Workers
from services.compute import checkpoint
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, Succeeded
from services.contracts.plan import content_hash_in_parts
from services.errors import ServiceError
from services.outages import Outage
from services.ownership.ticket import Fenced, Ticket
from services.telemetry import get_logger
from services.tracing import traceparent

_log = get_logger(__name__)
_MAX_BATCH = 500
_LINGER_S = 0.005
_MAYBE_SENT = "an earlier process may have sent it"
_HASHED_AGAIN_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0


@dataclass(slots=True)
class _Entry:
    """An operation in the queue. None marks a flush, which only waits for the operations before it.

    ``written`` is set if a caller waits. It raises the reason if the operation was not written.
    """

    operation: Operation | None
    written: asyncio.Future[None] | None


class Ledger:
    """Writes in batches, in order. Calls ``on_cancel`` with the id of each run whose cancellation is requested.

    Nothing is lost if the database is full, read-only, unavailable or busy: the batch is retried until it is written.
    Meanwhile no mutating call is sent. An entry that cannot be written for another reason is dropped alone.
    """

    def __init__(self, store: LedgerStore, on_cancel: Callable[[str], None]) -> None:
        self._store, self._on_cancel = store, on_cancel
        self._queue: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()

    async def admit(self, ticket: Ticket, request: ExecuteRequest) -> bool:
        """Record a new execution. Returns False if one of that id exists already."""
        try:
            await self._wait(Admission(ticket, request, traceparent()))
        except Fenced:
            return False
        return True

    async def record_intent(self, intent: SendIntent) -> None:
        """Record that a call is about to be sent. It may be sent once this returns. Raises Fenced and NotBegun."""
        await self._wait(intent)

    def outcome(self, ticket: Ticket, key: str, state: CallState, result: CallResult, *, sent: bool) -> None:
        """Queue the outcome of a call; does not wait until it is written."""
        self._put(_Entry(Outcome(ticket, key, state, result, sent), None))

    def keep(self, value: LargeValue) -> None:
        """Queue a large value; does not wait until it is written."""
        self._put(_Entry(value, None))

    async def conclude(self, ticket: Ticket, finished: ExecutionFinished) -> None:
        """Record how an execution ended, after everything queued before it. Raises Fenced."""
        await self._wait(Conclusion(ticket, finished))

    async def flush(self) -> None:
        """Wait until everything queued so far is written."""
        await self._wait(None)

    async def write_forever(self) -> None:
        """The writer; runs until cancelled."""
        pause_s, most, outage = _FIRST_PAUSE_S, _MAX_BATCH, Outage("writing the ledger")
        while True:
            await self._wake.wait()
            await self._linger()
            batch = self._next_batch(most)
            try:
                states = await self._store.write([entry.operation for entry in batch if entry.operation])
            except ServiceError as error:
                self._put_back(batch)
                outage.failed(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except Exception as error:  # noqa: BLE001 - without a writer all runs would wait forever
                _log.error("bug", exc_info=error)
                if most == 1:
                    _fail(batch, error)
                else:  # Only the entry that cannot be written may be lost: halve the batch until it is alone.
                    self._put_back(batch)
                    most = max(1, len(batch) // 2)
            else:
                outage.worked()
                pause_s, most = _FIRST_PAUSE_S, _MAX_BATCH
                _notify(batch, states)
                for run_id in states.cancelled:
                    self._on_cancel(run_id)

    async def _linger(self) -> None:
        """Delay a batch of outcomes a little: the next sending usually follows at once and then shares the commit."""
        if not self._urgent.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_S):
                    await self._urgent.wait()

    def _put_back(self, batch: list[_Entry]) -> None:
        self._queue.extendleft(reversed(batch))
        self._wake.set()
        self._urgent.set()

    def _next_batch(self, most: int) -> list[_Entry]:
        """The next batch to write. Drops operations whose caller has stopped waiting."""
        batch = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        if not self._queue:
            self._wake.clear()
            self._urgent.clear()
        return [entry for entry in batch if entry.written is None or not entry.written.cancelled()]

    async def _wait(self, operation: Operation | None) -> None:
        entry = _Entry(operation, asyncio.get_running_loop().create_future())
        self._put(entry)
        self._urgent.set()
        assert entry.written is not None
        await entry.written

    def _put(self, entry: _Entry) -> None:
        self._queue.append(entry)
        self._wake.set()


def _notify(batch: list[_Entry], states: ExecutionStates) -> None:
    for entry in batch:
        if entry.written is None or entry.written.done():
            continue
        refused = _refusal(entry.operation, states)
        if refused is None:
            entry.written.set_result(None)
        else:
            entry.written.set_exception(refused)


def _refusal(operation: Operation | None, states: ExecutionStates) -> Fenced | NotBegun | None:
    """Why an operation was not written, or None. A conclusion may be written already, by an unacknowledged commit."""
    if operation is None or isinstance(operation, LargeValue):
        return None
    concluded = isinstance(operation, Conclusion) and operation.ticket in states.ended
    if not concluded and operation.ticket not in states.running:
        return Fenced(operation.ticket.run_id)
    if isinstance(operation, SendIntent) and not states.lets_begin(operation):
        return NotBegun(operation.ticket.run_id)
    return None


def _fail(batch: list[_Entry], error: Exception) -> None:
    for entry in batch:
        if entry.written is not None and not entry.written.done():
            entry.written.set_exception(error)


class LedgerAdapter:
    """An :class:`~executor_svc.models.Adapter` that records every call of one run in the ledger.

    Args:
        adapter: makes the calls, and previews those that must not be made.
        ledger: where the calls are recorded.
        ticket: the right to run this execution.
        known: the calls of the run's earlier owners, from the ledger.
        value_store: where large outputs are stored.
        sure_s: for how long after a row was written no other process can have taken the run over, in seconds.
        workers: threads in which large arguments are hashed.
    """

    def __init__(
        self,
        adapter: Caller,
        ledger: Ledger,
        ticket: Ticket,
        known: dict[str, RecordedCall],
        value_store: ValueStore,
        sure_s: float,
        workers: Workers,
    ) -> None:
        self._adapter, self._ledger, self._ticket, self._known = adapter, ledger, ticket, known
        self._value_store, self._sure_s, self._workers = value_store, sure_s, workers

    async def call(self, call: Call) -> CallResult:
        """Make a call, unless the ledger holds its outcome or it must not be repeated.

        Raises:
            Fenced: another process has taken the execution over.
            NotBegun: the run was cancelled before this call was recorded.
        """
        key = call.key.removeprefix(f"{self._ticket.run_id}/")
        known = self._known.get(key)
        if known is not None and known.result is not None:
            recovered = replace(known.result, recovered=True)
            self._value_store.for_ledger(recovered, changed=True)  # so that it counts as in the process that made it
            return recovered
        if not call.api.mutating:
            return self._written(key, await self._adapter.call(call), sent=False)
        intent = _Intent(self._ledger, self._sure_s)
        try:
            refused = await self._begin(key, call, known, intent)
        except (Fenced, NotBegun):
            raise
        except Exception as error:  # noqa: BLE001 - a run that a bug ends is taken over, and would begin this call again
            _log.error("bug", call=call.key, exc_info=error)
            refused = crashed(call, may_be_sent=known is not None)
        if refused is not None:
            return self._written(key, refused, sent=True)
        try:
            result = await self._adapter.call(replace(call, resent=known is not None, confirm=intent.confirm))
            return self._written(key, result, sent=True)
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 - the same; it was sent, also if only its answer cannot be written
            _log.error("bug", call=call.key, exc_info=error)
            result = crashed(call, may_be_sent=True)
            with suppress(Exception):
                result = replace(result, request=self._adapter.preview(call))
            return self._written(key, result, sent=True)

    async def _begin(self, key: str, call: Call, known: RecordedCall | None, intent: "_Intent") -> CallResult | None:
        """Record that a mutating call is about to be sent; or return its result if it must not be. Raises as `call`."""
        try:
            digest = await self._digest(call, patient=known is not None)
        except NotDone as error:
            message = "nothing was sent: its arguments could not be hashed in time"
            if known is not None:  # which request it was is unknown
                return CallResult(InDoubt(message=f"{_MAYBE_SENT}; now {message}"), None, 0, recovered=True)
            return CallResult(Failed(reason=error.reason, message=message), None, 0)
        if known is not None and (doubt := _doubt(call, known, digest)):
            result = in_doubt_result(self._adapter, call, doubt)
            if known.digest != digest:  # another request was sent, and it is unknown which
                result = replace(result, request=None)
            return result
        try:
            async with asyncio.timeout_at(call.deadline):
                await intent.record(SendIntent(self._ticket, key, digest, again=known is not None))
        except TimeoutError:
            message = "nothing was sent: the ledger could not be written before the deadline"
            if known is not None:
                return in_doubt_result(self._adapter, call, f"{_MAYBE_SENT}; now {message}")
            return CallResult(Failed(reason="ledger", message=message), None, 0)
        return None

    async def _digest(self, call: Call, *, patient: bool) -> str:
        """The hash of a call's arguments. ``patient``: waits for a thread until the deadline. Raises NotDone."""
        clock, arguments = asyncio.get_running_loop().time, dict(call.arguments)
        while True:
            hashing = self._workers.run(call.value_bytes, call.deadline, content_hash_in_parts, arguments, checkpoint)
            try:
                return await hashing
            except NotDone:
                if not patient or clock() >= call.deadline:
                    raise
            await asyncio.sleep(_HASHED_AGAIN_S)

    def _written(self, key: str, result: CallResult, *, sent: bool) -> CallResult:
        state = CallState.IN_DOUBT if isinstance(result.outcome, InDoubt) else CallState.DONE
        held = self._value_store.held(result, changed=sent)  # first: an answer without room is not stored either
        written = self._value_store.for_ledger(held, changed=sent)
        self._ledger.outcome(self._ticket, key, state, replace(written, memory=result.memory), sent=sent)
        return held if isinstance(written.outcome, Succeeded) and written.outcome.kept else written


class _Intent:
    """The row of a call that is about to be sent, and how long ago it was written.

    Between its row and its first byte a call may wait for its turn at the host, a connection or a retry. If its process
    stands still meanwhile, another one takes the run over, and this one must not send the call when it goes on.

    A machine that is suspended or paused stops its monotonic clock, so the time of day counts too. If that was only
    set, the row is written once more in vain.
    """

    def __init__(self, ledger: Ledger, sure_s: float) -> None:
        self._ledger, self._sure_s = ledger, sure_s
        self._row: SendIntent | None = None
        self._asked_at = _clocks()

    async def record(self, row: SendIntent) -> None:
        """Write the row. Raises Fenced and NotBegun."""
        asked_at = _clocks()  # before it is written: the process may stand still just after it
        await self._ledger.record_intent(row)
        self._row, self._asked_at = row, asked_at

    async def confirm(self) -> None:
        """Write the row again if it is too old to show that the run is still owned. Raises Fenced.

        Once: a database whose every commit takes as long must not hold up the call for ever.
        """
        passed_s = max(abs(now - then) for now, then in zip(_clocks(), self._asked_at, strict=True))
        if self._row is not None and passed_s >= self._sure_s:
            await self.record(replace(self._row, again=True))


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


def in_doubt_result(adapter: Previewer, call: Call, doubt: str) -> CallResult:
    """A result in doubt, with the request that a former process made. A person has to find out its outcome."""
    try:
        request = adapter.preview(call)
    except Unpreviewable:
        request = None
    return CallResult(InDoubt(message=doubt), request, 0, recovered=True)


def _doubt(call: Call, known: RecordedCall, digest: str) -> str:
    """Why a call that an earlier owner started must not be repeated; empty if it may be."""
    if not known.intact:
        return "the record of the call cannot be relied on; it is unknown whether the call took effect"
    if known.state is not CallState.SENT:
        return "it was already unknown whether the call took effect"
    if not call.api.resendable:
        return "the executor stopped during the call; it is unknown whether the call took effect"
    if known.digest != digest:
        return "the executor stopped during the call, and would now make it with other arguments"
    return ""


async def with_full_outputs(
    known: Mapping[str, RecordedCall],
    store: LedgerStore,
    value_store: ValueStore,
    workers: Workers,
    waits: Callable[[], bool],
    beside: int = 0,
) -> dict[str, RecordedCall]:
    """The calls with large outputs loaded in full, one after the other, once there is memory for all outputs.

    A call whose output is not there any more is not intact. ``value_store`` counts the outputs, and ``beside``: the
    memory that the run takes besides. Once ``waits`` says no, the memory is not waited for any longer.
    """
    await value_store.make_room(memory_of_outputs(known) + beside, waits)
    return {key: await _with_full_output(call, store, value_store, workers) for key, call in known.items()}


def memory_of_outputs(known: Mapping[str, RecordedCall]) -> int:
    """About how many bytes of memory the outputs of these calls take, once they are loaded."""
    return sum(map(_memory, known.values()))


def _memory(call: RecordedCall) -> int:
    outcome = call.result.outcome if call.result is not None else None
    if call.result is None or not isinstance(outcome, Succeeded) or not outcome.kept:
        return 0
    return max(call.result.memory, outcome.stored.bytes if outcome.stored is not None else 0)


async def _with_full_output(
    call: RecordedCall, store: LedgerStore, value_store: ValueStore, workers: Workers
) -> RecordedCall:
    if call.result is None:
        return call
    counted, outcome = replace(call.result, memory=0), call.result.outcome
    if not isinstance(outcome, Succeeded) or outcome.stored is None:
        return replace(call, result=counted)
    content = await store.value(outcome.stored.id)
    if content is None:
        return not_intact(call.digest)
    try:
        value = await _parsed(content, workers)
    except ValueError:  # an earlier version stored a number that is none
        return not_intact(call.digest)
    if outcome.stored.bytes > value_store.max_inline:
        value_store.restore(value, outcome.stored, content)
    full = Succeeded.model_construct(value=value, status=outcome.status)
    return replace(call, result=replace(counted, outcome=full))


async def _parsed(content: str, workers: Workers) -> JsonValue:
    """The value of a JSON text. Raises ValueError."""
    while True:
        try:
            value: JsonValue = await workers.run(len(content), None, from_json, content, allow_inf_nan=False)
        except NotDone:
            await asyncio.sleep(_LONGEST_PAUSE_S)
        else:
            return value
