"""What an imported document may cost, what the operator says of its operations, and the notes kept about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.contracts.api import Effect

MAX_NAME = 200
MAX_SUMMARY = 300
MAX_DESCRIPTION = 2_000
MAX_FIELD_DESCRIPTION = 500
MAX_NOTES = 500
MAX_STEPS = 3_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one document. Beyond a document bound it is refused; beyond an operation bound schemas are left open.

    Attributes:
        document_bytes: size of the text in UTF-8.
        depth: nesting of objects and lists.
        nodes: values in the document.
        yaml_nodes: the same where it is YAML, once aliases are expanded; they take ten times as long to read.
        operations: operations in one document.
        steps: values looked at while the operations are read: a shared part counts each time it is used.
        api_bytes: all APIs together, as JSON.
        definitions: schema definitions kept with one operation.
        definition_bytes: their size together, as JSON.
        effects: what calls do, by shell patterns over ids of APIs, whatever their method and wording say.
    """

    document_bytes: int = 20_000_000
    depth: int = 100
    nodes: int = 3_000_000
    yaml_nodes: int = 1_000_000
    operations: int = 20_000
    steps: int = MAX_STEPS
    api_bytes: int = 200_000_000
    definitions: int = 64
    definition_bytes: int = 64_000
    effects: Mapping[str, Effect] = field(default_factory=dict)


@dataclass(slots=True)
class Notes:
    """Warnings about one document: each said once, and no more than ``MAX_NOTES`` of them."""

    _seen: dict[str, None] = field(default_factory=dict)
    _more: int = 0

    def warn(self, message: str) -> None:
        """Note something that was read differently from how it was written."""
        note = message[:MAX_SUMMARY]
        if note not in self._seen:
            if len(self._seen) < MAX_NOTES:
                self._seen[note] = None
            else:
                self._more += 1

    def as_tuple(self) -> tuple[str, ...]:
        """The warnings in the order in which they came up."""
        return (*self._seen, f"and {self._more} more warnings") if self._more else tuple(self._seen)
