"""Tokens of an authorization server: their principals, refused tokens, and outages of the server."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web

from gateway.issuer_keys import FETCH_EVERY_S, KEEP_S, MAX_BYTES, REFRESH_S, IssuerKeys
from gateway.issuers import Issuers
from gateway.roles import Role
from services.contracts.access import Action, KeyRequest
from services.errors import Forbidden, TooManyAttempts, Unauthorized
from tests.support.gateways import ASK_ROOM, BOOKING, Gateway, ask, open_gateway
from tests.support.issuer import AUDIENCE, JWKS, METADATA, Issuer, jwk_of, new_key, serve_issuer, settings_of
from tests.support.ports import held_port
from tests.support.upstream import Seen

OPERATOR = ({"name": "operator", "tenant": "default", "token": "operator-token"},)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long timeouts, because parallel tests slow the machine down."""
    monkeypatch.setattr("gateway.issuer_keys.FETCH_WITHIN_S", 60.0)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with serve_issuer() as running:
        yield running


@asynccontextmanager
async def trusting(tmp_path: Path, issuer: Issuer | str, gateway: dict[str, Any] | None = None, **fields: Any) -> Any:
    url = issuer if isinstance(issuer, str) else issuer.url
    options: dict[str, Any] = {"principals": OPERATOR} | (gateway or {})
    async with open_gateway(tmp_path, issuers=[settings_of(url, **fields)], **options) as running:
        yield running


async def status(gateway: Gateway, token: str, path: str = "/runs") -> tuple[int, str]:
    answer = await gateway.http.get(path, headers={b"Authorization": b"Bearer " + token.encode("latin-1")})
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json().get("detail", "")


def keys_of(gateway: Gateway) -> IssuerKeys:
    issuers: Issuers = gateway.app.state.principals._issuers
    return issuers._keys["corp"]


def later(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    keys = keys_of(gateway)
    now = keys._clock()
    monkeypatch.setattr(keys, "_clock", lambda: now + seconds)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("discovered", [True, False])
async def test_a_token_names_principal_tenant_and_roles(
    tmp_path: Path, issuer: Issuer, algorithm: str, discovered: bool
) -> None:
    issuer.add("one", algorithm, alg=algorithm, use="sig")
    where: dict[str, Any] = {} if discovered else {"jwks_url": issuer.server.origin + JWKS}
    async with trusting(tmp_path, issuer, **where) as gateway:
        asking = gateway.as_principal(issuer.token("one", roles=["ask", "other"]))
        run = await asking.solve(ask(ASK_ROOM))
        assert (run.tenant, run.asked_by) == ("red", "ada")
        with pytest.raises(Forbidden, match="`approve`"):
            await asking.approve(run.id, BOOKING.id)
        approving = gateway.as_principal(issuer.token("one", sub="bob", roles=["approve"]))
        assert (await approving.approve(run.id, BOOKING.id)).approval is not None
        entries = (await gateway.as_principal("operator-token").audit(actions=[Action.APPROVE])).entries
        assert [(one.principal, one.key, one.tenant) for one in entries] == [("bob", "jwt:corp", "red")]
        assert issuer.fetches == 1
        assert issuer.server.upstream.count(METADATA) == int(discovered)


async def test_which_claims_say_what(tmp_path: Path, issuer: Issuer) -> None:
    fields: dict[str, Any] = {
        "name_claim": "email",
        "tenant_claim": ["org", "name"],
        "roles_claim": "scope",
        "roles": {"nestor:use": ["ask"], "nestor:run": ["administer", "ask"]},
        "audience": ["other", AUDIENCE],
    }
    async with trusting(tmp_path, issuer, **fields) as gateway:
        good = {
            "email": "ada@example.org",
            "org": {"name": "blue"},
            "scope": "openid nestor:run",
            "aud": ["x", "other"],
        }
        administrator = gateway.as_principal(issuer.signed(issuer.claims(**good)))
        key = await administrator.create_key(KeyRequest(name="app", roles=frozenset({Role.ASK})))
        assert (key.tenant, key.created_by) == ("blue", "ada@example.org")
        with pytest.raises(Forbidden):
            await administrator.keys(tenant="red")
        assert await status(gateway, issuer.signed(issuer.claims(**good | {"scope": "openid"}))) == (
            403,
            "The principal 'ada@example.org' needs the role `approve` or `ask` for this.",
        )
        for changed in (
            {"org": {"name": "default"}},  # the operator's tenant, which no setting allows this claim to name
            {"org": {"name": "a b"}},
            {"org": {"name": ["blue"]}},
            {"org": "blue"},
            {"org": None},
            {"email": None},
            {"email": "x" * 101},
            {"email": "a\x00"},
            {"email": ""},
            {"email": {"a": 1}},
        ):
            code, detail = await status(gateway, issuer.signed(issuer.claims(**good | changed)))
            assert (code, "its claim for the" in detail) == (401, True), changed


async def test_tenants_that_a_claim_may_name(tmp_path: Path, issuer: Issuer) -> None:
    async with trusting(tmp_path, issuer, tenant_claim="org", tenants=["default", "blue"]) as gateway:
        named = [(await status(gateway, issuer.token(org=org)))[0] for org in ("default", "blue", "red")]
        assert named == [200, 200, 401]


async def test_a_claim_names_no_tenant_that_settings_give_to_an_issuer(tmp_path: Path, issuer: Issuer) -> None:
    issuers = [
        settings_of(issuer.url, tenant_claim="org"),
        settings_of("https://a.example", name="other", tenant="red"),
        settings_of("https://b.example", name="third", tenant_claim="org", tenants=["blue"]),
    ]
    async with open_gateway(tmp_path, issuers=issuers, principals=OPERATOR) as gateway:
        tenants = ("default", "red", "blue", "green")
        assert [(await status(gateway, issuer.token(org=org)))[0] for org in tenants] == [401, 401, 401, 200]


async def test_what_the_issuer_signed_and_does_not_hold(tmp_path: Path, issuer: Issuer) -> None:
    """Refusals of correctly signed tokens give the reason and do not count as wrong tokens."""
    now = int(time.time())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"exp": now - 60}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": now + 60}, "not yet valid"),
        ({"iat": now + 60}, "not yet valid"),
        ({"aud": "https://other.example"}, "udience"),
        ({"aud": None}, "aud"),
        ({"aud": [1]}, "claim format"),
        ({"sub": None}, "principal's name"),
    ]
    async with trusting(tmp_path, issuer, {"max_wrong_tokens": 3}) as gateway:
        for number, (changed, why) in enumerate(wrong):
            code, detail = await status(gateway, issuer.signed(issuer.claims(**{"jti": str(number)} | changed)))
            assert (code, why in detail) == (401, True), (changed, detail)
        assert (await status(gateway, issuer.token(exp=now - 20)))[0] == 200  # a small clock skew is allowed
        assert (await status(gateway, issuer.token()))[0] == 200


