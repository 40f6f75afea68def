"""Broken, enormous and malicious documents: a clear refusal or a skipped operation, never a crash, never a fetch."""

import contextlib
import copy
import json
import random
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.importers import Limits, import_document
from retriever_svc.importers.reading import read_document
from services.errors import InvalidDocument
from tests.unit.retriever_svc import postman_collections
from tests.unit.retriever_svc.documents import document, imported, json_body, operation, skipped_reason
from tests.unit.retriever_svc.test_importer_schemas import SWAGGER


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of ...: 9 ** levels values."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, "openapi: 3.1.0", "info: {title: x}", "paths: {}"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"openapi": "3.1.0", "paths": {}} trailing', "not valid JSON"),
        ('{"openapi": NaN}', "this document has openapi 'NaN'"),
        ("[1, 2]", "neither an object"),
        ("just words", "not an object"),
        ("", "is empty"),
        ("\ufeff \n", "is empty"),
        ("<!DOCTYPE html>\n<title>API: reference</title>", "HTML or XML"),
        ("\n <html><body>openapi: 3.1.0</body></html>", "HTML or XML"),
        ("a: [", "neither JSON nor valid YAML"),
        ("a: !!python/object/apply:os.system [id]", "neither JSON nor valid YAML"),
        ("a: *nowhere", "alias"),
        ("a: &a [*a]", "alias"),
        ("? {a: b}\n: c", "YAML"),
        ("n: " + "9" * 5_000, "YAML"),
        ("0x" + "F" * 5_000 + ": a", "YAML"),
        ("? 0x" + "F" * 5_000 + "\n: a", "neither `openapi` nor `swagger`"),
        ("a: !!timestamp foo", "YAML"),
        ("a: !!timestamp 2001-02-03T04:05:06+99:99", "YAML"),
        ("a: !!timestamp [b]", "YAML"),
        ("a: !!bool foo", "YAML"),
        ("a: !!bool {b: c}", "YAML"),
        ("a: !!float foo", "YAML"),
        ("a: !!float ''", "YAML"),
        ("a: !!int ''", "YAML"),
        ("a: !!int 0x", "YAML"),
        ("a: !!binary é", "YAML"),
        ("a: !!omap [b]", "YAML"),
        ("a: !!pairs [b]", "YAML"),
        ("<<: foo", "YAML"),
        ("{}", "neither `openapi` nor `swagger`"),
        ('{"openapi": "2.0"}', "this document has openapi '2.0'"),
        ('{"openapi": "3.3.0", "paths": {}}', "3.3.0"),
        ('{"openapi": ["3.1.0"], "paths": {}}', "this document has"),
        ('{"swagger": "1.2", "paths": {}}', "1.2"),
        ('{"openapi": "3.1.0"}', "no `paths`"),
        ('{"openapi": "3.1.0", "paths": []}', "no `paths`"),
        ("[" * 100_000, "JSON"),
        ("a: " + "[" * 50_000, "levels deep"),
        ("- " * 50_000, "levels deep"),
        (bomb(12), "aliases"),
        *(
            ("".join(f"%TAG !{n:x}! t{end}" for n in range(100_000)) + "--- {a: 1}\n", "%TAG")
            for end in "\n\r\x85\u2028"
        ),
        ("a: &a {b: c}\n" + "\n".join(f"k{n}: {{<<: [{','.join(['*a'] * 99)}]}}" for n in range(99)), "openapi"),
    ],
)
def test_documents_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as refusal:
        import_document(text)
    assert message in refusal.value.detail
    assert len(refusal.value.detail) < 600


def test_the_limits_of_a_document() -> None:
    text = json.dumps(document({f"/{n}": {"get": operation()} for n in range(20)}))
    with pytest.raises(InvalidDocument, match="bytes"):
        import_document(text, limits=Limits(document_bytes=100))
    with pytest.raises(InvalidDocument, match="20 operations"):
        import_document(text, limits=Limits(operations=19))
    with pytest.raises(InvalidDocument, match="values"):
        import_document(text, limits=Limits(nodes=100))
    with pytest.raises(InvalidDocument, match="levels deep"):
        import_document(text, limits=Limits(depth=3))


