"""Request bodies: JSON, form, multipart, text and binary, built from the arguments located in the body."""

import base64
import binascii
import secrets
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from executor_svc.adapters.http.serialise import (
    Unserialisable,
    bounded,
    encode,
    query_pairs,
    scalar,
    without,
)
from services.contracts.api import Api, Location, Parameter, Style
from services.media_types import essence, is_json

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
MAX_CHARS: Final = 32 * 1024 * 1024
"""Longest form or multipart body. Both repeat a field's name for each of its values, and forms encode them."""
_PLAIN: Final = "text/plain; charset=utf-8"
BINARY_MEMBERS: Final = frozenset({"media_type", "base64"})
"""The members of an object that represents bytes. Binary answers are decoded to it; uploads are built from it."""


@dataclass(frozen=True, slots=True)
class Body:
    """A body ready to send. ``recorded`` is the same body as a JSON value, for the record."""

    content: bytes
    media_type: str
    recorded: JsonValue


def build_body(api: Api, arguments: Mapping[str, JsonValue], *, needed: bool = False) -> Body | None:
    """The body of a request. None if the operation has none, or if it is optional and no argument is given.

    Args:
        api: the operation.
        arguments: by parameter name.
        needed: build a body even without arguments, because a key is sent in it.

    Raises:
        Unserialisable: a value cannot be sent in this media type.
    """
    if api.body is None:
        return None
    given = [(p, arguments[p.name]) for p in api.parameters if p.location is Location.BODY and p.name in arguments]
    if not given and (api.body.whole or not (api.body.required or needed)):
        return None
    media_type = essence(api.body.media_type)
    value = given[0][1] if api.body.whole else {parameter.wire_name: value for parameter, value in given}
    if is_json(media_type):
        return Body(_json(value), media_type, value)
    if media_type == FORM:
        return Body("&".join(bounded(_form_pairs(given, value, api.body.whole), MAX_CHARS)).encode(), FORM, value)
    if media_type == MULTIPART:
        declared = () if api.body.whole else [parameter for parameter, _ in given]
        return _multipart(_fields(value), declared, value)
    return _raw(value, media_type)


def body_estimate(api: Api, value_bytes: int) -> int:
    """The size of a body with values of so many bytes of JSON. A form takes three characters for most bytes."""
    is_form = api.body is not None and essence(api.body.media_type) == FORM
    return min(3 * value_bytes, max(MAX_CHARS, value_bytes)) if is_form else value_bytes


def with_fields(body: Body, fields: Mapping[str, str]) -> Body:
    """Add text fields to a JSON object or a form; they replace fields of the same name. Used for keys.

    Raises:
        Unserialisable: the body has no fields.
    """
    media_type = essence(body.media_type)
    if not fields:
        return body
    recorded = {**_fields(body.recorded), **fields}
    if is_json(media_type):
        return Body(_json(recorded), body.media_type, recorded)
    if media_type == FORM:
        pairs = without(filter(None, body.content.decode().split("&")), fields)
        return Body(
            "&".join([*pairs, *(f"{encode(n)}={encode(v)}" for n, v in fields.items())]).encode(), FORM, recorded
        )
    if media_type != MULTIPART:
        raise Unserialisable(f"{media_type} has no fields")
    boundary = body.media_type.partition("boundary=")[2]
    start, end = f"--{boundary}\r\n".encode(), f"--{boundary}--\r\n".encode()
    replaced = tuple(_disposition(name).encode() for name in fields)
    kept = [part for part in body.content.removesuffix(end).split(start)[1:] if not part.startswith(replaced)]
    keys = [
        f"{_disposition(name)}\r\nContent-Type: {_PLAIN}\r\n\r\n{value}\r\n".encode() for name, value in fields.items()
    ]
    return Body(b"".join(start + part for part in (*kept, *keys)) + end, body.media_type, recorded)


def as_document(parameter: Parameter, value: JsonValue) -> JsonValue:
    """The value serialised in the parameter's media type; the value itself if the parameter has no media type.

    Raises:
        Unserialisable: the media type is not JSON and the value is not a scalar.
    """
    if parameter.media_type is None:
        return value
    return _json(value).decode() if is_json(parameter.media_type) else scalar(value)


def check_length(value: JsonValue, most: int) -> None:
    """Raises Unserialisable if a value's JSON is longer than ``most`` bytes."""
    if isinstance(value, (str, list, dict)) and len(_json(value)) > most:
        raise Unserialisable("it would be too long")


def _json(value: JsonValue) -> bytes:
    try:
        return to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError:
        raise Unserialisable("the text contains a lone surrogate, which UTF-8 cannot encode") from None


