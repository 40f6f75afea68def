"""How long checking a value against a schema can take, bounded from the schema alone.

A validator applies to one value all schemas that refer, combine or branch to each other in place, and hands its members
on to the schemas of members. Where each is handed on once, the time is linear in the size of the value. Where one is
handed on several times (two branches that both describe a member), the ways multiply from level to level: harmless in a
schema with an end, exponential in one that refers to itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from pydantic import JsonValue

from services.compute import checkpoint
from services.contracts.base import JsonSchema

_REFERENCE: Final = "#/$defs/"
_IN_PLACE: Final = ("not", "if", "then", "else")
_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_UNKNOWN: Final = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"})
_MAX_SCHEMAS: Final = 10_000
_MAX_ROUNDS: Final = 100
_MAX_WAYS: Final = 1_000
_CHEAP: Final = 4


class Unbounded(Exception):
    """Checking takes exponential time, or nobody can say how long, or it takes long to say."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What checking values takes, and making a validator.

    Attributes:
        steps: how many schemas are applied to each value at most.
        patterns: how many patterns are applied to each text at most.
        definitions: the names of the definitions that are applied.
        schemas: how many schemas there are in all.
        expressions: the patterns that there are in all; a validator compiles each once.
    """

    steps: int
    patterns: int
    definitions: frozenset[str]
    schemas: int
    expressions: frozenset[str]


@dataclass(slots=True)
class _Place:
    """A schema that values arrive at, with all that applies in place.

    Attributes:
        steps: how many schemas that is; long lists of members count too.
        patterns: how many regular expressions are among them.
        ways: how often one member of a value is handed on.
        children: the schemas it is handed on to.
    """

    steps: int = 0
    patterns: int = 0
    ways: int = 0
    children: list[JsonSchema] = field(default_factory=list)


def cost_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> Cost:
    """The cost of checking values against a schema. Raises Unbounded."""
    places: dict[int, _Place] = {}
    waiting, names, expressions, seen = [schema], set[str](), set[str](), 0
    while waiting:
        checkpoint()
        arrived = waiting.pop()
        if id(arrived) in places:
            continue
        parts = list(islice(_in_place(arrived, definitions, names), _MAX_SCHEMAS - seen))
        seen += len(parts)
        if seen >= _MAX_SCHEMAS:
            raise Unbounded
        for part in parts:
            expressions.update(_expressions(part))
        place = places[id(arrived)] = _place(parts)
        waiting += place.children
    ways = _ways(places)
    steps, patterns = (max(place.steps for place in places.values()), max(place.patterns for place in places.values()))
    return Cost(steps * ways, patterns * ways, frozenset(names), seen, frozenset(expressions))


def _expressions(part: JsonSchema) -> list[str]:
    """The patterns of one schema, those in it not included."""
    pattern = part.get("pattern")
    return [*_members(part.get("patternProperties")), *([pattern] if isinstance(pattern, str) else [])]


def _in_place(schema: JsonSchema, definitions: Mapping[str, JsonSchema], names: set[str]) -> Iterator[JsonSchema]:
    """The schema and all that applies to the same value; without end where references go round in a circle.

    The names of definitions that it comes by are added to ``names``.
    """
    waiting: list[JsonValue] = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        if part.keys() & _UNKNOWN:
            raise Unbounded
        yield part
        if "$ref" in part:
            name = _name(part["$ref"])
            if name not in definitions:
                raise Unbounded
            names.add(name)
            waiting.append(definitions[name])
        waiting += [part[key] for key in _IN_PLACE if key in part]
        for key in _IN_PLACE_LISTS:
            waiting += _listed(part.get(key))
        waiting += _members(part.get("dependentSchemas")).values()


def _name(reference: JsonValue) -> str:
    """The name of the definition that is referred to; nothing where it is none."""
    if not isinstance(reference, str) or not reference.startswith(_REFERENCE):
        return ""
    return reference.removeprefix(_REFERENCE).replace("~1", "/").replace("~0", "~")


def _place(parts: list[JsonSchema]) -> _Place:
    place, named, of_all = _Place(), Counter[str | int](), Counter[str]()
    for part in parts:
        properties, patterned = _members(part.get("properties")), _members(part.get("patternProperties"))
        prefix = _listed(part.get("prefixItems"))
        lookups = len(properties) + len(_listed(part.get("required"))) + len(_listed(part.get("enum")))
        place.steps += 1 + lookups // _CHEAP
        place.patterns += len(patterned) + ("pattern" in part)
        named.update([name for name, schema in properties.items() if schema])
        named.update([index for index, schema in enumerate(prefix) if schema])
        of_objects = [*patterned.values(), part.get("additionalProperties"), part.get("propertyNames")]
        of_lists = [part.get("items"), part.get("contains")]
        for kind, schemas in (("object", of_objects), ("list", of_lists)):
            of_all[kind] += sum(isinstance(schema, dict) and bool(schema) for schema in schemas)
        found = [*properties.values(), *prefix, *of_objects, *of_lists]
        place.children += [schema for schema in found if isinstance(schema, dict) and schema]
    place.ways = max(named.values(), default=0) + max(of_all.values(), default=0)
    return place


def _ways(places: Mapping[int, _Place]) -> int:
    """In how many ways a value can be reached at most: the product of the ways along a path, the largest of them.

    Raises:
        Unbounded: the product grows round a circle.
    """
    total = dict.fromkeys(places, 1)
    for _ in range(_MAX_ROUNDS):
        checkpoint()
        before = dict(total)
        for key, place in reversed(list(places.items())):
            further = max((total[id(child)] for child in place.children), default=1)
            total[key] = max(1, place.ways) * further
            if total[key] > _MAX_WAYS:
                raise Unbounded
        if total == before:
            return max(total.values())
    raise Unbounded


def _listed(value: JsonValue) -> list[JsonValue]:
    """The elements of a list; none where it is none."""
    return value if isinstance(value, list) else []


def _members(value: JsonValue) -> dict[str, JsonValue]:
    """The members of an object; none where it is none."""
    return value if isinstance(value, dict) else {}
