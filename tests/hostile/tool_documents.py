"""Hostile Postman collections and lists of tools, by family."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.hostile.making import MIB, REFERENCES, Hostile, nested
from tests.hostile.openapi_documents import INJECTIONS


def postman(*items: Any, **members: Any) -> str:
    """A Postman collection."""
    schema = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
    return json.dumps({"info": {"name": "Hostile", "schema": schema}, "item": list(items)} | members)


def sent(**members: Any) -> dict[str, Any]:
    """An item of a collection."""
    return {"name": "r", "request": {"method": "POST", "url": "https://zoo.example/x"} | members}


def collections() -> Iterator[tuple[str, Hostile]]:
    """Hostile content specific to Postman."""

    def folders(depth: int) -> str:
        item = sent()
        for _ in range(depth):
            item = {"name": "f", "item": [item]}
        return postman(item)

    def body(text: str) -> dict[str, Any]:
        return sent(body={"mode": "raw", "raw": text, "options": {"raw": {"language": "json"}}})

    def variables(**values: str) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in values.items()]

    yield "folders", Hostile(lambda: folders(40), apis=1)
    yield "endless-folders", Hostile(lambda: folders(60), refused="levels deep")
    loop = variables(a="{{b}}", b="{{a}}")
    yield "variables-in-a-circle", Hostile(lambda: postman(sent(url="{{a}}/{{b}}"), variable=loop), apis=1)
    doubling = variables(**{f"v{n}": f"{{{{v{n + 1}}}}}" * 8 for n in range(9)})
    yield "variables-that-double", Hostile(lambda: postman(sent(url="{{v0}}/{{v1}}"), variable=doubling), apis=1)
    wide = variables(v="x" * MIB)
    yield "long-variable", Hostile(lambda: postman(sent(url="https://a/" + "{{v}}" * 900), variable=wide), skipped=1)
    scopes = [{"name": "f", "variable": variables(**{f"w{n}": "1"}), "item": []} for n in range(3_000)]
    many = variables(**{f"v{n}": "1" for n in range(3_000)})
    yield "many-variables", Hostile(lambda: postman(*scopes, sent(), variable=many), apis=1)
    yield "long-url", Hostile(lambda: postman(sent(url="https://a/" + "x" * MIB)), skipped=1)
    yield "braces", Hostile(lambda: postman(sent(url="https://a/" + "{{" * 3_000)), skipped=1)
    yield "deep-body", Hostile(lambda: postman(body('{"a":' * 500 + "1" + "}" * 500)), apis=1)
    yield "deeper-body", Hostile(lambda: postman(body("[" * 100_000)), apis=1)
    yield "long-body", Hostile(lambda: postman(body("[" + "1," * 4_000_000 + "1]")), apis=1)
    yield "quotes", Hostile(lambda: postman(body('\\"' * 200_000)), apis=1)
    yield "wide-body", Hostile(lambda: postman(body(json.dumps({f"k{n}": n for n in range(20_000)}))), apis=1)
    yield "nul-body", Hostile(lambda: postman(body('{"a\\u0000": "b\\u0000"}')), apis=1)
    files = {"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": "/etc/passwd"}]}
    yield "file", Hostile(lambda: postman(sent(body=files)), apis=1)
    yield "file-body", Hostile(lambda: postman(sent(body={"mode": "file", "file": {"src": "/etc/passwd"}})), apis=1)
    script = [{"listen": "prerequest", "script": {"exec": "require('child_process').exec('id')", "src": "/etc/passwd"}}]
    yield "script", Hostile(lambda: postman(sent(), event=script, proxy={"host": "evil.example"}), apis=1)
    yield "items", Hostile(lambda: postman(*[7] * 20_001), refused="20,001 operations")
    yield (
        "schemes",
        Hostile(
            lambda: postman(*(sent(auth={"type": "apikey", "apikey": {"key": f"k{n}"}}) for n in range(300))), apis=300
        ),
    )
    strange: tuple[Any, ...] = (None, 0, "x", [], {}, [[]], {"type": []})
    for junk in strange:
        members = ("url", "method", "header", "body", "auth", "description")
        item = {"name": junk, "request": dict.fromkeys(members, junk), "response": junk, "variable": junk}
        inner = {"raw": junk, "host": junk, "path": junk, "query": junk, "variable": junk, "port": junk}
        weird = sent(url=inner, header=junk, body={"mode": "raw", "raw": junk, "options": junk}, auth=junk)
        text = postman(item, weird, sent() | {"response": [junk]}, auth=junk, variable=junk)
        yield f"types {json.dumps(junk)}", Hostile(text.__str__, apis=None)
    yield "version-1", Hostile(lambda: '{"id": "1", "order": [], "requests": []}', refused="this one has 1.0")
    yield "version-9", Hostile(lambda: postman().replace("v2.1.0", "v9.0.0"), refused="this one has 9.0")
    yield "no-items", Hostile(lambda: postman(item=7), refused="no `item`")


def tools() -> Iterator[tuple[str, Hostile]]:
    """Hostile lists of tools."""

    def seal(*listed: Any) -> str:
        return "\n".join(json.dumps(tool) for tool in listed)

    def parsed(parser: Any) -> str:
        return json.dumps([{"name": "x", "output_parameters": {"a": {"type": "string"}}, "output_parser": parser}])

    yield "broken-line", Hostile(lambda: seal({"api_name": "x"}, 1) + '\n{"api_name"', refused="line 3")
    yield "no-name", Hostile(lambda: seal({"api_name": ""}, {"api_name": "!"}, {"x": 1}, 7, [], None), skipped=6)
    yield "same-name", Hostile(lambda: seal(*({"api_name": "x"} for _ in range(300))), apis=300)
    yield (
        "too-many",
        Hostile(lambda: seal(*({"api_name": f"x{n}"} for n in range(20_001))), refused="20,001 operations"),
    )
    yield "traversal", Hostile(lambda: seal({"api_name": "../../etc/passwd"}, {"api_name": "x?y#z"}), apis=2)
    yield "blanks", Hostile(lambda: seal({"api_name": "a b\tc\r\nd"}, {"api_name": "x" * 9_999}), apis=2)
    nothing = {"type": [], "items": 7, "properties": []}
    strange: tuple[Any, ...] = (None, 0, "x", [], [1], {"a": 7}, {"a": "x"}, {"a": nothing})
    for junk in strange:
        tool = {"api_name": "x", "parameters": junk, "responses": junk, "required": junk, "field": junk}
        api = {"name": "y", "query_parameters": junk, "output_parameters": junk, "host": junk, "endpoint": junk}
        yield f"seal-tools types {json.dumps(junk)}", Hostile(partial(seal, tool), apis=None)
        yield f"nestful types {json.dumps(junk)}", Hostile(partial(json.dumps, [api]), apis=None)
    inner = nested(80, lambda schema: {"type": "list", "items": schema})
    yield "deep-type", Hostile(lambda: seal({"api_name": "x", "responses": {"a": inner}}), apis=1)
    there = {"a": {"$ref": REFERENCES["file"]}}
    yield (
        "reference",
        Hostile(lambda: seal({"api_name": "x", "parameters": there}, {"api_name": "y"}), apis=1, skipped=1),
    )
    yield "code", Hostile(lambda: parsed("__import__('os').system('id')"), skipped=1)
    yield "format-string", Hostile(lambda: parsed("result.{param.__class__.__init__.__globals__}"), skipped=1)
    yield "long-parser", Hostile(lambda: parsed("result" + ".a" * MIB + ".{param}"), skipped=1)
    yield "deep-parser", Hostile(lambda: parsed("result" + "[0]" * 100 + ".{param}"), skipped=1)
    yield (
        "host",
        Hostile(
            lambda: json.dumps([{"name": "x", "query_parameters": {}, "host": "u:hunter2@evil.example/a?b#c"}]), apis=1
        ),
    )
    yield (
        "injected",
        Hostile(
            lambda: seal(
                *(
                    {"api_name": f"x{n}", "api_description": text, "field": text}
                    for n, text in enumerate(INJECTIONS.values())
                )
            ),
            apis=len(INJECTIONS),
        ),
    )