def _fields(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise Unserialisable("a form body must be an object")
    return value


def _form_pairs(given: list[tuple[Parameter, JsonValue]], value: JsonValue, whole: bool) -> Iterator[str]:
    styled = {} if whole else {parameter.wire_name: parameter for parameter, _ in given}
    for name, field in _fields(value).items():
        parameter = styled.get(name)
        if parameter is not None and parameter.style is not Style.SIMPLE:
            # wins over a media type: 4.8.15.1
            yield from query_pairs(name, field, parameter.style, parameter.explode)
        else:
            wanted, key = (parameter.media_type or "") if parameter is not None else "", encode(name)
            yield from (f"{key}={encode(_text(part, wanted))}" for part in _repeated(field, wanted))


def _repeated(value: JsonValue, wanted: str) -> list[JsonValue]:
    """The fields to send for a value: one per element of a list, unless the list is sent as JSON; none for null."""
    if value is None:
        return []
    return value if isinstance(value, list) and not is_json(wanted) else [value]


def _text(value: JsonValue, wanted: str) -> str:
    """A value as text. Objects, lists and null are JSON, as is any value if JSON is the wanted media type."""
    structured = isinstance(value, (dict, list)) or value is None
    return _json(value).decode() if structured or is_json(wanted) else scalar(value)


def _multipart(fields: dict[str, JsonValue], declared: Iterable[Parameter], recorded: JsonValue) -> Body:
    """RFC 7578: text as text/plain, objects as JSON, bytes as files; one part for each element of a list.

    ``declared``: the parameters. One may name a media type: if it is JSON, a list is one part. If one takes a file, its
    text is sent as a file, too: many servers do not take a part without a file name for one.
    """
    boundary = "nestor-" + secrets.token_hex(16)
    typed, files = dict[str, str](), set[str]()
    for parameter in declared:
        typed[parameter.wire_name] = parameter.media_type or ""
        if _takes_file(parameter.json_schema):
            files.add(parameter.wire_name)
    parts = bounded(_multipart_parts(fields, typed, files, boundary), MAX_CHARS)
    parts.append(f"--{boundary}--\r\n".encode())
    return Body(b"".join(parts), f"multipart/form-data; boundary={boundary}", recorded)


def _takes_file(schema: JsonValue) -> bool:
    """Whether a part of a form with this schema is a file: OpenAPI 3.0's ``format: binary``, 3.1's media types."""
    if not isinstance(schema, dict):
        return False
    if schema.get("format") == "binary":
        return True
    kind = schema.get("contentMediaType")
    if isinstance(kind, str) and not is_json(kind) and "contentEncoding" not in schema:
        return True
    inner = [schema.get("items")]
    for keyword in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(keyword)
        inner += alternatives if isinstance(alternatives, list) else ()
    return any(_takes_file(part) for part in inner)


def _multipart_parts(
    fields: dict[str, JsonValue], typed: Mapping[str, str], files: Container[str], boundary: str
) -> Iterator[bytes]:
    for name, field in fields.items():
        wanted = typed.get(name, "")
        for value in _repeated(field, wanted):
            disposition = _disposition(scalar(name))
            media_type, content, is_file = _part(value, wanted)
            if is_file or name in files:
                disposition += f'; filename="{_quoted(name)}"'
            yield f"--{boundary}\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\n".encode()
            yield content
            yield b"\r\n"


def _part(value: JsonValue, wanted: str) -> tuple[str, bytes, bool]:
    """The media type and bytes of a part, and whether it is a file."""
    binary = _binary(value)
    if binary is not None:
        return wanted or binary[0], binary[1], True
    text = _text(value, wanted).encode()
    return wanted or ("application/json" if isinstance(value, (dict, list)) else _PLAIN), text, False


def _disposition(name: str) -> str:
    """The first header of a part. Only parts of the same name begin with it, since it ends in a quote."""
    return f'Content-Disposition: form-data; name="{_quoted(name)}"'


def _quoted(name: str) -> str:
    """A field name as browsers write it (HTML, "multipart/form-data encoding algorithm")."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _raw(value: JsonValue, media_type: str) -> Body:
    binary = _binary(value)
    if binary is not None:
        return Body(binary[1], media_type, value)
    if isinstance(value, str):
        return Body(scalar(value).encode(), media_type, value)
    raise Unserialisable(f"{media_type} takes text, or an object of media_type and base64")


def _binary(value: JsonValue) -> tuple[str, bytes] | None:
    """The media type and bytes of an object with the members ``media_type`` and ``base64``; None for other values."""
    if not isinstance(value, dict) or value.keys() != BINARY_MEMBERS:
        return None
    media_type, text = value["media_type"], value["base64"]
    if not isinstance(media_type, str) or not isinstance(text, str) or not media_type.isprintable():
        raise Unserialisable("media_type and base64 must be plain strings")
    try:
        return media_type, base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unserialisable("base64 is not valid base64") from None
