"""A twin's state: items by their collections' paths, and data written to other paths."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from services.contracts.base import JsonSchema
from twin.checking import Checks
from twin.endpoints import Collection, Collections
from twin.problems import Refused
from twin.schemas import fits, is_of, kinds_of, members, plain, resolved
from twin.values import example_of

SEEDS: Final = 3
"""Number of items that a collection starts with."""
MAX_BYTES: Final = 64 * 1024 * 1024
Place = tuple[str, ...]
Item = dict[str, JsonValue]


class State:
    """All state of a twin.

    Args:
        collections: the possible collections.
        seed: the seed of the ids. The same seed and requests give the same answers.
    """

    def __init__(self, collections: Collections, seed: int) -> None:
        self._collections, self._bytes = collections, 0
        self._first_id = random.Random(seed).randrange(1_000, 9_000)  # noqa: S311 - repeatable, not secret
        self._seed = seed
        self._items: dict[Place, dict[str, Item]] = {}
        self._numbers: dict[Place, int] = {}
        self._created: set[Place] = set()
        self._deleted: set[Place] = set()
        self._written: dict[Place, Item] = {}

    def items(self, collection: Collection, place: Place) -> dict[str, Item]:
        """The items of a collection at its concrete path. Seeded on first use, unless a parent item is new."""
        if place not in self._items:
            found: dict[str, Item] = {}
            is_new = any(place[:end] in self._created for end in range(1, len(place)))
            if collection.closed and not is_new and self._bytes < MAX_BYTES:
                for number in range(1, SEEDS + 1):
                    identifier = self._id_for(collection, number)
                    found[identifier] = self._generated(collection, place, number, identifier)
            self._bytes += _size(found)
            if self._bytes >= MAX_BYTES:
                return found
            self._items[place] = found
            self._numbers[place] = len(found)
        return self._items[place]

    def add(self, collection: Collection, place: Place, fields: Mapping[str, JsonValue]) -> Item:
        """Add a new item.

        Raises:
            Refused: 409; its id is taken, or the memory is full.
        """
        items = self.items(collection, place)
        brought = fields.get(collection.key) if collection.key else None
        if isinstance(brought, (str, int)) and not isinstance(brought, bool) and brought != "":
            identifier = str(brought)
            if identifier in items:
                raise Refused(409, f"a {collection.noun} with the id {identifier[:100]!r} already exists")
        else:
            self._numbers[place] = number = self._numbers.get(place, SEEDS) + 1
            identifier = self._id_for(collection, number)
        return self.keep(collection, place, identifier, fields)

    def keep(self, collection: Collection, place: Place, identifier: str, fields: Mapping[str, JsonValue]) -> Item:
        """Store these fields over the existing item of this id, or over a generated one. Raises Refused (409)."""
        items = self.items(collection, place)
        known = items.get(identifier)
        if known is None:
            self._created.add((*place, identifier))
            self._deleted.discard((*place, identifier))
            known = self._generated(collection, place, len(items) + 1, identifier)
        item = merged(known, {name: value for name, value in fields.items() if name != collection.key})
        self._bytes += _size(item)
        if self._bytes >= MAX_BYTES:
            raise Refused(409, "this twin cannot store more")
        items[identifier] = item
        return item

    def preset(self, collection: Collection, place: Place, identifier: str, fields: Mapping[str, JsonValue]) -> Item:
        """Like ``keep``, but the item counts as always present, so collections below it are seeded, too."""
        is_new = identifier not in self.items(collection, place)
        item = self.keep(collection, place, identifier, fields)
        if is_new:
            self._created.discard((*place, identifier))
        return item

    def find(self, collection: Collection, place: Place, identifier: str) -> Item | None:
        """An item; None if it does not exist. If a collection is not closed, every id exists until it is deleted."""
        items = self.items(collection, place)
        if identifier in items:
            return items[identifier]
        if collection.closed or (*place, identifier) in self._deleted:
            return None
        return self._generated(collection, place, 1, identifier)

    def remove(self, collection: Collection, place: Place, identifier: str) -> None:
        """Delete an item and everything below it."""
        self.items(collection, place).pop(identifier, None)
        gone = (*place, identifier)
        self._deleted.add(gone)
        self.erase(gone)

    def erase(self, place: Place) -> None:
        """Delete what was written to a path, and everything below it."""
        for kept in (self._items, self._written):
            for path in [path for path in kept if path[: len(place)] == place]:
                del kept[path]

    def written(self, place: Place) -> Item:
        """What was written to a path that is neither a collection nor an item."""
        return self._written.get(place, {})

    def write(self, place: Place, fields: Mapping[str, JsonValue]) -> None:
        """Store the fields at a path, merged into those already there. Raises Refused (409)."""
        found = merged(self.written(place), fields)
        self._bytes += _size(found)
        if self._bytes >= MAX_BYTES:
            raise Refused(409, "this twin cannot store more")
        self._written[place] = found

    def _generated(self, collection: Collection, place: Place, number: int, identifier: str) -> Item:
        """An item generated from its schema, with its own id and the ids of related items."""
        value = example_of(collection.schema, collection.noun, collection.definitions, number=number)
        item: Item = dict(value) if isinstance(value, dict) else {}
        properties = members(resolved(collection.schema, collection.definitions).get("properties"))
        above = {plain(part.names[-1]): place[at] for at, part in enumerate(collection.template) if part.names}
        for name, schema in properties.items():
            bare = plain(name)
            other = (
                self._collections.with_noun(bare.removesuffix("id")) if bare.endswith("id") and bare != "id" else None
            )
            wanted = above.get(bare) or (self._id_for(other, 1) if other is not None and other.closed else None)
            if wanted is not None:
                item |= _typed(name, wanted, schema, collection)
        if collection.key is not None:
            item |= _typed(collection.key, identifier, properties.get(collection.key), collection) or {
                collection.key: identifier
            }
        return item

    def _id_for(self, collection: Collection, number: int) -> str:
        """The id for a collection's item of this number: one that fits the schemas of its field and of its path."""
        properties = members(resolved(collection.schema, collection.definitions).get("properties"))
        schemas = [
            one for one in (properties.get(collection.key or ""), collection.id_schema) if isinstance(one, dict) and one
        ]
        plainly = str(self._first_id + number)
        random_looking = uuid.uuid5(uuid.NAMESPACE_URL, f"{self._seed} {collection.noun} {number}")
        checks = Checks(collection.definitions)
        made = [example_of(_bare(one), collection.noun, collection.definitions, number=number) for one in schemas]
        choices = [
            *(str(one) for schema, one in zip(schemas, made, strict=True) if "pattern" in schema or "enum" in schema),
            *(
                plainly,
                str(random_looking),
                random_looking.hex,
                random_looking.hex[:26],
                f"{collection.noun}-{plainly}",
                *map(str, made),
            ),
        ]
        return next((one for one in choices if all(_is_valid(checks, schema, one) for schema in schemas)), plainly)


def merged(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Item:
    """The old fields, overwritten by the new ones. Objects are merged recursively."""
    found = dict(old)
    for name, value in new.items():
        before = found.get(name)
        found[name] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def _bare(schema: JsonSchema) -> JsonSchema:
    """An id's schema without examples, since they would give every item the same id."""
    return {key: value for key, value in schema.items() if key not in ("default", "example", "examples")}


def _is_valid(checks: Checks, schema: JsonSchema, text: str) -> bool:
    return not checks.problems(schema, text) or (text.isdecimal() and not checks.problems(schema, int(text)))


def _typed(name: str, text: str, schema: JsonValue, collection: Collection) -> Item:
    """The field with the id in a type of its schema; empty if no type fits."""
    kinds = kinds_of(schema, collection.definitions)
    if fits(text, kinds):
        return {name: text}
    if text.isdecimal() and len(text) < 19 and any(is_of(int(text), kind) for kind in kinds & {"integer", "number"}):
        return {name: int(text)}
    return {}


def _size(value: object) -> int:
    return len(to_json(value))
