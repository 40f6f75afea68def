"""An API's inputs and outputs as words. Suppliers of an input are found by them (see :mod:`suppliers`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pydantic import JsonValue

from services.contracts.api import Api, Location, Parameter
from services.supply import WRAPPERS, full_name
from services.words import words

_MAX_INPUTS = 12
_MAX_OPTIONAL = 12
_MAX_FIELDS = 80
_MAX_DEPTH = 10
_TEXT_DEPTH = 5
"""Levels of a response whose names an API is found by. With more, fewer development requests got all of theirs."""
_DESCRIPTION = 80
_CLOSING = ("pattern", "format", "enum", "const")


def input_lines(api: Api) -> str:
    """The words of each required parameter, a line each: the words of its name, a tab, and those of its description.

    After an empty line come the words of the other parameters' names, a line each.
    """
    required = [parameter for parameter in api.parameters if parameter.needed][:_MAX_INPUTS]
    optional = [parameter for parameter in api.parameters if not parameter.required][:_MAX_OPTIONAL]
    first = "\n".join("\t".join(map(" ".join, _words(p.name, p.description))) for p in required)
    rest = "\n".join(" ".join(words(p.name)) for p in optional)
    return f"{first}\n\n{rest}" if rest else first


def required_lines(inputs: str) -> list[str]:
    """The lines of the required parameters."""
    return inputs.partition("\n\n")[0].splitlines()


def optional_names(inputs: str) -> list[str]:
    """The lines of the optional parameters."""
    return inputs.partition("\n\n")[2].splitlines()


def output_words(api: Api) -> str:
    """The words of each field of the response, a line each in the form of inputs; none if a call may change state.

    A field whose name only says that it is an id is prefixed with the name of the field that contains it.
    """
    if api.mutating:
        return ""
    return "\n".join("\t".join(map(" ".join, _words(name, text))) for name, text in output_names(api))


def output_names(api: Api) -> list[tuple[str, str]]:
    """Full names (:func:`services.supply.full_name`) and descriptions of the response's values; a bounded number."""
    fields = islice(_fields(api.response.json_schema, api, 0, set()), _MAX_FIELDS)
    return [(full_name((within, name)), text) for name, text, within, holds in fields if not holds]


def response_fields(api: Api) -> list[tuple[str, str]]:
    """Names and descriptions of the response's fields, outermost first within each branch; a bounded number."""
    return [
        (name, text)
        for name, text, *_ in islice(
            _fields(api.response.json_schema, api, _MAX_DEPTH - _TEXT_DEPTH, set()), _MAX_FIELDS
        )
    ]


def is_open(api: Api) -> bool:
    """Whether every required parameter is free text, outside the path."""
    return all(_free_text(parameter) for parameter in api.parameters if parameter.needed)


def _free_text(parameter: Parameter) -> bool:
    schema = parameter.json_schema
    return (
        parameter.location is not Location.PATH
        and schema.get("type") == "string"
        and not any(keyword in schema for keyword in _CLOSING)
    )


def _words(name: str, description: str) -> tuple[list[str], list[str]]:
    return words(name), words(description[:_DESCRIPTION])


def _fields(
    schema: JsonValue, api: Api, depth: int, seen: set[str], within: str = ""
) -> Iterator[tuple[str, str, str, bool]]:
    """Name and description of each property of a schema, the name of the property around it, and whether it is one too.

    Lists and references are followed. Each definition is visited once: sixty that refer to each other would otherwise
    take exponential time.
    """
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        yield from _fields(api.definitions.get(reference.removeprefix("#/$defs/")), api, depth + 1, seen, within)
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        text = inner.get("description") if isinstance(inner, dict) else None
        yield name, text if isinstance(text, str) else "", within, _holds(inner, api)
        yield from _fields(inner, api, depth + 1, seen, within if name.lower() in WRAPPERS else name)
    yield from _fields(schema.get("items"), api, depth + 1, seen, within)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword)
        for branch in branches if isinstance(branches, list) else ():
            yield from _fields(branch, api, depth + 1, seen, within)


def _holds(schema: JsonValue, api: Api, depth: int = 0, seen: frozenset[str] = frozenset()) -> bool:
    """Whether values of the schema are objects with members, or lists of such. A definition is followed once."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return False
    reference, branches = schema.get("$ref"), schema.get("allOf")
    inside = [schema.get("items"), *(branches[:1] if isinstance(branches, list) else ())]
    if isinstance(reference, str) and reference not in seen:
        seen |= {reference}
        inside.append(api.definitions.get(reference.removeprefix("#/$defs/")))
    return bool(schema.get("properties")) or any(_holds(one, api, depth + 1, seen) for one in inside)
