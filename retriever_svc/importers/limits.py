"""What an imported document may cost, and the notes kept about it."""

from dataclasses import dataclass, field

MAX_NAME = 200
MAX_SUMMARY = 300
MAX_DESCRIPTION = 2_000
MAX_FIELD_DESCRIPTION = 500
MAX_NOTES = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one document. Beyond a document bound it is refused; beyond an operation bound schemas are left open.

    Attributes:
        document_bytes: size of the text in UTF-8.
        depth: nesting of objects and lists.
        nodes: values in the document once YAML aliases are expanded.
        operations: operations in one document.
        definitions: schema definitions kept with one operation.
        definition_bytes: their size together, as JSON.
    """

    document_bytes: int = 20_000_000
    depth: int = 100
    nodes: int = 3_000_000
    operations: int = 20_000
    definitions: int = 64
    definition_bytes: int = 64_000


@dataclass(slots=True)
class Notes:
    """Warnings about one document: each said once, and no more than ``MAX_NOTES`` of them."""

    _seen: dict[str, None] = field(default_factory=dict)

    def warn(self, message: str) -> None:
        """Note something that was read differently from how it was written."""
        self._seen.setdefault(message[:MAX_SUMMARY])

    def as_tuple(self) -> tuple[str, ...]:
        """The warnings in the order in which they came up."""
        notes = list(self._seen)
        more = len(notes) - MAX_NOTES
        return tuple([*notes[:MAX_NOTES], f"and {more} more warnings"] if more > 0 else notes)
