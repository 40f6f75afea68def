"""Large values by reference. The full value is stored once, under the hash of its JSON; elsewhere a preview is used."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.held import NoRoom, Room, memory_of_apis
from executor_svc.models import LARGE_BYTES, CallResult, LargeValue, value_id_of
from executor_svc.settings import MAX_KEPT_BYTES
from services.contracts.api import Api
from services.contracts.outcome import Failed, StoredValue, Succeeded
from services.errors import Overloaded

_PREVIEW_ITEMS: Final = 3
_PREVIEW_MEMBERS: Final = 30
_PREVIEW_CHARS: Final = 200
_PREVIEW_DEPTH: Final = 4
_PREVIEW_VALUES: Final = 500
_LARGE_OUTPUTS: Final = 16
_LARGE_VALUES: Final = 4
_SMALL_BYTES: Final = 1_000
_INNER_BYTES: Final = 25
"""Size of a list or object inside a value: each takes as long to write, send and read as so many bytes of text."""


class RunFull(Exception):
    """A run has no room for a further large value. The message states the limit."""


class ValueStore:
    """Stores the large values of one run, and counts them.

    Args:
        keep: stores a value.
        max_inline: largest size of a value's JSON, in bytes, that stays inline.
        max_kept: most bytes of large values that the run stores, and of answers that its loops hold before.
        room: counts what the run holds in memory; None: that is not counted.
    """

    def __init__(
        self,
        keep: Callable[[LargeValue], None],
        max_inline: int,
        max_kept: int = MAX_KEPT_BYTES,
        room: Room | None = None,
    ) -> None:
        self._keep, self.max_inline, self.max_kept, self._room = keep, max_inline, max_kept, room
        self._stored: dict[str, StoredValue] = {}
        self._known: dict[int, tuple[JsonValue, StoredValue]] = {}
        self._left = max_kept
        self._inline = 0

    @property
    def kept(self) -> int:
        """The number of stored values."""
        return len(self._stored)

    def hold(self, value: JsonValue, size: int) -> int:
        """Count an answer of so many bytes; returns the bytes to be released, none for a small or a stored one.

        Raises:
            RunFull: there is no room for it.
        """
        if size <= _SMALL_BYTES or id(value) in self._known:
            return 0
        self._take(size)
        return size

    def release(self, size: int) -> None:
        """Return bytes that were held."""
        self._left += size

    def held(self, result: CallResult, *, changed: bool) -> CallResult:
        """The result of a call, counted in memory until :meth:`close`; see :func:`not_kept` if there is no room.

        Once: the result that it returns takes no further memory.
        """
        if self._room is not None and isinstance(result.outcome, Succeeded):
            try:
                self._room.take(result.memory)
            except NoRoom as error:
                return replace(result, outcome=not_kept(result.outcome, error, changed=changed), memory=0)
            return replace(result, memory=0)
        return result

    def hold_apis(self, apis: Iterable[Api]) -> None:
        """Count the APIs of a plan that is about to run in memory until :meth:`close`. Raises Overloaded."""
        try:
            if self._room is not None:
                self._room.take(memory_of_apis(apis))
        except NoRoom as error:
            raise Overloaded(f"Nothing was sent: {error}.", retry_after_s=1) from None

    async def make_room(self, memory: int, waits: Callable[[], bool]) -> None:
        """Count what an earlier owner of the run held; wait for the room as long as ``waits`` says so."""
        if self._room is not None:
            await self._room.take_in_turn(memory, waits)

    def restore(self, value: JsonValue, stored: StoredValue, content: str) -> None:
        """Count a large value that an earlier owner of the run stored. It is stored again: it is kept for longer."""
        if stored.id not in self._stored:
            self._left -= stored.bytes
            self._stored[stored.id] = stored
            self._keep(LargeValue(stored.id, content))
        self._known[id(value)] = value, stored

    def close(self) -> None:
        """The run is over and holds nothing any more."""
        if self._room is not None:
            self._room.close()

    def put(self, value: JsonValue, bound: int, keep: Callable[[LargeValue], None] | None = None) -> StoredValue | None:
        """Store a value if its JSON has more than ``bound`` bytes; None if it has not.

        ``keep`` takes it in place of the function that stores values, which must be called on the event loop.

        Raises:
            RunFull: there is no room for it.
        """
        known = self._known.get(id(value))
        return known[1] if known is not None else self._put(value, *_written(value, bound), keep=keep)

    def has(self, value: JsonValue) -> bool:
        """Whether this very value is stored already, so that it takes no more room."""
        return id(value) in self._known

    def for_ledger(self, result: CallResult, *, changed: bool) -> CallResult:
        """The result with a large output replaced by its preview; see :func:`not_kept` if there is no room for it."""
        if not isinstance(result.outcome, Succeeded):
            return result
        try:
            stored = self.put(result.outcome.value, self._bound())
        except RunFull as error:
            return replace(result, outcome=not_kept(result.outcome, error, changed=changed))
        return result if stored is None else replace(result, outcome=_shown(result.outcome, stored))

    async def for_caller(self, outcome: Succeeded, size: int, *, changed: bool) -> Succeeded | Failed:
        """The outcome for callers. Large outputs become previews; all but small ones do once a run's total is large.

        See :func:`not_kept` if there is no room for it. ``size``: bytes of the answers that the value was read from.
        """
        if not outcome.kept:
            return _beginning(outcome)
        value, bound = outcome.value, self._bound()
        try:
            if (known := self._known.get(id(value))) is not None:
                return _shown(outcome, known[1])
            beside = size > LARGE_BYTES
            written = await asyncio.to_thread(_written, value, bound) if beside else _written(value, bound)
            stored = self._put(value, *written, counted=self._counted(value))
        except RunFull as error:
            return not_kept(outcome, error, changed=changed)
        return outcome if stored is None else _shown(outcome, stored)

    def _counted(self, output: JsonValue) -> int:
        """Bytes of a loop's answers that the ledger stores already. They do not count again in the list of them."""
        items = output if isinstance(output, list) else []
        return sum({id(item): self._known[id(item)][1].bytes for item in items if id(item) in self._known}.values())

    def _bound(self) -> int:
        full = self._inline > _LARGE_OUTPUTS * self.max_inline
        return min(_SMALL_BYTES, self.max_inline) if full else self.max_inline

    def keep(self, values: Iterable[LargeValue]) -> None:
        """Store values that were taken in place of that. Call it on the event loop."""
        for value in values:
            self._keep(value)

    def _put(
        self,
        value: JsonValue,
        size: int,
        large: LargeValue | None,
        *,
        counted: int = 0,
        keep: Callable[[LargeValue], None] | None = None,
    ) -> StoredValue | None:
        if large is None:
            self._inline += size
            return None
        stored = self._stored.get(large.id)
        if stored is None:
            self._take(max(0, size - counted))
            stored = self._stored[large.id] = StoredValue(id=large.id, bytes=size)
            (keep or self._keep)(large)
        self._known[id(value)] = value, stored  # with the value, so that its id is not reused
        return stored

    def _take(self, size: int) -> None:
        if size > self._left:
            raise RunFull(f"a run keeps {self.max_kept} bytes of large values at most")
        self._left -= size


