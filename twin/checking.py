"""Validates arguments against their schemas, in bounded time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import jsonschema_rs
from pydantic import JsonValue

from services.contracts.base import JsonSchema
from services.schema_cost import Unbounded, cost_of

_REGEX_BYTES: Final = 100_000
_MAX_ERRORS: Final = 5
_MAX_TEXT: Final = 300


def validator_of(
    schema: JsonSchema, definitions: Mapping[str, JsonSchema]
) -> jsonschema_rs.Draft202012Validator | None:
    """A validator that fetches nothing; None if checking could be slow, or the schema is invalid."""
    try:
        cost = cost_of(schema, definitions)
        return jsonschema_rs.Draft202012Validator(
            {**schema, "$defs": {name: definitions[name] for name in cost.definitions}} if cost.definitions else schema,
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES),
        )
    except (Unbounded, ValueError, OverflowError, TypeError):
        return None


class Checks:
    """The validators of one API's parameters. Each is built on first use.

    Args:
        definitions: targets of the schemas' references.
    """

    def __init__(self, definitions: Mapping[str, JsonSchema]) -> None:
        self._definitions = definitions
        self._made: dict[int, tuple[JsonSchema, jsonschema_rs.Draft202012Validator | None]] = {}

    def problems(self, schema: JsonSchema, value: JsonValue) -> list[str]:
        """The violations of a value; empty if it fits or cannot be checked."""
        if id(schema) not in self._made:
            self._made[id(schema)] = (schema, validator_of(schema, self._definitions))  # keeps the schema's id in use
        validator = self._made[id(schema)][1]
        try:
            if validator is None or validator.is_valid(value):
                return []
            found = []
            for error in validator.iter_errors(value):
                place = "".join(f".{part}" for part in error.instance_path)
                found.append(f"{place.removeprefix('.') + ': ' if place else ''}{error.message}"[:_MAX_TEXT])
                if len(found) == _MAX_ERRORS:
                    break
            return found
        except ValueError:  # a recursion limit
            return []
