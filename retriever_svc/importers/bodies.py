"""Request bodies and responses: the choice of a media type, and the arguments of a body."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_FIELD_DESCRIPTION, MAX_NAME
from retriever_svc.importers.parameters import ARGUMENT_STEPS, Argument, Reading, is_json, style_of
from retriever_svc.importers.refs import (
    DanglingReference,
    JsonObject,
    SkipOperation,
    as_list,
    as_object,
    as_text,
    is_true,
)
from retriever_svc.importers.schemas import Direction, Key, required_names
from services.contracts.api import ApiResponse, Location, RequestBody, Style

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_ANYTHING = ("*/*", "application/*")
_STYLED = frozenset({"style", "explode", "allowReserved"})
"""Without any of these, a part of a form is serialised in its media type (OpenAPI 3.1, section 4.8.15.1)."""
_MAX_MERGED = 200
_MAX_FLAT = 2_000
"""Properties of a body that become arguments of their own; a body with more is one argument."""
_NOT_FLAT = frozenset({"oneOf", "anyOf", "not", "if", "patternProperties", "$dynamicRef"})


@dataclass(slots=True)
class _Flat:
    """An object schema with its ``allOf`` parts merged."""

    properties: dict[str, JsonValue] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    is_flat: bool = True


def read_body(reading: Reading, declared: JsonValue) -> tuple[RequestBody | None, list[Argument]]:
    """The body of an operation and the arguments it is built from.

    Authors often forget ``required: true``. So a body whose schema requires a property counts as required, unless it
    says that it is not.

    Raises:
        SkipOperation: a reference leaves the document, or a required body cannot be read.
    """
    body = reading.document.deref_required(declared, "the body")
    content = as_object(body.get("content"))
    if not content:
        return None, []
    reading.document.count_steps(len(content))
    media_type = choose_media_type(list(content))
    chosen = reading.document.deref_required(content[media_type], "the body")
    media_type = "application/json" if media_type in _ANYTHING else media_type
    stated = _flag(body.get("required"))
    flat = (
        _flatten(reading, chosen.get("schema")) if is_json(media_type) or media_type in FORMS else _Flat(is_flat=False)
    )
    if not flat.is_flat or not flat.properties:
        whole = _whole(reading, body, chosen, media_type)
        return RequestBody(media_type=media_type, required=whole.required, whole=True), [whole]
    arguments = _properties(reading, flat, as_object(chosen.get("encoding")), required=stated is not False)
    required = stated is True or any(argument.required for argument in arguments)
    return RequestBody(media_type=media_type, required=required, whole=False), arguments


def _flag(declared: JsonValue) -> bool | None:
    """A flag as it is declared, as a boolean or a text; None if it is not."""
    return True if is_true(declared) else False if str(declared).strip().lower() == "false" else None


def read_response(reading: Reading, declared: JsonValue) -> tuple[ApiResponse, frozenset[Key]]:
    """The successful response: the lowest 2xx, else ``2XX``, else ``default``; JSON if there is a choice.

    If a reference leads out of the document or nowhere, the schema is left open: it allows anything.
    """
    responses = as_object(declared)
    reading.document.count_steps(len(responses))
    codes = sorted(
        code for code in responses if len(code) == 3 and code.isascii() and code.isdigit() and code[0] == "2"
    )
    code = next((c for c in [*codes, "2XX", "2xx", "default"] if c in responses), None)
    if code is None:
        return ApiResponse(media_type=None), frozenset()
    status = int(code) if code.isdigit() else 200
    try:
        response = as_object(reading.document.deref(responses[code]))
    except (DanglingReference, SkipOperation) as error:
        reading.warn(f"the response is left open: {error}")
        return ApiResponse(status=status), frozenset()
    description = as_text(response.get("description"), MAX_FIELD_DESCRIPTION)
    content = as_object(response.get("content"))
    if not content:
        return ApiResponse(status=status, media_type=None, description=description), frozenset()
    reading.document.count_steps(len(content))
    media_type = choose_media_type(list(content))
    declared = reading.document.deref_or_empty(content[media_type])
    schema = reading.schemas.normalise(declared.get("schema", {}), Direction.RESPONSE)
    if schema.leaves is not None:
        reading.warn(f"the response is left open where it {schema.leaves}")
    media_type = "application/json" if media_type in _ANYTHING else media_type[:MAX_NAME]
    return ApiResponse(
        status=status, media_type=media_type, description=description, json_schema=schema.schema
    ), schema.refs


def choose_media_type(offered: list[str]) -> str:
    """The media type to use: JSON, then wildcards, then forms, then the first offered."""

    def rank(media_type: str) -> int:
        if is_json(media_type):
            return 0 if _bare(media_type) == "application/json" else 1
        return 2 if media_type in _ANYTHING else 3 if _bare(media_type) in FORMS else 4

    return min(offered, key=rank)


def _bare(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _whole(reading: Reading, body: JsonObject, chosen: JsonObject, media_type: str) -> Argument:
    """The single argument ``body``. A body that is neither JSON nor a form is sent as plain text."""
    structured = is_json(media_type) or media_type in FORMS
    wanted: JsonValue = chosen.get("schema", {}) if structured else {"type": "string", "contentMediaType": media_type}
    schema = reading.schemas.normalise(wanted, Direction.REQUEST)
    return Argument(
        wire_name="body",
        location=Location.BODY,
        required=_flag(body.get("required")) is True,
        description=as_text(body.get("description"), MAX_FIELD_DESCRIPTION)
        or str(schema.schema.get("description", "")),
        schema=schema.schema,
        refs=schema.refs,
        style=Style.SIMPLE,
        explode=False,
    )


def _properties(reading: Reading, flat: _Flat, encoding: JsonObject, required: bool) -> list[Argument]:
    arguments = []
    for name, declared in flat.properties.items():
        needed = required and name in flat.required
        if not reading.schemas.travels(declared, Direction.REQUEST):
            continue
        if not 0 < len(name) <= MAX_NAME:
            if needed:
                raise SkipOperation("a required property of the body has a name of more than 200 characters, or none")
            reading.warn("a property of the body with an overlong or empty name is left out")
            continue
        reading.document.count_steps(ARGUMENT_STEPS)
        schema = reading.schemas.normalise(declared, Direction.REQUEST)
        part = as_object(encoding.get(name))
        style, explode = style_of(part, Location.BODY, reading) if _STYLED & part.keys() else (Style.SIMPLE, False)
        arguments.append(
            Argument(
                wire_name=name,
                location=Location.BODY,
                required=needed,
                description=str(schema.schema.get("description", ""))
                or as_text(reading.document.deref_or_empty(declared).get("description"), MAX_FIELD_DESCRIPTION),
                schema=schema.schema,
                refs=schema.refs,
                style=style,
                explode=explode,
                media_type=_part_type(part),
            )
        )
    return arguments


def _part_type(encoding: JsonObject) -> str | None:
    """The media type of a form's property, if the document states one (section 4.8.15.1).

    Of several the first is taken. A wildcard is ignored.
    """
    stated = encoding.get("contentType")
    first = str(stated).partition(",")[0].strip() if isinstance(stated, str) else ""
    return first[:MAX_NAME] if "/" in first and "*" not in first else None


def _flatten(reading: Reading, schema: JsonValue) -> _Flat:
    """Merge an object schema with its ``allOf`` parts, if they are plain objects."""
    flat, pending, steps = _Flat(), [schema], 0
    seen = set[str]()
    while pending and flat.is_flat:
        part = pending.pop(0)
        steps += 1
        if isinstance(part, dict) and "$ref" in part:
            pointer = str(part["$ref"])
            if pointer in seen or steps > _MAX_MERGED:
                continue
            seen.add(pointer)
            try:
                pending.insert(0, reading.document.resolve(part["$ref"])[1])
            except DanglingReference:
                flat.is_flat = False
        else:
            _merge(reading, as_object(part), flat, pending)
    return flat


def _merge(reading: Reading, part: JsonObject, flat: _Flat, pending: list[JsonValue]) -> None:
    only = _only_branch(part)
    if only is not None:
        pending.insert(0, only)
        return
    kind = part.get("type")
    kinds = as_list(kind) if isinstance(kind, list) else [kind]
    if _NOT_FLAT & part.keys() or not ({"object", None} & {k for k in kinds if isinstance(k, str) or k is None}):
        flat.is_flat = False
        return
    reading.schemas.count_steps(part)
    if len(as_object(part.get("properties"))) > _MAX_FLAT:
        flat.is_flat = False
        return
    for name, member in as_object(part.get("properties")).items():
        flat.properties.setdefault(name, member)
    flat.required |= set(required_names(part))
    pending[:0] = as_list(part.get("allOf"))


def _only_branch(part: JsonObject) -> JsonValue:
    """The branch of a choice with only one: ``anyOf: [X]``, or ``anyOf: [X, null]`` as generators write it."""
    for key in ("anyOf", "oneOf"):
        branches = [branch for branch in as_list(part.get(key)) if as_object(branch).get("type") != "null"]
        if len(branches) == 1 and not (part.keys() - {key, "title", "description", "default", "nullable", "type"}):
            return branches[0]
    return None
