"""Limits on an imported document, the operator's settings for its operations, and warnings about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from retriever_svc.opening import MAX_API_BYTES
from services.contracts.api import Effect

MAX_NAME = 200
MAX_SUMMARY = 300
MAX_DESCRIPTION = 2_000
MAX_FIELD_DESCRIPTION = 500
MAX_NOTES = 500
"""Skipped operations, and warnings, of one document that are kept."""
MAX_MEMBER = 1_000
"""Longest name of a member of an object in a schema, in characters: it is part of the path of each value inside."""
MAX_STEPS = 3_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one document. A document over its limits is refused; an operation over its limits has open schemas.

    Attributes:
        document_bytes: size of the text in UTF-8.
        depth: nesting of objects and lists.
        nodes: values in the document.
        yaml_nodes: values in a YAML document, with aliases expanded; they take ten times as long to read.
        operations: operations in one document.
        steps: values read for the operations; a shared part counts each time it is used.
        api_bytes: size of all APIs together, as JSON.
        operation_bytes: size of one operation, as JSON in ASCII.
        definitions: schema definitions stored with one operation.
        definition_bytes: size of these definitions together, as JSON.
        effects: effects of calls, by shell patterns over ids of APIs; they override method and wording.
    """

    document_bytes: int = 20_000_000
    depth: int = 100
    nodes: int = 3_000_000
    yaml_nodes: int = 1_000_000
    operations: int = 20_000
    steps: int = MAX_STEPS
    api_bytes: int = 200_000_000
    operation_bytes: int = MAX_API_BYTES
    definitions: int = 64
    definition_bytes: int = 64_000
    effects: Mapping[str, Effect] = field(default_factory=dict)


@dataclass(slots=True)
class Notes:
    """Warnings about one document, without duplicates, at most ``MAX_NOTES``."""

    _seen: dict[str, None] = field(default_factory=dict)
    _more: int = 0

    def warn(self, message: str) -> None:
        """Add a warning, such as that something was read differently from how it was written."""
        note = message[:MAX_SUMMARY]
        if note not in self._seen:
            if len(self._seen) < MAX_NOTES:
                self._seen[note] = None
            else:
                self._more += 1

    def as_tuple(self) -> tuple[str, ...]:
        """The warnings in the order in which they were added."""
        return (*self._seen, f"and {self._more} more warnings") if self._more else tuple(self._seen)
