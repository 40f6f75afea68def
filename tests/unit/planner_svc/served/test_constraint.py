"""What a server is told that plans look like: valid plans pass, others do not, and hostile schemas stay small."""

import json
import re
import time
from typing import Any

import jsonschema_rs
import pytest

from planner_svc.backends.served.constraint import MAX_CALLS, MAX_CHARS, MAX_NODES, MAX_SHORT_CALLS, constrain
from planner_svc.backends.served.grammar import MAX_ITEMS, MAX_TEXT
from planner_svc.backends.served.references import ANY_REFERENCE, MAX_PATTERN, reference_pattern
from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.contracts.api import Location
from tests.support.gbnf import Grammar
from tests.unit.planner_svc.building import WHOLE, api, param, record

FIND = api(
    "find", param("name"), returns=record(code={"type": "string"}, size=WHOLE, ids={"type": "array", "items": WHOLE})
)
BOOK = api(
    "book",
    param("code", required=True),
    param("seats", WHOLE),
    param("class", {"enum": ["first", "second"]}),
    param("flag", {"type": "boolean"}),
    param("seat_ids", {"type": "array", "items": WHOLE}),
    param("guest", {**record(age=WHOLE), "additionalProperties": False}, at=Location.BODY),
    param("any", {"description": "anything"}),
    method="POST",
    returns=record(items={"type": "array", "items": record(day={"type": "string"})}),
)
APIS = (FIND, BOOK)
NAMES = {"t.find": "find", "t.book": "t.book"}


def calls(*listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"calls": list(listed), **more}


def call(name: str, label: str = "var1", /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "arguments": arguments}


GOOD = [
    calls(),
    calls(need=["find a guest by name"]),
    calls(call("find", name="Oslo")),
    calls(call("find", name='A "quoted" \\ name\nof two lines, 100% $')),
    calls(call("find"), call("t.book", "var2", code="$var1.code$", seats=2)),
    calls(call("find"), call("t.book", "var2", code="$var1.size$", seats="$var1.size$", seat_ids=[1, "$var1.size$"])),
    calls(
        call("find"), call("t.book", "var2", seat_ids="$var1.ids$", guest={"age": 3}, any={"deep": [1, {"x": None}]})
    ),
    calls(call("t.book", **{"class": "first"})),
    calls(call("find"), {**call("t.book", "var2", code="$@.day$"), "foreach": {"items": "$var1.items$"}}),
    calls(call("find"), {"name": "var_result", "arguments": {"code": "$var1.code$"}}),
    calls(call("t.book"), {"name": "var_result", "arguments": {"days": "$var1.items[*].day$"}}),
    calls(call("t.book"), call("t.book", "var2", seat_ids="$var1.items[*].day$")),
]
BAD = [
    [],
    {"plan": []},
    calls(call("delete")),
    calls(call("find", colour="red")),
    calls(call("t.book", seats="two")),
    calls(call("t.book", flag="yes")),
    calls(call("t.book", **{"class": "third"})),
    calls(call("t.book", guest={"age": "old"})),
    calls(call("t.book", guest={"name": "x"})),
    calls({"name": "find", "label": "step one", "arguments": {}}),
    calls({"name": "find", "arguments": ["x"], "label": "var1"}),
    calls({"name": "var_result", "arguments": {"code": "PT"}}),
]
UNTYPED = [
    calls(call("find"), call("t.book", "var2", seats="$var1.code$")),
    calls(call("find"), call("find", "var2", name="$var1.colour$")),
    calls(call("t.book"), call("find", "var2", name="$var1.items[*].day$")),
]
"""References to fields of another type, and in a free text to fields of no answer: the grammar alone refuses them."""


@pytest.mark.parametrize("answer", GOOD, ids=json.dumps)
def test_plans_pass(answer: Any) -> None:
    constraint = constrain(APIS, NAMES)
    assert jsonschema_rs.is_valid(constraint.schema, answer)
    grammar = Grammar(constraint.grammar)
    assert grammar.accepts(json.dumps(answer))
    assert grammar.accepts(json.dumps(answer, separators=(",", ":"), ensure_ascii=False))


