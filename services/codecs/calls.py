"""Code shared by ``nestful`` and ``openai``: named calls, the pseudo-call ``var_result``, and Nestor's extensions.

These notations have no counterpart of a step's `foreach`, `when` and `after`. They are written as additional members
of the call, and only if a step has them, so plans without them are exactly what other tools expect.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue, ValidationError

from services.codecs.text import (
    CodecError,
    decode_value,
    encode_value,
    format_reference,
    looks_like_reference,
    parse_reference,
)
from services.contracts.plan import MAX_STEPS, AnswerOutput, ForEach, LiteralValue, Plan, Reference, Step, Value, When

RESULT = "var_result"
"""NESTful's name for the pseudo-call whose arguments are the answer."""

EXTRAS = frozenset({"foreach", "when", "after"})
"""Members of a call that are Nestor's extensions."""


def encode_argument(value: Value) -> JsonValue:
    """Encode a value as JSON with references as ``$step.path$``."""
    return encode_value(value, format_reference, looks_like_reference)


def decode_argument(data: JsonValue) -> Value:
    """Decode JSON with ``$step.path$`` strings."""
    return decode_value(data, parse_reference, looks_like_reference)


def encode_extras(step: Step) -> dict[str, JsonValue]:
    """The members for `foreach`, `when` and `after`; empty for a step without them."""
    extras: dict[str, JsonValue] = {}
    if step.foreach is not None:
        extras["foreach"] = {"items": encode_argument(step.foreach.items), "parallel": step.foreach.parallel}
    if step.when is not None:
        when: dict[str, JsonValue] = {"left": encode_argument(step.when.left), "op": step.when.op}
        if step.when.right != LiteralValue(value=None):
            when["right"] = encode_argument(step.when.right)
        extras["when"] = when
    if step.after:
        extras["after"] = list(step.after)
    return extras


def encode_answer(plan: Plan) -> dict[str, JsonValue]:
    """The arguments of ``var_result``.

    Raises:
        CodecError: two answers have the same name, or a step calls an API named ``var_result``.
    """
    if any(step.api == RESULT for step in plan.steps):
        raise CodecError(f"an API named {RESULT!r} cannot be told from the answer")
    if len({output.name for output in plan.answer}) != len(plan.answer):
        raise CodecError("two answers of the same name cannot be written")
    return {output.name: format_reference(output.value) for output in plan.answer}


def build_step(step_id: str, api: str, arguments: JsonValue, extras: dict[str, JsonValue]) -> Step:
    """A step from the members of a call.

    Raises:
        CodecError: a member does not match the notation.
    """
    where = f"call {step_id!r}"
    if not isinstance(arguments, dict):
        raise CodecError(f"{where}: the arguments must be an object")
    given: dict[str, Any] = {name: value for name, value in extras.items() if name in EXTRAS}
    try:
        values = {name: decode_argument(value) for name, value in arguments.items()}
        if (foreach := given.get("foreach")) is not None:
            members = _members(foreach, f"{where}: foreach", {"items", "parallel"}, required={"items"})
            given["foreach"] = ForEach(**{**members, "items": decode_argument(members["items"])})
        if (when := given.get("when")) is not None:
            members = _members(when, f"{where}: when", {"left", "op", "right"}, required={"left", "op"})
            given["when"] = When(**{k: v if k == "op" else decode_argument(v) for k, v in members.items()})
        return Step(id=step_id, api=api, arguments=values, **given)
    except ValidationError as error:
        raise CodecError(f"{where}: {explain(error)}") from error


def build_answer(arguments: JsonValue) -> tuple[AnswerOutput, ...]:
    """The answer from the arguments of ``var_result``.

    Raises:
        CodecError: an argument is not a reference.
    """
    if not isinstance(arguments, dict):
        raise CodecError(f"the arguments of {RESULT} must be an object")
    outputs = []
    for name, data in arguments.items():
        value = decode_argument(data)
        if not isinstance(value, Reference):
            raise CodecError(f'{RESULT}.{name[:100]} must be a reference such as "$var1.field$"')
        try:
            outputs.append(AnswerOutput(name=name, value=value))
        except ValidationError as error:
            raise CodecError(f"{RESULT}: {explain(error)}") from error
    return tuple(outputs)


def build_plan(steps: list[Step], answer: tuple[AnswerOutput, ...]) -> Plan:
    """The plan of these steps.

    Raises:
        CodecError: there is no step, there are too many, or two have the same name.
    """
    if not 1 <= len(steps) <= MAX_STEPS:
        raise CodecError(f"a plan has between 1 and {MAX_STEPS} calls, not {len(steps)}")
    try:
        return Plan(steps=tuple(steps), answer=answer)
    except ValidationError as error:
        raise CodecError(explain(error)) from error


def explain(error: ValidationError) -> str:
    """The first validation error, in one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def member(call: JsonValue, name: str, where: str) -> JsonValue:
    """A required member of a call."""
    if not isinstance(call, dict):
        raise CodecError(f"{where} must be an object")
    if name not in call:
        raise CodecError(f"{where} has no {name!r}")
    return call[name]


def text_member(call: JsonValue, name: str, where: str) -> str:
    """A required member of a call that must be text."""
    value = member(call, name, where)
    if not isinstance(value, str):
        raise CodecError(f"{where}: {name!r} must be text")
    return value


class Labels:
    """Assigns labels to calls without one, which models often omit.

    The call at position N (from 1) gets ``varN``, or the next free label. Called in the order of the calls, it checks
    each label at most once.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken, self._next = set(taken), 1

    def free(self, position: int) -> str:
        """Take a free label for the call at this position."""
        self._next = max(self._next, position)
        while f"var{self._next}" in self._taken:
            self._next += 1
        self._taken.add(f"var{self._next}")
        return f"var{self._next}"


def _members(data: JsonValue, where: str, known: set[str], required: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise CodecError(f"{where} must be an object")
    if unknown := sorted(data.keys() - known):
        raise CodecError(f"{where} has no member {unknown[0][:100]!r}")
    if missing := sorted(required - data.keys()):
        raise CodecError(f"{where} has no {missing[0]!r}")
    return data
