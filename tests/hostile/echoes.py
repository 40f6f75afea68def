"""An upstream that echoes the requests in many forms, and its OpenAPI document."""

import base64
import gzip
import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, unquote_plus

from aiohttp import web

from tests.support.upstream import Seen, Upstream

JSON, TEXT = "application/json", "text/plain"
CUT = 16 * 1024
"""How many bytes of an error response are kept."""

SCHEMES: dict[str, dict[str, Any]] = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}},
    "refused": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/refused", "scopes": {}}}},
}


def shown(seen: Seen) -> str:
    """The credential of a request."""
    if "key=" in seen.query:
        return unquote_plus(seen.query.partition("key=")[2])
    for header in ("X-Key", "Authorization"):
        if header in seen.headers:
            return seen.headers[header].removeprefix("Basic ").removeprefix("Bearer ")
    return seen.headers.get("Cookie", "").partition("key=")[2]


def head(seen: Seen) -> str:
    """The whole request as text."""
    lines = [f"{name}: {value}" for name, value in seen.headers.items()]
    return "\n".join([f"{seen.method} {seen.target}", unquote_plus(seen.target), *lines, "", seen.body.decode()])


def said(seen: Seen) -> dict[str, Any]:
    """The request as a JSON value."""
    return {"url": seen.target, "headers": dict(seen.headers), "body": seen.body.decode(), "key": shown(seen)}


def answer(body: str | bytes, kind: str = JSON, status: int = 200, **headers: str) -> web.Response:
    given = {"Content-Type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(body=body.encode() if isinstance(body, str) else body, status=status, headers=given)


def _encoded(seen: Seen) -> str:
    whole, key = head(seen).encode(), shown(seen).encode()
    every = [base64.b64encode(b"x" * n + key + b"y").decode() for n in range(3)]
    every += [base64.urlsafe_b64encode(key).decode(), key.hex(), key.hex().upper()]
    return json.dumps({"whole": base64.b64encode(whole).decode(), "hex": whole.hex(), "each": every})


def _percent(seen: Seen) -> str:
    upper = quote(head(seen), safe="")
    return quote(head(seen)) + re.sub("%..", lambda digits: digits[0].lower(), upper) + quote(upper)


def _cookies(seen: Seen) -> web.Response:
    reply = answer("{}")
    for value in (f"key={shown(seen)}", f"bad name {shown(seen)}=1", f'"{shown(seen)}', f"a=b; Path={shown(seen)}"):
        reply.headers.add("Set-Cookie", value)
    return reply


SHAPES: dict[str, tuple[str, Callable[[Seen], web.Response]]] = {
    "json": (JSON, lambda seen: answer(json.dumps(said(seen)))),
    "unicode": (JSON, lambda seen: answer(json.dumps(said(seen), ensure_ascii=False))),
    "escaped": (JSON, lambda seen: answer(json.dumps({"data": json.dumps(said(seen))}))),
    "names": (JSON, lambda seen: answer(json.dumps({"a": {shown(seen): {"b": 1}, seen.target: 2}}))),
    "encoded": (JSON, lambda seen: answer(_encoded(seen))),
    "large": (JSON, lambda seen: answer(json.dumps([said(seen), "x" * 400_000, said(seen)]))),
    "text": (TEXT, lambda seen: answer(head(seen), TEXT)),
    "page": ("text/html", lambda seen: answer(html.escape(head(seen)), "text/html")),
    "percent": (TEXT, lambda seen: answer(_percent(seen), TEXT)),
    "binary": ("application/pdf", lambda seen: answer(head(seen), "application/pdf")),
    "gzipped": (JSON, lambda seen: answer(gzip.compress(json.dumps(said(seen)).encode()), Content_Encoding="gzip")),
    "twice": (JSON, lambda seen: answer(json.dumps({shown(seen): 1})[:-1] + "," + json.dumps({shown(seen): 1})[1:])),
    "no_json": (JSON, lambda seen: answer(head(seen))),
    "kind": (JSON, lambda seen: answer("{}", f"text/{shown(seen)}; charset={shown(seen)}")),
    "charset": (TEXT, lambda seen: answer("abc", f"text/plain; charset={shown(seen)}")),
    "coding": (JSON, lambda seen: answer("{}", Content_Encoding=shown(seen))),
    "cookies": (JSON, _cookies),
    "error": (JSON, lambda seen: answer(json.dumps(said(seen)), status=400)),
    "problem": (JSON, lambda seen: answer(json.dumps({"detail": head(seen)}), "application/problem+json", 422)),
    "cut": (JSON, lambda seen: answer("x" * (CUT - len(shown(seen).encode()) + 3) + shown(seen) * 9, TEXT, 400)),
    "denied": (JSON, lambda seen: answer(head(seen), TEXT, 401, WWW_Authenticate=f"Bearer {shown(seen)}")),
    "moved": (JSON, lambda seen: answer("", TEXT, 302, Location=f"http://{shown(seen)}.example/?{shown(seen)}")),
    "later": (JSON, lambda seen: answer(head(seen), TEXT, 429, Retry_After=shown(seen))),
    "next": (JSON, lambda seen: answer(json.dumps([said(seen)]), Link=f'<?page=2&key={shown(seen)}>; rel="next"')),
}


class Echo:
    """The handlers. The echoed texts are recorded by shape and scheme, before they are encoded."""

    def __init__(self, upstream: Upstream, issued: str) -> None:
        self.spoken: dict[tuple[str, str], bytes] = {}
        self._issued = issued
        for shape in SHAPES:
            for scheme in SCHEMES:
                self._serve(upstream, shape, scheme)
        upstream.on("/token")(self._token)
        upstream.on("/refused")(self._refused)

    def _serve(self, upstream: Upstream, shape: str, scheme: str) -> None:
        @upstream.on(f"/{shape}/{scheme}")
        async def echo(seen: Seen) -> web.StreamResponse:
            reply = SHAPES[shape][1](seen)
            assert isinstance(reply.body, bytes)
            body = gzip.decompress(reply.body) if shape == "gzipped" else reply.body
            self.spoken[shape, scheme] = str(reply.headers).encode() + body
            return reply

    async def _token(self, seen: Seen) -> web.StreamResponse:
        return web.json_response({"access_token": self._issued, "expires_in": 3600, "seen": head(seen)})

    async def _refused(self, seen: Seen) -> web.StreamResponse:
        self.spoken["refused", "refused"] = head(seen).encode()
        return web.json_response({"error": f"{shown(seen)} {head(seen)}"}, status=400)


def document(origin: str, shapes: Iterable[str]) -> str:
    """The OpenAPI document: these shapes with every scheme, each as GET and as POST."""
    paths: dict[str, Any] = {}
    for shape in shapes:
        kind = SHAPES[shape][0]
        schema = {"type": "object", "additionalProperties": {"additionalProperties": {"type": "string"}}}
        good = {"description": "fine", "content": {kind: {"schema": schema if shape == "names" else {}}}}
        for scheme in SCHEMES:
            paths[f"/{shape}/{scheme}"] = {
                method: {
                    "operationId": f"{verb}_{shape}_{scheme}",
                    "summary": f"{verb} {shape} by {scheme}",
                    "security": [{scheme: []}],
                    "responses": {"200": good},
                }
                for method, verb in (("get", "read"), ("post", "change"))
            }
    head_ = {"openapi": "3.1.0", "info": {"title": "Echo", "version": "1"}, "servers": [{"url": origin}]}
    return json.dumps(head_ | {"paths": paths, "components": {"securitySchemes": SCHEMES}})
