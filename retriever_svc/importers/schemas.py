"""The schemas of one document: each read once, and collected per operation with everything it refers to.

References become ``#/$defs/NAME`` into the operation's own definitions, so most circular schemas need no special care.
There are two special cases. A circle that never reaches a part of the value (``A: {allOf: [A]}``) would be an endless
loop for a validator, and is left open. Properties that are sent in one direction only are left out in the other.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson
from pydantic import JsonValue

from retriever_svc.importers.keywords import (
    IN_PLACE,
    SUBSCHEMA,
    SUBSCHEMA_LIST,
    SUBSCHEMA_MAP,
    make_nullable,
    plain_keywords,
)
from retriever_svc.importers.limits import MAX_MEMBER, Limits, Notes
from retriever_svc.importers.names import Names
from retriever_svc.importers.patterns import Patterns
from retriever_svc.importers.refs import (
    DanglingReference,
    Document,
    JsonObject,
    SkipOperation,
    as_list,
    as_object,
    is_true,
)


class Direction(StrEnum):
    """The direction of a message. Requests have no `readOnly` properties, responses no `writeOnly` ones."""

    REQUEST = "request"
    RESPONSE = "response"


_HIDDEN = {Direction.REQUEST: "readOnly", Direction.RESPONSE: "writeOnly"}

_PLACES = ("components", "schemas", "definitions", "x-nestor-files")
"""Parts of a pointer that say nothing about its target."""
_COMPOSED = ("required", "properties", "allOf", "anyOf", "oneOf")
"""Keywords that can require properties of a value, in the schema itself or in a part of it."""

Key = tuple[str, Direction]
"""A definition: its pointer in the document, and the direction it is read for."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """A schema in 2020-12 form and the definitions it refers to; those ``in_place`` apply to the same value."""

    schema: JsonObject
    refs: frozenset[Key]
    in_place: frozenset[Key]
    leaves: str | None = None  # a message about a reference to another document, where the schema is left open
    size: int = 0  # as JSON; only for definitions


def required_names(schema: JsonObject) -> list[str]:
    """The properties a schema requires, each once: those in its list, and those that declare it, as in draft 3."""
    members = as_object(schema.get("properties")).items()
    own = [name for name, member in members if isinstance(member, dict) and is_true(member.get("required"))]
    return list(dict.fromkeys([*(name for name in as_list(schema.get("required")) if isinstance(name, str)), *own]))


class Schemas:
    """Reads the schemas of one document.

    Args:
        document: the document that references point into.
        directional: whether any schema has `readOnly` or `writeOnly`, so that the two directions differ.
        limits: limits on the definitions of one operation.
        notes: receives warnings about schemas that are left open.
    """

    def __init__(self, document: Document, directional: bool, limits: Limits, notes: Notes) -> None:
        self.patterns = Patterns(document.count_steps)
        self._document = document
        self._directional = directional
        self._limits = limits
        self._notes = notes
        self._definitions: dict[Key, Normalised] = {}
        self._names: dict[Key, str] = {}
        self._taken = Names()
        self._keys: dict[str, Key] = {}
        self._cut: dict[Key, JsonObject] = {}
        self._besides: dict[Key, tuple[Key, ...]] = {}

    def normalise(self, schema: JsonValue, direction: Direction) -> Normalised:
        """Read one schema; references in it are noted, not followed.

        Raises:
            SkipOperation: it is for a request and refers to another document.
        """
        normalised = self._read(schema, direction)
        if normalised.leaves is not None and direction is Direction.REQUEST:
            raise SkipOperation(normalised.leaves)
        return normalised

    def collect(self, sent: Iterable[Key], received: Iterable[Key], operation: str) -> dict[str, JsonObject]:
        """The definitions reachable from those of requests and of responses, nearest first, within the limits.

        Raises:
            SkipOperation: a definition that a request uses refers to another document. Schemas of requests must be
                complete; those of responses may be open.
        """
        found: dict[str, JsonObject] = {}
        queue = deque(dict.fromkeys([*sent, *received]))
        seen, kept, size, left_open = set(queue), dict[Key, None](), 0, 0
        while queue:
            key = queue.popleft()
            definition = self._definition(key)
            self._document.count_steps(1)
            size += definition.size
            if len(found) >= self._limits.definitions or size > self._limits.definition_bytes:
                found[self.name(key)] = {}
                left_open += 1
                continue
            found[self.name(key)] = self._finite(key)
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
        """Refuse references to other documents in requests, and warn about those in responses."""
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
        parts = [part for part in pointer.split("/")[1:] if part not in _PLACES]
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join(parts[-3:]))[-80:].strip("_") or "Root"
        base += "Input" if self._directional and direction is Direction.REQUEST else ""
        self._names[key] = self._taken.take(base)
        self._keys[f"#/$defs/{self._names[key]}"] = key
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
        if is_true(as_object(schema).get(hidden)):
            return False
        return not is_true(self._document.deref_or_empty(schema).get(hidden))

    def hidden(self, schema: JsonObject, direction: Direction) -> set[str]:
        """The names of the properties that messages of this direction leave out.

        This includes properties of ``allOf`` parts: a property that one part requires may be read-only in another.
        """
        if not self._directional:
            return set()
        found, pending, seen = set[str](), [schema], set[str]()
        while pending:
            part = pending.pop()
            properties = as_object(part.get("properties"))
            self._document.count_steps(1 + len(properties))
            found |= {name for name, member in properties.items() if not self.travels(member, direction)}
            referred: list[JsonValue] = [{"$ref": part["$ref"]}] if "$ref" in part else []
            for item in [*referred, *as_list(part.get("allOf"))]:
                branch = as_object(item)
                pointer = str(branch.get("$ref", ""))
                if pointer in seen:
                    continue
                if pointer:
                    seen.add(pointer)
                pending.append(self._document.deref_or_empty(branch))
        return found

    def count_steps(self, schema: JsonObject) -> None:
        """Count the cost of reading one schema, without the schemas in it.

        Raises:
            InvalidDocument: the document exceeds its limit.
        """
        self._document.count_steps(
            1 + len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list))
        )

    def warn(self, message: str) -> None:
        """Add a warning about a schema."""
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

    def _finite(self, key: Key) -> JsonObject:
        """The definition's schema, changed so that a validator terminates.

        A base that lists its kinds (``oneOf``), each built on the base (``allOf``), is circular: a kind then includes
        only the base's own members. Other circles are left open. Where a circle is cut depends only on the definitions,
        not on the operation.
        """
        if key not in self._cut:
            if not self._returns(key, self._in_place):
                self._cut[key] = self._definition(key).schema
            else:
                open_ended = self._returns(key, self._besides_bases)
                self._cut[key] = {} if open_ended else self._without_circle(self._definition(key).schema)
                if not self._cut[key]:
                    self._notes.warn(f"{key[0][:200]} contains itself without end and is left open")
        return self._cut[key]

    def _returns(self, key: Key, leads_to: Callable[[Key], Iterable[Key]]) -> bool:
        """Whether a validator could return to this definition without consuming any part of the value."""
        pending, seen = list(leads_to(key)), set[Key]()
        while pending and key not in seen:
            self._document.count_steps(1)
            other = pending.pop()
            if other not in seen:
                seen.add(other)
                pending.extend(leads_to(other))
        return key in seen

    def _in_place(self, key: Key) -> Iterable[Key]:
        return self._definition(key).in_place

    def _besides_bases(self, key: Key) -> Iterable[Key]:
        """The definitions that apply to the same value, except references in the schema's own ``allOf``."""
        if key not in self._besides:
            schema = self._definition(key).schema
            bases = [branch for branch in as_list(schema.get("allOf")) if as_object(branch).keys() == {"$ref"}]
            parts: list[JsonValue] = [branch for branch in as_list(schema.get("allOf")) if branch not in bases]
            pending: list[JsonValue] = [{**schema, "allOf": parts}]
            found = dict[Key, None]()
            while pending:
                part = as_object(pending.pop())
                self.count_steps(part)
                if (other := self._keys.get(str(part.get("$ref", "")))) is not None:
                    found[other] = None
                for name in IN_PLACE & part.keys():
                    inner = part[name]
                    pending += inner if isinstance(inner, list) else [inner]
                    pending += as_object(inner).values() if name == "dependentSchemas" else []
            self._besides[key] = tuple(found)
        return self._besides[key]

    def _without_circle(self, schema: JsonObject) -> JsonObject:
        """The schema with references to circular bases replaced by the bases' own members."""
        bases = list[JsonValue]()
        for branch in as_list(schema.get("allOf")):
            base = self._keys.get(str(as_object(branch).get("$ref", "")))
            if base is None or as_object(branch).keys() != {"$ref"} or not self._returns(base, self._in_place):
                bases.append(branch)
            else:
                own = self._definition(base).schema
                bases += [members] if (members := {k: own[k] for k in own if k not in IN_PLACE and k != "$ref"}) else []
        kept = {name: value for name, value in schema.items() if name != "allOf"}
        return {**kept, "allOf": bases} if bases else kept