@pytest.mark.parametrize(
    "reference",
    ["other.yaml#/A", "https://evil.example/a.json", "file:///etc/passwd", "//evil.example/x", "a.json", "#anchor"],
)
def test_nothing_is_fetched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("the importer opened a socket")

    monkeypatch.setattr(socket, "socket", no_network)
    there = {"$ref": reference}
    deep: dict[str, Any] = {
        "components": {"schemas": {"A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}}, "B": there}}
    }
    for bad in (
        operation(parameters=[there]),
        operation(parameters=[{"name": "p", "in": "query", "schema": there}]),
        operation(requestBody=there),
        operation(requestBody=json_body(there)),
        operation(requestBody=json_body({"type": "object", "properties": {"a": there}})),
        operation(requestBody=json_body({"$ref": "#/components/schemas/A"})),
    ):
        assert reference in skipped_reason(bad, **deep)
    for open_ in (
        {"200": there},
        {"200": {"content": {"application/json": {"schema": there}}}},
        {"200": {"content": {"application/json": {"schema": {"type": "array", "items": there}}}}},
        {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}},
    ):
        result = imported(document({"/x": {"post": operation(responses=open_)}}, **deep))
        assert [api.path for api in result.apis] == ["/x"]
        assert reference in result.warnings[0]
        assert reference not in result.apis[0].model_dump_json()
    result = imported(document({"/x": there, "/y": {"get": operation()}}))
    assert [api.path for api in result.apis] == ["/y"]
    assert reference in result.skipped[0].reason


@pytest.mark.parametrize("weird", [None, True, 0, "x", [], [[]], {"$ref": 3}, {"$ref": "#"}, {"$ref": "#/paths"}])
def test_weird_types_anywhere(weird: Any) -> None:
    root = document(
        {
            "/a": weird,
            "/b": {"get": weird, "parameters": weird, "servers": weird, "post": operation()},
            "/c": {"get": operation(parameters=weird, requestBody=weird, responses=weird, security=weird, tags=weird)},
            "/d": {"put": operation(operationId=weird, summary=weird, servers=weird, deprecated=weird)},
            "/e": {"put": operation(requestBody={"content": weird}, responses={"200": {"content": weird}})},
            "/f": {"put": operation(requestBody=json_body({"properties": weird, "allOf": weird}), parameters=[weird])},
        },
        components=weird,
        security=weird,
        servers=weird,
        tags=weird,
    )
    result = imported(root, provider="zoo")
    assert any(api.path == "/d" for api in result.apis)
    for key in ("securityDefinitions", "definitions", "consumes", "schemes", "host", "basePath"):
        imported({**root, "openapi": None, "swagger": "2.0", key: weird} | {"openapi": "3.0.0"}, provider="zoo")


def test_text_that_no_database_takes_is_replaced() -> None:
    api = imported(document({"/x": {"get": operation(summary="a\x00b")}})).apis[0]
    assert api.summary == "a\ufffdb"
    with pytest.raises(InvalidDocument):
        import_document('{"openapi": "3.1.0", "info": "\\ud800"}')


RICH = document(
    {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "put": operation(
                requestBody=json_body({"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"x": {}}}]}),
                responses={"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
                security=[{"key": []}],
                tags=["a"],
            ),
        }
    },
    components={
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "friend": {"$ref": "#/components/schemas/Pet"},
                },
            }
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "k"}},
    },
)

_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["#", "#/", "#/components/schemas/Pet", "#/paths/~1pets~1{id}/put", "x.json", "/", "{", "http://["]
    ),
    st.just({"$ref": "#/components/schemas/Pet"}),
    st.just([{"$ref": "#/components/schemas/Pet"}]),
    st.lists(st.none(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=2),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    here = [(value, key) for key, _ in items]
    return here + [place for _, child in items if isinstance(child, (dict, list)) for place in places(child)]


@given(st.randoms(use_true_random=False), st.lists(_JUNK, min_size=1, max_size=6), st.booleans())
def test_mutated_documents_never_crash(chance: random.Random, junk: list[Any], old: bool) -> None:
    import yaml

    root = yaml.safe_load(SWAGGER) if old else copy.deepcopy(RICH)
    for value in junk:
        container, key = chance.choice(places(root))
        action = chance.randrange(3)
        if action == 0:
            container[key] = copy.deepcopy(value)  # drawn ones are shared, and may go into themselves
        elif action == 1 and isinstance(container, dict):
            container[str(value)[:50] or "k"] = container.pop(key)
        elif action == 2:
            del container[key]
        if not root:
            break
    try:
        result = import_document(json.dumps(root), provider="zoo")
    except InvalidDocument:
        return
    assert len({api.id for api in result.apis}) == len(result.apis)
    for api in result.apis:
        assert len({parameter.name for parameter in api.parameters}) == len(api.parameters)
        assert all(ref.removeprefix("#/$defs/") in api.definitions for ref in references(api.model_dump(mode="json")))


def references(value: Any) -> list[str]:
    """The references that stand in schemas; one that is a mere value (`default`, `examples`) is none."""
    if isinstance(value, list):
        return [ref for item in value for ref in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) and value["$ref"].startswith("#/$defs/") else []
    return own + [
        ref for key, item in value.items() if key not in ("default", "examples", "enum") for ref in references(item)
    ]


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, f"openapi: 3.1.0\npaths: {text}", '{"openapi": "3.1.0", "paths": {}, "x": ' + text):
        with contextlib.suppress(InvalidDocument):
            import_document(candidate, provider="zoo")


def test_a_few_tag_directives_are_read() -> None:
    text = "%YAML 1.1\n%TAG !a! tag:yaml.org,2002:\n---\nversion: !a!str 1\n"
    assert read_document(text, Limits()) == {"version": "1"}


