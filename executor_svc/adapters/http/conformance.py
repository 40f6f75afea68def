"""Whether an answer is what the API's response schema promises. Schemas and answers are both somebody else's.

Nothing here raises or hangs. A schema that cannot be compiled is not checked against, nor one by which checking could
take long: the cost is bounded beforehand, from the schema alone and the size of the answer, since a validator has no
time-out of its own and recursive schemas with several branches take exponential time. Making a checker takes a while,
and memory: both are bounded, too.
"""

from typing import Final

import jsonschema_rs
from pydantic import JsonValue

from services.contracts.api import Api
from services.media_types import is_json
from services.patterns import REGEX_BYTES, compile_steps
from services.schema_cost import Cost, Unbounded, cost_of

MAX_VIOLATIONS: Final = 5
_CHECKER_REGEX_BYTES: Final = 1_000_000
"""The size of all compiled patterns of one checker; each may have an equal part of it."""
_MAX_COMPILE_STEPS: Final = 100_000
"""What compiling all of them may take: the validator holds Python's lock as long. About a hundred simple ones."""
_SCHEMA_BYTES: Final = 4_000
"""What a checker takes for each schema in it, measured, rounded up."""
_REGEX_COPIES: Final = 3
"""A pattern takes its size once compiled, and again on each thread that it is applied on."""
# Measured, rounded up: a schema applied to a value, a pattern to a byte of text; and what may be spent on one answer.
_STEP_NS, _PATTERN_NS, _BUDGET_NS = 50, 1_000, 200_000_000
# Errors are built all at once, each with a copy of what it speaks of.
_MAX_ERRORS, _MAX_COPIED_BYTES = 20_000, 1_000_000


class Checker:
    """Checks the answers of one API, of one status. ``bytes``: the memory that it takes at most."""

    def __init__(self, validator: jsonschema_rs.Draft202012Validator, cost: Cost, status: int, regex: int) -> None:
        self._validator, self._cost, self._status = validator, cost, status
        self.bytes = _SCHEMA_BYTES * cost.schemas + _REGEX_COPIES * regex * len(cost.expressions)

    def violations(self, status: int, value: JsonValue, body: bytes) -> tuple[str, ...]:
        """Where ``value``, decoded from ``body``, breaks the schema: ``path: rule``, never a value.

        The path is a JSON pointer (RFC 6901). Another success than the one that the schema describes breaks nothing.
        """
        if status != self._status or not self._affordable(body):
            return ()
        try:
            if self._validator.is_valid(value):
                return ()
            if not self._listable(body):
                return ("(somewhere): does not match the schema",)
            found = dict.fromkeys(_text(error) for error in self._validator.iter_errors(value))
        except ValueError:  # a recursion limit
            return ()
        return tuple(found)[:MAX_VIOLATIONS]

    def _affordable(self, body: bytes) -> bool:
        """Whether the answer can be checked in a moment. A small one is not looked at."""
        if self._ns(len(body), len(body)) <= _BUDGET_NS:
            return True
        return self._ns(_values(body), len(body)) <= _BUDGET_NS

    def _ns(self, values: int, size: int) -> int:
        return _STEP_NS * self._cost.steps * values + _PATTERN_NS * self._cost.patterns * size

    def _listable(self, body: bytes) -> bool:
        steps = self._cost.steps
        return steps * len(body) <= _MAX_COPIED_BYTES and steps * _values(body) <= _MAX_ERRORS


def is_promised(api: Api, status: int) -> bool:
    """Whether an API says how its answers of this status look, such that they could be checked."""
    return bool(api.response.json_schema) and status == api.response.status and is_json(api.response.media_type or "")


def checker_of(api: Api) -> Checker | None:
    """A checker for an API's JSON answers; None where it promises none, or they cannot be checked.

    References are followed inside the API's own definitions, never fetched. Patterns that need going back (look-around)
    are none for the engine used here, which takes linear time: a schema that has one is not checked against.
    """
    schema, definitions = api.response.json_schema, api.definitions
    if not is_promised(api, api.response.status):
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
    """How many values a JSON text holds, or somewhat more."""
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