def segment(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def forged(issuer: Issuer) -> list[str]:
    """Tokens that the issuer did not sign, or not in this form."""
    claims, good = issuer.claims(), issuer.token("rs")
    head, body, signature = good.split(".")
    _, key = issuer.private["rs"]
    public = issuer.listed[-1]
    other = new_key("EdDSA")
    hmac_head = segment({"alg": "HS256", "kid": "rs", "typ": "JWT"})
    confused = []
    for secret in (public["n"].encode(), json.dumps(public).encode(), base64.urlsafe_b64decode(public["n"] + "==")):
        mac = hmac.new(secret, f"{hmac_head}.{segment(claims)}".encode(), hashlib.sha256).digest()
        confused.append(f"{hmac_head}.{segment(claims)}.{segment(mac)}")
    return [
        *confused,
        *(f"{segment({'alg': alg, 'kid': 'rs'})}.{segment(claims)}." for alg in ("none", "None", "NONE", "")),
        *(f"{segment({'alg': alg, 'kid': 'rs'})}.{body}.{signature}" for alg in ("none", "HS256", "RS512", "PS256", 5)),
        f"{head}.{segment(claims | {'sub': 'eve'})}.{signature}",
        f"{head}.{body}.{segment(b'x' * 256)}",
        f"{head}.{body}.",
        f"{head}.{body}",
        jwt.encode(claims, other, "EdDSA", {"kid": "ed"}),
        jwt.encode(claims, other, "EdDSA", {"kid": "ed", "jwk": jwk_of(other)}),
        jwt.encode(claims, other, "EdDSA", {"kid": "unknown"}),
        jwt.encode(claims, other, "EdDSA"),
        jwt.encode(claims, key, "RS512", {"kid": "rs"}),
        jwt.encode(claims, key, "PS256", {"kid": "rs"}),
        issuer.token("ed", {"kid": "rs"}),
        issuer.token("rs", {"typ": "logout+jwt"}),
        issuer.token("rs", {"crit": ["exp"]}),
        issuer.token("rs", iss="https://other.example"),
        issuer.token("rs", iss=None),
        issuer.token("rs", iss=issuer.url + "/"),
        f"{segment(b'[' * 9_000)}.{segment(claims)}.{signature}",
        f"{head}.{segment(b'[' * 9_000)}.{signature}",
        f"{head}.{segment(claims | {'a': 'x' * 20_000})}.{signature}",
        f"{segment({'alg': 'RS256', 'kid': ['rs']})}.{body}.{signature}",
        f"{segment({'alg': 'RS256', 'kid': 'rs', 'typ': 5})}x.{body}.{signature}",
        f"{segment([])}.{segment([])}.{signature}",
        "..",
        "eyJ.eyJ.x",
        "\xff.\xff.\xff",
    ]


async def test_what_the_issuer_did_not_sign(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.issuer_keys.FETCH_EVERY_S", 0)  # an unknown key is looked for, and not found
    issuer.add("rs", "RS256")
    async with trusting(tmp_path, issuer, {"max_wrong_tokens": 0}) as gateway:
        assert (await status(gateway, issuer.token("rs")))[0] == 200
        for token in forged(issuer):
            code, detail = await status(gateway, token)
            assert (code, detail) == (401, "Send `Authorization: Bearer TOKEN` with a token of this gateway."), token
        assert gateway.fakes.retriever.calls == []


async def test_forged_tokens_count_as_wrong_ones(tmp_path: Path, issuer: Issuer) -> None:
    async with trusting(tmp_path, issuer, {"max_wrong_tokens": 3}) as gateway:
        other = new_key("EdDSA")
        for number in range(3):
            token = jwt.encode(issuer.claims(sub=str(number)), other, "EdDSA", {"kid": "ed"})
            with pytest.raises(Unauthorized):
                await gateway.as_principal(token).runs()
        with pytest.raises(TooManyAttempts):
            await gateway.as_principal(issuer.token()).runs()


@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "oct", "kid": "bad", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "alg": "HS256"},
        {"kty": "RSA", "kid": "bad", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "kid": "bad", "n": 5, "e": {}},
        {"kty": "EC", "kid": "bad", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "kid": "bad", "crv": ["P-256"]},
        {"kty": "OKP", "kid": "bad", "crv": "Ed25519", "x": ""},
        {"kty": {}, "kid": "bad"},
        "bad",
        None,
    ],
)
async def test_keys_that_are_none_of_ours_are_left_out(tmp_path: Path, issuer: Issuer, jwk: Any) -> None:
    issuer.listed.insert(0, jwk)
    for extra in ({"use": "enc"}, {"alg": "HS256"}):
        issuer.listed.append(jwk_of(new_key("EdDSA"), kid="bad", **extra))
    issuer.listed.append(jwk_of(new_key("RS256", 1024), kid="short"))
    async with trusting(tmp_path, issuer) as gateway:
        assert (await status(gateway, issuer.token()))[0] == 200
        assert [key.kid for key in keys_of(gateway)._keys] == ["ed"]