@pytest.mark.parametrize("answer", BAD, ids=json.dumps)
def test_what_is_no_plan_does_not(answer: Any) -> None:
    constraint = constrain(APIS, NAMES)
    assert not jsonschema_rs.is_valid(constraint.schema, answer)
    assert not Grammar(constraint.grammar).accepts(json.dumps(answer))


@pytest.mark.parametrize("answer", UNTYPED, ids=json.dumps)
def test_the_grammar_knows_fields_and_their_types(answer: Any) -> None:
    assert not Grammar(constrain(APIS, NAMES).grammar).accepts(json.dumps(answer))


LOOK = api(
    "look",
    param("id", required=True, at=Location.PATH),
    param("day", {"type": "string", "format": "date"}),
    param("count", WHOLE),
    param("kind", {"enum": ["first", "second"]}),
    param("tags", {"type": "array", "items": WHOLE}),
    param("note"),
    returns={
        **record(
            **{"code": WHOLE, "a.b": WHOLE, "rates (all)": record(eur=WHOLE)},
            legs={"type": "array", "items": record(stops={"type": "array", "items": record(city=WHOLE)})},
            prices={"type": "object", "additionalProperties": {"type": "number"}},
            extra={},
        ),
        "additionalProperties": False,
    },
)
KNOWN = [
    "$var1$", "$var1.code$", "$var1.rates (all).eur$", "$var1.legs$", "$var1.legs[0].stops[12].city$",
    "$var1.legs[*].stops[0].city$",
    "$var1.prices$", "$var1.prices.EUR$", "$var1.extra.of[1].what$", "$var24.code$",
]  # fmt: skip
INVENTED = [
    "$var1.colour$", "$var1.code.x$", "$var1.codes$", "$var1.city$", "$var1.legs.city$", "$var1.legs[0]$ and more",
    "$var1.rates all.eur$", "$var1.extras$", "$var0.code$", "$var.code$", "$code$", "$var1.legs[12345]$",
]  # fmt: skip


@pytest.mark.parametrize("argument", ["id", "day", "count", "kind", "tags"])
def test_the_schema_knows_fields(argument: str) -> None:
    schema = constrain([LOOK], {LOOK.id: "look"}).schema
    for reference in KNOWN + INVENTED:
        value: Any = [reference] if argument == "tags" else reference
        answer = calls(call("look"), call("look", "var2", **{argument: value}))
        assert jsonschema_rs.is_valid(schema, answer) == (reference in KNOWN), reference


def test_the_schema_knows_what_loops_and_answers_refer_to() -> None:
    schema = constrain([LOOK], {LOOK.id: "look"}).schema
    for reference, exists in [("$var1.legs$", True), ("$var1[3].code$", True), ("$var1.hops$", False)]:
        loop = call("look", "var2") | {"foreach": {"items": reference}}
        answer = {"name": "var_result", "arguments": {"found": reference}}
        assert jsonschema_rs.is_valid(schema, calls(call("look"), loop)) == exists
        assert jsonschema_rs.is_valid(schema, calls(call("look"), answer)) == exists
    for item, exists in [("$@$", True), ("$@.city$", True), ("$@.stops[0].city$", True), ("$@.town$", False)]:
        assert jsonschema_rs.is_valid(schema, calls(call("look", count=item))) == exists, item
        brief = constrain([LOOK], {LOOK.id: "look"}, calls_only=True).schema
        assert not jsonschema_rs.is_valid(brief, calls(call("look", count=item)))


def test_texts_stay_free() -> None:
    """A free text may hold quotes and line breaks, an id in a path may not: servers differ in how they match them."""
    schema = constrain([LOOK], {LOOK.id: "look"}).schema
    for text in ("a", "", "100 $", "é / -", 'say "x"', "two\nlines", "C:\\x", "$5"):
        assert jsonschema_rs.is_valid(schema, calls(call("look", note=text)))
        plain = re.search(r'["\\\n]|^\$', text) is None
        assert jsonschema_rs.is_valid(schema, calls(call("look", id=text))) == plain, text


