"""Schemas as types: walking them, fitting one into another, and surviving hostile ones."""

import itertools
import socket
import weakref
from typing import Any

import jsonschema_rs
import pytest

from planner_svc.compiler.assign import COMPARISON_BUDGET, MAX_DEPTH, mismatch
from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.compiler.validation import MAX_PATTERNS, VALIDATION_BUDGET
from services.contracts.planning import DiagnosticCode

DEFINITIONS: dict[str, dict[str, Any]] = {
    "Item": {"type": "object", "properties": {"id": {"type": "integer"}, "parent": {"$ref": "#/$defs/Item"}}},
    "Base": {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}},
    "Self": {"$ref": "#/$defs/Self"},
    "a/b~c": {"type": "boolean"},
}


def node(schema: Any) -> Node:
    return Node(schema, DEFINITIONS)


def walk(schema: Any, *path: str | int) -> str:
    """The kinds at the end of a path, or why there is no end."""
    schemas = Schemas()
    current = node(schema)
    for part in path:
        child = schemas.child(current, part, strict=True)
        if not isinstance(child, Node):
            return child
        current = child
    return "anything" if schemas.is_anything(current) else "|".join(sorted(schemas.kinds(current)))


@pytest.mark.parametrize(
    ("schema", "path", "end"),
    [
        ({"$ref": "#/$defs/Item"}, ("parent", "parent", "id"), "integer"),
        ({"$ref": "#/$defs/Item"}, ("nope",), "missing"),
        ({"$ref": "#/$defs/a~1b~0c"}, (), "boolean"),
        ({"$ref": "#/$defs/Self"}, ("x", 3), "anything"),
        ({"$ref": "#/$defs/Nope"}, ("x",), "anything"),
        ({"$ref": "http://example.org/schema"}, ("x",), "anything"),
        ({"allOf": [{"$ref": "#/$defs/Base"}, {"$ref": "#/$defs/Item"}]}, ("id",), "integer"),
        ({"allOf": [{"$ref": "#/$defs/Base"}, {"$ref": "#/$defs/Item"}]}, ("kind",), "string"),
        ({"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]}, ("id",), "integer"),
        (
            {"oneOf": [{"properties": {"x": {"type": "string"}}}, {"properties": {"x": {"type": "null"}}}]},
            ("x",),
            "null|string",
        ),
        ({"type": "array", "items": {"$ref": "#/$defs/Item"}}, (7, "id"), "integer"),
        ({"type": "array", "items": {"$ref": "#/$defs/Item"}}, ("id",), "wrong_kind"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, (0,), "string"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, (1,), "missing"),
        ({"type": "array", "maxItems": 2}, (2,), "missing"),
        ({"type": "array"}, (2, "x"), "anything"),
        ({"type": "object"}, ("x",), "anything"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, ("x",), "integer|number"),
        ({"properties": {"a": {}}, "additionalProperties": True}, ("x",), "anything"),
        ({"properties": {"a": {}}, "additionalProperties": False}, ("x",), "missing"),
        ({"type": "string"}, ("x",), "wrong_kind"),
        ({}, ("x", 0, "y"), "anything"),
        (False, (), ""),
        ({"type": 7, "properties": 3}, ("x",), "anything"),
        ({"type": ["integer", "null"]}, (), "integer|null"),
        ({"const": 3.0}, (), "integer"),
    ],
)
def test_walk(schema: Any, path: tuple[str | int, ...], end: str) -> None:
    assert walk(schema, *path) == end


TEXT, WHOLE, NUMBER, FLAG = ({"type": name} for name in ("string", "integer", "number", "boolean"))
EUR_USD, USD, GBP = ({"type": "string", "enum": values} for values in (["EUR", "USD"], ["USD"], ["GBP"]))
DATE, TIME = ({"type": "string", "format": name} for name in ("date", "date-time"))


def needs(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def listing(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("given", "wanted", "body", "text"),
    [
        (TEXT, TEXT, "fits", "fits"),
        (WHOLE, NUMBER, "fits", "fits"),
        (NUMBER, WHOLE, "warning", "warning"),
        (NUMBER, TEXT, "error", "fits"),
        (FLAG, TEXT, "error", "fits"),
        (TEXT, NUMBER, "error", "warning"),
        (TEXT, FLAG, "error", "error"),
        (TEXT, {}, "fits", "fits"),
        ({}, TEXT, "assumed", "assumed"),
        ({"type": ["string", "null"]}, TEXT, "fits", "fits"),
        ({"type": "null"}, TEXT, "error", "error"),
        (False, TEXT, "error", "error"),
        ({"type": ["string", "integer"]}, WHOLE, "warning", "warning"),
        ({"type": ["string", "integer"]}, TEXT, "warning", "fits"),
        (USD, EUR_USD, "fits", "fits"),
        (EUR_USD, USD, "warning", "warning"),
        (GBP, EUR_USD, "error", "error"),
        (TEXT, EUR_USD, "fits", "fits"),
        ({"enum": [1, 2]}, {"enum": ["1", "2"]}, "error", "fits"),
        (DATE, TIME, "warning", "warning"),
        (DATE, TEXT, "fits", "fits"),
        (listing(TEXT), TEXT, "list_for_single", "list_for_single"),
        (TEXT, listing(TEXT), "single_for_list", "single_for_list"),
        (listing(WHOLE), listing(NUMBER), "fits", "fits"),
        (listing(TEXT), listing(WHOLE), "error", "warning"),
        (needs(id=WHOLE), needs(id=NUMBER), "fits", "fits"),
        (needs(id=WHOLE), needs(id=TEXT), "error", "error"),
        (needs(id=WHOLE), needs(name=TEXT), "error", "error"),
        (needs(id=WHOLE), TEXT, "error", "error"),
    ],
)
def test_fits(given: Any, wanted: Any, body: str, text: str) -> None:
    for as_text, expected in ((False, body), (True, text)):
        schemas = Schemas()
        wrong = mismatch(schemas, node(given), node(wanted), as_text=as_text)
        if wrong is None:
            outcome = "assumed" if schemas.assumed else "fits"
        elif wrong.code is DiagnosticCode.TYPE_MISMATCH:
            outcome = "error" if wrong.certain else "warning"
        else:
            outcome = wrong.code.value
        assert outcome == expected, (as_text, wrong)


def recursive(fields: int, **others: Any) -> Node:
    """A type with required fields of its own type."""
    names = [f"f{n:02}" for n in range(fields)]
    properties: dict[str, Any] = {name: {"$ref": "#/$defs/T"} for name in names} | others
    definition: dict[str, Any] = {"type": "object", "required": list(properties), "properties": properties}
    return Node({"$ref": "#/$defs/T"}, {"T": definition})


def test_types_that_refer_to_themselves_are_compared_once() -> None:
    for fields in (2, 8, 40):
        given = recursive(fields)
        assert mismatch(Schemas(), given, recursive(fields), as_text=False) is None
        assert mismatch(Schemas(), given, given, as_text=False) is None
        wrong = mismatch(Schemas(), recursive(fields, z=TEXT), recursive(fields, z=WHOLE), as_text=False)
        assert wrong is not None, fields
    schemas = Schemas()
    assert mismatch(schemas, recursive(5), recursive(5), as_text=False) is None
    assert schemas.assumed == 0


def test_a_type_met_too_deep_is_compared_where_it_is_met_higher_up() -> None:
    """The field of the last type is too deep by way of the chain of ``a``, and not by way of ``z``."""

    def chain(end: Any) -> Node:
        shared = {"$ref": "#/$defs/End"}
        links = {f"L{n}": needs(a={"$ref": f"#/$defs/L{n + 1}"}) for n in range(MAX_DEPTH - 2)}
        links[f"L{MAX_DEPTH - 2}"] = needs(a=shared)
        return Node(needs(a={"$ref": "#/$defs/L0"}, z=shared), {**links, "End": needs(x=end)})

    assert mismatch(Schemas(), chain(TEXT), chain(TEXT), as_text=False) is None
    assert mismatch(Schemas(), chain(TEXT), chain(FLAG), as_text=False) is not None


def test_a_comparison_has_a_budget_and_the_rest_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fields of its own type are combined, each step leads to schemas that were not there before."""
    names = [f"f{n}" for n in range(12)]
    members: dict[str, Any] = {"properties": {name: {"$ref": "#/$defs/T"} for name in names}}
    definition: dict[str, Any] = {"type": "object", "required": names, **members, "allOf": [members]}
    bomb = Node({"$ref": "#/$defs/T"}, {"T": definition})
    looks = itertools.count()
    monkeypatch.setattr("planner_svc.compiler.assign.checkpoint", lambda: next(looks))
    assert mismatch(Schemas(), bomb, bomb, as_text=False) is None
    assert 1_000 < next(looks) < COMPARISON_BUDGET
    monkeypatch.setattr("planner_svc.compiler.assign.COMPARISON_BUDGET", 1_000)
    schemas = Schemas()
    assert mismatch(schemas, bomb, bomb, as_text=False) is None
    assert schemas.assumed > 0
    listed = {"enum": [str(number) for number in range(COMPARISON_BUDGET)]}
    assert mismatch(schemas, node(listed), node({"enum": ["x"]}), as_text=False) is None


def doubling(levels: int) -> tuple[Any, dict[str, Any]]:
    """Each definition needs the next one twice: 2 to the power of `levels` checks."""
    definitions: dict[str, Any] = {
        f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}, {"$ref": f"#/$defs/L{n + 1}"}]} for n in range(levels)
    }
    return {"$ref": "#/$defs/L0"}, definitions | {f"L{levels}": {"type": "string"}}


def test_exponential_schemas_are_taken_on_trust() -> None:
    schema, definitions = doubling(60)
    schemas, bomb = Schemas(), Node(schema, definitions)
    assert schemas.is_anything(bomb)
    assert schemas.problem(bomb, 5) is None
    assert schemas.assumed == 1
    wide = node({"allOf": [{"anyOf": [TEXT, WHOLE]}] * 30})
    assert schemas.is_anything(wide)


def test_recursion_over_a_deep_literal_is_taken_on_trust() -> None:
    tree: dict[str, Any] = {
        "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/T"}}, {"type": "array", "items": {"$ref": "#/$defs/T"}}]
    }
    value: Any = "leaf"
    for _ in range(60):
        value = [value]
    schemas = Schemas()
    assert schemas.problem(Node({"$ref": "#/$defs/T"}, {"T": tree}), value) is None
    assert schemas.assumed == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "file"},
        {"pattern": "("},
        {"pattern": "(a{1000}){1000}"},
        {"$ref": "http://127.0.0.1/schema.json"},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "#/$defs/Nope"},
        {"$ref": 5},
        {"properties": []},
        {"multipleOf": 0},
    ],
)
def test_broken_schemas_are_taken_on_trust_and_nothing_is_fetched(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    schemas = Schemas()
    assert schemas.problem(Node(schema), "value") is None
    assert schemas.assumed == 1


def test_a_pattern_that_backtracks_is_linear_or_not_read() -> None:
    schemas = Schemas()
    assert schemas.problem(Node({"pattern": "^(a+)+$"}), "a" * 5_000 + "!") is not None
    assert schemas.assumed == 0
    for pattern in ("^(?:(?=a)a|(?=a)a)*$", "^(?=.*[0-9]).{3,}$", r"(a)\1"):
        schemas = Schemas()
        assert schemas.problem(Node({"pattern": pattern}), "!") is None
        assert schemas.assumed == 1


def nested(levels: int) -> dict[str, Any]:
    """Each level has the one inside it applied several times."""
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"unevaluatedProperties": False, "allOf": [schema]}
    return schema


def distinct(levels: int) -> dict[str, Any]:
    """Lists of lists, each without items that are alike."""
    schema: dict[str, Any] = {"uniqueItems": True}
    for _ in range(levels):
        schema = {"uniqueItems": True, "items": schema}
    return schema


def deep(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = [value]
    return value


TEXTS: list[Any] = [f"{n:020}" for n in range(20_000)]
MANY = [f"f{n}" for n in range(10_000)]
EXPENSIVE: dict[str, tuple[Any, Any]] = {
    "patterns by text": ({"allOf": [{"pattern": f"[ab]c{n}"} for n in range(50)]}, "ab" * 1_000),
    "a pattern and a long text": ({"pattern": "[ab]*a[ab]{700}c"}, "ab" * VALIDATION_BUDGET),
    "patterns of names": ({"patternProperties": {f"x{n}y": {} for n in range(50)}}, dict.fromkeys(MANY)),
    "a pattern of all names": ({"propertyNames": {"pattern": "x"}}, dict.fromkeys(TEXTS)),
    "many patterns": ({"allOf": [{"pattern": f"a{n}"} for n in range(MAX_PATTERNS + 1)]}, "a"),
    "many patterns elsewhere": ({"properties": {f"f{n}": {"pattern": f"a{n}"} for n in range(100)}}, {}),
    "large patterns": ({"allOf": [{"pattern": rf"\p{{L}}{{20}}x{n}"} for n in range(MAX_PATTERNS)]}, "hello"),
    "listed objects by items": ({"items": {"enum": [{"a": text} for text in TEXTS]}}, [{"a": "x"}] * 4_000),
    "listed texts by items": ({"items": {"enum": [*TEXTS, {}]}}, ["x"] * 4_000),
    "a constant by items": ({"items": {"const": TEXTS}}, [TEXTS] * 100),
    "required names by items": ({"items": {"required": MANY}}, [{}] * 200),
    "dependent names by items": ({"items": {"dependentRequired": {"a": MANY}}}, [{"a": 1}] * 200),
    "divisions": ({"items": {"multipleOf": 1e-300}}, [1e300] * 4_000),
    "unevaluated properties": (nested(40), {"a": 1}),
    "different items of different items": (distinct(20), deep(20, [*range(5_000)])),
    "a reference to the whole": ({"anyOf": [{"items": {"$ref": "#"}}] * 2}, [[]]),
    "another base": ({"$id": "http://x/y", "$defs": {}}, "x"),
    "a large schema": ({"properties": {f"f{n}": {"type": "string", "title": "x"} for n in range(30_000)}}, {}),
}


@pytest.mark.parametrize("case", EXPENSIVE)
def test_what_is_expensive_to_check_is_taken_on_trust(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = EXPENSIVE[case]
    built: list[Any] = []
    validator = jsonschema_rs.Draft202012Validator

    def build(*args: Any, **options: Any) -> Any:
        built.append(validator(*args, **options))
        return built[-1]

    monkeypatch.setattr(jsonschema_rs, "Draft202012Validator", build)
    schemas = Schemas()
    assert schemas.problem(Node(schema), value) is None
    assert schemas.assumed == 1
    assert not built, "what it costs is known beforehand"


def test_what_is_cheap_is_checked() -> None:
    schemas = Schemas()
    few = TEXTS[:100]
    prices: list[Any] = [1.25] * 100
    listed = Node({"items": {"enum": TEXTS[:250]}})
    assert schemas.problem(listed, few) is None
    assert schemas.problem(listed, [*few, "x"]) is not None
    named = Node({"type": "object", "properties": {name: {"pattern": rf"^\w{{1,64}}{name}$"} for name in MANY[:50]}})
    assert schemas.problem(named, {"f7": "xf7"}) is None
    assert schemas.problem(named, {"f7": "xf8"}) is not None
    assert schemas.problem(Node(nested(2)), {"a": 1}) is None
    assert schemas.problem(Node(nested(2)), {"b": 1}) is not None
    assert schemas.problem(Node({"items": {"multipleOf": 0.01}}), [*prices, 0.001]) is not None
    assert schemas.problem(Node({"uniqueItems": True}), [*TEXTS, TEXTS[0]]) is not None
    assert schemas.assumed == 0


def test_errors_are_not_listed_to_find_the_first() -> None:
    """Each error has a copy of the value: all of them together have the square of its size."""
    tall: Any = [["a" * 20] * 50] * 100
    problem = Schemas().problem(Node({"anyOf": [{"allOf": [{"maxItems": 5}] * 500}]}), tall)
    assert problem == "it is not what the schema allows"


def test_validators_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Validator:
        def __init__(self, *_: Any, **__: Any) -> None:
            alive.add(self)

        def is_valid(self, _: Any) -> bool:
            return True

    monkeypatch.setattr(jsonschema_rs, "Draft202012Validator", Validator)
    schemas = Schemas()
    for n in range(100):
        assert schemas.problem(Node({"allOf": [{"pattern": f"{m}x{n}"} for m in range(MAX_PATTERNS)]}), "x") is None
    assert 1 <= len(alive) < 20


def test_messages_are_bounded() -> None:
    problem = Schemas().problem(node(WHOLE), "x" * 10_000)
    assert problem is not None
    assert len(problem) <= 300
