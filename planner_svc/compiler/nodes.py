"""A JSON Schema in its document, and the targets of its references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from services.contracts.base import JsonSchema


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A schema together with the definitions its ``#/$defs/NAME`` references lead to."""

    schema: JsonValue
    definitions: Mapping[str, JsonSchema] = field(default_factory=dict)


ANYTHING: Final = Node({})
_MAX_SHOWN: Final = 100


def shown(name: str) -> str:
    """A name of a document as messages show it. A document may have names of megabytes, and a plan meet each often."""
    return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"


def listed(node: Node) -> Node:
    """The schema of lists of such values."""
    return Node({"type": "array", "items": node.schema}, node.definitions)


def followed(node: Node) -> tuple[Node, frozenset[str]]:
    """The target of a schema that is only a reference, and the references on the way."""
    seen: set[str] = set()
    while isinstance(node.schema, dict) and len(node.schema) == 1:
        reference = node.schema.get("$ref")
        found = target(reference, node.definitions) if isinstance(reference, str) else None
        if not isinstance(reference, str) or reference in seen or not isinstance(found, dict) or not found:
            break
        seen.add(reference)
        node = Node(found, node.definitions)
    return node, frozenset(seen)


def target(reference: str, definitions: Mapping[str, JsonSchema]) -> JsonValue:
    """The definition that a reference names; the empty schema if there is none."""
    return definitions.get(_name(reference), {}) if reference.startswith("#/$defs/") else {}


def leads_somewhere(reference: JsonValue, definitions: Mapping[str, JsonSchema]) -> bool:
    """Whether the reference leads to a definition; True if there is no reference."""
    if not isinstance(reference, str):
        return True
    return reference.startswith("#/$defs/") and _name(reference) in definitions


def dict_of(value: JsonValue) -> JsonSchema:
    """The value if it is an object, otherwise an empty one: a hostile document may hold anything."""
    return value if isinstance(value, dict) else {}


def list_of(value: JsonValue) -> list[JsonValue]:
    """The value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def _name(reference: str) -> str:
    return reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
