"""Which items of lists a call means by words, beside the references themselves: Nestor's own addition to NESTful.

A call's ``matches`` says by the text of a reference, such as ``$var1.items[0].code$``, what the item is looked for by.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from services.codecs.calls import explain
from services.codecs.text import CodecError, format_reference
from services.contracts.plan import ForEach, ListValue, Match, ObjectValue, Reference, Step, Value, When

MATCHES = "matches"


def encode_matches(references: Iterable[Reference]) -> dict[str, JsonValue]:
    """The member of a call that makes these references; empty where none chooses by words.

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
    """What a call's member says.

    Raises:
        CodecError: it is not an object of what is looked for.
    """
    if not isinstance(data, dict):
        raise CodecError(f"{where}: {MATCHES} must be an object")
    try:
        return {text: Match.model_validate(one) for text, one in data.items()}
    except ValidationError as error:
        raise CodecError(f"{where}: {MATCHES}: {explain(error)}") from error


def matched_step(step: Step, matches: Mapping[str, Match], where: str) -> Step:
    """The step whose references choose by what is said of them; what is said of others says nothing.

    Raises:
        CodecError: there is no list to choose from.
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
    """A value whose references choose by what is said of them. Raises CodecError as :func:`matched_step`."""
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
