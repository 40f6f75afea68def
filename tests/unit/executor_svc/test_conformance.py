"""Answers against the schemas that promise them, where both may be hostile."""

import asyncio
import json
import threading
from typing import Any

import jsonschema_rs
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from executor_svc.adapters.http import adapter as adapter_module
from executor_svc.adapters.http.conformance import MAX_VIOLATIONS, Checker, checker_of
from executor_svc.adapters.http.lru import LruCache
from services.compute import for_tenant
from services.contracts.api import Api, ApiResponse, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from services.errors import Overloaded
from services.schema_cost import Unbounded, cost_of
from tests.support.executing import api
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener

PRICE = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
}


def promising(schema: Any, definitions: Any = None, server: str = "http://x", **response: Any) -> Api:
    base = api(server, "/p", name=f"op-{hash(repr((schema, definitions, response)))}")
    return base.model_copy(
        update={"response": ApiResponse(json_schema=schema, **response), "definitions": definitions or {}}
    )


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def checker(schema: Any, definitions: Any = None) -> Checker:
    made = checker_of(promising(schema, definitions))
    assert made is not None
    return made


def found(schema: Any, value: Any, definitions: Any = None) -> tuple[str, ...]:
    return checker(schema, definitions).violations(200, value, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("schema", "value", "violations"),
    [
        (PRICE, {"amount": 1}, ()),
        (PRICE, {"amount": 1, "more": 2}, ()),
        (PRICE, {"amount": "s3cret"}, ("/amount: type number",)),
        (PRICE, {"note": "s3cret"}, ("(root): required amount",)),
        (PRICE, [], ("(root): type object",)),
        (PRICE, None, ("(root): type object",)),
        ({"items": PRICE}, [{"amount": 1}, {"amount": 1, "note": 2}], ("/1/note: type string",)),
        ({"properties": {"a/b": {"enum": ["s3cret"]}}}, {"a/b": "other s3cret"}, ("/a~1b: enum",)),
        ({"type": ["integer", "null"], "maximum": 3}, 4, ("(root): maximum",)),
        ({"type": "integer"}, 2**80, ()),
        ({"pattern": "^[A-Z]{3}$"}, "s3cret", ("(root): pattern",)),
        ({"format": "date"}, "s3cret", ()),
        ({"properties": {"a": False}}, {"a": "s3cret"}, ("/a: not allowed",)),
        ({"additionalProperties": False}, {"s3cret": 1}, ("(root): additionalProperties",)),
        ({"anyOf": [{"type": "integer"}, PRICE]}, "s3cret", ("(root): anyOf",)),
    ],
)
def test_violations_name_place_and_rule_and_no_value(schema: Any, value: Any, violations: tuple[str, ...]) -> None:
    assert found(schema, value) == violations


def test_references_lead_into_the_apis_own_definitions() -> None:
    definitions = {"Price": PRICE, "List": {"items": ref("Price")}, "Unused": {"pattern": "(?=look)around"}}
    assert found(ref("List"), [{}], definitions) == ("/0: required amount",)


def test_a_tree_is_checked_all_the_way_down() -> None:
    node = {"type": "object", "properties": {"children": {"items": {"anyOf": [ref("Node"), {"type": "null"}]}}}}
    assert found(ref("Node"), {"children": [{"children": [None, {}]}]}, {"Node": node}) == ()
    assert found(ref("Node"), {"children": 1, "x": {}}, {"Node": node}) == ()
    assert len(found(ref("Node"), {"children": [{"children": [7]}]}, {"Node": node})) == 1


def test_there_are_at_most_a_few() -> None:
    assert len(found({"items": {"type": "string"}}, list(range(100)))) == MAX_VIOLATIONS


def test_of_a_large_answer_only_that_it_breaks_the_schema_is_said() -> None:
    value = list(range(100_000))
    both = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "boolean"}}]}
    assert found(both, value) == ("(somewhere): does not match the schema",)
    assert found({"items": {"type": "integer"}}, value) == ()


def test_another_status_is_another_promise() -> None:
    assert checker(PRICE).violations(202, [], b"[]") == ()


@pytest.mark.parametrize("response", [{"media_type": "text/plain"}, {"media_type": None}])
def test_only_json_is_checked(response: Any) -> None:
    assert checker_of(promising(PRICE, **response)) is None
    assert checker_of(promising({})) is None