def test_of_too_many_fields_only_the_outer_ones_are_listed() -> None:
    def pattern(outer: int, inner: int) -> str:
        fields = {f"field_number_{n}": record(**{f"inner_{m}": WHOLE for m in range(inner)}) for n in range(outer)}
        one = api("wide", param("n", WHOLE), returns=record(**fields))
        definitions: Any = constrain([one], {one.id: "wide"}).schema["$defs"]
        found: str = definitions["reference"]["pattern"]
        assert len(found) <= MAX_PATTERN
        return found

    few, many = pattern(5, 10), pattern(50, 10)
    for found in (few, many):
        assert re.fullmatch(found, "$var1.field_number_4.inner_9$")
        assert not re.fullmatch(found, "$var1.field_number_50$")
    assert not re.fullmatch(few, "$var1.field_number_4.inner_10$")
    assert re.fullmatch(many, "$var1.field_number_4.inner_10$")
    assert pattern(1_000, 10) == ANY_REFERENCE


def test_an_answer_that_nests_for_ever_is_not_followed_for_ever() -> None:
    tree = api(
        "tree",
        param("n", WHOLE),
        returns={"$ref": "#/$defs/A"},
        definitions={"A": record(a={"$ref": "#/$defs/A"}, n=WHOLE)},
    )
    schema = constrain([tree], {tree.id: "tree"}).schema
    for depth in (0, 3, 12):
        found = calls(call("tree", n=f"$var1{'.a' * depth}.n$"))
        assert jsonschema_rs.is_valid(schema, found)
    assert not jsonschema_rs.is_valid(schema, calls(call("tree", n="$var1.a.b.n$")))


@pytest.mark.parametrize("place", range(1, 6))
def test_the_first_calls_refer_to_earlier_ones_only(place: int) -> None:
    grammar = Grammar(constrain(APIS, NAMES).grammar)
    before = [call("find", f"var{n}") for n in range(1, place)]
    for named in range(1, place + 2):
        answer = calls(*before, call("find", f"var{place}", name=f"$var{named}.code$"))
        assert grammar.accepts(json.dumps(answer)) == (named < place)
    assert not grammar.accepts(json.dumps(calls(*before, call("find", f"var{place + 1}"))))


UNTAUGHT = [
    calls(call("find"), {"name": "var_result", "arguments": {"code": "$var1.code$"}}),
    calls(call("find"), call("t.book", "var2", seats=2) | {"foreach": {"items": "$var1.tags$"}}),
    calls(call("find"), call("find", "var2", name="$@.code$")),
    {"calls": [], "need": ["finds a room"]},
]
"""What the short instruction says nothing of."""


@pytest.mark.parametrize("answer", UNTAUGHT, ids=json.dumps)
def test_what_a_small_model_was_not_taught_it_cannot_write(answer: Any) -> None:
    constraint = constrain(APIS, NAMES, calls_only=True)
    assert not Grammar(constraint.grammar).accepts(json.dumps(answer))
    if "$@" not in str(answer):
        assert not jsonschema_rs.is_valid(constraint.schema, answer)


@pytest.mark.parametrize(
    "answer", [one for one in GOOD if not re.search(r"'(var_result|foreach|need)'|\[\*\]", str(one))]
)
def test_plain_calls_pass_all_the_same(answer: Any) -> None:
    constraint = constrain(APIS, NAMES, calls_only=True)
    assert jsonschema_rs.is_valid(constraint.schema, answer)
    assert Grammar(constraint.grammar).accepts(json.dumps(answer))


