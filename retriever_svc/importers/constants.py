"""Parameters with a constant value: set for the provider, or determined by the document.

The document determines a required parameter that allows only one value, and a required header or version with a
default. A flag that allows only ``true`` is not determined: it may stand for consent, which the user must give.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import jsonschema_rs
import orjson
from pydantic import JsonValue

from retriever_svc.importers.refs import JsonObject, as_list
from retriever_svc.importers.servers import PLACEHOLDER
from services.compute import checkpoint
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import JsonSchema
from services.patterns import REGEX_BYTES, compile_steps

_HEADERS: Final = frozenset({Location.HEADER, Location.COOKIE})
_MAX_HOPS: Final = 5
_DIRECTING: Final = re.compile(
    r"override|rewrite|original[-_]?ur[il]|forwarded|^x-(?:http-)?(?:method|host|path|uri|url)\b|^_method$",
    re.IGNORECASE,
)
"""Names of parameters that override a call's method or path. A document's values for them are not sent."""
_OF_SCALARS: Final = (
    *("type", "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
_PLAIN: Final = ("type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum")
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_MAX_PARTS: Final = 64
_MAX_PATTERN_STEPS: Final = 12_000
"""Limit on compiling the patterns of one schema: enough for at least four."""
_MAX_SCHEMA_BYTES: Final = 64 * 1024
_FILLER: Final = frozenset({"string", "value", "text"})
"""What document generators write as a default if there is none."""


def apply_constants(api: Api, given: Mapping[str, str]) -> Api:
    """The API with a constant for each parameter whose value is determined; its content hash is not updated.

    Args:
        api: an operation.
        given: values set for its provider, by the parameter's name in any case. A value that a parameter does not allow
            is ignored for it.
    """
    folded = {name.lower(): text for name, text in given.items()}
    parameters = tuple(_with_constant(one, api.definitions, folded) for one in api.parameters)
    return api if parameters == api.parameters else api.model_copy(update={"parameters": parameters})


def directs(name: str) -> bool:
    """Whether a parameter of this name may override a call's method or path, so that no rule would match the call."""
    return _DIRECTING.search(name) is not None


def value_for(parameter: Parameter, definitions: Mapping[str, JsonSchema], text: str) -> JsonValue | None:
    """The text, or the number or boolean that it represents, whichever the parameter allows; None if neither."""
    if parameter.location in _HEADERS and not (text.isascii() and text == text.strip()):
        return None
    if _allows(parameter.json_schema, definitions, text):
        return text
    scalar = parsed_scalar(text)
    return None if scalar is None or not _allows(parameter.json_schema, definitions, scalar) else scalar


def parsed_scalar(text: str) -> bool | int | float | None:
    """The number or boolean that a text represents; None if it represents none or would lose digits."""
    try:
        scalar = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if isinstance(scalar, float) and (not math.isfinite(scalar) or text.removeprefix("-").isdigit()):
        return None  # orjson turns an integer of more than 64 bits into a float
    return scalar if isinstance(scalar, bool | int | float) else None


def _with_constant(parameter: Parameter, definitions: Mapping[str, JsonSchema], given: Mapping[str, str]) -> Parameter:
    text = given.get(parameter.wire_name.lower())
    constant = None if text is None else value_for(parameter, definitions, text)
    if constant is None:
        constant = _documented(parameter, definitions)
    return parameter if constant == parameter.constant else parameter.model_copy(update={"constant": constant})


def _documented(parameter: Parameter, definitions: Mapping[str, JsonSchema]) -> JsonValue | None:
    """The only value that the document allows, or its default."""
    if not parameter.required or directs(parameter.wire_name):
        return None
    schema = _resolved(parameter.json_schema, definitions)
    listed = [value for value in as_list(schema.get("enum")) if value is not None]
    if "const" in schema:
        found = schema["const"]
    elif len(listed) == 1:
        found = listed[0]
    elif "default" in parameter.json_schema or "default" in schema:
        found = parameter.json_schema.get("default", schema.get("default"))
        if not _is_sent_by_default(parameter, found):
            return None
    else:
        return None
    if isinstance(found, bool) or not isinstance(found, str | int | float) or found == "":
        return None
    plain: JsonSchema = {key: schema[key] for key in _PLAIN if key in schema}  # fast to check
    return found if _allows(plain, {}, found) else None


def _is_sent_by_default(parameter: Parameter, value: JsonValue) -> bool:
    """Whether the default belongs to a header or a version and is not a placeholder."""
    name, text = re.sub(r"[^a-z]", "", parameter.wire_name.lower()), str(value)
    is_version = parameter.location is not Location.BODY and (name.endswith("version") or name == "v")
    return (parameter.location in _HEADERS or is_version) and not (PLACEHOLDER.search(text) or text in _FILLER)


def _resolved(schema: JsonObject, definitions: Mapping[str, JsonSchema]) -> JsonObject:
    for _ in range(_MAX_HOPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = definitions.get(_name(reference), {})
    return schema


def _name(reference: str) -> str:
    """The name of the definition that a reference points to."""
    return reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")


def _allows(schema: JsonSchema, definitions: Mapping[str, JsonSchema], value: JsonValue) -> bool:
    """Whether the schema allows a text, number or boolean. True if it takes too long to check."""
    try:
        content = orjson.dumps(_Scalars(definitions).of(schema))
    except (_TooMuch, TypeError):
        return True
    checkpoint()
    validator = _validator(content) if len(content) <= _MAX_SCHEMA_BYTES else None
    try:
        return validator is None or validator.is_valid(value)
    except ValueError:  # a recursion limit
        return True


class _TooMuch(Exception):
    """A schema takes too long to read or to compile."""


@dataclass(slots=True)
class _Scalars:
    """Reduces a schema to the part that applies to texts, numbers and booleans, with definitions inlined.

    A validator takes memory and time for every member and pattern of a schema, used or not.
    """

    definitions: Mapping[str, JsonSchema]
    parts: int = 0
    pattern_steps: int = 0

    def of(self, schema: JsonValue) -> JsonValue:
        """The reduced schema. Raises _TooMuch, also if a definition refers to itself or is missing."""
        if not isinstance(schema, dict):
            return schema
        self.parts += 1
        self.pattern_steps += compile_steps(str(schema["pattern"])) if "pattern" in schema else 0
        if self.parts > _MAX_PARTS or self.pattern_steps > _MAX_PATTERN_STEPS or "$dynamicRef" in schema:
            raise _TooMuch
        part: JsonObject = {key: schema[key] for key in _OF_SCALARS if key in schema}
        part |= {key: self.of(schema[key]) for key in ("not", "if", "then", "else") if key in schema}
        part |= {key: [self.of(one) for one in as_list(schema[key])] for key in _COMBINING if key in schema}
        reference = schema.get("$ref")
        if reference is None:
            return part
        target = self.definitions.get(_name(reference)) if isinstance(reference, str) else None
        if target is None:
            raise _TooMuch
        return {"allOf": [part, self.of(target)]}


@lru_cache(maxsize=200)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator | None:
    """A validator, or None if the schema cannot be compiled. Patterns take linear time; references are not fetched."""
    try:
        return jsonschema_rs.Draft202012Validator(
            orjson.loads(schema),
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES),
        )
    except (ValueError, OverflowError, TypeError):
        return None
