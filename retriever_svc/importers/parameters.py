"""Reads parameters and bodies of OpenAPI 3 into one flat list of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_FIELD_DESCRIPTION, MAX_NAME, Notes
from retriever_svc.importers.refs import Document, JsonObject, SkipOperation, as_list, as_object, as_text, is_true
from retriever_svc.importers.schemas import Direction, Key, Schemas
from services.contracts.api import Location, Parameter, Style

IDEMPOTENCY_KEY = "idempotency-key"
ARGUMENT_STEPS = 10
"""The cost of an argument in steps: each use creates an object."""
_NOT_PARAMETERS = frozenset({"accept", "content-type"})
"""Header parameters to ignore (OpenAPI 3.1, section 4.8.12.1). The third, ``Authorization``, is read as a credential
(:mod:`keys`)."""

_OWN_KEYWORDS = (
    "type",
    "format",
    "items",
    "enum",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
)

_STYLES = {
    Location.PATH: (Style.SIMPLE, Style.LABEL, Style.MATRIX),
    Location.QUERY: (Style.FORM, Style.SPACE_DELIMITED, Style.PIPE_DELIMITED, Style.DEEP_OBJECT),
    Location.HEADER: (Style.SIMPLE,),
    Location.COOKIE: (Style.FORM,),
    Location.BODY: (Style.FORM, Style.SPACE_DELIMITED, Style.PIPE_DELIMITED, Style.DEEP_OBJECT),
}
"""The styles each location allows, its default first (OpenAPI 3.1, section 4.8.12.3)."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter before it gets its unique name in the API, with the definitions its schema refers to."""

    wire_name: str
    location: Location
    required: bool
    description: str
    schema: JsonObject
    refs: frozenset[Key]
    style: Style
    explode: bool
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The context for reading one operation of a document."""

    document: Document
    schemas: Schemas
    notes: Notes
    operation: str

    def warn(self, message: str) -> None:
        """Note something about this operation."""
        self.notes.warn(f"{self.operation}: {message}")


def read_parameters(
    reading: Reading, shared: JsonValue, own: JsonValue, path: str
) -> tuple[list[Argument], str | None]:
    """The parameters of a path item and of its operation, merged, and the name of the idempotency header if any.

    Raises:
        SkipOperation: a required parameter cannot be expressed, or a reference leaves the document.
    """
    merged: dict[tuple[str, str], JsonObject] = {}
    for item in [*parameter_list(shared), *parameter_list(own)]:
        declared = _declared(reading, item, path)
        if declared is not None:
            name, place = str(declared["name"]), str(declared["in"])
            merged[place, name.lower() if place == "header" else name] = declared
    arguments, idempotency = [], None
    for (place, name), declared in merged.items():
        if place == "header" and name == IDEMPOTENCY_KEY:
            idempotency = str(declared["name"])
        elif not (place == "header" and name in _NOT_PARAMETERS):
            arguments.append(_read_parameter(reading, declared))
    return _match_path(reading, arguments, path), idempotency


def parameter_list(declared: JsonValue) -> list[JsonValue]:
    """The parameter objects of a list, or of an object by name, as some authors write them."""
    return [*as_object(declared).values()] or as_list(declared)


def is_json(media_type: str) -> bool:
    """Whether a media type is one of JSON."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare == "application/json" or bare.endswith("+json") or bare == "text/json"


def style_of(declared: JsonObject, location: Location, reading: Reading) -> tuple[Style, bool]:
    """How a value is serialised: the declared style if the location allows it, else the location's default."""
    allowed = _STYLES[location]
    wanted = declared.get("style")
    style = next((style for style in allowed if style == wanted), allowed[0])
    if wanted is not None and style != wanted:
        reading.warn(f"style {str(wanted)[:40]!r} is unknown in a {location}; {style} is used")
    explode = declared.get("explode")
    return style, explode if isinstance(explode, bool) else style in (Style.FORM, Style.DEEP_OBJECT)


