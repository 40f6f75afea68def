"""What a JSON Schema (2020-12) tells about a value, as far as the compiler needs it before there are values.

Schemas come from imported documents and are treated as hostile: nothing is ever fetched, patterns run on a linear-time
engine, and expansion (``expansion``) and validation (``validation``) have budgets. A schema that is broken, over budget
or has a pattern that this engine does not support (look-around) allows everything, and the fact is counted as *assumed*
instead of proved.
"""

import itertools
from contextlib import suppress
from typing import Final, Literal

import jsonschema_rs
from pydantic import JsonValue

from planner_svc.compiler.expansion import (
    KINDS,
    MAX_BRANCHES,
    Branch,
    OverBudget,
    branch_kinds,
    expand,
    items_of,
    kind_of,
    listed_in,
    members_of,
    size_of,
)
from planner_svc.compiler.nodes import ANYTHING, Node, dict_of, followed, list_of, listed
from planner_svc.compiler.validation import build_validator, cost_of
from services.compute import checkpoint
from services.contracts.base import EVERY, JsonPath, JsonSchema
from services.paths import MAX_EVERY

TOTAL_BUDGET: Final = 300_000
"""Budget of one instance for all alternatives of all nodes: schemas, and the entries of their lists. It is ten times
what the widest of 4,000 operations of known services takes. Whatever exceeds it is unknown, as with a node's own
budget."""
MAX_MESSAGE: Final = 300
_MAX_KEPT: Final = 50_000
"""Most JSON values in the schemas of cached validators; a pattern counts as many values, by its memory."""
_MAX_ERRORS, _MAX_COPIED = 5_000, 5_000_000
"""Limits for asking a validator what is wrong, in steps and in characters: it copies the value of each error."""

Absence = Literal["missing", "wrong_kind"]