def test_long_plans_and_wide_catalogues_pass() -> None:
    long = calls(*(call("find", f"var{n}", name=f"$var{max(n - 1, 1)}.code$" if n > 1 else "x") for n in range(1, 12)))
    assert Grammar(constrain(APIS, NAMES).grammar).accepts(json.dumps(long))
    wide = api("wide", *(param(f"p{n}", {"type": "integer"}) for n in range(200)), returns=record(code=WHOLE))
    grammar = Grammar(constrain([wide], {wide.id: "wide"}).grammar)
    two = calls(call("wide", p99=1), call("wide", "var2", p0="$var1.code$"))
    assert grammar.accepts(json.dumps(two))


@pytest.mark.parametrize(("calls_only", "most"), [(True, MAX_SHORT_CALLS), (False, MAX_CALLS)])
def test_plans_end(calls_only: bool, most: int) -> None:
    """A small model that repeats a call would write it until it is cut off."""
    constraint = constrain(APIS, NAMES, calls_only=calls_only)
    grammar = Grammar(constraint.grammar)
    for count in (most, most + 1):
        long = calls(*(call("find", f"var{n}") for n in range(1, count + 1)))
        assert grammar.accepts(json.dumps(long)) == (count == most)
        assert jsonschema_rs.is_valid(constraint.schema, long) == (count == most)


@pytest.mark.parametrize(
    ("name", "longest", "longer"),
    [
        ("code", "x" * MAX_TEXT, "x" * (MAX_TEXT + 1)),
        ("any", "$" + "x" * (MAX_TEXT - 1), "$" + "x" * MAX_TEXT),
        ("seat_ids", [1] * MAX_ITEMS, [1] * (MAX_ITEMS + 1)),
        ("any", [None] * MAX_ITEMS, [None] * (MAX_ITEMS + 1)),
        ("any", {str(n): n for n in range(MAX_ITEMS)}, {str(n): n for n in range(MAX_ITEMS + 1)}),
    ],
)
def test_values_end(name: str, longest: Any, longer: Any) -> None:
    grammar = Grammar(constrain(APIS, NAMES).grammar)
    assert grammar.accepts(json.dumps(calls(call("t.book", **{name: longest}))))
    assert not grammar.accepts(json.dumps(calls(call("t.book", **{name: longer}))))


def test_numbers_end() -> None:
    grammar = Grammar(constrain(APIS, NAMES).grammar)
    assert grammar.accepts(json.dumps(calls(call("t.book", seats=10**17))))
    assert not grammar.accepts(json.dumps(calls(call("t.book", seats=10**18))))


def test_arguments_come_in_any_order() -> None:
    grammar = Grammar(constrain(APIS, NAMES).grammar)
    assert grammar.accepts(json.dumps(calls(call("t.book", flag=True, code="x"))))
    assert grammar.accepts(json.dumps(calls(call("t.book", code="x", flag=True))))


def test_arguments_are_not_written_for_ever() -> None:
    """A text's grammar cannot tell which were written; without a bound a small model repeats one until cut off."""
    grammar = Grammar(constrain(APIS, NAMES).grammar)
    assert not grammar.accepts(
        '{"calls":[{"name":"find","label":"var1","arguments":{' + ",".join(['"name":"x"'] * 9) + "}}]}"
    )


def test_an_answer_that_no_schema_describes_may_be_referred_to() -> None:
    grammar = Grammar(constrain([api("find"), BOOK], {"t.find": "find", "t.book": "book"}).grammar)
    plan = calls(call("find"), call("book", "var2", seats="$var1.whatever[0].it is$"))
    assert grammar.accepts(json.dumps(plan))


def test_names_that_need_escaping() -> None:
    odd = api('say"\\x', param('a"b\\c\n', {"enum": ['"', "\\", "é"]}), returns=record(**{"a.b": WHOLE, 'c"': WHOLE}))
    constraint = constrain([odd], {odd.id: 'say"\\x'})
    grammar = Grammar(constraint.grammar)
    first = call('say"\\x')
    for value in ('"', "\\", "é", '$var1["a.b"]$'):
        answer = calls(first, call('say"\\x', "var2", **{'a"b\\c\n': value}))
        assert grammar.accepts(json.dumps(answer, ensure_ascii=False)), value


