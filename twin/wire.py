"""Reads arguments from a request: the inverse of the styles of OpenAPI 3.1 (section 4.8.12).

A text is parsed as the type of its schema: ``5`` is a number if the schema allows a number, else a text. If it allows
both, the number is tried first, and the first reading that fits the schema is used.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final
from urllib.parse import parse_qsl, unquote

import orjson
from pydantic import JsonValue

from services.contracts.api import Api, Location, Parameter, Style
from services.contracts.base import JsonSchema
from services.media_types import essence, is_json
from twin.checking import Checks
from twin.problems import Refused
from twin.received import MAX_FIELDS, Received
from twin.schemas import kinds_of, members, resolved

_FORM: Final = "application/x-www-form-urlencoded"
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,18})(\.\d{1,30})?([eE][+-]?\d{1,2})?")
_DELIMITERS: Final = {Style.SPACE_DELIMITED: " ", Style.PIPE_DELIMITED: "|"}
_MEMBER: Final = re.compile(r"\[([^\[\]]*)\]")
_MAX_ERRORS: Final = 20
_MAX_LEVELS: Final = 8

Pairs = Sequence[tuple[str, JsonValue]]


def text_of(request: Received, name: str) -> str:
    """A text member of a request's body, which is a JSON object or a form; empty if there is none."""
    media_type = essence(request.headers.get("content-type", ""))
    fields: Pairs = ()
    try:
        if is_json(media_type):
            fields = list(members(_document(request.body, media_type)).items())
        elif media_type == _FORM:
            fields = parse_qsl(request.body.decode("utf-8", "replace"))[:MAX_FIELDS]
        elif media_type == "multipart/form-data":
            fields = _parts(request.headers["content-type"], request.body)
    except Refused:
        return ""
    return next((value for key, value in fields if key == name and isinstance(value, str)), "")


@dataclass(frozen=True, slots=True)
class File:
    """A file in a form, or a binary body."""

    media_type: str
    content: bytes

    def value(self) -> JsonValue:
        """The file as Nestor's executor represents it."""
        return {"media_type": self.media_type, "base64": base64.b64encode(self.content[:100_000]).decode()}


