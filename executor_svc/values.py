"""Large values by reference: kept once, in full, under the hash of their JSON; everywhere else stands a preview."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.models import CallResult, LargeValue
from services.contracts.run import StoredValue, Succeeded

_PREVIEW_ITEMS: Final = 3
_PREVIEW_MEMBERS: Final = 30
_PREVIEW_CHARS: Final = 200
_PREVIEW_DEPTH: Final = 4


class Shelf:
    """Puts large values aside.

    Args:
        keep: takes what is to be kept.
        max_inline: size in bytes of a value's JSON up to which it stays where it is.
    """

    def __init__(self, keep: Callable[[LargeValue], None], max_inline: int) -> None:
        self._keep, self._max_inline = keep, max_inline
        self.kept = 0
        """How many values were put aside."""

    def put(self, value: JsonValue) -> StoredValue | None:
        """Keep a value that is large; None where it is not."""
        content = to_json(value)
        if len(content) <= self._max_inline:
            return None
        stored = StoredValue(id=hashlib.sha256(content).hexdigest(), bytes=len(content))
        self._keep(LargeValue(stored.id, content.decode()))
        self.kept += 1
        return stored

    def slim(self, result: CallResult) -> CallResult:
        """The result with a large output replaced by its preview."""
        if not isinstance(result.outcome, Succeeded):
            return result
        outcome = self.outward(result.outcome)
        return result if outcome is result.outcome else replace(result, outcome=outcome)

    def outward(self, outcome: Succeeded) -> Succeeded:
        """The outcome as it may leave the executor."""
        stored = self.put(outcome.value)
        if stored is None:
            return outcome
        return Succeeded.model_construct(value=preview(outcome.value), status=outcome.status, stored=stored)


def preview(value: JsonValue, depth: int = _PREVIEW_DEPTH) -> JsonValue:
    """The beginning of a value: the first items, members and characters, to a certain depth."""
    if isinstance(value, str):
        return value if len(value) <= _PREVIEW_CHARS else value[:_PREVIEW_CHARS] + "..."
    if isinstance(value, list):
        return [preview(item, depth - 1) for item in value[:_PREVIEW_ITEMS]] if depth else "[...]"
    if isinstance(value, dict):
        if not depth:
            return "{...}"
        return {_short(name): preview(value[name], depth - 1) for name in list(value)[:_PREVIEW_MEMBERS]}
    return value


def _short(name: str) -> str:
    return name if len(name) <= _PREVIEW_CHARS else name[:_PREVIEW_CHARS] + "..."
