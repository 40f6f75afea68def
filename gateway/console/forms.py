"""Turns questions to the user into typed form fields, and the entered texts into JSON values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import JsonValue, ValidationError

from services.contracts.base import Contract
from services.contracts.planning import Question
from services.errors import InvalidRequest, ValidationFailed
from services.http import loads_strict

Kind = Literal["choice", "yes_no", "integer", "number", "date", "datetime", "email", "text", "json"]
ContractT = TypeVar("ContractT", bound=Contract)
PREFIX: Final = "value."
_MAX_CHOICES: Final = 100
_FORMATS: Final[Mapping[str, Kind]] = {"date": "date", "date-time": "datetime", "email": "email"}
_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 100_000
"""Maximum number of values in a field's JSON, as in the API's bodies by default."""
_MOST_SENT_BACK: Final = 40_000
"""Maximum number of characters that were entered and that a page repeats."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form for one question.

    Attributes:
        name: the argument that is asked for.
        choices: the values of a ``choice``, in order.
        bounds: HTML attributes that limit the input, as pairs of name and value.
    """

    name: str
    text: str
    kind: Kind
    choices: Sequence[JsonValue] = ()
    bounds: Sequence[tuple[str, JsonValue]] = ()
    description: str = ""


def fields_of(questions: Sequence[Question]) -> list[Field]:
    """A field for each argument that is asked for. If two steps ask for the same argument, it has one field."""
    found: dict[str, Field] = {}
    for question in questions:
        found.setdefault(question.argument, _field(question))
    return list(found.values())


def _field(question: Question) -> Field:
    schema = question.json_schema
    described = schema.get("description")
    description = described if isinstance(described, str) else ""
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MAX_CHOICES:
        return Field(question.argument, question.text, "choice", choices, description=description)
    names = {"minimum": "min", "maximum": "max", "minLength": "minlength", "maxLength": "maxlength"}
    bounds = [(html, schema[name]) for name, html in names.items() if isinstance(schema.get(name), int | float)]
    return Field(question.argument, question.text, _kind(schema), (), bounds, description)


def _kind(schema: Mapping[str, JsonValue]) -> Kind:
    types = schema.get("type")
    several = [one for one in types if one != "null"] if isinstance(types, list) else [types]
    match several[0] if len(several) == 1 else None:
        case "boolean":
            return "yes_no"
        case "integer":
            return "integer"
        case "number":
            return "number"
        case "array" | "object":
            return "json"
        case _:
            return _FORMATS.get(str(schema.get("format")), "text")


def entered(fields: Sequence[Field], form: Mapping[str, str]) -> dict[str, JsonValue]:
    """The values that were entered, by argument. Empty fields are left out.

    A date with a time but without a time zone is in the form's time zone (`timezone`).

    Raises:
        ValidationFailed: a value is not of its field's kind.
    """
    given = ((field, form.get(PREFIX + field.name, "").strip()) for field in fields)
    return {field.name: _read(field, text, form.get("timezone", "")) for field, text in given if text}


def read_json(name: str, text: str) -> JsonValue:
    """A value that was entered as JSON. Call it in a thread: the text may be large. Raises ValidationFailed."""
    try:
        value: JsonValue = loads_strict(text.encode(), max_depth=_MAX_DEPTH, max_values=_MAX_VALUES)
    except InvalidRequest:
        raise ValidationFailed(f"{name}: this is not JSON, or it has more than {_MAX_VALUES:,} values.") from None
    return value


def check_sent_back(*texts: str) -> None:
    """Raise ValidationFailed if entered texts are too long for a page that would repeat them."""
    if sum(map(len, texts)) > _MOST_SENT_BACK:
        raise ValidationFailed(f"This page takes at most {_MOST_SENT_BACK:,} characters. Send longer texts to the API.")


def _moment(name: str, text: str, zone: str) -> str:
    """A date with a time in RFC 3339 format."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone) if zone else UTC)).isoformat()
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValidationFailed(f"{name}: this is not a date with a time, or its time zone is unknown.") from None


def _read(field: Field, text: str, zone: str) -> JsonValue:
    if field.kind == "choice":
        chosen = {str(index): choice for index, choice in enumerate(field.choices)}
        if text not in chosen:
            raise ValidationFailed(f"{field.name}: this is not one of the choices.")
        return chosen[text]
    if field.kind == "yes_no":
        return text == "yes"
    if field.kind == "datetime":
        return _moment(field.name, text, zone)
    if field.kind not in ("integer", "number", "json"):
        return text
    value = read_json(field.name, text)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if field.kind == "json" or whole or (field.kind == "number" and isinstance(value, float)):
        return value
    raise ValidationFailed(f"{field.name}: this is no {field.kind}.")


def request_of(contract: type[ContractT], fields: Mapping[str, object]) -> ContractT:
    """An API request made from a form's fields. Raises ValidationFailed."""
    try:
        return contract.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ValidationFailed(f"{name}: {first['msg']}") from None
