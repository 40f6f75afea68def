"""Credentials against a real upstream and a real token endpoint, with canaries that must turn up nowhere else."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
import structlog
from aiohttp import web

from executor_svc.models import CallResult
from services.contracts.api import Api, Location, SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, key_in, needs, parameter
from tests.support.upstream import Seen, Upstream, serve_upstream
from tests.unit.executor_svc.conftest import Opener

CANARY = "canary+/ü s3cret"
PLAIN = "canary-s3cret-plain"


def forms(secret: str) -> set[str]:
    return {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        base64.b64encode(f"user:{secret}".encode()).decode(),
    }


def leaks(result: CallResult, *secrets: str) -> list[str]:
    text = f"{result.outcome.model_dump_json()} {result.request and result.request.model_dump_json()} {result!r}"
    return [form for secret in secrets for form in forms(secret) if form in text]


def echoing(upstream: Upstream, path: str, status: int = 200) -> None:
    """Answer with all that was seen, as debugging endpoints do."""

    @upstream.on(path)
    async def answer(seen: Seen) -> web.StreamResponse:
        return web.json_response(
            {"headers": dict(seen.headers), "target": seen.target, "body": seen.body.decode()}, status=status
        )


def reason(result: CallResult) -> tuple[str, str]:
    assert isinstance(result.outcome, Failed), result.outcome
    return result.outcome.reason, result.outcome.message


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    ("requirement", "entry", "where", "expected"),
    [
        (key_in("header"), {"value": PLAIN}, "X-Key", PLAIN),
        (
            key_in("query", "k&y"), {"value": CANARY, "in": "query", "name": "k&y"}, "target",
            f"/echo?k%26y={quote(CANARY, safe='')}",
        ),
        (key_in("cookie", "sid"), {"value": PLAIN}, "Cookie", f"sid={PLAIN}"),
        (needs("bearer"), {"value": PLAIN}, "Authorization", f"Bearer {PLAIN}"),
        (
            needs("basic"), {"username": "user", "password": CANARY}, "Authorization",
            "Basic " + base64.b64encode(f"user:{CANARY}".encode()).decode(),
        ),
    ],
)  # fmt: skip
async def test_each_kind_arrives_and_leaks_nowhere(
    upstream: Upstream, opened: Opener, requirement: Any, entry: Any, where: str, expected: str, status: int
) -> None:
    echoing(upstream, "/echo", status)
    call = await opened({"test.it": entry | {"hosts": [upstream.host]}})
    with structlog.testing.capture_logs() as logs:
        result = await call(api(upstream.origin, "/echo", security=((requirement,),)))
    seen = upstream.seen[0]
    assert (seen.target if where == "target" else seen.headers[where]) == expected
    assert isinstance(result.outcome, Succeeded if status == 200 else Failed)
    assert leaks(result, CANARY, PLAIN) == []
    assert "***" in (result.request.model_dump_json() if result.request else "")
    assert "canary" not in str(logs)


@pytest.mark.parametrize(
    "value", [f"Token {PLAIN}", f"ApiKey  {PLAIN}", f'Token token="{PLAIN}", email=x', f"GenieKey {PLAIN}"]
)
async def test_a_token_is_masked_without_its_scheme(upstream: Upstream, opened: Opener, value: str) -> None:
    @upstream.on("/me")
    async def answer(seen: Seen) -> web.StreamResponse:
        assert seen.headers["Authorization"] == value
        return web.json_response({"token": PLAIN, "said": f"invalid key {PLAIN}"})

    call = await opened({"test.it": {"value": value, "hosts": [upstream.host]}})
    result = await call(api(upstream.origin, "/me", security=((key_in("header", "Authorization"),),)))
    assert isinstance(result.outcome, Succeeded)
    assert result.outcome.value == {"token": "***", "said": "invalid key ***"}


async def test_only_parameters_named_like_a_secret_are_masked_alone(upstream: Upstream, opened: Opener) -> None:
    value = f'hmac username="service-user", realm="bookings", API-Key="{PLAIN}", oauth_signature=c2lnbmF0dXJl'

    @upstream.on("/me")
    async def answer(_: Seen) -> web.StreamResponse:
        return web.json_response({"user": "service-user", "of": "bookings", "said": [PLAIN, "c2lnbmF0dXJl", value[5:]]})

    call = await opened({"test.it": {"value": value, "hosts": [upstream.host]}})
    result = await call(api(upstream.origin, "/me", security=((key_in("header", "Authorization"),),)))
    assert isinstance(result.outcome, Succeeded)
    assert result.outcome.value == {"user": "service-user", "of": "bookings", "said": ["***", "***", "***"]}


async def test_a_call_names_the_secrets_that_it_presents(upstream: Upstream, opened: Opener) -> None:
    hosts = [upstream.host]
    entries = {"test.it": {"value": PLAIN, "hosts": hosts}, "test.two": {"value": CANARY, "hosts": hosts}}
    both = (key_in("header"), needs("api_key", "test.two", location=Location.HEADER, parameter="X-Two"))
    call = await opened(entries)
    asked: list[tuple[Any, tuple[str, ...]]] = [
        ((both,), ("test.it", "test.two")),
        (((key_in("header"),),), ("test.it",)),
        ((), ()),
        (((needs("bearer", "test.none"),),), ()),
    ]
    for security, names in asked:
        assert (await call(api(upstream.origin, "/x", security=security))).secrets == names


@pytest.mark.parametrize(
    ("security", "words"),
    [
        (((key_in("header"),),), "the secret 'test.it' is not configured as api_key"),
        (((needs("basic", "test.key"),),), "the secret 'test.key' is not configured as basic"),
        (((needs("bearer", "test.elsewhere"),),), "is not bound to 127.0.0.1:"),
        (((needs("mutual_tls", "test.key"),),), "the secret 'test.key' is not configured as mutual_tls"),
        (
            ((needs("api_key", "test.key", location=Location.HEADER, parameter="Host"),),),
            "cannot be sent in the header 'Host'",
        ),
        (((needs("api_key", "test.key"),),), "does not say where its key is sent"),
        (((needs("api_key", "test.odd", location=Location.COOKIE, parameter="c"),),), "cannot be sent in a cookie"),
        (((needs("oauth2", "test.client"),),), "has a token URL"),
    ],
)
async def test_without_a_credential_nothing_is_sent(
    upstream: Upstream, opened: Opener, security: Any, words: str
) -> None:
    hosts = [upstream.host]
    call = await opened(
        {
            "test.key": {"value": PLAIN, "hosts": hosts},
            "test.odd": {"value": "with; semicolon", "hosts": hosts},
            "test.elsewhere": {"value": PLAIN, "hosts": ["api.example.com"]},
            "test.client": {"client_id": "me", "client_secret": PLAIN, "hosts": hosts},
        }
    )
    result = await call(api(upstream.origin, "/x", security=security))
    kind, message = reason(result)
    assert kind == "credential"
    assert words in message
    assert (upstream.seen, result.attempts) == ([], 0)


async def test_the_first_alternative_that_can_be_met_is_taken(upstream: Upstream, opened: Opener) -> None:
    call = await opened({n: {"value": f"{n}-secret", "hosts": [upstream.host]} for n in ("a", "b", "c")})

    def key(name: str) -> SecurityRequirement:
        return needs("api_key", name, location=Location.HEADER, parameter=f"X-{name}")

    await call(api(upstream.origin, "/x", security=((key("a"), key("missing")), (key("b"), key("c")), (key("a"),))))
    await call(api(upstream.origin, "/x", security=((key("missing"),), ())))
    sent = [{name for name in seen.headers if name.startswith("X-")} for seen in upstream.seen]
    assert sent == [{"X-b", "X-c"}, set()]


async def test_an_argument_cannot_replace_a_credential(upstream: Upstream, opened: Opener) -> None:
    call = await opened({"test.it": {"value": PLAIN, "hosts": [upstream.host]}})
    await call(
        api(upstream.origin, "/x", parameter("x-key", "header"), security=((key_in("header"),),)), **{"x-key": "mine"}
    )
    assert upstream.seen[0].headers.getall("X-Key") == [PLAIN]


async def test_a_secret_in_an_argument_is_masked_where_it_is_presented(upstream: Upstream, opened: Opener) -> None:
    call = await opened({"test.it": {"value": CANARY, "hosts": [upstream.host]}})
    result = await call(api(upstream.origin, "/x", parameter("q"), security=((needs("bearer"),),)), q=f"<{CANARY}>")
    assert leaks(result, CANARY) == []


class TokenEndpoint:
    """Issues `token-N-...`; the API at `/api` takes only the newest of them."""

    def __init__(self, upstream: Upstream, expires_in: Any = 3600) -> None:
        self.upstream, self.issued, self.expires_in = upstream, 0, expires_in
        upstream.answers |= {"/token": self.token, "/api": self.api}

    @property
    def newest(self) -> str:
        return f"token-{self.issued}-canary"

    async def token(self, seen: Seen) -> web.StreamResponse:
        await asyncio.sleep(0.05)  # long enough for every concurrent caller to arrive
        self.issued += 1
        return web.json_response({"access_token": self.newest, "token_type": "Bearer", "expires_in": self.expires_in})

    async def api(self, seen: Seen) -> web.StreamResponse:
        good = seen.headers.get("Authorization") == f"Bearer {self.newest}"
        return web.json_response({"echo": dict(seen.headers)}, status=200 if good else 401)

    def operation(self, token_url: str = "/token", **more: Any) -> Api:
        requirement = needs("oauth2", token_url=token_url, scopes=("read", "write"))
        return api(self.upstream.origin, "/api", security=((requirement,),), **more)

    def secrets(self, **more: Any) -> dict[str, Any]:
        entry = {"client_id": "me:1", "client_secret": CANARY, "hosts": [self.upstream.host]}
        return {"test.it": entry | more}


async def test_a_token_is_fetched_once_and_kept(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    call = await opened(endpoint.secrets())
    results = await asyncio.gather(*(call(endpoint.operation()) for _ in range(20)))
    results.append(await call(endpoint.operation()))
    assert [type(r.outcome) for r in results] == [Succeeded] * 21
    assert upstream.count("/token") == 1
    fetch = upstream.seen[0]
    assert parse_qs(fetch.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["read write"]}
    user, _, password = base64.b64decode(fetch.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
    assert (user, password) == ("me%3A1", "canary%2B%2F%C3%BC+s3cret")
    assert [leak for result in results for leak in leaks(result, CANARY, endpoint.newest)] == []


async def test_a_client_may_prove_itself_in_the_body(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    call = await opened(endpoint.secrets(client_auth="body"))
    assert isinstance((await call(endpoint.operation())).outcome, Succeeded)
    assert parse_qs(upstream.seen[0].body.decode())["client_secret"] == [CANARY]
    assert "Authorization" not in upstream.seen[0].headers


@pytest.mark.parametrize(
    ("expires_in", "fetches"), [(3600, 1), ("3600", 1), (None, 1), (0, 3), ("soon", 1), ("nan", 1)]
)
async def test_a_token_is_kept_until_shortly_before_it_expires(
    upstream: Upstream, opened: Opener, expires_in: Any, fetches: int
) -> None:
    endpoint = TokenEndpoint(upstream, expires_in)
    call = await opened(endpoint.secrets())
    for _ in range(3):
        assert isinstance((await call(endpoint.operation())).outcome, Succeeded)
    assert upstream.count("/token") == fetches


async def test_a_refused_token_is_replaced_once(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    call = await opened(endpoint.secrets())
    await call(endpoint.operation())
    endpoint.issued += 1  # revokes the one that was issued
    result = await call(endpoint.operation(method="POST"))
    assert isinstance(result.outcome, Succeeded)
    assert (result.attempts, upstream.count("/token")) == (2, 2)

    @upstream.on("/api")
    async def never(_: Seen) -> web.StreamResponse:
        return web.json_response({"error": "no"}, status=401)

    result = await call(endpoint.operation())
    assert reason(result) == ("upstream_error", "the upstream answered 401")
    assert upstream.count("/token") == 3


async def test_an_api_that_refuses_call_after_call_does_not_flood_the_token_endpoint(
    upstream: Upstream, opened: Opener
) -> None:
    endpoint = TokenEndpoint(upstream)
    call = await opened(endpoint.secrets())

    @upstream.on("/no")
    async def never(_: Seen) -> web.StreamResponse:
        return web.json_response({"error": "no"}, status=401)

    for _ in range(20):
        result = await call(endpoint.operation().model_copy(update={"path": "/no"}))
        assert reason(result) == ("upstream_error", "the upstream answered 401")
    assert upstream.count("/token") == 4
    assert upstream.count("/no") == 23
    assert isinstance((await call(endpoint.operation())).outcome, Succeeded)


async def test_fifty_callers_after_its_expiry_fetch_it_once(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream, expires_in=0)  # expires at once: none of the fifty finds one that is valid
    call = await opened(endpoint.secrets())
    await call(endpoint.operation())
    results = await asyncio.gather(*(call(endpoint.operation()) for _ in range(50)))
    assert {type(result.outcome) for result in results} == {Succeeded}
    assert upstream.count("/token") == 2


async def test_fifty_refusals_fetch_it_once(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    call = await opened(endpoint.secrets())
    await call(endpoint.operation())
    endpoint.issued += 1  # revokes the one that was issued
    results = await asyncio.gather(*(call(endpoint.operation()) for _ in range(50)))
    assert {type(result.outcome) for result in results} == {Succeeded}
    assert upstream.count("/token") == 2


async def test_callers_that_waited_for_a_token_share_the_problem_with_it(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)

    @upstream.on("/token")
    async def no(_: Seen) -> web.StreamResponse:
        await asyncio.sleep(0.05)  # long enough for every concurrent caller to arrive
        return web.json_response({"error": "invalid_client"}, status=401)

    call = await opened(endpoint.secrets())
    results = await asyncio.gather(*(call(endpoint.operation()) for _ in range(20)))
    said = "the token endpoint of 'test.it' answered 401 (invalid_client)"
    assert {reason(result) for result in results} == {("credential", said)}
    assert upstream.count("/token") == 1
    await call(endpoint.operation())
    assert upstream.count("/token") == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (web.json_response({"error": "invalid_client", "x": CANARY}, status=401), "answered 401 (invalid_client)"),
        (web.json_response({"error": CANARY}, status=400), "answered 400 (***)"),
        (web.Response(text="<html>"), "not valid JSON"),
        (web.json_response({"token": 1}), "issued no usable access_token"),
        (web.json_response({"access_token": "a\r\nb"}), "issued no usable access_token"),
        (web.Response(status=302, headers={"Location": "/api"}), "answered 302"),
    ],
)
async def test_a_token_endpoint_that_gives_none(
    upstream: Upstream, opened: Opener, reply: web.Response, words: str
) -> None:
    endpoint = TokenEndpoint(upstream)
    upstream.replies("/token", reply)
    result = await (await opened(endpoint.secrets()))(endpoint.operation())
    kind, message = reason(result)
    assert kind == "credential"
    assert words in message
    assert leaks(result, CANARY) == []
    assert upstream.count("/api") == 0


async def test_a_hostile_document_cannot_have_secrets_sent_elsewhere(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    async with serve_upstream() as evil:
        call = await opened(endpoint.secrets())
        stolen_client = await call(endpoint.operation(f"{evil.origin}/token"))
        moved = endpoint.operation().model_copy(update={"server": evil.origin})
        stolen_token = await call(moved)
        assert evil.seen == []
    assert "not bound to its token endpoint" in reason(stolen_client)[1]
    assert "not bound to 127.0.0.1" in reason(stolen_token)[1]
    assert upstream.seen == []


async def test_the_token_endpoint_is_behind_the_guard_too(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    port = upstream.host.split(":")[1]
    call = await opened(endpoint.secrets(hosts=[upstream.host, f"localhost:{port}"]))
    kind, message = reason(await call(endpoint.operation(f"http://localhost:{port}/token")))
    assert kind == "credential"
    assert "not public" in message


async def test_waiting_for_a_token_meets_the_deadline(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)

    @upstream.on("/token")
    async def never(_: Seen) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    call = await opened(endpoint.secrets())
    results = await asyncio.gather(*(call(endpoint.operation(), within_s=0.3) for _ in range(3)))
    assert {reason(result)[0] for result in results} == {"credential"}


async def test_a_caller_in_a_hurry_does_not_fail_the_patient_one(upstream: Upstream, opened: Opener) -> None:
    endpoint = TokenEndpoint(upstream)
    first = asyncio.Event()

    @upstream.on("/token")
    async def slow_once(seen: Seen) -> web.StreamResponse:
        if not first.is_set():
            first.set()
            await asyncio.Event().wait()
        return await endpoint.token(seen)

    call = await opened(endpoint.secrets())
    hurried = asyncio.create_task(call(endpoint.operation(), within_s=0.3))
    await first.wait()
    patient = await call(endpoint.operation())
    assert reason(await hurried)[0] == "credential"
    assert isinstance(patient.outcome, Succeeded)
