"""A twin's state: items by their collections' paths, and data written to other paths."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Final

import orjson
from pydantic import JsonValue

from services.contracts.base import JsonSchema
from twin.checking import Checks
from twin.families import Families, Family
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
        families: the possible collections.
        seed: the seed of the ids. The same seed and requests give the same answers.
    """

    def __init__(self, families: Families, seed: int) -> None:
        self._families, self._bytes = families, 0
        self._first_id = random.Random(seed).randrange(1_000, 9_000)  # noqa: S311 - repeatable, not secret
        self._seed = seed
        self._collections: dict[Place, dict[str, Item]] = {}
        self._numbers: dict[Place, int] = {}
        self._fresh: set[Place] = set()
        self._gone: set[Place] = set()
        self._written: dict[Place, Item] = {}

    def items(self, family: Family, place: Place) -> dict[str, Item]:
        """The items of a collection at its concrete path. Seeded on first use, unless a parent item is new."""
        if place not in self._collections:
            found: dict[str, Item] = {}
            is_fresh = any(place[:end] in self._fresh for end in range(1, len(place)))
            if family.closed and not is_fresh and self._bytes < MAX_BYTES:
                for number in range(1, SEEDS + 1):
                    identifier = self._id_for(family, number)
                    found[identifier] = self._made(family, place, number, identifier)
            self._bytes += _size(found)
            if self._bytes >= MAX_BYTES:
                return found
            self._collections[place] = found
            self._numbers[place] = len(found)
        return self._collections[place]

    def add(self, family: Family, place: Place, fields: Mapping[str, JsonValue]) -> Item:
        """Add a new item.

        Raises:
            Refused: 409; its id is taken, or the memory is full.
        """
        items = self.items(family, place)
        brought = fields.get(family.key) if family.key else None
        if isinstance(brought, (str, int)) and not isinstance(brought, bool) and brought != "":
            identifier = str(brought)
            if identifier in items:
                raise Refused(409, f"a {family.noun} with the id {identifier[:100]!r} already exists")
        else:
            self._numbers[place] = number = self._numbers.get(place, SEEDS) + 1
            identifier = self._id_for(family, number)
        return self.keep(family, place, identifier, fields)

    def keep(self, family: Family, place: Place, identifier: str, fields: Mapping[str, JsonValue]) -> Item:
        """Store these fields over the existing item of this id, or over a generated one. Raises Refused (409)."""
        items = self.items(family, place)
        known = items.get(identifier)
        if known is None:
            self._fresh.add((*place, identifier))
            self._gone.discard((*place, identifier))
            known = self._made(family, place, len(items) + 1, identifier)
        item = merged(known, {name: value for name, value in fields.items() if name != family.key})
        self._bytes += _size(item)
        if self._bytes >= MAX_BYTES:
            raise Refused(409, "this twin cannot store more")
        items[identifier] = item
        return item

    def know(self, family: Family, place: Place, identifier: str, fields: Mapping[str, JsonValue]) -> Item:
        """Like ``keep``, but the item counts as always present, so collections below it are seeded, too."""
        is_new = identifier not in self.items(family, place)
        item = self.keep(family, place, identifier, fields)
        if is_new:
            self._fresh.discard((*place, identifier))
        return item

    def find(self, family: Family, place: Place, identifier: str) -> Item | None:
        """An item; None if it does not exist. In a family that is not closed, every id exists until it is deleted."""
        items = self.items(family, place)
        if identifier in items:
            return items[identifier]
        if family.closed or (*place, identifier) in self._gone:
            return None
        return self._made(family, place, 1, identifier)

    def remove(self, family: Family, place: Place, identifier: str) -> None:
        """Delete an item and everything below it."""
        self.items(family, place).pop(identifier, None)
        gone = (*place, identifier)
        self._gone.add(gone)
        self.erase(gone)

    def erase(self, place: Place) -> None:
        """Delete what was written to a path, and everything below it."""
        for kept in (self._collections, self._written):
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

    def _made(self, family: Family, place: Place, number: int, identifier: str) -> Item:
        """An item generated from its schema, with its own id and the ids of related items."""
        value = example_of(family.schema, family.noun, family.definitions, number=number)
        item: Item = dict(value) if isinstance(value, dict) else {}
        properties = members(resolved(family.schema, family.definitions).get("properties"))
        above = {plain(part.names[-1]): place[at] for at, part in enumerate(family.template) if part.names}
        for name, schema in properties.items():
            bare = plain(name)
            other = self._families.called(bare.removesuffix("id")) if bare.endswith("id") and bare != "id" else None
            wanted = above.get(bare) or (self._id_for(other, 1) if other is not None and other.closed else None)
            if wanted is not None:
                item |= _typed(name, wanted, schema, family)
        if family.key is not None:
            item |= _typed(family.key, identifier, properties.get(family.key), family) or {family.key: identifier}
        return item

    def _id_for(self, family: Family, number: int) -> str:
        """The id for a family's item of this number: one that fits the schemas of its field and of its path."""
        properties = members(resolved(family.schema, family.definitions).get("properties"))
        schemas = [one for one in (properties.get(family.key or ""), family.id_schema) if isinstance(one, dict) and one]
        plainly = str(self._first_id + number)
        random_looking = uuid.uuid5(uuid.NAMESPACE_URL, f"{self._seed} {family.noun} {number}")
        checks = Checks(family.definitions)
        made = [example_of(_bare(one), family.noun, family.definitions, number=number) for one in schemas]
        choices = [
            *(str(one) for schema, one in zip(schemas, made, strict=True) if "pattern" in schema or "enum" in schema),
            *(
                plainly,
                str(random_looking),
                random_looking.hex,
                random_looking.hex[:26],
                f"{family.noun}-{plainly}",
                *map(str, made),
            ),
        ]
        return next((one for one in choices if all(_takes(checks, schema, one) for schema in schemas)), plainly)


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


def _takes(checks: Checks, schema: JsonSchema, text: str) -> bool:
    return not checks.problems(schema, text) or (text.isdecimal() and not checks.problems(schema, int(text)))


def _typed(name: str, text: str, schema: JsonValue, family: Family) -> Item:
    """The field with the id in a type of its schema; empty if no type fits."""
    kinds = kinds_of(schema, family.definitions)
    if fits(text, kinds):
        return {name: text}
    if text.isdecimal() and len(text) < 19 and any(is_of(int(text), kind) for kind in kinds & {"integer", "number"}):
        return {name: int(text)}
    return {}


def _size(value: object) -> int:
    return len(orjson.dumps(value))
