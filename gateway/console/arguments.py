"""A call's arguments as fields of a form: a text as it is, everything else as JSON, a reference as ``$var1.code$``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from gateway.console.forms import read_json
from gateway.console.pages import visible
from gateway.console.schemas import kind_of, resolved
from services.codecs.text import looks_like_reference
from services.contracts.api import Api, Parameter
from services.errors import ValidationFailed

MOST_CHARS: Final = 4_000
"""A longer value is not shown in a field."""
_MOST_CHOICES: Final = 30


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field for one argument of a call.

    Attributes:
        name: the argument's.
        text: what stands in the field; empty where the call does not give the argument.
        as_text: whether what is entered is the value itself; else it is the value's JSON.
        type: what the API takes, in a few words; empty where nothing is known of it.
        choices: values that the API names, as they are entered.
        given: whether the call gives the argument.
        note: why the field does not show the value that there is.
    """

    name: str
    text: str = ""
    as_text: bool = False
    type: str = ""
    required: bool = False
    description: str = ""
    choices: tuple[str, ...] = ()
    given: bool = False
    note: str = ""

    def read(self, text: str, *, references: bool) -> JsonValue:
        """The value that was entered. Raises ValidationFailed where it is no JSON and would have to be."""
        if self.as_text or (references and looks_like_reference(text.strip())):
            return text if self.as_text else text.strip()
        try:
            return read_json(self.name, text)
        except ValidationFailed:
            raise ValidationFailed(
                f"{self.name}: this is no JSON. A text stands in quotes: {json.dumps(text)}"
            ) from None


def argument_fields(
    arguments: Mapping[str, JsonValue], api: Api | None, notes: Mapping[str, str] | None = None
) -> list[ArgumentField]:
    """A field for each argument that a call gives, then for each other that the API takes, required ones first.

    ``notes`` say of some arguments why their values are not known; their fields are empty.
    """
    parameters = {one.name: one for one in api.parameters} if api is not None else {}
    others = sorted((one for one in parameters.values() if one.name not in arguments), key=lambda one: not one.needed)
    return [
        _field(name, arguments, parameters.get(name), api, (notes or {}).get(name, ""))
        for name in (*arguments, *(one.name for one in others))
    ]


def _field(
    name: str, arguments: Mapping[str, JsonValue], parameter: Parameter | None, api: Api | None, note: str
) -> ArgumentField:
    declared = parameter.json_schema if parameter is not None else {}
    schema = resolved(declared, api.definitions) if api is not None else {}
    value, known = arguments.get(name), name in arguments and not note
    as_text = isinstance(value, str) and _takes_text(schema) if known else _takes_text(schema)
    text = _written(value, as_text=as_text) if known else ""
    if len(text) > MOST_CHARS:
        text, note = "", f"a value of {len(text)} characters; what is entered here takes its place"
    elif text != visible(text) or "\r" in text:
        text, note = "", "a value with control characters; what is entered here takes its place"
    return ArgumentField(
        name=name,
        text=text,
        as_text=as_text,
        type=kind_of(schema) if parameter is not None else "",
        required=parameter is not None and parameter.needed,
        description=parameter.description if parameter is not None else "",
        choices=_choices(schema),
        given=name in arguments,
        note=note or ("" if name in arguments else _constant(parameter)),
    )


def _constant(parameter: Parameter | None) -> str:
    """What is said of an argument that a call sends although it does not give it."""
    if parameter is None or parameter.constant is None:
        return ""
    return f"{_written(parameter.constant, as_text=isinstance(parameter.constant, str))} is sent unless it is entered"


def edited(fields: list[ArgumentField], entered: Mapping[str, str], *, references: bool) -> dict[str, JsonValue]:
    """The values of those arguments that were entered otherwise than their fields had them.

    Raises:
        ValidationFailed: a value is no JSON.
    """
    changed = (field for field in fields if entered.get(field.name, field.text) != field.text)
    return {field.name: field.read(entered[field.name], references=references) for field in changed}


def _written(value: JsonValue, *, as_text: bool) -> str:
    if isinstance(value, str) and (as_text or looks_like_reference(value)):
        return value
    return json.dumps(value, ensure_ascii=False)


def _takes_text(schema: Mapping[str, JsonValue]) -> bool:
    """Whether every value that fits, but null, is a text, as far as anything is said of it."""
    if not schema:
        return True
    types = schema.get("type")
    several = [one for one in types if one != "null"] if isinstance(types, list) else [types]
    return several == ["string"]


def _choices(schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
    several = schema.get("enum")
    if isinstance(several, list):
        return tuple(_written(one, as_text=_takes_text(schema)) for one in several[:_MOST_CHOICES])
    return ("true", "false") if schema.get("type") == "boolean" else ()
