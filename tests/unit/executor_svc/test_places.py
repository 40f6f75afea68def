"""A secret travels where its entry says, and for whom; a document moves it nowhere."""

from typing import Any

import pytest
from aiohttp import web

from services.contracts.api import SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, failed, key_in, needs
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

SECRET = "Key-Of-The-Operator"


WHOLE = {"in": "header", "name": "Authorization", "scheme": "api_key"}
IN_HEADER = {"in": "header", "name": "X-Key", "scheme": "api_key"}
TEXT = "the document asks for it in the query parameter 'text'; if the document is right: nestor secrets bind test.it "


@pytest.mark.parametrize(
    ("entry", "asked", "words"),
    [
        (IN_HEADER, key_in("query", "text"), f"set for the header 'X-Key', and {TEXT}--query text"),
        ({}, key_in("query", "text"), f"set as a token, for no place in a request, and {TEXT}--query text"),
        ({"scheme": "bearer"}, key_in("query", "text"), f"set as bearer, for no place in a request, and {TEXT}--query"),
        ({"scheme": "bearer"}, key_in("header", "X-Name"), "--header X-Name"),
        ({"header": "X-Key"}, key_in("cookie", "sid"), "in the cookie 'sid'"),
        ({"query": "key"}, key_in("query", "Key"), "--query Key"),
        (IN_HEADER, key_in("header", "X-Name"), "--header X-Name"),
        (IN_HEADER, needs("bearer"), "asks for it as bearer; if the document is right: nestor secrets bind test.it --scheme b"),  # noqa: E501
        (IN_HEADER, key_in("query", "a; rm x"), "--query 'a; rm x'"),
    ],
)  # fmt: skip
async def test_a_document_cannot_have_it_elsewhere(
    upstream: Upstream, opened: Opener, entry: dict[str, Any], asked: SecurityRequirement, words: str
) -> None:
    """An operation that gives its argument back in another form would tell the secret."""

    @upstream.on("/text/slug")
    async def slug(seen: Seen) -> web.StreamResponse:
        return web.json_response({"slug": seen.query.lower()})

    call = await opened({"test.it": {"value": SECRET, "hosts": [upstream.host]} | entry})
    result = await call(api(upstream.origin, "/text/slug", security=((asked,),)))
    assert words in failed(result, "credential").message
    assert upstream.seen == []


@pytest.mark.parametrize(
    ("entry", "asked", "header"),
    [
        ({}, key_in("header", "X-Key"), ("X-Key", SECRET)),
        ({}, key_in("cookie", "sid"), ("Cookie", f"sid={SECRET}")),
        (IN_HEADER, key_in("header", "x-key"), ("X-Key", SECRET)),
        (IN_HEADER, needs("other"), ("X-Key", SECRET)),
        ({"cookie": "sid"}, needs("other"), ("Cookie", f"sid={SECRET}")),
        ({"scheme": "bearer"}, needs("oauth2"), ("Authorization", f"Bearer {SECRET}")),
        ({"scheme": "bearer", "value": f"Bearer {SECRET}"}, needs("bearer"), ("Authorization", f"Bearer {SECRET}")),
        ({"value": f"bearer {SECRET}"}, needs("oauth2"), ("Authorization", f"Bearer {SECRET}")),
        (WHOLE, needs("bearer"), ("Authorization", f"Bearer {SECRET}")),
        (WHOLE | {"value": f"Bearer {SECRET}"}, needs("bearer"), ("Authorization", f"Bearer {SECRET}")),
        (WHOLE | {"value": f"Token {SECRET}"}, key_in("header", "authorization"), ("Authorization", f"Token {SECRET}")),
        ({}, needs("other"), ("Authorization", f"Bearer {SECRET}")),
    ],
)
async def test_where_it_may_stand_it_does(
    upstream: Upstream, opened: Opener, entry: dict[str, Any], asked: SecurityRequirement, header: tuple[str, str]
) -> None:
    call = await opened({"test.it": {"value": SECRET, "hosts": [upstream.host]} | entry})
    assert isinstance((await call(api(upstream.origin, "/x", security=((asked,),)))).outcome, Succeeded)
    assert upstream.seen[0].headers[header[0]] == header[1]


async def test_another_tenant_does_not_even_learn_that_it_is_there(upstream: Upstream, opened: Opener) -> None:
    mine = {"test.it": {"value": SECRET, "hosts": [upstream.host], "tenants": ["red"]}}
    call, without = await opened(mine), await opened()
    operation = api(upstream.origin, "/x", security=((key_in("header", "X-Key"),),))
    assert isinstance((await call(operation, tenant="red")).outcome, Succeeded)
    told = [(await one(operation, tenant=tenant)).outcome for one in (call, without) for tenant in ("blue", None)]
    assert isinstance(told[0], Failed)
    assert told[0].reason == "credential"
    assert all(outcome == told[0] for outcome in told)
    assert len(upstream.seen) == 1
