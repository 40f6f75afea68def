"""Large values by reference. The full value is stored once, under the hash of its JSON; elsewhere a preview is used."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.models import CallResult, LargeValue, value_id_of
from services.contracts.outcome import StoredValue, Succeeded

_PREVIEW_ITEMS: Final = 3
_PREVIEW_MEMBERS: Final = 30
_PREVIEW_CHARS: Final = 200
_PREVIEW_DEPTH: Final = 4
_PREVIEW_VALUES: Final = 500
_LARGE_OUTPUTS: Final = 16
_LARGE_VALUES: Final = 4
_SMALL_BYTES: Final = 1_000
_MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Total size of the large values that an answer stores. It may name thirty parts, each inside the other, of each step's
output: all are written at once, on the event loop."""


class ValueStore:
    """Stores large values.

    Args:
        keep: stores a value.
        max_inline: largest size of a value's JSON, in bytes, that stays inline.
    """

    def __init__(self, keep: Callable[[LargeValue], None], max_inline: int) -> None:
        self._keep, self.max_inline = keep, max_inline
        self.kept = 0
        """The number of stored values."""
        self._inline = 0

    def put(self, value: JsonValue, max_inline: int | None = None) -> StoredValue | None:
        """Store a value if it is large; None if it is not. ``max_inline`` overrides the usual bound."""
        content = to_json(value)
        if len(content) <= (self.max_inline if max_inline is None else max_inline):
            self._inline += len(content)
            return None
        stored = StoredValue(id=value_id_of(content), bytes=len(content))
        self._keep(LargeValue(stored.id, content.decode()))
        self.kept += 1
        return stored

    def for_ledger(self, result: CallResult) -> CallResult:
        """The result with a large output replaced by its preview."""
        if not isinstance(result.outcome, Succeeded):
            return result
        outcome = self.for_caller(result.outcome)
        return result if outcome is result.outcome else replace(result, outcome=outcome)

    def for_caller(self, outcome: Succeeded) -> Succeeded:
        """The outcome for callers. Large outputs become previews; all but small ones do once a run's total is large."""
        full = self._inline > _LARGE_OUTPUTS * self.max_inline
        stored = self.put(outcome.value, min(_SMALL_BYTES, self.max_inline) if full else None)
        if stored is None:
            return outcome
        return Succeeded.model_construct(value=preview(outcome.value), status=outcome.status, stored=stored)


class AnswerTooLarge(Exception):
    """An answer names too many large values. The message states the limit."""


class AnswerValues:
    """The values that an answer shows. An answer may name a large value thousands of times, or thousands of values.

    Their total size is bounded by that of four large values. Beyond it, values that are not small become previews.
    """

    def __init__(self, value_store: ValueStore) -> None:
        self._value_store, self._left = value_store, _LARGE_VALUES * value_store.max_inline
        self._room = _MAX_KEPT_BYTES
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
        if self._room <= 0 and _may_be_large(value):
            raise AnswerTooLarge(f"the answer names more than {_MAX_KEPT_BYTES} bytes of large values")
        stored = self._value_store.put(value, max_inline)
        self._room -= 0 if stored is None else stored.bytes
        return stored

    def _noted(
        self, value: JsonValue, shown: JsonValue, stored: StoredValue | None
    ) -> tuple[JsonValue, JsonValue, StoredValue | None, int]:
        noted = self._known[id(value)] = (value, shown, stored, len(to_json(shown)))
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
            return {_short(name): beginning(value[name], depth - 1) for name in list(value)[:_PREVIEW_MEMBERS]}
        return value

    return beginning(value, depth)


def _short(name: str) -> str:
    return name if len(name) <= _PREVIEW_CHARS else name[:_PREVIEW_CHARS] + "..."
