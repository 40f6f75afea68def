"""The base class of all wire types, and shared field types."""

from itertools import islice
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema

JsonSchema = dict[str, JsonValue]
"""A JSON Schema (2020-12) as an object. Internal references are ``#/$defs/NAME`` into the owner's definitions."""

JsonPath = tuple[str | int, ...]
"""A path into a JSON value: a string is the name of an object's member, an integer is the index of a list's item.

At a list, :data:`EVERY` is every item: the rest of the path is followed in each, and what is there makes a list.
"""

EVERY: Final = "*"


def before_every(path: JsonPath) -> JsonPath:
    """The part of a path that leads to the list of which it takes every item; the whole path if there is none."""
    return path[: path.index(EVERY)] if EVERY in path else path


MAX_QUERY_CHARS = 10_000
"""Longest request accepted, in characters. Longer ones are refused with 422 rather than silently cut."""

Query = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_CHARS),
    Field(description="The request in words.", examples=["Which public holidays does Portugal have in May 2027?"]),
]
ApiId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=400, pattern=r"^[^\s\x00-\x1f]+$"),
    Field(description="`provider.operation`, for example `sandbox.getPublicHolidays`."),
]
StepId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


_MANY: Final = frozenset({"list", "tuple", "set", "frozenset", "dict"})
_MOST_UNKNOWN: Final = 50
"""Unknown fields of an object that are told. Problem documents have no more."""
_INNER: Final = ("schema", "items_schema", "values_schema", "choices", "fields", "definitions")
"""Members of pydantic's schemas that hold further ones."""


def _stop_at_first(schema: Any, model: type[BaseModel]) -> None:
    """Set `fail_fast` in the schema of a model, but not in those of others inside."""
    if isinstance(schema, list | tuple):
        for one in schema:
            _stop_at_first(one, model)
    elif isinstance(schema, dict) and schema.get("cls", model) is model:
        if schema["type"] in _MANY:
            schema["fail_fast"] = True
        for inner in map(schema.get, _INNER):
            if isinstance(inner, dict) and not isinstance(inner.get("type"), str):  # schemas by their names
                inner = list(inner.values())
            _stop_at_first(inner, model)


class Contract(BaseModel):
    """A frozen wire type. Unknown fields, NaN and infinities are refused, never dropped or passed on.

    Validation stops at the first wrong item of a sequence or mapping, and tells only a few of many unknown fields.
    Otherwise pydantic would build an error for each, at about a kilobyte, and a body may have a million.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema that pydantic makes, with `fail_fast` wherever there may be many items."""
        schema = handler(source)
        _stop_at_first(schema, cls)
        return schema

    @model_validator(mode="before")
    @classmethod
    def _tell_few_unknown(cls, given: Any) -> Any:
        """Leave out most of very many unknown fields. The object is refused for the others."""
        if not isinstance(given, dict) or len(given) <= _MOST_UNKNOWN:
            return given
        known = {name for field, info in cls.model_fields.items() for name in (field, info.alias)}
        unknown = islice((name for name in given if name not in known), _MOST_UNKNOWN)
        return {name: given[name] for name in (*known, *unknown) if name in given}
