"""Access to the console: sessions, tokens and keys, accepted forms, and the page after a login."""

import base64
import hashlib
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from starlette.requests import Request

from gateway.console.session import COOKIE, LoginNeeded, Sessions, _sign
from gateway.roles import Role as GatewayRole
from services.contracts.access import KeyRequest
from services.contracts.run import RunStatus
from tests.support.console_pages import PRINCIPALS, get, log_in, post, visit
from tests.support.gateways import (
    ASK_ROOM,
    BOOKING,
    Gateway,
    ask,
    ended,
    open_gateway,
)
from tests.support.issuer import AUDIENCE, serve_issuer

SCREENS: Final = ("runs", "playground", "approvals", "review", "catalogue", "catalogue/providers", "ops")


async def test_without_a_session_everything_leads_to_the_login(guarded: Gateway) -> None:
    for path in (*SCREENS, "runs/run_1", "runs/run_1/events", "runs/run_1/json", "palette"):
        answer = await get(guarded, path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/console/login?next=%2Fconsole%2F"), path
    nested = base64.urlsafe_b64encode(b"[" * 2_200).decode()
    forged = ("x.y", "e30.0", f"e30.{'0' * 64}", "a" * 2_000, "%FF.%FF", "W10.x", nested)
    for cookie in forged:
        answer = await get(guarded, "runs", f"{COOKIE}={cookie}")
        assert answer.headers["location"] == "/console/login?next=%2Fconsole%2Fruns&ended=page"
    back = {
        "runs/run_1/approve": "runs/run_1",
        "runs/run_1/reject": "runs/run_1",
        "runs/cancel": "runs",
        "review/run_1": "review",
    }
    for path, page in back.items():
        posted = await post(guarded, path, "", csrf="x")
        assert posted.status_code == 303
        asked = httpx2.URL(posted.headers["location"])
        assert dict(asked.params) == {"next": f"/console/{page}", "ended": "form"}
        assert "was not done" in (await guarded.http.get(asked)).text
    assert "has ended" not in (await get(guarded, "login")).text
    assert (await get(guarded, "login?ended=x")).status_code == 422


async def test_a_session_holds_no_token_and_ends_with_the_logout(guarded: Gateway) -> None:
    answer = await guarded.http.post("/console/login", data={"token": "red-token-1"})
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    assert "Path=/console" in kept
    assert "red-token-1" not in kept
    cookie, csrf = await log_in(guarded, "red-token-1")
    page = await get(guarded, "runs", cookie)
    assert "shop" in page.text
    assert "red-token-1" not in page.text
    out = await post(guarded, "logout", cookie, csrf=csrf)
    assert "Max-Age=0" in out.headers["set-cookie"]
    wrong = await guarded.http.post("/console/login", data={"token": "wrong-token"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert "wrong-token" not in wrong.text


async def test_a_key_opens_the_console_until_it_is_revoked(guarded: Gateway, tmp_path: Path) -> None:
    boss = guarded.as_principal("red-token-1")
    key = await boss.create_key(KeyRequest(name="desk", roles=frozenset({GatewayRole.ASK, GatewayRole.APPROVE})))
    run = await boss.solve(ask(ASK_ROOM))
    cookie, csrf = await log_in(guarded, key.key, "approvals")
    said = base64.urlsafe_b64decode(cookie.partition("=")[2].partition(".")[0] + "==").decode()
    assert key.key.split("_", 2)[2] not in said
    page = await get(guarded, f"runs/{run.id}", cookie)
    assert page.status_code == 200
    assert "desk" in page.text
    assert (await get(guarded, "ops", cookie)).status_code == 403
    fields = {"plan_id": BOOKING.id, "digest": run.digest, "read": "yes"}
    assert (await post(guarded, f"runs/{run.id}/approve", cookie, csrf=csrf, **fields)).status_code == 303
    approved = (await boss.run(run.id)).approval
    assert approved is not None
    assert approved.approver == "desk"
    async with open_gateway(tmp_path, principals=PRINCIPALS) as other:
        assert (await get(other, "runs", cookie)).status_code == 303, "another gateway, without the same `console_key`"
    await boss.revoke_key(key.id)
    assert (await get(guarded, "runs", cookie)).status_code == 303
    assert (await guarded.http.post("/console/login", data={"token": key.key})).status_code == 401


async def test_what_the_database_keeps_of_a_key_signs_no_session(guarded: Gateway) -> None:
    key = await guarded.as_principal("red-token-1").create_key(KeyRequest(name="desk", roles=frozenset(GatewayRole)))
    cookie, _ = await log_in(guarded, key.key)
    body = cookie.partition("=")[2].partition(".")[0]
    kept = hashlib.sha256(key.key.split("_", 2)[2].encode())
    for secret in (kept.hexdigest().encode(), kept.digest(), key.id.encode(), key.key.encode(), b"red-token-1"):
        assert (await get(guarded, "runs", f"{COOKIE}={body}.{_sign(secret, body)}")).status_code == 303
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    for changed in ({"tenant": "blue"}, {"key": ""}, {"ends": 2**40}, {"key": "jwt:corp", "roles": "administer"}):
        other = base64.urlsafe_b64encode(json.dumps(said | changed).encode()).decode().rstrip("=")
        signature = cookie.partition(".")[2]
        assert (await get(guarded, "runs", f"{COOKIE}={other}.{signature}")).status_code == 303


async def test_gateways_with_one_console_key_share_sessions(tmp_path: Path) -> None:
    options: dict[str, Any] = {"principals": PRINCIPALS, "console_key": "k" * 32}
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(open_gateway(tmp_path, **options)) for _ in range(2)]
        asked = KeyRequest(name="desk", roles=frozenset({GatewayRole.ASK}))
        key = await one.as_principal("red-token-1").create_key(asked)
        cookie, _ = await log_in(one, key.key)
        assert (await get(two, "runs", cookie)).status_code == 200


async def test_a_token_of_an_issuer_opens_the_console_until_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.issuer_keys.FETCH_WITHIN_S", 60.0)
    async with serve_issuer() as issuer:
        corp = {"name": "corp", "issuer": issuer.url, "audience": [AUDIENCE], "tenant": "red"}
        async with open_gateway(tmp_path, principals=PRINCIPALS, issuers=[corp]) as gateway:
            run = await gateway.as_principal("red-token-1").solve(ask(ASK_ROOM))
            cookie, csrf = await log_in(gateway, issuer.token(), "runs")
            assert run.id in (await get(gateway, "runs", cookie)).text
            assert (await post(gateway, f"runs/{run.id}/approve", cookie, csrf=csrf)).status_code == 403
            login = await gateway.http.post("/console/login", data={"token": issuer.token(aud="other")})
            assert (login.status_code, "set-cookie" in login.headers) == (401, False)
            in_ten_minutes = time.time() + 600
            later = Sessions(gateway.app.state.principals, lambda: in_ten_minutes)
            asked = Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})
            with pytest.raises(LoginNeeded):
                await later.of(asked)
            assert (await Sessions(gateway.app.state.principals, lambda: in_ten_minutes - 600).of(asked)).logged_in