class Reader:
    """Reads the arguments of one API.

    Args:
        api: the operation.
    """

    def __init__(self, api: Api) -> None:
        self._api, self._checks = api, Checks(api.definitions)
        keys = [need.parameter for one in api.security for need in one if need.location is not Location.HEADER]
        self._keys = frozenset(key for key in keys if key)

    def arguments(self, request: Received, path: Mapping[str, str]) -> dict[str, JsonValue]:
        """The arguments by their names in plans.

        Args:
            request: what was sent.
            path: the raw values of the path's parameters by wire name.

        Raises:
            Refused: 400 or 422 if arguments are missing or malformed, 415 for another media type.
        """
        errors: list[tuple[str, str]] = []
        found: dict[str, JsonValue] = {}
        pairs = {Location.QUERY: request.query_pairs(), Location.COOKIE: request.cookies()}
        for parameter in self._api.parameters:
            if parameter.location is Location.BODY:
                continue
            place = f"{parameter.location.value}.{parameter.wire_name}"
            raw = self._raw(parameter, request, path, pairs)
            if not raw:
                if parameter.required and not self._may_be_empty(parameter):
                    errors.append((place, "is missing"))
                continue
            self._keep(parameter, raw, place, found, errors)
        if errors:
            raise Refused(400, f"{errors[0][0]} {errors[0][1]}", tuple(errors[:_MAX_ERRORS]))
        body = self._body(request, errors)
        if errors:
            raise Refused(422, f"{errors[0][0]}: {errors[0][1]}", tuple(errors[:_MAX_ERRORS]))
        return found | body

    def _may_be_empty(self, parameter: Parameter) -> bool:
        """Whether a required parameter may be absent: an empty list or object adds nothing to a query."""
        kinds = kinds_of(parameter.json_schema, self._api.definitions)
        return parameter.location is Location.QUERY and bool(kinds & {"array", "object"})

    def _keep(
        self,
        parameter: Parameter,
        raw: Sequence[JsonValue],
        place: str,
        found: dict[str, JsonValue],
        errors: list[tuple[str, str]],
    ) -> None:
        """Store the first reading that fits the schema. If none fits, add the last one's violations to ``errors``."""
        wrong: list[str] = []
        for value in raw:
            wrong = self._checks.problems(parameter.json_schema, value)
            if not wrong:
                found[parameter.name] = value
                return
        errors += [(place, message) for message in wrong]

    def _raw(
        self,
        parameter: Parameter,
        request: Received,
        path: Mapping[str, str],
        pairs: Mapping[Location, list[tuple[str, str]]],
    ) -> list[JsonValue]:
        """The possible readings of a parameter; empty if it was not sent."""
        if parameter.location is Location.PATH:
            text = path.get(parameter.wire_name)
            return [] if text is None else self._simple(parameter, text)
        if parameter.location is Location.HEADER:
            text = request.headers.get(parameter.wire_name.lower())
            return [] if text is None else self._simple(parameter, text, decoded=True)
        return self._form(parameter, pairs[parameter.location])

    def _simple(self, parameter: Parameter, text: str, *, decoded: bool = False) -> list[JsonValue]:
        """A parameter of a path or header: ``simple``, ``label`` or ``matrix``."""
        plain = (lambda part: part) if decoded else unquote
        if parameter.media_type is not None:
            return [_document(plain(text), parameter.media_type)]
        delimiter = ","
        if not decoded and parameter.style is Style.LABEL:
            text, delimiter = text.removeprefix("."), "." if parameter.explode else ","
        if not decoded and parameter.style is Style.MATRIX:
            text = text.removeprefix(";")
            if parameter.explode and "object" not in self._kinds(parameter.json_schema):
                text, delimiter = ",".join(part.partition("=")[2] for part in text.split(";")), ","
            elif parameter.explode:
                delimiter = ";"
            else:
                text = text.partition("=")[2]
        return self._split(parameter, text, delimiter, plain)

    def _split(
        self, parameter: Parameter, text: str, delimiter: str, plain: Callable[[str], str] = lambda part: part
    ) -> list[JsonValue]:
        schema, kinds = parameter.json_schema, self._kinds(parameter.json_schema)
        found: list[JsonValue] = []
        parts = [plain(part) for part in text.split(delimiter)][:MAX_FIELDS]
        if "array" in kinds:
            found += self._lists(schema, parts)
        if "object" in kinds:
            given = [part.partition("=")[::2] for part in parts]
            pairs = given if parameter.explode else list(zip(parts[::2], parts[1::2], strict=False))
            found.append(self._object(schema, dict(pairs)))
        return (
            found
            if found and not kinds & {"string", "integer", "number"}
            else [*found, *self._typed(schema, plain(text))]
        )

    def _form(self, parameter: Parameter, pairs: list[tuple[str, str]]) -> list[JsonValue]:
        """A parameter of a query, a cookie or a form: ``form``, ``deepObject`` and the delimited styles."""
        schema, kinds, name = parameter.json_schema, self._kinds(parameter.json_schema), parameter.wire_name
        values = [value for key, value in pairs if key == name]
        if parameter.media_type is not None:
            return [_document(values[0], parameter.media_type)] if values else []
        deep = [(key, value) for key, value in pairs if key.startswith(f"{name}[")]
        if deep and not values:
            return [self._deep(schema, name, deep)]
        if "object" in kinds and parameter.explode and not values:
            known = members(resolved(schema, self._api.definitions).get("properties"))
            taken = {one.wire_name for one in self._api.parameters} | self._keys
            own = {key: value for key, value in pairs if key in known or (not known and key not in taken)}
            return [self._object(schema, own)] if own else []
        if not values:
            return []
        if "array" in kinds and (parameter.explode or len(values) > 1):
            return self._lists(schema, values)
        return self._split(parameter, values[0], _DELIMITERS.get(parameter.style, ","))

    def _deep(self, schema: JsonSchema, name: str, pairs: list[tuple[str, str]]) -> JsonValue:
        """The value that was serialised as ``name[member][index]=value``."""
        root: dict[str, JsonValue] = {}
        for key, value in pairs:
            steps = _MEMBER.findall(key[len(name) :])[:_MAX_LEVELS]
            place = root
            for step in steps[:-1]:
                inner = place.setdefault(step, {})
                place = inner if isinstance(inner, dict) else place
            if steps:
                place[steps[-1]] = value
        return self._shaped(schema, root)

    def _shaped(self, schema: JsonValue, value: JsonValue, depth: int = 0) -> JsonValue:
        """The value with its texts converted to the types of the schema."""
        declared = resolved(schema, self._api.definitions)
        if isinstance(value, dict) and depth < _MAX_LEVELS:
            if "array" in self._kinds(declared) or (value and all(key.isdecimal() or not key for key in value)):
                return [self._shaped(declared.get("items"), one, depth + 1) for one in value.values()]
            known = members(declared.get("properties"))
            return {key: self._shaped(known.get(key), one, depth + 1) for key, one in value.items()}
        return self._typed(declared, value)[0] if isinstance(value, str) else value

    def _lists(self, schema: JsonSchema, parts: Sequence[str]) -> list[JsonValue]:
        items = resolved(schema, self._api.definitions).get("items")
        return [[self._typed(items, part)[0] for part in parts], list(parts)]

    def _object(self, schema: JsonSchema, fields: Mapping[str, str]) -> JsonValue:
        known = members(resolved(schema, self._api.definitions).get("properties"))
        return {key: self._typed(known.get(key), value)[0] for key, value in fields.items()}

    def _typed(self, schema: JsonValue, text: str) -> list[JsonValue]:
        """The possible readings of a text. Types other than text come first, if the schema allows them."""
        kinds, found = self._kinds(schema), list[JsonValue]()
        if kinds & {"integer", "number"} and (match := _NUMBER.fullmatch(text)):
            found.append(float(text) if match[2] or match[3] else int(text))
        if "boolean" in kinds and text in ("true", "false"):
            found.append(text == "true")
        if kinds & {"object", "array"} and text[:1] in ("{", "["):
            found.append(_document(text, "application/json"))
        return [*found, text]

    def _kinds(self, schema: JsonValue) -> frozenset[str]:
        return kinds_of(schema, self._api.definitions)

    def _body(self, request: Received, errors: list[tuple[str, str]]) -> dict[str, JsonValue]:
        """The arguments in the body. Violations are added to ``errors``."""
        body, wanted = self._api.body, [one for one in self._api.parameters if one.location is Location.BODY]
        if body is None:
            return {}
        media_type = essence(body.media_type)
        if not request.body:
            if body.required and (body.whole or any(one.required for one in wanted)) and media_type != _FORM:
                errors.append(("body", "is missing"))
            elif media_type == _FORM or body.required:
                errors += [(f"body.{one.wire_name}", "is missing") for one in wanted if one.required]
            return {}
        given = essence(request.headers.get("content-type", ""))
        if given != media_type:
            raise Refused(415, f"the body must be {media_type}, not {given or 'without media type'}")
        if is_json(media_type):
            return self._of_json(_document(request.body, media_type), wanted, errors, whole=body.whole)
        if media_type == _FORM:
            fields: Pairs = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)[:MAX_FIELDS]
            return self._of_fields(fields, wanted, errors, whole=body.whole)
        if media_type == "multipart/form-data":
            parts = _parts(request.headers["content-type"], request.body)
            return self._of_fields(parts, wanted, errors, whole=body.whole)
        text = request.body.decode("utf-8", "replace") if media_type.startswith("text/") else None
        return {wanted[0].name: text or File(media_type, request.body).value()} if wanted else {}

    def _of_json(
        self, value: JsonValue, wanted: list[Parameter], errors: list[tuple[str, str]], *, whole: bool
    ) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        if whole:
            self._keep(wanted[0], [value], "body", found, errors)
            return found
        if not isinstance(value, dict):
            errors.append(("body", "is not an object"))
            return {}
        for one in wanted:
            if one.wire_name in value:
                self._keep(one, [value[one.wire_name]], f"body.{one.wire_name}", found, errors)
            elif one.required:
                errors.append((f"body.{one.wire_name}", "is missing"))
        return found

    def _of_fields(
        self, fields: Pairs, wanted: list[Parameter], errors: list[tuple[str, str]], *, whole: bool
    ) -> dict[str, JsonValue]:
        """The arguments of a form."""
        found: dict[str, JsonValue] = {}
        if whole:
            texts = {key: value for key, value in fields if isinstance(value, str)}
            readings: list[JsonValue] = [self._shaped(wanted[0].json_schema, dict(texts)), dict(fields)]
            self._keep(wanted[0], readings, "body", found, errors)
            return found
        texts_of = [(key, value) for key, value in fields if isinstance(value, str)]
        for one in wanted:
            files = [value for key, value in fields if key == one.wire_name and not isinstance(value, str)]
            if files:  # schemas describe files as text or bytes, so there is nothing to validate
                found[one.name] = list(files) if "array" in self._kinds(one.json_schema) else files[0]
                continue
            raw = self._field(one, texts_of)
            if raw:
                self._keep(one, raw, f"body.{one.wire_name}", found, errors)
            elif one.required and not self._kinds(one.json_schema) & {"array"}:
                errors.append((f"body.{one.wire_name}", "is missing"))
        return found

    def _field(self, parameter: Parameter, pairs: list[tuple[str, str]]) -> list[JsonValue]:
        """A field of a form: in the style of a query if a style is set, else repeated for each element of a list."""
        if parameter.style is not Style.SIMPLE:
            return self._form(parameter, pairs)
        values = [value for key, value in pairs if key == parameter.wire_name]
        if not values:
            return []
        if parameter.media_type and is_json(parameter.media_type) and values[0][:1] in ("{", "["):
            return [_document(values[0], "application/json")]
        if "array" in self._kinds(parameter.json_schema):
            return self._lists(parameter.json_schema, values)
        return self._typed(parameter.json_schema, values[0])


