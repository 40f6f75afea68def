"""References that choose a list item by words: Nestor's extension to NESTful.

A call's ``matches`` maps the text of a reference, such as ``$var1.items[0].code$``, to what the item must match.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from services.codecs.calls import explain
from services.codecs.text import CodecError, format_reference
from services.contracts.plan import ForEach, ListValue, Match, ObjectValue, Reference, Step, Value, When

MATCHES = "matches"


def encode_matches(references: Iterable[Reference]) -> dict[str, JsonValue]:
    """The ``matches`` member of a call with these references; empty if none chooses by words.

    Raises:
        CodecError: a reference cannot be written.
    """
    found: dict[str, JsonValue] = {
        format_reference(one): one.match.model_dump(mode="json", exclude_defaults=True)
        for one in references
        if one.match is not None
    }
    return {MATCHES: found} if found else {}


def read_matches(data: JsonValue, where: str) -> dict[str, Match]:
    """Read a call's ``matches`` member.

    Raises:
        CodecError: it is not an object of valid matches.
    """
    if not isinstance(data, dict):
        raise CodecError(f"{where}: {MATCHES} must be an object")
    try:
        return {text: Match.model_validate(one) for text, one in data.items()}
    except ValidationError as error:
        raise CodecError(f"{where}: {MATCHES}: {explain(error)}") from error


def matched_step(step: Step, matches: Mapping[str, Match], where: str) -> Step:
    """The step with the matches added to its references. Matches for other references are ignored.

    Raises:
        CodecError: a reference does not choose from a list.
    """
    updates: dict[str, Any] = {
        "arguments": {name: matched(value, matches, where) for name, value in step.arguments.items()}
    }
    if step.foreach is not None:
        updates["foreach"] = ForEach(items=matched(step.foreach.items, matches, where), parallel=step.foreach.parallel)
    if (when := step.when) is not None:
        left, right = matched(when.left, matches, where), matched(when.right, matches, where)
        updates["when"] = When(left=left, op=when.op, right=right)
    return step.model_copy(update=updates)


def matched(value: Value, matches: Mapping[str, Match], where: str) -> Value:
    """A value with the matches added to its references. Raises CodecError as :func:`matched_step` does."""
    match value:
        case Reference():
            found = matches.get(format_reference(value))
            if found is None:
                return value
            try:
                return Reference(step=value.step, path=value.path, match=found)
            except ValidationError as error:
                raise CodecError(f"{where}: {explain(error)}") from error
        case ListValue():
            return ListValue(items=tuple(matched(item, matches, where) for item in value.items))
        case ObjectValue():
            return ObjectValue(fields={name: matched(field, matches, where) for name, field in value.fields.items()})
        case _:
            return value