def not_kept(outcome: Succeeded, error: RunFull | NoRoom, *, changed: bool) -> Succeeded | Failed:
    """The outcome of a call that succeeded, but for whose answer there is no room.

    A call that ``changed`` something stays a success, or it would be sent again. Otherwise it is a failure.
    """
    if changed:
        return _beginning(outcome)
    return Failed(
        reason="overloaded" if isinstance(error, NoRoom) else "refused",
        message=f"the call succeeded, but its answer is not kept: {error}",
        status=outcome.status,
    )


def _beginning(outcome: Succeeded) -> Succeeded:
    return Succeeded.model_construct(value=preview(outcome.value), status=outcome.status, kept=False)


def _shown(outcome: Succeeded, stored: StoredValue) -> Succeeded:
    return Succeeded.model_construct(value=preview(outcome.value), status=outcome.status, stored=stored)


def size_of(content: bytes) -> int:
    """What a value that is passed in full counts: the bytes of its JSON, or more if it is little but brackets."""
    return max(len(content), _INNER_BYTES * (content.count(b"[") + content.count(b"{")))


def _written(value: JsonValue, bound: int) -> tuple[int, LargeValue | None]:
    """The size of a value, and the value to store if that is above the bound."""
    content = to_json(value)
    if (size := size_of(content)) <= bound:
        return size, None
    return len(content), LargeValue(value_id_of(content), content.decode())


