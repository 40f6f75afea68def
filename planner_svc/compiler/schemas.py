"""What a JSON Schema (2020-12) says of a value, as far as a compiler needs to know before any value is there.

Schemas come from imported documents, so they are hostile until shown otherwise: nothing is ever fetched, patterns run
on a linear-time engine, and expansion and validation have budgets. A schema that is broken, over budget or has a
pattern that this engine cannot read (look-around) allows everything, and the fact is counted as *assumed* instead of
proved.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs
from pydantic import JsonValue

from services.compute import checkpoint
from services.contracts.base import JsonSchema

KINDS = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""JSON's types; ``number`` here means one with a fraction, so a schema's ``number`` is ``{"integer", "number"}``."""

MAX_BRANCHES = 64
EXPANSION_BUDGET = 2_000
TOTAL_BUDGET = 300_000
"""What one instance looks at in all alternatives of all nodes: schemas, and what they list. It is ten times what the
widest of 4,000 operations of known services takes. What is past it is unknown, as what is past a node's own budget."""
VALIDATION_BUDGET = 50_000
"""Steps of checking one value. A step takes some 100 ns; a pattern's, a character each, up to 10 us."""
MAX_MESSAGE = 300
MAX_PATTERNS = 50
"""Regular expressions in one validator."""
_REGEX_BYTES = 1_000_000
"""Memory for all of them, and again for what they learn from the texts they read."""
_MAX_REGEX_BYTES = 400_000
"""For one: a text of up to 255 characters of any kind takes 270,000."""
_MAX_VALUES = 50_000
"""JSON values in the schemas of one validator. It takes half a kilobyte and 1 us to build for each."""
_MAX_KEPT = 50_000
"""JSON values in the schemas of the validators that are kept; what a pattern may take counts as so many values."""
_VALUE_BYTES = 500
_MAX_ERRORS, _MAX_COPIED = 5_000, 5_000_000
"""Steps by which a validator is asked what is wrong, and characters: it copies what each error speaks of."""
_CHEAP = 4
"""Listed values or names that are compared in one step."""
_REAPPLIED = 3
"""How often ``unevaluatedProperties`` and ``unevaluatedItems`` have the schemas beside them applied, measured."""
_UNFOLLOWED = frozenset({"$id", "$dynamicRef", "$recursiveRef"})
"""They lead, or make ``$ref`` lead, elsewhere than to the definitions, so that nobody can say what is applied."""

