"""References inside one document. Nothing is ever fetched: a reference to another document is an error."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_STEPS
from services.compute import checkpoint
from services.errors import InvalidDocument

JsonObject = dict[str, JsonValue]

_MAX_HOPS = 50
_MAX_POINTER = 2_000
_SHOWN = 200
"""Characters of a pointer in a message: each operation may repeat it."""
_CHECK_EVERY = 1_000
"""Steps between two checkpoints, about a millisecond."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Control characters except tab and line feed, bidirectional embeddings and isolates, and Unicode tags."""


class SkipOperation(Exception):
    """An operation cannot be imported; the message says why."""


class DanglingReference(Exception):
    """A local reference has no target, or is circular."""


class Document:
    """A parsed document, whose local references it follows (JSON pointers, RFC 6901, in URI fragments)."""

    def __init__(self, root: JsonObject, steps: int = MAX_STEPS) -> None:
        self.root = root
        self._steps = steps
        self._left = steps
        self._unchecked = 0

    def count_steps(self, steps: int) -> None:
        """Count work. A part that is written once can be used by every operation, and so cost far more than its text.

        Raises:
            InvalidDocument: the limit is exceeded.
        """
        self._left -= steps
        self._unchecked += steps
        if self._unchecked >= _CHECK_EVERY:
            self._unchecked = 0
            checkpoint()
        if self._left < 0:
            raise InvalidDocument(
                f"reading the document takes more than {self._steps:,} steps: its parts refer to each other too often, "
                "or it has too many patterns"
            )

    def resolve(self, reference: JsonValue) -> tuple[str, JsonValue]:
        """Follow a ``$ref`` to a value that is more than a ``$ref``: its pointer and the value.

        Raises:
            SkipOperation: the reference leaves the document.
            DanglingReference: the target does not exist, or the references form a circle.
        """
        seen = set[str]()
        while True:
            pointer = self._pointer(reference)
            self.count_steps(1)
            if pointer in seen or len(seen) > _MAX_HOPS:
                raise DanglingReference(f"{pointer[:_SHOWN]} refers to itself")
            seen.add(pointer)
            value = self._walk(pointer)
            if not (isinstance(value, dict) and "$ref" in value and _is_bare(value)):
                return pointer, value
            reference = value["$ref"]

    def deref(self, value: JsonValue) -> JsonValue:
        """The value itself, or what its ``$ref`` leads to.

        Raises:
            SkipOperation, DanglingReference: see :meth:`resolve`.
        """
        self.count_steps(1)
        if not (isinstance(value, dict) and "$ref" in value):
            return value
        target = self.resolve(value["$ref"])[1]
        if isinstance(target, dict) and "$ref" in target:  # a reference with siblings, where resolve() stops
            return self.resolve(target["$ref"])[1]
        return target

    def deref_required(self, value: JsonValue, what: str) -> JsonObject:
        """:meth:`deref` of an object that the operation cannot do without.

        Raises:
            SkipOperation: its target is not in the document; the message names ``what``.
        """
        try:
            return as_object(self.deref(value))
        except DanglingReference as error:
            raise SkipOperation(f"{what} cannot be read: {error}") from error

    def deref_or_empty(self, value: JsonValue) -> JsonObject:
        """:meth:`deref` of an object; empty if its target is not in the document, which is reported when it is read."""
        try:
            return as_object(self.deref(value))
        except (DanglingReference, SkipOperation):
            return {}

    @staticmethod
    def _pointer(reference: JsonValue) -> str:
        if not isinstance(reference, str):
            raise DanglingReference("a $ref is not a string")
        if reference != "#" and not reference.startswith("#/"):
            raise SkipOperation(f"refers to another document, which is never fetched: {reference[:_SHOWN]}")
        if len(reference) > _MAX_POINTER:
            raise DanglingReference(f"a $ref has more than {_MAX_POINTER:,} characters")
        return reference

    def _walk(self, pointer: str) -> JsonValue:
        value: JsonValue = self.root
        for token in pointer.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 9 and int(key) < len(value):
                value = value[int(key)]
            else:
                raise DanglingReference(f"{pointer[:_SHOWN]} does not exist")
        return value


def _is_bare(value: JsonObject) -> bool:
    """Whether nothing besides the reference affects validation."""
    return value.keys() <= {"$ref", "description", "summary", "title"}


def as_object(value: JsonValue) -> JsonObject:
    """The value if it is an object, else an empty one: documents may have any type there."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def is_true(value: JsonValue) -> bool:
    """Whether a flag is set: ``true``, or the text "true" or "yes" (true in YAML 1.1), which some authors write."""
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes"))


def as_text(value: JsonValue, limit: int) -> str:
    """The value if it is text, without outer blanks, cut to ``limit`` characters; else the empty text.

    Characters that control a terminal, change the reading direction, or are invisible are removed: people judge an API
    by this text, so they must see the same text as a model.
    """
    text = _UNSEEN.sub("", value[: 4 * limit]).strip() if isinstance(value, str) else ""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