async def test_a_token_without_a_key_id(tmp_path: Path, issuer: Issuer) -> None:
    bare = jwt.encode(issuer.claims(), issuer.private["ed"][1], "EdDSA")
    async with trusting(tmp_path, issuer) as gateway:
        assert (await status(gateway, bare))[0] == 200
    issuer.add("ed2", "EdDSA")
    async with trusting(tmp_path, issuer) as gateway:
        assert (await status(gateway, bare))[0] == 401, "two keys could be meant"


async def test_a_new_key_is_fetched_once(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with trusting(tmp_path, issuer, {"max_wrong_tokens": 0}) as gateway:
        assert (await status(gateway, issuer.token()))[0] == 200
        issuer.add("new", "ES256")
        assert (await status(gateway, issuer.token("new")))[0] == 401
        later(gateway, monkeypatch, FETCH_EVERY_S)
        answers = await asyncio.gather(*(status(gateway, issuer.token("new", jti=str(n))) for n in range(20)))
        assert {code for code, _ in answers} == {200}
        assert issuer.fetches == 2
        for number in range(20):
            assert (await status(gateway, issuer.token(headers={"kid": f"made-up-{number}"})))[0] == 401
        assert issuer.fetches == 2


async def test_tokens_of_a_key_that_was_not_looked_for_are_no_guesses(tmp_path: Path, issuer: Issuer) -> None:
    """Anybody may use up the fetch of 30 s. The users of a new key would lock out the address that they share."""
    async with trusting(tmp_path, issuer, {"max_wrong_tokens": 3}) as gateway:
        assert (await status(gateway, issuer.token(headers={"kid": "made-up"})))[0] == 401
        issuer.add("new", "ES256")
        for number in range(6):
            code, detail = await status(gateway, issuer.token("new", jti=str(number)))
            assert (code, "cannot be fetched" in detail) == (401, True)
        assert issuer.fetches == 1
        assert (await status(gateway, "operator-token"))[0] == 200


async def test_a_withdrawn_key_is_refused(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with trusting(tmp_path, issuer) as gateway:
        assert (await status(gateway, issuer.token()))[0] == 200
        issuer.listed.clear()
        issuer.add("new", "EdDSA")
        later(gateway, monkeypatch, REFRESH_S)
        await status(gateway, issuer.token())  # starts fetching the keys in the background
        fetching = keys_of(gateway)._fetching
        if fetching is not None:
            await asyncio.wait({fetching})
        assert (await status(gateway, issuer.token()))[0] == 401
        assert (await status(gateway, issuer.token("new")))[0] == 200


async def test_an_issuer_that_is_down(tmp_path: Path, issuer: Issuer) -> None:
    """After the first try its tokens are refused at once. Other tokens still work, and readiness reports the outage."""
    with held_port() as port:
        async with trusting(tmp_path, f"http://127.0.0.1:{port}", {"max_wrong_tokens": 3}) as gateway:
            for number in range(6):
                token = issuer.token(iss=f"http://127.0.0.1:{port}", jti=str(number))
                code, detail = await status(gateway, token)
                assert (code, "cannot be fetched" in detail) == (401, True)
            assert (await status(gateway, "operator-token"))[0] == 200, "an issuer's fault is nobody's guess"
            ready = await gateway.http.get("/readyz")
            assert ready.status_code == 200
            assert ready.json()["checks"]["issuer corp"] == "its keys cannot be fetched"
            metrics = (await gateway.http.get("/metrics")).text
            assert 'nestor_issuer_reachable{issuer="corp"} 0.0' in metrics
            assert 'nestor_issuer_tokens_total{issuer="corp",outcome="unavailable"} 6.0' in metrics


async def test_an_impossible_address_of_keys_is_an_outage(tmp_path: Path, issuer: Issuer) -> None:
    issuer.metadata["jwks_uri"] = "https://127.0.0.1:99999/jwks"
    async with trusting(tmp_path, issuer) as gateway:
        code, detail = await status(gateway, issuer.token())
        assert (code, "cannot be fetched" in detail) == (401, True)
        assert 'nestor_issuer_reachable{issuer="corp"} 0.0' in (await gateway.http.get("/metrics")).text


async def test_known_keys_outlive_an_outage(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with trusting(tmp_path, issuer) as gateway:
        assert (await status(gateway, issuer.token()))[0] == 200
        issuer.server.upstream.replies(METADATA, web.Response(status=503))
        later(gateway, monkeypatch, KEEP_S - 1)
        assert (await status(gateway, issuer.token()))[0] == 200
        assert (await gateway.http.get("/readyz")).json()["checks"]["issuer corp"] != "ok"
        later(gateway, monkeypatch, 1 + FETCH_EVERY_S)
        code, detail = await status(gateway, issuer.token())
        assert (code, "cannot be fetched" in detail) == (401, True)


async def test_an_issuer_that_hangs(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first requests wait together for the timeout of one fetch; later ones do not wait."""
    monkeypatch.setattr("gateway.issuer_keys.FETCH_WITHIN_S", 0.3)

    async def never(_: Seen) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    issuer.server.upstream.answers[JWKS] = never
    async with trusting(tmp_path, issuer) as gateway:
        answers = await asyncio.gather(*(status(gateway, issuer.token(jti=str(n))) for n in range(20)))
        assert {code for code, _ in answers} == {401}
        assert issuer.fetches == 1
        assert (await status(gateway, issuer.token()))[0] == 401
        assert issuer.fetches == 1


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (JWKS, web.Response(body=b"[" * 100_000)),
        (JWKS, web.Response(body=b'{"keys": [' + b" " * MAX_BYTES + b"]}")),
        (JWKS, {"keys": []}),
        (JWKS, {"keys": {"a": 1}}),
        (JWKS, []),
        (JWKS, web.Response(status=302, headers={"Location": "/elsewhere"})),
        (JWKS, web.Response(body=b"\xff")),
        (METADATA, {"issuer": "https://other.example", "jwks_uri": "https://other.example/jwks"}),
        (METADATA, {"jwks_uri": "http://192.0.2.1/jwks"}),
        (METADATA, web.Response(status=500)),
    ],
)
async def test_what_an_issuer_must_not_answer(tmp_path: Path, issuer: Issuer, path: str, answer: Any) -> None:
    if path == METADATA and isinstance(answer, dict):
        answer = {"issuer": issuer.url} | answer
    issuer.server.upstream.replies(path, answer)
    async with trusting(tmp_path, issuer) as gateway:
        code, detail = await status(gateway, issuer.token())
        assert (code, "cannot be fetched" in detail) == (401, True)
        assert (await status(gateway, "operator-token"))[0] == 200


async def test_with_an_issuer_nobody_else_is_taken(tmp_path: Path, issuer: Issuer) -> None:
    async with trusting(tmp_path, issuer, {"principals": ()}) as gateway:
        assert (await gateway.http.get("/runs")).status_code == 401
        assert (await status(gateway, issuer.token()))[0] == 200
        assert not gateway.app.state.settings.takes_anybody