@pytest.mark.parametrize(
    "following", ["//evil.example", "https://evil.example", "/console/\\evil", "/metrics", "/console\n"]
)
async def test_the_login_leads_nowhere_else(guarded: Gateway, following: str) -> None:
    answer = await guarded.http.post("/console/login", data={"token": "red-token-1", "next": following})
    assert answer.headers["location"] == "/console"


async def test_guessing_tokens_is_ended(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, max_wrong_tokens=2) as gateway:
        codes = [
            (await gateway.http.post("/console/login", data={"token": f"guess-{n}"})).status_code for n in range(3)
        ]
        assert codes == [401, 401, 429]


async def test_guessing_tokens_by_what_they_sign_is_ended(tmp_path: Path) -> None:
    said = {"name": "shop", "tenant": "red", "ends": int(time.time()) + 1_000, "key": ""}
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")

    def guess(token: str) -> str:
        return f"{COOKIE}={body}.{_sign(token.encode(), body)}"

    async with open_gateway(tmp_path, principals=PRINCIPALS, max_wrong_tokens=2) as gateway:
        assert (await get(gateway, "runs", guess("red-token-1"))).status_code == 200
        guesses = [*(guess("guess-1") for _ in range(3)), guess("guess-2"), guess("red-token-1")]
        assert [(await get(gateway, "runs", one)).status_code for one in guesses] == [303, 303, 303, 303, 429]
        assert (await get(gateway, "login", guess("red-token-1"))).status_code == 429
        assert (await gateway.http.post("/console/login", data={"token": "red-token-1"})).status_code == 429


