"""The schemas of one document: each read once, and collected per operation with everything it refers to.

References become ``#/$defs/NAME`` into the operation's own definitions, so circular schemas need no special care. Two
things do: a circle that never reaches a part of the value (``A: {allOf: [A]}``) would send a validator round for ever
and is left open, and properties that only travel one way are left out on the other.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson
from pydantic import JsonValue

from retriever_svc.importers.keywords import (
    IN_PLACE,
    SUBSCHEMA,
    SUBSCHEMA_LIST,
    SUBSCHEMA_MAP,
    is_pattern,
    make_nullable,
    plain_keywords,
)
from retriever_svc.importers.limits import Limits, Notes
from retriever_svc.importers.names import Names
from retriever_svc.importers.refs import DanglingReference, Document, JsonObject, SkipOperation, as_list, as_object


class Direction(StrEnum):
    """Which way a value travels: `readOnly` properties are not sent, `writeOnly` ones do not come back."""

    REQUEST = "request"
    RESPONSE = "response"


_HIDDEN = {Direction.REQUEST: "readOnly", Direction.RESPONSE: "writeOnly"}

Key = tuple[str, Direction]
"""A definition: its pointer in the document, and the direction it is read for."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """A schema in 2020-12 form and the definitions it refers to, ``in_place`` without entering a part of the value."""

    schema: JsonObject
    refs: frozenset[Key]
    in_place: frozenset[Key]
    leaves: str | None = None  # the other document that it refers to, and is open there
    size: int = 0  # as JSON; of definitions only


class Schemas:
    """Reads the schemas of one document.

    Args:
        document: where references lead.
        directional: whether any schema has `readOnly` or `writeOnly`, so that the two directions differ.
        limits: what one operation may keep.
        notes: where to say what was left open.
    """

    def __init__(self, document: Document, directional: bool, limits: Limits, notes: Notes) -> None:
        self._document = document
        self._directional = directional
        self._limits = limits
        self._notes = notes
        self._definitions: dict[Key, Normalised] = {}
        self._names: dict[Key, str] = {}
        self._taken = Names()
        self._endless: dict[Key, bool] = {}

    def normalise(self, schema: JsonValue, direction: Direction) -> Normalised:
        """Read one schema; references in it are noted, not followed.

        Raises:
            SkipOperation: it is for a request, and refers to another document.
        """
        normalised = self._read(schema, direction)
        if normalised.leaves is not None and direction is Direction.REQUEST:
            raise SkipOperation(normalised.leaves)
        return normalised

    def collect(self, sent: Iterable[Key], received: Iterable[Key], operation: str) -> dict[str, JsonObject]:
        """The definitions reachable from those of requests and of responses, nearest first, within the limits.

        Raises:
            SkipOperation: one that a request uses refers to another document. What is sent must be known; what comes
                back may be anything.
        """
        found: dict[str, JsonObject] = {}
        queue = deque(dict.fromkeys([*sent, *received]))
        seen, kept, size, left_open = set(queue), dict[Key, None](), 0, 0
        while queue:
            key = queue.popleft()
            definition = self._definition(key)
            self._document.spend(1)
            size += definition.size
            if len(found) >= self._limits.definitions or size > self._limits.definition_bytes:
                found[self.name(key)] = {}
                left_open += 1
                continue
            found[self.name(key)] = {} if self._is_endless(key) else definition.schema
            kept[key] = None
            new = sorted(definition.refs - seen)
            seen.update(new)
            queue.extend(new)
        if left_open:
            self._notes.warn(
                f"{operation}: {left_open} nested schemas are left open: there are too many for one operation"
            )
        self._check_leaving(sent, kept, operation)
        return found

    def _check_leaving(self, sent: Iterable[Key], kept: dict[Key, None], operation: str) -> None:
        """Refuse what a request refers to in another document, and note what a response does."""
        leaving = {key: leaves for key in kept if (leaves := self._definition(key).leaves) is not None}
        if not leaving:
            return
        pending, seen = [key for key in sent if key in kept], set[Key]()
        while pending:
            key = pending.pop()
            if key in leaving:
                raise SkipOperation(leaving[key])
            seen.add(key)
            pending.extend((self._definition(key).refs & kept.keys()) - seen)
        for leaves in leaving.values():
            self._notes.warn(f"{operation}: the response is left open where it {leaves}")

    def name(self, key: Key) -> str:
        """The name a definition has in every operation of this document."""
        known = self._names.get(key)
        if known is not None:
            return known
        pointer, direction = key
        parts = [part for part in pointer.split("/")[1:] if part not in ("components", "schemas", "definitions")]
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join(parts[-3:]))[-80:].strip("_") or "Root"
        base += "Input" if self._directional and direction is Direction.REQUEST else ""
        self._names[key] = self._taken.take(base)
        return self._names[key]

    def key(self, reference: JsonValue, direction: Direction) -> Key:
        """The definition a ``$ref`` leads to.

        Raises:
            SkipOperation, DanglingReference: see :meth:`Document.resolve`.
        """
        pointer, _ = self._document.resolve(reference)
        return pointer, direction if self._directional else Direction.RESPONSE

    def travels(self, schema: JsonValue, direction: Direction) -> bool:
        """Whether a property with this schema exists in messages of this direction."""
        hidden = _HIDDEN[direction]
        if as_object(schema).get(hidden) is True:
            return False
        try:
            return as_object(self._document.deref(schema)).get(hidden) is not True
        except (DanglingReference, SkipOperation):  # told where the schema itself is read
            return True

    def spend(self, schema: JsonObject) -> None:
        """Count what looking at one schema costs, the schemas in it not included.

        Raises:
            InvalidDocument: too much was spent on this document.
        """
        self._document.spend(1 + len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list)))

    def warn(self, message: str) -> None:
        """Note something about a schema."""
        self._notes.warn(message)

    def _definition(self, key: Key) -> Normalised:
        known = self._definitions.get(key)
        if known is None:
            known = self._read(self._document.resolve(key[0])[1], key[1])
            known = replace(known, size=len(orjson.dumps(known.schema)))
            self._definitions[key] = known
        return known

    def _read(self, schema: JsonValue, direction: Direction) -> Normalised:
        reader = _Reader(self, direction)
        result = reader.read(schema, in_place=True)
        as_dict = result if isinstance(result, dict) else ({} if result else {"not": {}})
        return Normalised(as_dict, frozenset(reader.refs), frozenset(reader.in_place), reader.leaves)

    def _is_endless(self, key: Key) -> bool:
        """Whether a validator could come back to this definition without having consumed any part of the value."""
        if key not in self._endless:
            pending, seen = list(self._definition(key).in_place), set[Key]()
            while pending and key not in seen:
                self._document.spend(1)
                other = pending.pop()
                if other not in seen:
                    seen.add(other)
                    pending.extend(self._definition(other).in_place)
            self._endless[key] = key in seen
            if key in seen:
                self._notes.warn(f"{key[0][:200]} contains itself without end and is left open")
        return self._endless[key]


class _Reader:
    """Reads one schema and notes its references on the way."""

    def __init__(self, schemas: Schemas, direction: Direction) -> None:
        self._schemas = schemas
        self._direction = direction
        self.refs: set[Key] = set()
        self.in_place: set[Key] = set()
        self.leaves: str | None = None

    def read(self, schema: JsonValue, in_place: bool = False) -> JsonObject | bool:
        """One schema or subschema; what is no schema at all becomes ``True``, which allows everything."""
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        self._schemas.spend(schema)
        out = plain_keywords(schema)
        if "$ref" in schema:
            out |= self._reference(schema["$ref"], in_place)
        for key in SUBSCHEMA & schema.keys():
            self._one(key, schema[key], out, in_place and key in IN_PLACE)
        for key in SUBSCHEMA_LIST & schema.keys():
            branches: list[JsonValue] = [self.read(item, in_place and key in IN_PLACE) for item in as_list(schema[key])]
            if branches:
                out[key] = branches
        for key in SUBSCHEMA_MAP & schema.keys():
            self._map(key, as_object(schema[key]), out, in_place and key in IN_PLACE)
        self._required(schema, out)
        return make_nullable(out) if schema.get("nullable") is True or schema.get("x-nullable") is True else out

    def _reference(self, reference: JsonValue, in_place: bool) -> JsonObject:
        try:
            key = self._schemas.key(reference, self._direction)
        except DanglingReference as error:
            self._schemas.warn(f"a schema is left open: {error}")
            return {}
        except SkipOperation as error:
            self.leaves = str(error)
            return {}
        self.refs.add(key)
        if in_place:
            self.in_place.add(key)
        return {"$ref": f"#/$defs/{self._schemas.name(key)}"}

    def _one(self, key: str, value: JsonValue, out: JsonObject, in_place: bool) -> None:
        if key == "items" and isinstance(value, list):  # the tuples of older drafts
            if value:
                out["prefixItems"] = [self.read(item) for item in value]
        elif isinstance(value, (dict, bool)):
            out[key] = self.read(value, in_place)

    def _map(self, key: str, members: JsonObject, out: JsonObject, in_place: bool) -> None:
        kept = {
            name: self.read(member, in_place)
            for name, member in members.items()
            if (key != "properties" or self._schemas.travels(member, self._direction))
            and (key != "patternProperties" or is_pattern(name))
        }
        if kept:
            out[key] = dict(kept)

    def _required(self, schema: JsonObject, out: JsonObject) -> None:
        """The names required, less those that do not travel this way."""
        names = dict.fromkeys(name for name in as_list(schema.get("required")) if isinstance(name, str))
        properties = as_object(schema.get("properties"))
        kept: list[JsonValue] = [
            name for name in names if name not in properties or self._schemas.travels(properties[name], self._direction)
        ]
        if kept:
            out["required"] = kept
