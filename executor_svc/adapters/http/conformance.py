"""Checks an answer against the API's response schema. Neither the schema nor the answer is trusted.

Nothing here raises or hangs. Schemas that cannot be compiled are not used, nor are those that may be slow to check.
The validator has no time-out, and recursive schemas with several branches take exponential time. So the cost of a check
is bounded beforehand, from the schema and the size of the answer. The time and memory to build a checker are bounded,
too.
"""

import threading
import time
from typing import Final

import jsonschema_rs
from pydantic import JsonValue

from services.compute import checkpoint
from services.contracts.api import Api
from services.media_types import is_json
from services.patterns import REGEX_BYTES, compile_steps
from services.schema_cost import Cost, Unbounded, cost_of

MAX_VIOLATIONS: Final = 5
_CHECKER_REGEX_BYTES: Final = 1_000_000
"""Size limit, in bytes, of all compiled patterns of one checker; divided equally among them."""
_MAX_COMPILE_STEPS: Final = 100_000
"""Cost limit of compiling all patterns, about a hundred simple ones: the validator holds the GIL meanwhile."""
_SCHEMA_BYTES: Final = 4_000
"""Memory of a checker per schema in it, in bytes; measured, rounded up."""
_REGEX_COPIES: Final = 3
"""A pattern uses its size once when compiled, and once more on each thread that applies it."""
# Time to apply a schema to a value, and a pattern to a byte of text (measured, rounded up); and the limit per answer.
_STEP_NS, _PATTERN_NS, _BUDGET_NS = 50, 1_000, 200_000_000
_QUICK_NS: Final = 2_000_000
# Time to divide a number by a fraction: the validator calculates with all 300 digits that both may have.
_DIVISION_NS: Final = 40_000
# Time to compare a value, and a byte of text, for each list around it whose items must differ.
_DISTINCT_NS, _DISTINCT_BYTE_NS = 100, 1
# The validator builds all errors at once, each with a copy of the value that it is about: that may be the whole answer.
_MAX_ERRORS, _MAX_COPIED_BYTES = 2_000, 1_000_000


_turn: Final = threading.Lock()


class Checker:
    """Checks the answers of one API with one status. ``bytes`` is an upper bound of its memory use."""

    def __init__(self, validator: jsonschema_rs.Draft202012Validator, cost: Cost, status: int, regex: int) -> None:
        self._validator, self._cost, self._status = validator, cost, status
        self.bytes = _SCHEMA_BYTES * cost.schemas + _REGEX_COPIES * regex * len(cost.expressions)

    def violations(self, status: int, value: JsonValue, body: bytes) -> tuple[str, ...]:
        """Where ``value``, decoded from ``body``, breaks the schema: ``path: rule``, never a value.

        The path is a JSON pointer (RFC 6901). An answer with another status than the schema's breaks nothing. Call it
        in a thread if the check :meth:`is_quick` not: it then waits for others' checks, and for as long as it took.
        """
        if status != self._status or not self._affordable(body):
            return ()
        if self.is_quick(body):
            return self._violations(value, body)
        checkpoint()  # not in the turn: a call that pauses with it would block the call that it pauses for
        with _turn:
            began = time.perf_counter()
            try:
                return self._violations(value, body)
            finally:  # the validator holds the GIL: others get as much time as it took
                time.sleep(min(_BUDGET_NS / 1e9, time.perf_counter() - began))

    def _violations(self, value: JsonValue, body: bytes) -> tuple[str, ...]:
        try:
            if self._validator.is_valid(value):
                return ()
            if self._listable(body):
                return tuple(dict.fromkeys(map(_text, self._validator.iter_errors(value))))[:MAX_VIOLATIONS]
            if not self._cost.branches and len(body) <= _MAX_COPIED_BYTES:
                self._validator.validate(value)
        except jsonschema_rs.ValidationError as first:
            return (_text(first),)
        except ValueError:  # a recursion limit
            return ()
        return ("(somewhere): does not match the schema",)

    def is_quick(self, body: bytes) -> bool:
        """Whether the check takes so little time that the event loop may wait for it."""
        return self._ns(len(body), len(body)) <= _QUICK_NS or self._ns(_values(body), len(body)) <= _QUICK_NS

    def _affordable(self, body: bytes) -> bool:
        """Whether the check stays within the time budget. The values of small answers are not counted."""
        if self._ns(len(body), len(body)) <= _BUDGET_NS:
            return True
        return self._ns(_values(body), len(body)) <= _BUDGET_NS

    def _ns(self, values: int, size: int) -> int:
        cost = self._cost
        of_values = _STEP_NS * cost.steps + _DIVISION_NS * cost.divisions + _DISTINCT_NS * cost.distinct
        return of_values * values + (_PATTERN_NS * cost.patterns + _DISTINCT_BYTE_NS * cost.distinct) * size

    def _listable(self, body: bytes) -> bool:
        """Whether all errors may be built. Each value has at most one for each schema that is applied to it."""
        errors = self._cost.steps * _values(body)
        return errors <= _MAX_ERRORS and errors * len(body) <= _MAX_COPIED_BYTES


def has_response_schema(api: Api, status: int) -> bool:
    """Whether an API has a response schema for this status that its answers can be checked against."""
    return bool(api.response.json_schema) and status == api.response.status and is_json(api.response.media_type or "")


def checker_of(api: Api) -> Checker | None:
    """A checker for an API's JSON answers. None if it has no schema for them, or they cannot be checked.

    References are resolved within the API's own definitions and never fetched. The regex engine takes linear time and
    has no look-around; a schema with such a pattern is not used.
    """
    schema, definitions = api.response.json_schema, api.definitions
    if not has_response_schema(api, api.response.status):
        return None
    try:
        cost = cost_of(schema, definitions)
        if sum(map(compile_steps, cost.expressions)) > _MAX_COMPILE_STEPS:
            return None
        regex_bytes = min(REGEX_BYTES, _CHECKER_REGEX_BYTES // max(1, len(cost.expressions)))
        validator = jsonschema_rs.Draft202012Validator(
            {**schema, "$defs": {name: definitions[name] for name in cost.definitions}},
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=regex_bytes, dfa_size_limit=regex_bytes),
        )
    except (Unbounded, ValueError, OverflowError, TypeError):
        return None
    return Checker(validator, cost, api.response.status, regex_bytes)


def _values(body: bytes) -> int:
    """An upper bound of the number of values in a JSON text."""
    return body.count(b",") + body.count(b"[") + body.count(b"{") + 1


def _text(error: jsonschema_rs.ValidationError) -> str:
    path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in error.instance_path)
    rule = next((part for part in reversed(error.schema_path) if isinstance(part, str)), "")
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Type(types=types):
            rule = f"type {' or '.join(types)}"
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            rule = f"required {name}"
        case jsonschema_rs.ValidationErrorKind.FalseSchema() if rule != "additionalProperties":
            rule = "not allowed"
    return f"{path or '(root)'}: {rule}"
