"""What every format comes down to before its operations are read: the terms of OpenAPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from retriever_svc.importers.refs import JsonObject, SkipOperation

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""The methods that are imported. TRACE is for debugging connections, not for answering requests."""


class Entry(NamedTuple):
    """One operation with its path item; one that cannot even be looked at comes with the reason."""

    path: str
    method: str
    item: JsonObject
    operation: JsonObject | SkipOperation


@dataclass(frozen=True, slots=True)
class Outline:
    """A document as its format's module understands it; operations are not yet read.

    Attributes:
        format: as the report names it.
        title: what the provider is named after; empty where the document has none.
        root: where references lead, and where servers and security schemes are declared.
        entries: the operations in the order of the document.
        is_titled: whether the title is the document's own.
    """

    format: str
    title: str
    root: JsonObject
    entries: list[Entry]
    is_titled: bool = True
