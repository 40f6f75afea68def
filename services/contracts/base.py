"""The base class of all wire types, and shared field types."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

JsonSchema = dict[str, JsonValue]
"""A JSON Schema (2020-12) as an object. Internal references are ``#/$defs/NAME`` into the owner's definitions."""

JsonPath = tuple[str | int, ...]
"""A path into a JSON value: a string is the name of an object's member, an integer is the index of a list's item."""

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


class Contract(BaseModel):
    """A frozen wire type. Unknown fields, NaN and infinities are refused, never dropped or passed on."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        json_schema_serialization_defaults_required=True,
    )