Branch = tuple[JsonSchema, ...]
"""Flat schemas that hold together: one alternative of a schema."""
Absence = Literal["missing", "wrong_kind"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A schema together with the definitions its ``#/$defs/NAME`` references lead to."""

    schema: JsonValue
    definitions: Mapping[str, JsonSchema] = field(default_factory=dict)


ANYTHING = Node({})


class _OverBudget(Exception):
    """A schema is too expensive to look into."""


class Schemas:
    """Answers questions about schemas and remembers the answers. One instance serves one compilation.

    Caches are keyed by the identity of schema objects, which live as long as the instance does.
    """

    def __init__(self) -> None:
        self.assumed = 0
        """How many facts no schema could tell."""
        self._left = TOTAL_BUDGET
        self._branches: dict[int, tuple[Node, list[Branch]]] = {}
        self._expanded: dict[int, tuple[Node, list[Branch], int]] = {}
        self._refused: dict[tuple[int, tuple[str, ...]], tuple[Node, int]] = {}
        self._kinds: dict[int, tuple[Node, frozenset[str]]] = {}
        self._children: dict[tuple[int, str | int, bool], tuple[Node, Node | Absence]] = {}
        self._validators: dict[int, tuple[Node, jsonschema_rs.Draft202012Validator | None]] = {}
        self._kept = 0

    def branches(self, node: Node) -> list[Branch]:
        """The alternatives of a schema, references and combinators resolved; none where none fits."""
        cached = self._branches.get(id(node.schema))
        if cached is None:
            found, size = self._expansion(node)
            cached = self._branches[id(node.schema)] = (node, found if self._affords(size) else [()])
        return cached[1]

    def kinds(self, node: Node) -> frozenset[str]:
        """The JSON types a value may have."""
        cached = self._kinds.get(id(node.schema))
        if cached is None:
            found = frozenset().union(*(branch_kinds(branch) for branch in self.branches(node)))
            cached = self._kinds[id(node.schema)] = (node, found)
        return cached[1]

    def is_anything(self, node: Node) -> bool:
        """Whether the schema says nothing of the value's type."""
        return self.kinds(node) == KINDS

    def child(self, node: Node, part: str | int, *, strict: bool) -> Node | Absence:
        """The schema of a member or an item.

        Where ``strict``, an object that lists its properties has no others unless it says so: the question is what a
        later step may rely on. Otherwise JSON Schema's own rule holds, by which undeclared properties are allowed.
        """
        node = _followed(node)[0]
        key = (id(node.schema), part, strict)
        cached = self._children.get(key)
        if cached is None:
            cached = self._children[key] = (node, self._find_child(node, part, strict))
        return cached[1]

    def properties(self, node: Node) -> dict[str, Node]:
        """The properties an object is said to have, in order."""
        names = dict.fromkeys(
            name for branch in self.branches(node) for schema in branch for name in _dict(schema.get("properties"))
        )
        found = ((name, self.child(node, name, strict=True)) for name in names)
        return {name: child for name, child in found if isinstance(child, Node)}

    def required(self, node: Node) -> frozenset[str]:
        """The properties every object allowed here must have."""
        sets = [
            {name for schema in branch for name in _list(schema.get("required")) if isinstance(name, str)}
            for branch in self.branches(node)
        ]
        return frozenset(set.intersection(*sets)) if sets else frozenset()

    def enumeration(self, node: Node) -> list[JsonValue] | None:
        """The values listed by ``enum`` or ``const``; None where any branch lists none."""
        values: list[JsonValue] = []
        for branch in self.branches(node):
            listed = [_listed(schema) for schema in branch if "const" in schema or isinstance(schema.get("enum"), list)]
            if not listed:
                return None
            values += sorted(listed, key=len)[0]
        return values

    def formats(self, node: Node) -> frozenset[str] | None:
        """The formats of a text; None where any branch names none."""
        found: set[str] = set()
        for branch in self.branches(node):
            names = [schema["format"] for schema in branch if isinstance(schema.get("format"), str)]
            if not names:
                return None
            found.update(str(name) for name in names)
        return frozenset(found)

    def problem(self, node: Node, value: JsonValue) -> str | None:
        """Why a literal is not allowed, in words; None where it is, or where the schema cannot be used (assumed)."""
        checkpoint()
        steps = _cost(node, value)
        validator = None if steps is None else self._validator(node)
        if steps is None or validator is None:
            self.assumed += 1
            return None
        try:
            if validator.is_valid(value):
                return None
            if steps > _MAX_ERRORS or steps * len(repr(value)) > _MAX_COPIED:
                return "it is not what the schema allows"
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            place = "".join(f"[{part!r}]" for part in error.instance_path)
            return _shorten(f"{place}: {error.message}" if place else error.message)
        except ValueError:  # lone surrogates, or a recursion limit
            self.assumed += 1
        return None

    def refused(self, node: Node, values: tuple[str, ...]) -> int:
        """How many of these texts are not allowed; none where nothing is known of the schema, or too little is left."""
        node = _followed(node)[0]
        key = (id(node.schema), values)
        if key not in self._refused:
            branches, count = self.branches(node), 0
            if branches != [()] and self._affords(len(values) * _size(branches)):
                for value in values:
                    checkpoint()
                    count += self.problem(node, value) is not None
            self._refused[key] = (node, count)
        return self._refused[key][1]

    def describe(self, node: Node) -> str:
        """The type in words, for messages: "a list", "text or a whole number"."""
        kinds = self.kinds(node)
        if kinds == KINDS:
            return "any value"
        words = {"null": "null", "boolean": "true or false", "string": "text", "array": "a list", "object": "an object"}
        names = [words[kind] for kind in sorted(kinds) if kind in words and (kind != "null" or len(kinds) == 1)]
        if "number" in kinds:
            names.append("a number")
        elif "integer" in kinds:
            names.append("a whole number")
        return " or ".join(names) or "nothing"

    def _expansion(self, node: Node) -> tuple[list[Branch], int]:
        """The alternatives of a schema and their size. What refers to one definition shares one expansion."""
        node, seen = _followed(node)
        cached = self._expanded.get(id(node.schema))
        if cached is None:
            checkpoint()
            found: list[Branch] = [()]
            if self._left > 0:
                with suppress(_OverBudget):
                    found = _expand(node.schema, node.definitions, seen, itertools.count())
            cached = self._expanded[id(node.schema)] = (node, found, _size(found))
        return cached[1], cached[2]

    def _affords(self, cost: int) -> bool:
        """Take it from what is left for all nodes together: each may be cheap, and there may be thousands."""
        self._left -= cost
        return self._left >= 0

    def _find_child(self, node: Node, part: str | int, strict: bool) -> Node | Absence:
        checkpoint()
        if not self._affords(sum(map(len, self.branches(node)))):
            return ANYTHING
        found: list[JsonValue] = []
        absence: Absence = "wrong_kind"
        for branch in self.branches(node):
            kind = "array" if isinstance(part, int) else "object"
            if kind not in branch_kinds(branch):
                continue
            schemas = _items(branch, part) if isinstance(part, int) else _members(branch, part, strict)
            if schemas is None:
                absence = "missing"
            else:
                found.append(schemas[0] if len(schemas) == 1 else {"allOf": schemas} if schemas else {})
        if not found:
            return absence
        return Node(found[0] if len(found) == 1 else {"anyOf": found}, node.definitions)

    def _validator(self, node: Node) -> jsonschema_rs.Draft202012Validator | None:
        cached = self._validators.get(id(node.schema))
        if cached is None:
            validator, size = _build_validator(node)
            if self._kept + size > _MAX_KEPT:
                self._validators.clear()
                self._kept = 0
            self._kept += size
            cached = self._validators[id(node.schema)] = (node, validator)
        return cached[1]


def branch_kinds(branch: Branch) -> frozenset[str]:
    """The JSON types one alternative allows. Without ``type``, keywords of objects and lists tell."""
    kinds = KINDS
    typed = False
    for schema in branch:
        names = schema.get("type")
        if names is not None:
            typed = True
            kinds &= _named_kinds(names)
        if "const" in schema or isinstance(schema.get("enum"), list):
            typed = True
            kinds &= frozenset(kind_of(value) for value in _listed(schema))
    if not typed:
        if any(key in schema for schema in branch for key in ("properties", "additionalProperties", "required")):
            return frozenset({"object"})
        if any(key in schema for schema in branch for key in ("items", "prefixItems")):
            return frozenset({"array"})
    return kinds


def kind_of(value: JsonValue) -> str:
    """The JSON type of a value, in the terms of ``KINDS``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "integer" if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else "number"


def schema_of(value: JsonValue, depth: int = 0) -> JsonSchema:
    """A schema that describes one JSON value: what a reference into a literal may rely on."""
    if isinstance(value, dict) and depth < 16:
        return {"type": "object", "properties": {name: schema_of(item, depth + 1) for name, item in value.items()}}
    if isinstance(value, list) and depth < 16:
        return {"type": "array", "prefixItems": [schema_of(item, depth + 1) for item in value[:MAX_BRANCHES]]}
    return {"type": kind_of(value)}


def _expand(
    schema: JsonValue, definitions: Mapping[str, JsonSchema], seen: frozenset[str], spent: Iterator[int]
) -> list[Branch]:
    if next(spent) > EXPANSION_BUDGET:
        raise _OverBudget
    if schema is False:
        return []
    if not isinstance(schema, dict) or not schema:
        return [()]
    factors: list[list[Branch]] = [[(schema,)]]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        factors.append(_expand(_target(reference, definitions), definitions, seen | {reference}, spent))
    factors += [_expand(part, definitions, seen, spent) for part in _list(schema.get("allOf"))]
    for key in ("anyOf", "oneOf"):
        if parts := _list(schema.get(key)):
            factors.append([branch for part in parts for branch in _expand(part, definitions, seen, spent)])
    if math.prod(len(factor) for factor in factors) > MAX_BRANCHES:
        raise _OverBudget
    return [tuple(itertools.chain.from_iterable(combination)) for combination in itertools.product(*factors)]


def _followed(node: Node) -> tuple[Node, frozenset[str]]:
    """What a schema that is a reference and nothing else leads to, and the references on the way."""
    seen: set[str] = set()
    while isinstance(node.schema, dict) and len(node.schema) == 1:
        reference = node.schema.get("$ref")
        target = _target(reference, node.definitions) if isinstance(reference, str) else None
        if not isinstance(reference, str) or reference in seen or not isinstance(target, dict) or not target:
            break
        seen.add(reference)
        node = Node(target, node.definitions)
    return node, frozenset(seen)


def _size(branches: list[Branch]) -> int:
    """How much there is to look at: the schemas, and what each lists."""
    schemas = (schema for branch in branches for schema in branch)
    return sum(1 + sum(len(held) for held in schema.values() if isinstance(held, list | dict)) for schema in schemas)


def _target(reference: str, definitions: Mapping[str, JsonSchema]) -> JsonValue:
    """The definition a reference names; anything where there is none."""
    return definitions.get(_name(reference), {}) if reference.startswith("#/$defs/") else {}


def _name(reference: str) -> str:
    return reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")


def _is_followed(reference: JsonValue, definitions: Mapping[str, JsonSchema]) -> bool:
    """Whether a reference leads to a definition, or there is none."""
    if not isinstance(reference, str):
        return True
    return reference.startswith("#/$defs/") and _name(reference) in definitions


def _members(branch: Branch, name: str, strict: bool) -> list[JsonValue] | None:
    """The schemas a member must satisfy; None where there is no such member."""
    found: list[JsonValue] = []
    others: list[JsonValue] = []
    closed = listed = opened = False
    for schema in branch:
        properties = _dict(schema.get("properties"))
        if name in properties:
            found.append(properties[name])
            continue
        extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        closed |= extra is False
        opened |= extra is True or "patternProperties" in schema
        listed |= bool(properties)
        if isinstance(extra, dict):
            others.append(extra)
    if found:
        return found
    if closed or (strict and listed and not opened and not others):
        return None
    return others


def _items(branch: Branch, index: int) -> list[JsonValue] | None:
    """The schemas an item must satisfy; None where there is no such item."""
    found: list[JsonValue] = []
    for schema in branch:
        prefix = _list(schema.get("prefixItems"))
        longest = schema.get("maxItems")
        items = prefix[index] if 0 <= index < len(prefix) else schema.get("items")
        if index < 0 or items is False or (isinstance(longest, int) and index >= longest):
            return None
        if isinstance(items, dict):
            found.append(items)
    return found


def _build_validator(node: Node) -> tuple[jsonschema_rs.Draft202012Validator | None, int]:
    """A validator that fetches nothing, and its size; None where the schema is broken or too large."""
    schema: Any = node.schema
    if isinstance(schema, dict) and (definitions := _reachable(schema, node.definitions)):
        schema = {**schema, "$defs": definitions}
    values, patterns = _extent(schema)
    if values > _MAX_VALUES or patterns > MAX_PATTERNS:
        return None, 1
    limit = min(_MAX_REGEX_BYTES, _REGEX_BYTES // max(patterns, 1))
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=limit, dfa_size_limit=limit),
        )
    except (ValueError, OverflowError, TypeError):
        return None, 1
    return validator, values + patterns * limit // _VALUE_BYTES


def _extent(schema: JsonValue) -> tuple[int, int]:
    """How many values and regular expressions a schema holds, as far as a validator may be built of it."""
    waiting: list[JsonValue] = [schema]
    values = patterns = 0
    while waiting and values <= _MAX_VALUES:
        part = waiting.pop()
        values += 1
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            patterns += isinstance(part.get("pattern"), str) + len(_dict(part.get("patternProperties")))
    return values, patterns


def _reachable(schema: JsonValue, definitions: Mapping[str, JsonSchema]) -> dict[str, JsonSchema]:
    """The definitions a schema needs, so that a validator is not built over all of them."""
    found: dict[str, JsonSchema] = {}
    waiting: list[JsonValue] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                name = reference.removeprefix("#/$defs/").split("/")[0].replace("~1", "/").replace("~0", "~")
                if name in definitions and name not in found:
                    found[name] = definitions[name]
                    waiting.append(definitions[name])
    return found


def _cost(node: Node, value: JsonValue) -> int | None:
    """In how many steps a value is validated; None where there are too many, or nobody can say.

    Applies the schema's structure without its assertions. Recursive definitions and doubling ``allOf`` chains take a
    validator exponential time (measured: 40 levels of two, hours), and it has no time-out of its own.
    """
    waiting: list[tuple[JsonValue, JsonValue]] = [(node.schema, value)]
    steps = 0
    while waiting:
        schema, instance = waiting.pop()
        steps += 1
        if isinstance(schema, dict):
            if schema.keys() & _UNFOLLOWED or not _is_followed(schema.get("$ref"), node.definitions):
                return None
            steps += _own_steps(schema, instance)
            waiting.extend(itertools.islice(_applied(schema, instance, node.definitions), VALIDATION_BUDGET))
        if steps + len(waiting) > VALIDATION_BUDGET:
            return None
    return steps


def _own_steps(schema: JsonSchema, value: JsonValue) -> int:
    """The steps that a schema's own assertions take: texts are read by patterns, and lists of values compared."""
    listed = len(_list(schema.get("enum"))) + ("const" in schema)
    steps = listed * _count(value) // _CHEAP if listed else 0
    if isinstance(value, str):
        steps += len(value) * ("pattern" in schema)
    elif isinstance(value, dict):
        patterned = len(_dict(schema.get("patternProperties")))
        steps += sum(map(len, value)) * patterned * 2 if patterned else 0  # once more for additionalProperties
        steps += len(_list(schema.get("required"))) + len(_dict(schema.get("properties"))) // _CHEAP
        steps += sum(1 + len(_list(names)) for names in _dict(schema.get("dependentRequired")).values())
    elif isinstance(value, int | float) and "multipleOf" in schema:
        steps += _digits(value) + _digits(schema["multipleOf"])
    return steps


def _count(value: JsonValue) -> int:
    """How many values there are in a value, itself among them."""
    waiting, count = [value], 0
    while waiting:
        part = waiting.pop()
        count += 1
        waiting += part.values() if isinstance(part, dict) else _list(part)
    return count


def _digits(number: JsonValue) -> int:
    """Binary digits before or behind the point, roughly: division of decimals takes time in proportion."""
    if isinstance(number, int):
        return number.bit_length()
    return abs(math.frexp(number)[1]) if isinstance(number, float) else 0


def _applied(
    schema: JsonSchema, value: JsonValue, definitions: Mapping[str, JsonSchema]
) -> Iterator[tuple[JsonValue, JsonValue]]:
    for _ in range(_REAPPLIED if schema.keys() & {"unevaluatedProperties", "unevaluatedItems"} else 1):
        yield from ((part, value) for part in _in_place(schema, definitions))
    if isinstance(value, dict):
        properties = _dict(schema.get("properties"))
        patterns = list(_dict(schema.get("patternProperties")).values())
        general = [schema.get(key) for key in ("additionalProperties", "unevaluatedProperties")]
        names = schema.get("propertyNames")
        for name, item in value.items():
            yield from ((part, item) for part in [properties.get(name), *patterns, *general] if part is not None)
            if names is not None:
                yield names, name
    elif isinstance(value, list):
        prefix = _list(schema.get("prefixItems"))
        general = [schema.get(key) for key in ("items", "contains", "unevaluatedItems")]
        yield from zip(prefix, value, strict=False)
        yield from ((part, item) for item in value for part in general if part is not None)


def _in_place(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> Iterator[JsonValue]:
    """The schemas that are applied to the same value."""
    if isinstance(reference := schema.get("$ref"), str):
        yield _target(reference, definitions)
    for key in ("allOf", "anyOf", "oneOf"):
        yield from _list(schema.get(key))
    yield from (schema[key] for key in ("not", "if", "then", "else") if key in schema)
    yield from _dict(schema.get("dependentSchemas")).values()


def _named_kinds(names: JsonValue) -> frozenset[str]:
    found = {name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)}
    if "number" in found:
        found.add("integer")
    return frozenset(found) & KINDS if found & KINDS else KINDS


def _listed(schema: JsonSchema) -> list[JsonValue]:
    return [schema["const"]] if "const" in schema else _list(schema.get("enum"))


def _dict(value: JsonValue) -> JsonSchema:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."
