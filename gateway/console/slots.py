"""A request and its plan as a pattern: values that appear in the request are slots, the others are fixed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from services.contracts.evidence import written, written_literal
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Plan, Value

_MOST_COMPARED: Final = 200_000
"""Characters that are compared where a value is only part of a word, such as `aa` in `aaaa`."""
_MOST_VALUES: Final = 200
"""Maximum number of a plan's values that are searched in its request."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the request: words, or the name of a slot."""

    text: str
    is_slot: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A step with its arguments as texts. A slot is written as its name in braces."""

    step: str
    api: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The constant part of a solved request whose values may change.

    Attributes:
        request: the request's words and slots, in order.
        slots: the value of each slot in this request.
        fixed: values of the plan that do not appear in the request, with their argument. They are always the same.
    """

    request: tuple[Part, ...]
    calls: tuple[Call, ...]
    slots: Mapping[str, str]
    fixed: tuple[tuple[str, str], ...]

    @property
    def words(self) -> str:
        """The request with slots in place of values. It is equal for requests that differ only in values."""
        return "".join("{}" if part.is_slot else part.text for part in self.request).casefold()


def pattern_of(query: str, plan: Plan) -> Pattern:
    """The pattern of a request and the plan that solves it."""
    values = dict.fromkeys(_plan_scalars(plan))
    names: dict[str, str] = {}  # of slots, by the value's text
    spans: list[tuple[int, int, str]] = []
    taken = bytearray(len(query))  # 1: this character is part of a slot
    for argument, text in sorted(list(values)[:_MOST_VALUES], key=lambda one: -len(one[1])):
        free = [(start, end) for start, end in _spans(query, text) if taken.find(1, start, end) < 0]
        if text not in names and free:
            alike = sum(1 for name in names.values() if name.partition(" ")[0] == argument)
            names[text] = f"{argument} {alike + 1}" if alike else argument
            spans += [(start, end, names[text]) for start, end in free]
            for start, end in free:
                taken[start:end] = b"\1" * (end - start)
    calls = tuple(
        Call(step.id, step.api, {name: written(_slotted(value, names)) for name, value in step.arguments.items()})
        for step in plan.steps
    )
    fixed = tuple((argument, text) for argument, text in values if text not in names)
    return Pattern(tuple(_parts(query, sorted(spans))), calls, {name: text for text, name in names.items()}, fixed)


def _plan_scalars(plan: Plan) -> Iterator[tuple[str, str]]:
    for step in plan.steps:
        for name, value in step.arguments.items():
            yield from _scalars(name, value)


def _scalars(name: str, value: Value) -> Iterator[tuple[str, str]]:
    """Each literal inside a value, as its name there and its text."""
    match value:
        case LiteralValue():
            yield from _literals(name, value.value)
        case ListValue():
            for item in value.items:
                yield from _scalars(name, item)
        case ObjectValue():
            for key, field in value.fields.items():
                yield from _scalars(key, field)


def _literals(name: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _literals(name, item)
    elif isinstance(value, dict):
        for key, field in value.items():
            yield from _literals(key, field)
    else:
        yield name, _text(value)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else written_literal(value)


def _spans(query: str, text: str) -> list[tuple[int, int]]:
    """The spans of the request in which this text occurs as whole words, in either case."""
    if not text.strip() or len(text) > len(query):
        return []
    lowered, sought = _lower(query), _lower(text)
    spans: list[tuple[int, int]] = []
    start, tries = lowered.find(sought), _MOST_COMPARED // len(sought)
    while start >= 0 and tries:
        end = start + len(sought)
        if not (_is_word(lowered[max(start - 1, 0) : start]) or _is_word(lowered[end : end + 1])):
            spans.append((start, end))
        else:
            end, tries = start + 1, tries - 1
        start = lowered.find(sought, end)
    return spans


def _lower(text: str) -> str:
    """The text in lower case and of the same length: `İ` alone would become two characters."""
    lowered = text.lower()
    return (
        lowered if len(lowered) == len(text) else "".join(one if len(one.lower()) > 1 else one.lower() for one in text)
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _parts(query: str, spans: list[tuple[int, int, str]]) -> Iterator[Part]:
    at = 0
    for start, end, name in spans:
        if query[at:start]:
            yield Part(query[at:start])
        yield Part(name, is_slot=True)
        at = end
    if query[at:]:
        yield Part(query[at:])


def _slotted(value: Value, names: Mapping[str, str]) -> Value:
    match value:
        case LiteralValue():
            return LiteralValue(value=_named(value.value, names))
        case ListValue():
            return ListValue(items=tuple(_slotted(item, names) for item in value.items))
        case ObjectValue():
            return ObjectValue(fields={key: _slotted(field, names) for key, field in value.fields.items()})
        case _:
            return value


def _named(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _named(field, names) for key, field in value.items()}
    name = names.get(_text(value))
    return value if name is None else f"{{{name}}}"