def test_members_with_names_of_megabytes_are_left_out() -> None:
    """A name is part of the path of each value inside it: what is made of an API could be a thousand times its size."""
    long = "n" * 1_001
    schema = {
        "type": "object",
        "properties": {long: {"type": "string"}, "n" * 1_000: {"type": "string"}, "name": {"type": "string"}},
        "required": [long, "name"],
        "additionalProperties": False,
    }
    result = imported(document({"/things": {"get": operation(responses={"200": json_body(schema)})}}))
    (api,) = result.apis
    answer = api.response.json_schema
    assert answer["properties"] == {"n" * 1_000: {"type": "string"}, "name": {"type": "string"}}
    assert answer["required"] == ["name"]
    assert "additionalProperties" not in answer  # the answer may have it
    assert any("more than 1000 characters" in warning for warning in result.warnings)


LONG = 4_000_000


def longest_hold(work: Callable[[], object]) -> float:
    """Longest processor time for which no other thread got a turn while this work was done in one."""
    worst, over = 0.0, threading.Event()

    def watch() -> None:
        nonlocal worst
        last = time.process_time()
        while not over.wait(0.001):
            now = time.process_time()
            worst, last = max(worst, now - last), now

    watching = threading.Thread(target=watch)
    watching.start()
    work()
    over.set()
    watching.join()
    return worst


@pytest.mark.parametrize("unit", ["a", "A1 ", "{"])
@pytest.mark.parametrize("place", ["path", "operationId", "title", "server"])
def test_one_long_text_of_a_document_does_not_keep_other_threads_out(place: str, unit: str) -> None:
    """A pattern lets no other thread run: a path of 20 MB kept the whole process for seven seconds."""
    long = unit * (LONG // len(unit))
    paths = {f"/things/{long if place == 'path' else ''}": {"get": operation(operationId=f"x{long}")}}
    if place != "operationId":
        del paths[next(iter(paths))]["get"]["operationId"]
    root = document(paths, servers=[{"url": f"https://a.example.com/{long if place == 'server' else ''}"}])
    root["info"]["title"] = long if place == "title" else "Things"
    text = json.dumps(root)

    def work() -> None:
        with contextlib.suppress(InvalidDocument):
            import_document(text, None)

    assert longest_hold(work) < 0.25


def test_paths_that_are_as_long_as_is_looked_at_take_no_time() -> None:
    paths = {f"/{number}{'a' * 4_000}": {"get": operation(summary="Get")} for number in range(20)}
    began = time.process_time()
    with contextlib.suppress(InvalidDocument):
        import_document(json.dumps(document(paths)), None)
    assert time.process_time() - began < 1  # it took four seconds


def repeated_default(given: str | None = None) -> tuple[str, str | None]:
    servers = [{"url": "https://a.example.com/" + "{v}" * 600, "variables": {"v": {"default": "x" * 100_000}}}]
    return json.dumps(document({"/things": {"get": operation()}}, servers=servers)), given


def repeated_variable() -> tuple[str, None]:
    auth = {"type": "apikey", "apikey": [{"key": "key", "value": "{{v}}" * 200_000}, {"key": "in", "value": "header"}]}
    variables = [{"key": "v", "value": "x" * 500}, {"key": "baseUrl", "value": "https://a.example.com"}]
    return json.dumps(
        postman_collections.collection(postman_collections.request(), auth=auth, variable=variables)
    ), None


def repeated_text() -> tuple[str, None]:
    lines = ["openapi: 3.0.0", "info: {title: x, version: '1'}", f"x: &v {'x' * 100_000}", "paths:"]
    listed = ", ".join(["*v"] * 1_000)
    lines += ["  /things:", "    get:", f"      parameters: [{{name: a, in: query, schema: {{enum: [{listed}]}}}}]"]
    return "\n".join([*lines, "      responses: {'200': {description: fine}}"]), None


@pytest.mark.parametrize(
    "made", [repeated_default(), repeated_default("https://b.example.com"), repeated_variable(), repeated_text()]
)
def test_what_a_document_repeats_takes_no_more_memory_than_the_document(made: tuple[str, str | None]) -> None:
    """A hundred kilobytes, repeated a thousand times by a variable or an alias, are a hundred megabytes."""
    text, server = made
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidDocument):
            import_document(text, "x", server)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_an_alias_of_a_text_is_counted_by_its_characters() -> None:
    text = "\n".join(["a: &a " + "x" * 1_000, f"b: [{', '.join(['*a'] * 50)}]"])
    assert read_document(text, Limits(document_bytes=60_000)) == {"a": "x" * 1_000, "b": ["x" * 1_000] * 50}
    with pytest.raises(InvalidDocument, match="more than 40,000 characters once YAML aliases are expanded"):
        read_document(text, Limits(document_bytes=40_000))


def test_a_server_that_its_variables_make_too_long_is_replaced_by_the_given_one() -> None:
    text, _ = repeated_default()
    assert import_document(text, "x", "https://b.example.com").apis[0].server == "https://b.example.com"
    assert import_document(text, "x").apis[0].server == ""