async def test_a_session_is_its_tenants(guarded: Gateway) -> None:
    run = await guarded.as_principal("red-token-1").solve(ask(ASK_ROOM))
    red, _ = await log_in(guarded, "red-token-1")
    blue, csrf = await log_in(guarded, "blue-token-1")
    assert run.id in (await get(guarded, "runs", red)).text
    for path in ("runs", "approvals", "palette", "ops"):
        assert run.id not in (await get(guarded, path, blue)).text
    for path in ("", "/planning", "/json", "/events", f"/values/{'0' * 64}"):
        assert (await get(guarded, f"runs/{run.id}{path}", blue)).status_code == 404
    assert (await get(guarded, f"playground?run={run.id}", blue)).status_code == 404
    posts = {
        "approve": {"plan_id": BOOKING.id, "read": "yes"},
        "reject": {},
        "cancel": {},
        "feedback": {"verdict": "rejected"},
        "resolve": {"step": "var1", "outcome": "retry"},
    }
    for action, fields in posts.items():
        assert (await post(guarded, f"runs/{run.id}/{action}", blue, csrf=csrf, **fields)).status_code == 404
    for action in ("run", "answers"):
        assert (await post(guarded, f"playground/{action}", blue, csrf=csrf, run=run.id)).status_code == 404
    assert (await guarded.as_principal("red-token-1").run(run.id)).status is RunStatus.NEEDS_APPROVAL


async def test_a_form_of_another_page_or_session_is_refused(guarded: Gateway) -> None:
    run = await guarded.as_principal("red-token-1").solve(ask(ASK_ROOM))
    red, _ = await log_in(guarded, "red-token-1")
    _, other = await log_in(guarded, "red-token-1")
    for csrf in ("", "0" * 64, other, "\xff"):
        answer = await post(guarded, f"runs/{run.id}/approve", red, csrf=csrf, plan_id=BOOKING.id, read="yes")
        assert answer.status_code == 403
    json = await guarded.http.post(f"/console/runs/{run.id}/approve", headers={"Cookie": red}, json={"read": "yes"})
    assert json.status_code == 400
    assert (await guarded.as_principal("red-token-1").run(run.id)).status is RunStatus.NEEDS_APPROVAL


async def test_where_anybody_is_taken_forms_still_belong_to_their_page(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await visit(gateway, f"runs/{run.id}")
    _, other = await visit(gateway)
    fields = {"plan_id": BOOKING.id, "read": "yes"}
    for wrong in ((cookie, other), ("", csrf)):
        assert (await post(gateway, f"runs/{run.id}/approve", wrong[0], csrf=wrong[1], **fields)).status_code == 403
    assert (await post(gateway, f"runs/{run.id}/approve", cookie, csrf=csrf, **fields)).status_code == 303
    assert (await ended(gateway.client, run.id)).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize(("size", "status"), [(8_192, 401), (8_193, 413)])
async def test_the_form_of_the_login_is_small(guarded: Gateway, size: int, status: int) -> None:
    """Anybody may send it, and it is held until it is complete."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"token=" + b"x" * (size - 6)
    assert (await guarded.http.post("/console/login", content=body, headers=form)).status_code == status