class Schemas:
    """Answers questions about schemas and caches the answers. One instance serves one compilation.

    Caches are keyed by the identity of schema objects, which they keep alive.
    """

    def __init__(self) -> None:
        self.assumed = 0
        """How many facts could not be checked against a schema."""
        self._left = TOTAL_BUDGET
        self._branches: dict[int, tuple[Node, list[Branch]]] = {}
        self._expanded: dict[int, tuple[Node, list[Branch], int]] = {}
        self._refused: dict[tuple[int, tuple[str, ...]], tuple[Node, int]] = {}
        self._kinds: dict[int, tuple[Node, frozenset[str]]] = {}
        self._children: dict[tuple[int, str | int, bool], tuple[Node, Node | Absence]] = {}
        self._validators: dict[int, tuple[Node, jsonschema_rs.Draft202012Validator | None]] = {}
        self._kept = 0

    def branches(self, node: Node) -> list[Branch]:
        """The alternatives of a schema, references and combinators resolved; empty if it allows nothing."""
        cached = self._branches.get(id(node.schema))
        if cached is None:
            found, size = self._expansion(node)
            cached = self._branches[id(node.schema)] = (node, found if self._affords(size) else [()])
        return cached[1]

    def kinds(self, node: Node) -> frozenset[str]:
        """The JSON types that a value may have."""
        cached = self._kinds.get(id(node.schema))
        if cached is None:
            found = frozenset().union(*(branch_kinds(branch) for branch in self.branches(node)))
            cached = self._kinds[id(node.schema)] = (node, found)
        return cached[1]

    def is_anything(self, node: Node) -> bool:
        """Whether the schema does not restrict the value's type."""
        return self.kinds(node) == KINDS

    def child(self, node: Node, part: str | int, *, strict: bool) -> Node | Absence:
        """The schema of a member or an item.

        If ``strict``, an object that lists its properties has no others unless it allows them: a later step may rely on
        listed properties only. Otherwise JSON Schema's own rule applies, which allows undeclared properties.
        """
        node = followed(node)[0]
        key = (id(node.schema), part, strict)
        cached = self._children.get(key)
        if cached is None:
            cached = self._children[key] = (node, self._find_child(node, part, strict))
        return cached[1]

    def every(self, node: Node) -> Node | None:
        """The schema of any item of a list; None if no list is allowed."""
        if "array" not in self.kinds(node):
            return None
        first, later = (self.child(node, index, strict=True) for index in (0, MAX_EVERY))
        if not isinstance(first, Node):
            return ANYTHING
        return first if not isinstance(later, Node) or later.schema == first.schema else ANYTHING

    def at(self, node: Node, path: JsonPath, *, strict: bool = True) -> Node:
        """The schema of what a path leads to; the empty schema if it leads nowhere. ``strict``: see :meth:`child`."""
        for depth, part in enumerate(path):
            if part == EVERY and (item := self.every(node)) is not None:
                return listed(self.at(item, path[depth + 1 :], strict=strict))
            child = self.child(node, part, strict=strict)
            if not isinstance(child, Node):
                return ANYTHING
            node = child
        return node

    def properties(self, node: Node) -> dict[str, Node]:
        """The declared properties of an object, in order."""
        checkpoint()  # who walks nested types asks often, and is not slow only where the answer is new
        names = dict.fromkeys(
            name for branch in self.branches(node) for schema in branch for name in dict_of(schema.get("properties"))
        )
        found = ((name, self.child(node, name, strict=True)) for name in names)
        return {name: child for name, child in found if isinstance(child, Node)}

    def required(self, node: Node) -> frozenset[str]:
        """The properties that every allowed object must have."""
        sets = [
            {name for schema in branch for name in list_of(schema.get("required")) if isinstance(name, str)}
            for branch in self.branches(node)
        ]
        return frozenset(set.intersection(*sets)) if sets else frozenset()

    def enumeration(self, node: Node) -> list[JsonValue] | None:
        """The values listed by ``enum`` or ``const``; None if any branch lists none."""
        values: list[JsonValue] = []
        for branch in self.branches(node):
            listed = [
                listed_in(schema) for schema in branch if "const" in schema or isinstance(schema.get("enum"), list)
            ]
            if not listed:
                return None
            values += sorted(listed, key=len)[0]
        return values

    def formats(self, node: Node) -> frozenset[str] | None:
        """The formats of a text; None if any branch names none."""
        found: set[str] = set()
        for branch in self.branches(node):
            names = [schema["format"] for schema in branch if isinstance(schema.get("format"), str)]
            if not names:
                return None
            found.update(str(name) for name in names)
        return frozenset(found)

    def problem(self, node: Node, value: JsonValue) -> str | None:
        """Why a literal is not allowed, in words; None if it is allowed, or the schema is unusable (assumed)."""
        checkpoint()
        steps = cost_of(node, value)
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
        """How many of these texts are not allowed; 0 if the schema is unknown, or the budget is too small."""
        node = followed(node)[0]
        key = (id(node.schema), values)
        if key not in self._refused:
            branches, count = self.branches(node), 0
            if branches != [()] and self._affords(len(values) * size_of(branches)):
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
        """The alternatives of a schema and their size. References to the same definition share one expansion."""
        node, seen = followed(node)
        cached = self._expanded.get(id(node.schema))
        if cached is None:
            checkpoint()
            found: list[Branch] = [()]
            if self._left > 0:
                with suppress(OverBudget):
                    found = expand(node.schema, node.definitions, seen, itertools.count())
            cached = self._expanded[id(node.schema)] = (node, found, size_of(found))
        return cached[1], cached[2]

    def _affords(self, cost: int) -> bool:
        """Take a cost from the budget of all nodes: each node may be cheap, but there may be thousands."""
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
            schemas = items_of(branch, part) if isinstance(part, int) else members_of(branch, part, strict)
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
            validator, size = build_validator(node)
            if self._kept + size > _MAX_KEPT:
                self._validators.clear()
                self._kept = 0
            self._kept += size
            cached = self._validators[id(node.schema)] = (node, validator)
        return cached[1]


def schema_of(value: JsonValue, depth: int = 0) -> JsonSchema:
    """A schema that describes one JSON value, for references into a literal."""
    if isinstance(value, dict) and depth < 16:
        return {"type": "object", "properties": {name: schema_of(item, depth + 1) for name, item in value.items()}}
    if isinstance(value, list) and depth < 16:
        return {"type": "array", "prefixItems": [schema_of(item, depth + 1) for item in value[:MAX_BRANCHES]]}
    return {"type": kind_of(value)}


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."