def name_arguments(arguments: Iterable[Argument]) -> tuple[Parameter, ...]:
    """Give every argument a name unique within its API: the wire name, or ``body_id`` if the path has an ``id`` too.

    Only names of body properties change in such a conflict, in any order of the arguments.
    """
    ordered = sorted(arguments, key=lambda argument: argument.location is Location.BODY)
    taken = set[str]()
    parameters = []
    for argument in ordered:
        name, number = argument.wire_name, 1
        while name in taken:
            stem = f"{argument.location}_{argument.wire_name}"[: MAX_NAME - 5]
            name = stem if number == 1 else f"{stem}_{number}"
            number += 1
        taken.add(name)
        parameters.append(
            Parameter(
                name=name,
                wire_name=argument.wire_name,
                location=argument.location,
                required=argument.required,
                description=argument.description,
                json_schema=argument.schema,
                style=argument.style,
                explode=argument.explode,
                media_type=argument.media_type,
            )
        )
    return tuple(parameters)


def _declared(reading: Reading, item: JsonValue, path: str) -> JsonObject | None:
    """One parameter object with a name and a place; None if it has neither and is not required.

    A place in capitals is accepted. Without a place, a parameter that the path names is a path parameter.
    """
    declared = reading.document.deref_required(item, "a parameter")
    name, place = declared.get("name"), declared.get("in")
    place = place.strip().lower() if isinstance(place, str) else "path" if f"{{{name}}}" in path else place
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME and place in ("path", "query", "header", "cookie"):
        return {**declared, "in": place}
    if is_true(declared.get("required")):
        raise SkipOperation(
            f"a required parameter has no usable name or place: {str(name)[:60]!r} in {str(place)[:40]!r}"
        )
    reading.warn(f"a parameter without a usable name or place is left out: {str(name)[:60]!r} in {str(place)[:40]!r}")
    return None


def _read_parameter(reading: Reading, declared: JsonObject) -> Argument:
    reading.document.count_steps(ARGUMENT_STEPS)
    name, location = str(declared["name"]), Location(str(declared["in"]))
    required = is_true(declared.get("required")) or location is Location.PATH
    media_type, wanted = _document(declared)
    schema = reading.schemas.normalise(wanted, Direction.REQUEST)
    style, explode = style_of(declared, location, reading)
    own = as_text(declared.get("description"), MAX_FIELD_DESCRIPTION)
    body = schema.schema
    if "examples" not in body and "example" in declared:
        sample = reading.schemas.normalise({"example": declared["example"]}, Direction.REQUEST)
        body = {**body, **sample.schema}
    return Argument(
        wire_name=name,
        location=location,
        required=required,
        description=own or str(body.get("description", "")),
        schema=body,
        refs=schema.refs,
        style=style,
        explode=explode,
        media_type=media_type,
    )


def _document(declared: JsonObject) -> tuple[str | None, JsonValue]:
    """The media type and schema of a value that is sent as a document, usually JSON in a query string.

    A value that is not JSON is given as plain text (OpenAPI 3.1, section 4.8.12.2.3: ``content`` has one entry).
    """
    content = as_object(declared.get("content"))
    if "schema" not in declared and not content:
        # As in Swagger 2.0, the schema's keywords may be in the parameter itself.
        return None, {key: declared[key] for key in _OWN_KEYWORDS if key in declared}
    if "schema" in declared:
        return None, declared["schema"]
    media_type = next(iter(content))
    if is_json(media_type):
        return media_type[:MAX_NAME], as_object(content[media_type]).get("schema", {})
    return media_type[:MAX_NAME], {"type": "string", "contentMediaType": media_type[:MAX_NAME]}


def _match_path(reading: Reading, arguments: list[Argument], path: str) -> list[Argument]:
    """The arguments with exactly the path parameters that the path names: missing ones are added, others removed."""
    named = dict.fromkeys(re.findall(r"\{([^{}]+)\}", path))
    declared = {a.wire_name: a for a in arguments if a.location is Location.PATH}
    for name in (name for name in declared if name not in named):
        reading.warn(f"the path has no place for the path parameter {name!r}, which is left out")
    kept = [a for a in arguments if a.location is not Location.PATH or a.wire_name in named]
    for name in (name for name in named if name not in declared):
        if len(name) > MAX_NAME:
            raise SkipOperation("the path has a parameter name of more than 200 characters")
        reading.warn(f"the path parameter {name!r} is not declared; it is assumed to be a string")
        kept.append(Argument(name, Location.PATH, True, "", {"type": "string"}, frozenset(), Style.SIMPLE, False))
    position = {name: at for at, name in enumerate(named)}
    paths = sorted((a for a in kept if a.location is Location.PATH), key=lambda a: position[a.wire_name])
    return [*paths, *(a for a in kept if a.location is not Location.PATH)]