HOSTILE: dict[str, tuple[Any, Any]] = {
    "a reference to itself": (ref("A"), {"A": ref("A")}),
    "a circle in place": (ref("A"), {"A": {"allOf": [ref("B")]}, "B": {"anyOf": [ref("A")]}}),
    "two ways down at each level": (ref("A"), {"A": {"items": {"anyOf": [ref("A"), ref("A")]}}}),
    "two branches that recurse": (
        ref("A"),
        {"A": {"anyOf": [{"items": ref("A")}, {"items": ref("A"), "minItems": 1}]}},
    ),
    "two ways round by another": (
        ref("A"),
        {"A": {"properties": {"x": ref("B")}}, "B": {"allOf": [{"properties": {"x": ref("A")}}] * 2}},
    ),
    "doubling forty times": (
        ref("d0"),
        {f"d{i}": {"allOf": [ref(f"d{i + 1}")] * 2} for i in range(40)} | {"d40": {"type": "null"}},
    ),
    "doubling forty levels down": (
        ref("d0"),
        {f"d{i}": {"allOf": [{"items": ref(f"d{i + 1}")}] * 2} for i in range(40)} | {"d40": {"type": "null"}},
    ),
    "no such definition": (ref("A"), {}),
    "a remote reference": ({"$ref": "http://127.0.0.1:1/schema.json"}, {}),
    "a file": ({"$ref": "file:///etc/passwd"}, {}),
    "a reference into itself": ({"items": {"$ref": "#"}}, {}),
    "a dynamic reference": ({"items": {"$dynamicRef": "#x"}}, {}),
    "a reference that is a number": ({"$ref": 1}, {}),
    "a type that is none": ({"type": "strnig"}, {}),
    "keywords of the wrong type": ({"properties": [], "required": 7, "enum": {}, "allOf": 1}, {}),
    "a pattern that goes back": ({"pattern": "(a+)+(?=b)"}, {}),
    "a pattern that is none": ({"pattern": "("}, {}),
    "a pattern of enormous size": ({"pattern": "((a{1,100}){1,100}){1,100}"}, {}),
    "very many patterns": ({"allOf": [{"pattern": f"^a{i}$"} for i in range(101)]}, {}),
    "patterns of very many names": ({"patternProperties": {f"^a{i}$": {} for i in range(101)}}, {}),
    "a pattern that takes long to read": ({"pattern": r"\s|" * 333}, {}),
    "very many branches": ({"anyOf": [{"const": i} for i in range(50_000)]}, {}),
    "very many definitions": (ref("d0"), {f"d{i}": {"items": ref(f"d{i + 1}")} for i in range(50_000)}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_not_checked_against(name: str) -> None:
    assert checker_of(promising(*HOSTILE[name])) is None


def test_patterns_share_what_a_checker_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is compiled once, wherever it is applied; with very many, none is compiled at all."""
    asked, options = list[int](), jsonschema_rs.RegexOptions

    def counted(*, size_limit: int, dfa_size_limit: int) -> jsonschema_rs.RegexOptions:
        asked.append(size_limit + dfa_size_limit)
        return options(size_limit=size_limit, dfa_size_limit=dfa_size_limit)

    monkeypatch.setattr(jsonschema_rs, "RegexOptions", counted)
    for number in (1, 10, 90):
        schema = {"properties": {f"p{i}": {"pattern": f"^a{i % number}$"} for i in range(1_000)}}
        assert checker(schema).bytes < 8_000_000
        assert asked.pop() * number <= 2_000_000
    for name in ("very many patterns", "patterns of very many names", "a pattern that takes long to read"):
        assert checker_of(promising(*HOSTILE[name])) is None
    assert asked == []


def test_a_linear_engine_has_no_catastrophic_patterns() -> None:
    assert found({"pattern": "^(a+)+$"}, "a" * 100_000 + "b") == ("(root): pattern",)


def test_a_large_answer_that_takes_long_is_not_checked() -> None:
    costly = checker({"items": {"allOf": [{"pattern": f"^(a|b)*a(a|b){{{n}}}$"} for n in range(30)]}})
    value: Any = ["ab" * 50_000 + "c"]
    assert costly.violations(200, value, json.dumps(value).encode()) == ()
    assert len(costly.violations(200, ["c"], b'["c"]')) == 1


class Watched:
    """A validator that notes which of its methods are used."""

    def __init__(self, watched: Checker) -> None:
        self._validator, self.used = watched._validator, list[str]()
        watched._validator = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        self.used.append(name)
        return getattr(self._validator, name)


MANY_NAMES: dict[str, Any] = {f"q{n}": n for n in range(3_000)}
NO_SUCH_NAMES = {"propertyNames": {"pattern": "^x"}}


@pytest.mark.parametrize(
    ("schema", "violation", "used"),
    [
        (NO_SUCH_NAMES, "(root): pattern", ["is_valid", "validate"]),
        ({"allOf": [NO_SUCH_NAMES, {"type": "null"}]}, "(root): pattern", ["is_valid", "validate"]),
        ({"anyOf": [NO_SUCH_NAMES, {"type": "null"}]}, "(somewhere): does not match the schema", ["is_valid"]),
        ({"properties": {"q7": {"oneOf": [{"type": "null"}]}}}, "(somewhere): does not match the schema", ["is_valid"]),
    ],
)
def test_errors_that_each_copy_a_whole_answer_are_not_all_built(schema: Any, violation: str, used: list[str]) -> None:
    made = checker(schema)
    watched = Watched(made)
    assert made.violations(200, MANY_NAMES, json.dumps(MANY_NAMES).encode()) == (violation,)
    assert watched.used == used


def test_of_a_very_large_answer_no_error_is_built() -> None:
    made = checker({"required": ["x"]})
    value: Any = {"a": [1] * 600_000}
    watched = Watched(made)
    assert made.violations(200, value, json.dumps(value).encode()) == ("(somewhere): does not match the schema",)
    assert watched.used == ["is_valid"]


def test_numbers_are_divided_only_as_often_as_there_is_time() -> None:
    """A division by a small fraction takes longer than a hundred other checks."""
    made = checker({"items": {"allOf": [{"multipleOf": 1e-300}, {"type": "string"}]}})
    watched = Watched(made)
    for count, checked in ((4_000, True), (6_000, False)):
        value: Any = [1] * count
        assert bool(made.violations(200, value, json.dumps(value).encode())) is checked
        assert ("is_valid" in watched.used) is checked
        watched.used.clear()


DISTINCT = {"uniqueItems": True, "items": {"$ref": "#/$defs/A"}}


@pytest.mark.parametrize(
    ("schema", "levels", "checked"),
    [
        ({"$ref": "#/$defs/A"}, 90, False),
        ({"uniqueItems": True, "items": {"uniqueItems": True, "items": {"uniqueItems": True}}}, 90, True),
        ({"uniqueItems": True}, 0, True),
    ],
)
def test_items_that_must_differ_are_compared_for_each_list_around_them(schema: Any, levels: int, checked: bool) -> None:
    """Of lists in lists, each is compared by all that is inside: an answer of 6 MB took more than four seconds."""
    made = checker(schema, {"A": DISTINCT})
    value: Any = list(range(30_000))
    for _ in range(levels):
        value = [value, *range(17)]
    watched = Watched(made)
    assert made.violations(200, value, json.dumps(value).encode()) == ()
    assert ("is_valid" in watched.used) is checked


NAMES = st.sampled_from(["A", "B", "C"])
SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "null"}, {"type": "object"}, {"minItems": 1}]) | NAMES.map(ref),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=6,
)


def applied(schema: Any, value: Any, definitions: Any) -> int:
    """How many schemas a validator that leaves nothing out applies. Slow, and as the specification says it."""
    if not isinstance(schema, dict) or not schema:
        return 0
    total = 1 + (applied(definitions[schema["$ref"][-1]], value, definitions) if "$ref" in schema else 0)
    total += sum(applied(part, value, definitions) for key in ("allOf", "anyOf") for part in schema.get(key, []))
    total += applied(schema.get("not"), value, definitions)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name, member in value.items():
            total += applied(known.get(name, schema.get("additionalProperties")), member, definitions)
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        for index, element in enumerate(value):
            part = prefix[index] if index < len(prefix) else schema.get("items")
            total += applied(part, element, definitions)
    return total


def size(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, inner))


VALUES = st.recursive(
    st.none(),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(NAMES, inner, min_size=1),
    max_leaves=8,
)


@given(SCHEMAS, st.fixed_dictionaries(dict.fromkeys(["A", "B", "C"], SCHEMAS)), VALUES)
def test_the_cost_is_never_underestimated(schema: Any, definitions: Any, value: Any) -> None:
    try:
        cost = cost_of(schema, definitions)
    except Unbounded:
        return
    assert applied(schema, value, definitions) <= cost.steps * size(value)


async def test_violations_are_reported_on_the_call(upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/p", {"amount": "a s3cret"})
    operation = promising(PRICE, server=upstream.origin)
    result = await (await opened())(operation)
    assert result.outcome == Succeeded(value={"amount": "a s3cret"}, status=200)
    assert result.violations == ("/amount: type number",)
    strict = await (await opened(strict_responses=True))(operation)
    assert isinstance(strict.outcome, Failed)
    said = "the answer does not match the API's schema: /amount: type number"
    assert (strict.outcome.reason, strict.outcome.message, strict.outcome.status) == ("bad_response", said, 200)
    assert strict.violations == ("/amount: type number",)


async def test_violations_hold_no_secret(upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/p", {"canary-1234 and canary-1234": 1})
    call = await opened({"it": {"value": "canary-1234", "hosts": [upstream.host]}})
    needed = SecurityRequirement(scheme="it", kind=SecretKind.BEARER, secret="it")
    operation = promising({"additionalProperties": {"type": "string"}}, server=upstream.origin)
    result = await call(operation.model_copy(update={"security": ((needed,),), "content_hash": ""}))
    assert result.violations == ("/*** and ***: type string",)


async def test_a_checker_is_made_beside_the_loop_where_there_is_an_answer(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for what only the loop can do, works for the tenant of the call, and is made once for many calls."""
    loop, turned, made_for = asyncio.get_running_loop(), threading.Event(), list[str]()

    def waiting(api: Api) -> Checker | None:
        made_for.append(for_tenant.get())
        loop.call_soon_threadsafe(turned.set)
        assert turned.wait(20.0), "the loop was held up"
        return checker_of(api)

    monkeypatch.setattr(adapter_module, "checker_of", waiting)
    upstream.replies("/p", web.json_response({}, status=404))
    operation = promising(PRICE, server=upstream.origin).model_copy(update={"content_hash": "1"})
    call = await opened()
    assert isinstance((await call(operation, tenant="red")).outcome, Failed)
    assert made_for == []
    upstream.replies("/p", {"amount": 1})
    results = await asyncio.gather(*(call(operation, tenant="red") for _ in range(30)))
    assert {type(result.outcome) for result in results} == {Succeeded}
    assert set(made_for) == {"red"}
    assert len(made_for) <= 2  # one on each thread
    before = len(made_for)
    await call(operation)
    assert len(made_for) == before


async def test_an_answer_is_taken_where_no_checker_can_be_had(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(api: Api) -> Checker | None:
        raise Overloaded("the answers pool is full", retry_after_s=1)

    monkeypatch.setattr(adapter_module, "checker_of", refusing)
    upstream.replies("/p", {"amount": "none"})
    result = await (await opened())(promising(PRICE, server=upstream.origin))
    assert (type(result.outcome), result.violations) == (Succeeded, ())


def test_checkers_are_kept_by_their_weight() -> None:
    kept: LruCache[int, Checker] = LruCache(10_000_000, lambda one: one.bytes)
    for number in range(20):
        schema = {"allOf": [{"pattern": f"^a{number}-{i}$"} for i in range(30)]}
        kept.get(number, lambda schema=schema: checker(schema))  # type: ignore[misc]
    assert 1 < len(kept) < 10
    assert sum(one.bytes for one in kept.values()) <= 10_000_000
    assert kept.peek(19) is not None
    assert kept.peek(0) is None


async def test_what_is_kept_of_schemas_is_bounded(upstream: Upstream, opened: Opener) -> None:
    """Six hundred APIs, called twice: the first ones are forgotten meanwhile, and made anew."""
    call = await opened()
    for _ in range(2):
        for number in range(0, 600, 20):
            made = [
                promising({"required": [f"r{n}"]}, server=upstream.origin).model_copy(
                    update={"id": f"test.{n}", "content_hash": str(n)}
                )
                for n in range(number, number + 20)
            ]
            results = await asyncio.gather(*map(call, made))
            assert [r.violations for r in results] == [(f"(root): required r{n}",) for n in range(number, number + 20)]
