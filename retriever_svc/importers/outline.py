"""The common form of all formats, in the terms of OpenAPI, before operations are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from retriever_svc.importers.refs import JsonObject, SkipOperation

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""The methods that are imported. TRACE is not: it is for debugging connections."""


class Entry(NamedTuple):
    """One operation with its path item. For an operation that cannot be read, ``operation`` is the reason."""

    path: str
    method: str
    item: JsonObject
    operation: JsonObject | SkipOperation


@dataclass(frozen=True, slots=True)
class Outline:
    """A document as read by its format's module; its operations are not read yet.

    Attributes:
        format: name of the format, as in the import report.
        title: the text that the provider is named after; empty if the document has none.
        root: the target of references, with the declarations of servers and security schemes.
        entries: the operations in the order of the document.
        is_titled: whether the title is the document's own.
    """

    format: str
    title: str
    root: JsonObject
    entries: list[Entry]
    is_titled: bool = True