def test_the_forms_of_a_request() -> None:
    constraint = constrain(APIS, NAMES)
    assert constraint.members("none") == {}
    assert constraint.members("json_object") == {"response_format": {"type": "json_object"}}
    assert constraint.members("gbnf") == {"grammar": constraint.grammar}
    assert constraint.members("structured_outputs") == {"structured_outputs": {"json": constraint.schema}}
    schema_only, grammar_only, neither = (constrain(APIS, NAMES, kind=one) for one in ("json_schema", "gbnf", "none"))
    assert (schema_only.schema, schema_only.grammar) == (constraint.schema, "")
    assert (grammar_only.schema, grammar_only.grammar) == ({}, constraint.grammar)
    assert (neither.schema, neither.grammar) == ({}, "")
    form: Any = constraint.members("json_schema")["response_format"]
    assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", constraint.schema)


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": 10_000}
    for _ in range(levels):
        schema = {"oneOf": [record(a=schema, b=schema), {"type": "array", "items": schema}]}
    return schema


def _tree(members: int, name: str = "m") -> dict[str, Any]:
    """A type of which each member is of the same type."""
    return {"Tree": record(**{f"{name}{n}": {"$ref": "#/$defs/Tree"} for n in range(members)})}


TREE: dict[str, Any] = {"$ref": "#/$defs/Tree"}
TWICE = {f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(60)}
HOSTILE = [
    api("deep", param("x", _deep(12)), returns=_deep(12)),
    api("bomb", param("x", {"$ref": "#/$defs/L0"}), returns={"$ref": "#/$defs/L0"}, definitions=TWICE),
    api(
        "loop",
        param("x", {"$ref": "#/$defs/A"}),
        returns={"$ref": "#/$defs/A"},
        definitions={"A": record(a={"$ref": "#/$defs/A"})},
    ),
    api("wide", *(param(f"p{n}", record(**{f"m{m}": WHOLE for m in range(50)})) for n in range(200))),
    api("listed", param("x", {"enum": [f"value {n}" for n in range(50_000)]})),
    api("no", param("x", {"not": {}, "type": "elephant"}), returns={"type": ["string", 3]}),
    api("trees", *(param(f"p{n}", TREE) for n in range(20)), returns=TREE, definitions=_tree(50)),
    api("texts", *(param(f"p{n}", {"enum": [f"{n} {m}" + "x" * 900 for m in range(100)]}) for n in range(60))),
    api("names", *(param(f"p{n}", TREE) for n in range(20)), returns=TREE, definitions=_tree(60, "x" * 900)),
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda one: one.name)
def test_hostile_schemas_stay_small(hostile: Any) -> None:
    started = time.process_time()
    constraint = constrain([hostile], {hostile.id: hostile.name})
    assert time.process_time() - started < 10
    assert len(json.dumps(constraint.schema)) < 1.2 * MAX_CHARS
    assert len(constraint.grammar) < 1.5 * MAX_CHARS
    assert '"maxLength"' not in json.dumps(constraint.schema)
    Grammar(constraint.grammar)
    assert _nesting(constraint.schema) < 30
    assert _nodes(constraint.schema) < 20 * MAX_NODES


def test_types_of_types_are_not_looked_through_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at an object's members take as long as it has members, and each of them may be such an object."""
    looks = []
    properties = Schemas.properties

    def counted(self: Schemas, node: Node) -> dict[str, Node]:
        looks.append(node)
        return properties(self, node)

    monkeypatch.setattr(Schemas, "properties", counted)
    tree = api("tree", *(param(f"p{n}", TREE) for n in range(3)), returns=TREE, definitions=_tree(40))
    constrain([tree], {tree.id: "tree"}, kind="gbnf")
    assert len(looks) < 200
    looks.clear()
    found = reference_pattern([tree], loops=True)
    assert re.fullmatch(found, "$var1.m39.m0.m7$")
    assert not re.fullmatch(found, "$var1.m40$")
    assert len(looks) <= 400


def _nesting(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_nesting(child) for child in children), default=0)


def _nodes(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_nodes(child) for child in children)