def _document(text: str | bytes, media_type: str) -> JsonValue:
    """A JSON document. Raises Refused (400)."""
    if not is_json(media_type):
        return text if isinstance(text, str) else text.decode("utf-8", "replace")
    try:
        value: JsonValue = orjson.loads(text)
        return value
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        raise Refused(400, "a part of the request is not valid JSON") from None


def _parts(content_type: str, body: bytes) -> list[tuple[str, JsonValue]]:
    """The parts of a form (RFC 7578): texts, also those of files, JSON documents, other files. Raises Refused (400)."""
    if "\n" in content_type or "\r" in content_type:
        raise Refused(400, "the Content-Type has line ends")
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    message = message_from_bytes(head + body, policy=policy.HTTP)
    if body.strip() == f"--{message.get_boundary()}--".encode():  # no parts: the parser does not handle this
        return []
    if not message.is_multipart():
        raise Refused(400, "the body is not a multipart form")
    found: list[tuple[str, JsonValue]] = []
    for part in message.iter_parts() if isinstance(message, EmailMessage) else ():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            raise Refused(400, "a part of the form has no name")
        media_type = part.get_content_type()
        if part.get_filename() is not None and not media_type.startswith("text/"):
            found.append((name, File(media_type, content).value()))
        elif is_json(media_type):
            found.append((name, _document(content, media_type)))
        else:
            found.append((name, content.decode("utf-8", "replace")))
    return found[:MAX_FIELDS]