class _Reader:
    """Reads one schema and records its references."""

    def __init__(self, schemas: Schemas, direction: Direction) -> None:
        self._schemas = schemas
        self._direction = direction
        self.refs: set[Key] = set()
        self.in_place: set[Key] = set()
        self.leaves: str | None = None

    def read(
        self, schema: JsonValue, in_place: bool = False, hidden: frozenset[str] = frozenset()
    ) -> JsonObject | bool:
        """Read one schema or subschema. A value that is not a schema becomes ``True``, which allows everything.

        Args:
            schema: the schema.
            in_place: whether it applies to the same value as the outermost schema.
            hidden: properties of the same value that the enclosing schemas leave out.
        """
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        self._schemas.count_steps(schema)
        out = plain_keywords(schema, self._schemas.patterns)
        if "$ref" in schema:
            out |= self._reference(schema["$ref"], in_place)
        for key in (key for key in SUBSCHEMA if key in schema):
            self._one(key, schema[key], out, in_place and key in IN_PLACE)
        if not schema.keys().isdisjoint(_COMPOSED):
            hidden |= self._schemas.hidden(schema, self._direction)
        for key in (key for key in SUBSCHEMA_LIST if key in schema):
            same = key in IN_PLACE
            branches: list[JsonValue] = [
                self.read(item, in_place and same, hidden if same else frozenset()) for item in as_list(schema.get(key))
            ]
            if branches:
                out[key] = branches
        for key in (key for key in SUBSCHEMA_MAP if key in schema):
            self._map(key, as_object(schema[key]), out, in_place and key in IN_PLACE)
        if kept := [name for name in required_names(schema) if name not in hidden and len(name) <= MAX_MEMBER]:
            out["required"] = list[JsonValue](kept)
        return make_nullable(out) if is_true(schema.get("nullable")) or is_true(schema.get("x-nullable")) else out

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
        if key == "items" and isinstance(value, list):  # tuples in older drafts
            if value:
                out["prefixItems"] = [self.read(item) for item in value]
        elif isinstance(value, (dict, bool)):
            out[key] = self.read(value, in_place)

    def _map(self, key: str, members: JsonObject, out: JsonObject, in_place: bool) -> None:
        named = {name: member for name, member in members.items() if len(name) <= MAX_MEMBER}
        if len(named) < len(members):
            self._schemas.warn(f"members with names of more than {MAX_MEMBER} characters are left out")
            for closed in ("additionalProperties", "unevaluatedProperties"):
                if out.get(closed) is False:
                    del out[closed]
        kept = {
            name: self.read(member, in_place)
            for name, member in named.items()
            if (key != "properties" or self._schemas.travels(member, self._direction))
            and (key != "patternProperties" or self._schemas.patterns.usable(name))
        }
        if kept:
            out[key] = dict(kept)
