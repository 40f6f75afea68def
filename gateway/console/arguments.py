"""A call's arguments as form fields. Texts are shown unchanged, references as ``$var1.code$``, and the rest as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from gateway.console.forms import read_json
from gateway.console.pages import visible, written_json
from gateway.console.schemas import kind_of, resolved
from services.codecs.text import looks_like_reference
from services.contracts.api import Api, Parameter
from services.errors import ValidationFailed

MOST_CHARS: Final = 4_000
"""Maximum length of a value that is shown in a field."""
_MOST_CHOICES: Final = 30
_LONGEST_CHOICE: Final = 200
"""In characters. If one is longer, none is offered: many arguments may share one schema."""


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field for one argument of a call.

    Attributes:
        name: the argument's name.
        text: the text in the field; empty if the call does not give the argument.
        as_text: whether the entered text is the value itself; else it is the value's JSON.
        type: the type that the API takes, in a few words; empty if it is not known.
        choices: the values that the API allows, in the form in which they are entered.
        given: whether the call gives the argument.
        note: why the field does not show the current value, or which constant is sent if it stays empty.
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
        """The value that was entered. Raises ValidationFailed if it must be JSON but is not."""
        if self.as_text or (references and looks_like_reference(text.strip())):
            return text if self.as_text else text.strip()
        try:
            return read_json(self.name, text)
        except ValidationFailed:
            raise ValidationFailed(f"{self.name}: this is not JSON. A text needs quotes: {json.dumps(text)}") from None


def argument_fields(
    arguments: Mapping[str, JsonValue], api: Api | None, notes: Mapping[str, str] | None = None
) -> list[ArgumentField]:
    """A field for each argument that a call gives, then for the others that the API takes, required ones first.

    ``notes`` says, by argument, why a value is not known. The fields of these arguments are empty.
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
        text, note = "", "a large value; text entered here replaces it"
    elif text != visible(text) or "\r" in text:
        text, note = "", "a value with control characters; text entered here replaces it"
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
    """The note of an argument that the call does not give, but that is sent as a constant."""
    if parameter is None or parameter.constant is None:
        return ""
    return f"{_written(parameter.constant, as_text=isinstance(parameter.constant, str))} is the default"


def edited(fields: list[ArgumentField], entered: Mapping[str, str], *, references: bool) -> dict[str, JsonValue]:
    """The values of the arguments whose fields were changed.

    Raises:
        ValidationFailed: a value is not JSON.
    """
    changed = (field for field in fields if entered.get(field.name, field.text) != field.text)
    return {field.name: field.read(entered[field.name], references=references) for field in changed}


def _written(value: JsonValue, *, as_text: bool) -> str:
    if isinstance(value, str) and (as_text or looks_like_reference(value)):
        return value
    return written_json(value, MOST_CHARS + 1, indented=False)


def _takes_text(schema: Mapping[str, JsonValue]) -> bool:
    """Whether every value that the schema allows, except null, is a text. True for an empty schema."""
    if not schema:
        return True
    types = schema.get("type")
    several = [one for one in types if one != "null"] if isinstance(types, list) else [types]
    return several == ["string"]


def _choices(schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
    several = schema.get("enum")
    if isinstance(several, list):
        choices = tuple(_written(one, as_text=_takes_text(schema)) for one in several[:_MOST_CHOICES])
        return choices if all(len(one) <= _LONGEST_CHOICE for one in choices) else ()
    return ("true", "false") if schema.get("type") == "boolean" else ()