class AnswerTooLarge(Exception):
    """There is no room for a large value that an answer names. The message states the limit."""


class AnswerValues:
    """The values that an answer shows. An answer may name a large value thousands of times, or thousands of values.

    Their total size is bounded by that of four large values. Beyond it, values that are not small become previews.

    Attributes:
        unstored: large values that are not stored yet, so that answers can be made beside the event loop.
    """

    def __init__(self, value_store: ValueStore) -> None:
        self._value_store, self._left = value_store, _LARGE_VALUES * value_store.max_inline
        self._full = False
        self.unstored: list[LargeValue] = []
        self._known = dict[int, tuple[JsonValue, JsonValue, StoredValue | None, int]]()

    def of(self, value: JsonValue) -> tuple[JsonValue, StoredValue | None]:
        """The value to show, and a reference to the full value if only a preview is shown.

        Raises:
            AnswerTooLarge: the values before it take all room for large ones, and this is no short text or number.
        """
        known = self._known.get(id(value))
        if known is None:
            stored = self._put(value)
            known = self._noted(value, value if stored is None else preview(value), stored)
        if known[3] > max(self._left, _SMALL_BYTES):
            stored = known[2] or self._put(value, 0)
            known = self._noted(value, preview(value, 0), stored)
        self._left -= known[3]
        return known[1], known[2]

    def _put(self, value: JsonValue, max_inline: int | None = None) -> StoredValue | None:
        most = self._value_store.max_inline if max_inline is None else max_inline
        try:
            if not self._full or self._value_store.has(value) or not _may_be_large(value):
                return self._value_store.put(value, most, self.unstored.append)
        except RunFull:
            self._full = True  # none of the further ones is written
        raise AnswerTooLarge(
            f"the answer and its run have more than {self._value_store.max_kept} bytes of large values"
        )

    def _noted(
        self, value: JsonValue, shown: JsonValue, stored: StoredValue | None
    ) -> tuple[JsonValue, JsonValue, StoredValue | None, int]:
        noted = self._known[id(value)] = (value, shown, stored, size_of(to_json(shown)))
        return noted


def _may_be_large(value: JsonValue) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and len(value) > _SMALL_BYTES)


def preview(value: JsonValue, depth: int = _PREVIEW_DEPTH) -> JsonValue:
    """The beginning of a value: its first items, members and characters, with a bounded depth and total number."""
    left = _PREVIEW_VALUES

    def beginning(value: JsonValue, depth: int) -> JsonValue:
        nonlocal left
        left -= 1
        if isinstance(value, str):
            return _short(value)
        if isinstance(value, list):
            return [beginning(item, depth - 1) for item in value[:_PREVIEW_ITEMS]] if depth and left > 0 else "[...]"
        if isinstance(value, dict):
            if not depth or left <= 0:
                return "{...}"
            return {_short(name): beginning(value[name], depth - 1) for name in islice(value, _PREVIEW_MEMBERS)}
        return value

    return beginning(value, depth)


def _short(name: str) -> str:
    return name if len(name) <= _PREVIEW_CHARS else name[:_PREVIEW_CHARS] + "..."
