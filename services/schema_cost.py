"""An upper bound on the time to validate a value against a schema, computed from the schema alone.

A validator applies several schemas to one value: the schema and those that it refers to, combines or branches to in
place. It then validates the value's members against the schemas of members. If each member is validated once, the time
is linear in the size of the value. If a member is validated several times (two branches that both describe it), the
factors multiply at each level. This is harmless in a schema of finite depth, and exponential in a recursive one.
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
_BRANCHES: Final = frozenset({"anyOf", "oneOf"})
_UNKNOWN: Final = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"})
_MAX_SCHEMAS: Final = 10_000
_MAX_ROUNDS: Final = 100
"""Schemas on a path that are looked at: as many as an answer has levels."""
_MAX_MULTIPLICITY: Final = 1_000
_CHEAP: Final = 4


class Unbounded(Exception):
    """Validation takes exponential time, or its time cannot be bounded, or computing the bound takes too long."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of building a validator and validating values.

    Attributes:
        steps: maximum number of schemas applied to each value.
        patterns: maximum number of patterns applied to each string.
        divisions: maximum number of divisions, `multipleOf`, of each number.
        distinct: maximum number of lists around a value whose items must differ (`uniqueItems`): each is compared by
            all that its items hold.
        branches: whether a value may match one of several schemas; the error of such a value holds those of all.
        definitions: names of the definitions in use.
        schemas: total number of schemas.
        expressions: all distinct patterns; a validator compiles each once.
    """

    steps: int
    patterns: int
    divisions: int
    distinct: int
    branches: bool
    definitions: frozenset[str]
    schemas: int
    expressions: frozenset[str]


@dataclass(slots=True)
class _Place:
    """A schema that is applied to a value, together with all schemas it applies in place.

    Attributes:
        steps: number of these schemas; long lists of members add to it.
        patterns: number of regular expressions among them.
        divisions: number of `multipleOf` among them.
        distinct: number of `uniqueItems` among them.
        multiplicity: how often one member of the value is validated at most.
        children: the schemas that members are validated against.
    """

    steps: int = 0
    patterns: int = 0
    divisions: int = 0
    distinct: int = 0
    multiplicity: int = 0
    children: list[JsonSchema] = field(default_factory=list)


def cost_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> Cost:
    """The cost of validating values against a schema. Raises Unbounded."""
    places: dict[int, _Place] = {}
    waiting, names, expressions, seen, branches = [schema], set[str](), set[str](), 0, False
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
            branches |= not _BRANCHES.isdisjoint(part)
        place = places[id(arrived)] = _place(parts)
        waiting += place.children
    multiplicity = _max_multiplicity(places)
    return Cost(
        steps=max(place.steps for place in places.values()) * multiplicity,
        patterns=max(place.patterns for place in places.values()) * multiplicity,
        divisions=max(place.divisions for place in places.values()) * multiplicity,
        distinct=_max_distinct(places) * multiplicity,
        branches=branches,
        definitions=frozenset(names),
        schemas=seen,
        expressions=frozenset(expressions),
    )


def _expressions(part: JsonSchema) -> list[str]:
    """The patterns of one schema, without those of its subschemas."""
    pattern = part.get("pattern")
    return [*_members(part.get("patternProperties")), *([pattern] if isinstance(pattern, str) else [])]


def _in_place(schema: JsonSchema, definitions: Mapping[str, JsonSchema], names: set[str]) -> Iterator[JsonSchema]:
    """The schema and all others that apply to the same value. Endless if references form a cycle.

    Adds the names of the definitions on the way to ``names``.
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
    """The name of the referenced definition; empty if the reference is not one to a definition."""
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
        place.divisions += "multipleOf" in part
        place.distinct += part.get("uniqueItems") is True
        named.update([name for name, schema in properties.items() if schema])
        named.update([index for index, schema in enumerate(prefix) if schema])
        of_objects = [*patterned.values(), part.get("additionalProperties"), part.get("propertyNames")]
        of_lists = [part.get("items"), part.get("contains")]
        for kind, schemas in (("object", of_objects), ("list", of_lists)):
            of_all[kind] += sum(isinstance(schema, dict) and bool(schema) for schema in schemas)
        found = [*properties.values(), *prefix, *of_objects, *of_lists]
        place.children += [schema for schema in found if isinstance(schema, dict) and schema]
    place.multiplicity = max(named.values(), default=0) + max(of_all.values(), default=0)
    return place


def _max_multiplicity(places: Mapping[int, _Place]) -> int:
    """The maximum number of ways to reach a value: the largest product of ``multiplicity`` along a path.

    Raises:
        Unbounded: the product grows along a cycle.
    """
    total = dict.fromkeys(places, 1)
    for _ in range(_MAX_ROUNDS):
        checkpoint()
        before = dict(total)
        for key, place in reversed(list(places.items())):
            further = max((total[id(child)] for child in place.children), default=1)
            total[key] = max(1, place.multiplicity) * further
            if total[key] > _MAX_MULTIPLICITY:
                raise Unbounded
        if total == before:
            return max(total.values())
    raise Unbounded


def _max_distinct(places: Mapping[int, _Place]) -> int:
    """The largest sum of ``distinct`` along a path; of a cycle, along one as long as values are deep at most."""
    total = {key: place.distinct for key, place in places.items()}
    if not any(total.values()):
        return 0
    for _ in range(_MAX_ROUNDS):
        checkpoint()
        before = dict(total)
        for key, place in places.items():
            total[key] = place.distinct + max((before[id(child)] for child in place.children), default=0)
        if total == before:
            break
    return max(total.values())


def _listed(value: JsonValue) -> list[JsonValue]:
    """The elements of a list; empty if the value is not a list."""
    return value if isinstance(value, list) else []


def _members(value: JsonValue) -> dict[str, JsonValue]:
    """The members of an object; empty if the value is not an object."""
    return value if isinstance(value, dict) else {}
