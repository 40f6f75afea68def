"""Fields, bodies and saved responses of Postman's requests, in the terms of OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import JsonValue

from retriever_svc.importers.examples import schema_of, text_schema
from retriever_svc.importers.limits import MAX_FIELD_DESCRIPTION, MAX_NAME
from retriever_svc.importers.parameters import is_json
from retriever_svc.importers.reading import MAX_EXAMPLE, read_example
from retriever_svc.importers.refs import JsonObject, SkipOperation, as_list, as_object, as_text
from services.errors import InvalidDocument

_LANGUAGES = {
    "json": "application/json",
    "xml": "application/xml",
    "html": "text/html",
    "javascript": "application/javascript",
    "text": "text/plain",
}
_NOT_JSON = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|\{\{[^{}]*\}\}|//[^\n]*')
"""Strings, which are kept; and what Postman allows besides JSON: variables without quotes, and comments.

An unterminated string is matched too. Otherwise the search would start again at each of its quotes.
"""
_REQUIRED = re.compile(r"^\W*required\b", re.IGNORECASE)
"""The start of descriptions that Postman generates for required parameters of an OpenAPI document."""
_MAX_QUERY = 1_000


@dataclass(frozen=True, slots=True)
class Field:
    """A header, a query parameter, a path variable or a field of a form."""

    name: str
    value: str = ""
    description: str = ""
    is_file: bool = False
    disabled: bool = False
    repeated: bool = False

    @property
    def required(self) -> bool:
        """Whether its description says so. Its presence in an example means nothing."""
        return _REQUIRED.match(self.description) is not None

    def schema(self) -> JsonObject:
        """The schema that its value shows."""
        if self.is_file:
            return {"type": "string", "format": "binary"}
        if self.value.lower() in ("true", "false"):
            return {"type": "boolean"}
        return text_schema(self.value, self.name)

    def parameter(self, place: str) -> JsonObject:
        """The field as a parameter of an operation."""
        schema = self.schema()
        if self.repeated and place == "query":
            schema = {"type": "array", "items": schema}
        named: JsonObject = {"name": self.name, "in": place, "required": self.required or place == "path"}
        return {**named, "description": self.description, "schema": schema}


Fields = list[Field]


def fields(declared: JsonValue) -> Fields:
    """The fields of a list, each name once. In version 2.0, headers may also be lines of text."""
    if isinstance(declared, str):
        pairs = [line.partition(":") for line in declared.split("\n")]
        return once(Field(name.strip()[:MAX_NAME], value.strip()) for name, _, value in pairs if name.strip())
    return once(read for item in as_list(declared) if (read := _field(as_object(item))) is not None)


def once(listed: Iterable[Field]) -> Fields:
    """Each name once: the first that is not disabled, else the first."""
    found: dict[str, Field] = {}
    for field in listed:
        known = found.get(field.name)
        if known is None or (known.disabled and not field.disabled):
            found[field.name] = field
        elif not field.disabled:
            found[field.name] = replace(known, repeated=True)
    return list(found.values())


def _field(item: JsonObject) -> Field | None:
    name, value = item.get("key") or item.get("id"), item.get("value")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return None
    return Field(
        name,
        str(value) if isinstance(value, (str, int, float)) else "",
        text_of(item.get("description"), MAX_FIELD_DESCRIPTION),
        item.get("type") == "file",
        item.get("disabled") is True,
    )


def text_of(declared: JsonValue, limit: int) -> str:
    """A description, which is a text or an object with the text."""
    return as_text(declared.get("content") if isinstance(declared, dict) else declared, limit)


def read_body(body: JsonObject, media_type: str) -> JsonObject | None:
    """The body of a request; None if it has none.

    Args:
        body: the body as the request declares it.
        media_type: the media type in the request's header; empty if there is none.

    Raises:
        SkipOperation: it is of a kind that cannot be expressed.
    """
    mode = body.get("mode")
    if mode is None or body.get("disabled") is True:
        return None
    if mode == "raw":
        return _raw(body, media_type)
    if mode == "urlencoded":
        return _content("application/x-www-form-urlencoded", _form(body.get("urlencoded")))
    if mode == "formdata":
        return _content("multipart/form-data", _form(body.get("formdata")))
    if mode == "graphql":
        return _content("application/json", _graphql(as_object(body.get("graphql"))))
    if mode == "file":
        return _content(media_type or "application/octet-stream", {"type": "string", "format": "binary"})
    raise SkipOperation(f"the body's mode {str(mode)[:40]!r} is unknown")


def read_answer(saved: JsonValue) -> JsonObject:
    """The first saved response that is a success, as an operation's ``responses``. Its JSON shows the schema."""
    for answer in map(as_object, as_list(saved)):
        code, body = answer.get("code"), answer.get("body")
        if not isinstance(code, int) or not 200 <= code <= 299:
            continue
        described: JsonObject = {"description": as_text(answer.get("name"), MAX_FIELD_DESCRIPTION)}
        if isinstance(body, str) and body.strip():
            media_type = _stated(answer) or _LANGUAGES.get(str(answer.get("_postman_previewlanguage")), "")
            media_type = media_type or ("application/json" if body.lstrip()[:1] in ("{", "[") else "text/plain")
            described["content"] = {media_type: {"schema": _schema(media_type, body)}}
        return {str(code): described}
    return {}


def _stated(answer: JsonObject) -> str:
    headers = fields(answer.get("header"))
    return next((field.value.strip() for field in headers if field.name.lower() == "content-type"), "")


def _content(media_type: str, schema: JsonObject) -> JsonObject:
    return {"content": {media_type: {"schema": schema}}}


def _raw(body: JsonObject, stated: str) -> JsonObject | None:
    text = body.get("raw")
    if not isinstance(text, str) or not text.strip():
        return None
    language = as_object(as_object(body.get("options")).get("raw")).get("language")
    guess = "application/json" if text.lstrip()[:1] in ("{", "[") else "text/plain"
    media_type = stated.strip() or _LANGUAGES.get(str(language), guess)
    return _content(media_type, _schema(media_type, text))


def _schema(media_type: str, text: str) -> JsonObject:
    """The schema of a JSON text; an open schema if it is not JSON."""
    if not is_json(media_type) or len(text) > MAX_EXAMPLE:
        return {}
    for attempt in (text, _NOT_JSON.sub(lambda match: match[1] or ("" if match[0][0] == "/" else "null"), text)):
        try:
            return schema_of(read_example(attempt))
        except InvalidDocument:
            continue
    return {}


def _form(declared: JsonValue) -> JsonObject:
    listed = fields(declared)
    properties: JsonObject = {one.name: {**one.schema(), "description": one.description} for one in listed}
    return {"type": "object", "properties": properties, "required": [one.name for one in listed if one.required]}


def _graphql(declared: JsonObject) -> JsonObject:
    """The schema of a GraphQL request, which is JSON: its query is constant, its variables are the arguments."""
    query, variables = declared.get("query"), declared.get("variables")
    if not isinstance(query, str) or not 0 < len(query) <= _MAX_QUERY:
        raise SkipOperation(f"the GraphQL query is empty or has more than {_MAX_QUERY:,} characters")
    properties: JsonObject = {"query": {"type": "string", "const": query}}
    if isinstance(variables, str) and variables.strip():
        properties["variables"] = _schema("application/json", variables)
    return {"type": "object", "properties": properties, "required": ["query"]}
