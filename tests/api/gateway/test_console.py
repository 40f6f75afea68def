"""The console's pages: who sees them, what is escaped, which forms are taken, and that every run can be looked at."""

import base64
import hashlib
import html
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from starlette.requests import Request

from gateway.console.session import COOKIE, LoginNeeded, Role, Session, Sessions, _sign
from gateway.roles import Role as GatewayRole
from services.contracts.access import KeyRequest
from services.contracts.api import ImportedDocument
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.planning import PlanRequest, PlanResponse, Question
from services.contracts.run import Failed, InDoubt, Run, RunStatus, SolveRequest, Succeeded
from services.contracts.trace import PlannerTrace
from tests.fakes import FakePlanner
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    BOOKING,
    FIND,
    HOLIDAYS,
    NESTED,
    Fakes,
    Gateway,
    ask,
    call,
    ended,
    open_gateway,
)
from tests.support.issuer import AUDIENCE, serve_issuer

HOSTILE: Final = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe'
ESCAPED: Final = "&lt;script&gt;alert(1)&lt;/script&gt;"
PRINCIPALS: Final = (
    {"name": "shop", "tenant": "red", "token": "red-token-1"},
    {"name": "rival", "tenant": "blue", "token": "blue-token-1"},
)
MANY: Final = "Find a country and list many holidays"
SCREENS: Final = ("runs", "playground", "approvals", "review", "catalogue", "catalogue/providers", "ops")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


async def _get(gateway: Gateway, path: str, cookie: str = "") -> httpx2.Response:
    gateway.http.cookies.clear()  # each request says by itself whose it is
    return await gateway.http.get(f"/console/{path}", headers={"Cookie": cookie} if cookie else {})


async def _post(gateway: Gateway, path: str, cookie: str, **fields: str) -> httpx2.Response:
    gateway.http.cookies.clear()
    return await gateway.http.post(f"/console/{path}", headers={"Cookie": cookie}, data=fields)


def _cookie(response: httpx2.Response) -> str:
    found = re.search(rf"{COOKIE}=[^;]+", response.headers["set-cookie"])
    assert found is not None
    return found[0]


def _csrf(page: httpx2.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


async def _visit(gateway: Gateway, path: str = "playground") -> tuple[str, str]:
    """The cookie and the form token of somebody who needs no login."""
    page = await _get(gateway, path)
    return _cookie(page), _csrf(page)


async def _log_in(gateway: Gateway, token: str, screen: str = "ops") -> tuple[str, str]:
    answer = await gateway.http.post("/console/login", data={"token": token, "next": f"/console/{screen}"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console/{screen}")
    cookie = _cookie(answer)
    return cookie, _csrf(await _get(gateway, "playground", cookie))


@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_is_a_page_that_loads_nothing_of_others(gateway: Gateway, screen: str) -> None:
    await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await _get(gateway, screen)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"""(?:src|href)="?(?:https?:)?//""", page.text)
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", page.text)
    assert len(page.content) < 100_000


async def test_its_files_are_kept_by_the_browser_and_no_other_file_is_served(gateway: Gateway) -> None:
    page = await _get(gateway, "runs")
    for path in set(re.findall(r'"(/console/static/[^"#]+)', page.text)):
        file = await gateway.http.get(path)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
    for name in ("../pages.py", "..%2Fpages.py", "base.html", "console.css%00", ""):
        assert (await _get(gateway, f"static/{name}")).status_code == 404


async def test_the_runs_are_listed_by_filters_in_the_address(gateway: Gateway) -> None:
    empty = await _get(gateway, "runs")
    assert "No run yet" in empty.text
    assert "/console/playground" in empty.text
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))

    async def listed(query: str) -> set[str]:
        page = await _get(gateway, f"runs{query}")
        assert page.status_code == 200
        return {run.id for run in (solved, waiting) if f"/console/runs/{run.id}" in page.text}

    assert await listed("") == {solved.id, waiting.id}
    assert await listed("?status=needs_approval") == {waiting.id}
    assert await listed("?status=needs_approval&status=succeeded&q=") == {solved.id, waiting.id}
    assert await listed("?q=holidays") == {solved.id}
    assert await listed("?since=2026-01-01T00%3A00%3A00Z&judged=none") == {solved.id, waiting.id}
    assert await listed("?since=2999-01-01T00%3A00%3A00Z") == set()
    assert (await _get(gateway, "runs?status=nonsense")).status_code == 422


async def test_a_bar_of_operations_opens_the_runs_it_counts(gateway: Gateway) -> None:
    assert "When they were asked" not in (await _get(gateway, "ops")).text
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    page = (await _get(gateway, "ops?hours=168")).text
    paths = {html.unescape(path) for path in re.findall(r'href="/console/(runs\?since=[^"]+before=[^"]+)"', page)}
    assert "1 succeeded" in page
    assert "1 needs approval" in page
    lists = [(await _get(gateway, path)).text for path in paths]
    for run in (solved, waiting):
        assert sum(f"/console/runs/{run.id}" in listed for listed in lists) == 1
    assert all("until 2" in listed for listed in lists)


async def test_an_api_tells_how_its_calls_went(gateway: Gateway) -> None:
    path = f"catalogue/api?id={HOLIDAYS.id}"
    assert "newest 200 runs has called it" in (await _get(gateway, path)).text
    await gateway.client.solve(ask(ASK_HOLIDAYS))
    gateway.fakes.executor.outcomes[FIND.id] = Failed(reason="upstream_error", message="answered 500", status=500)
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = (await _get(gateway, path)).text
    assert "<b>1 of 1</b> calls succeeded" in page  # the second was skipped
    page = (await _get(gateway, f"catalogue/api?id={FIND.id}")).text
    assert "<b>1 of 2</b> calls succeeded" in page
    assert f"/console/runs/{failed.id}?step=var1#detail" in page


async def test_the_calls_of_an_api_are_the_readers_own(guarded: Gateway) -> None:
    await guarded.as_principal("red-token-1").solve(ask(ASK_HOLIDAYS))
    document = ImportedDocument(
        provider=FIND.provider, document_hash="", format="", imported_at=datetime.now(UTC), current=True
    )
    for token, tenants, owner in (("red-token-1", (), "everyone"), ("blue-token-1", ("blue",), "your tenant")):
        said = "<b>1 of 1</b>" if token == "red-token-1" else "has called it"
        guarded.fakes.retriever.pins[FIND.provider] = document.model_copy(update={"tenants": tenants})
        cookie, _ = await _log_in(guarded, token)
        page = (await _get(guarded, f"catalogue/api?id={FIND.id}", cookie)).text
        assert said in page
        assert f"<span>{owner}&#39;s, imported" in page


async def test_a_run_names_the_model_that_planned_it(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    store = gateway.app.state.service._store
    stored = await store.stored(run.id, "default")
    traces = (PlannerTrace(model=HOSTILE, prompt_version="p1"),) * 2
    assert await store.replace(stored, run.model_copy(update={"traces": traces}))
    page = (await _get(gateway, f"runs/{run.id}")).text
    assert page.count(ESCAPED) == 1


async def test_a_run_shows_what_flowed_along_each_edge(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await _get(gateway, f"runs/{run.id}")
    assert page.status_code == 200
    assert "<svg" in page.text
    assert "&#34;PT&#34;" in page.text
    assert "Labour Day" in page.text
    edge = await _get(gateway, f"runs/{run.id}?edge=var1.var2")
    assert "var1.code" in edge.text
    assert "string" in edge.text
    step = await _get(gateway, f"runs/{run.id}?step=var2")
    assert "from <code>var1.code</code>" in step.text
    for nothing in ("?step=var9", "?edge=var2.var1", "?step=<b>"):
        assert (await _get(gateway, f"runs/{run.id}{nothing}")).status_code in (404, 422)
    for further in ("planning", "json"):
        assert (await _get(gateway, f"runs/{run.id}/{further}")).status_code == 200
    assert (await _get(gateway, "runs/run_none")).status_code == 404


async def test_a_failed_step_shows_its_inputs_at_once(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(
        reason="upstream_error", message="answered 500", status=500, detail={"why": "out of order"}
    )
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await _get(gateway, f"runs/{run.id}")
    assert page.status_code == 200
    assert "answered 500" in page.text
    assert "out of order" in page.text
    assert "from <code>var1.code</code>" in page.text
    assert "var2: answered 500" in (await _get(gateway, "runs")).text
    (line,) = (await gateway.client.runs()).runs
    assert line.trouble == "var2: answered 500"


async def test_what_others_have_written_stays_text_on_every_screen(gateway: Gateway) -> None:
    evil = BOOK.model_copy(
        update={"summary": HOSTILE, "description": HOSTILE, "tags": (HOSTILE,), "path": f"/{HOSTILE}"}
    )
    gateway.fakes.retriever.apis[BOOK.id] = evil
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": HOSTILE, HOSTILE: 1}, status=200)
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="timeout", message=HOSTILE, detail=HOSTILE)
    gateway.fakes.planner.plans[f"{HOSTILE} {MANY}"] = NESTED
    run = await gateway.client.solve(ask(f"{HOSTILE} {MANY}"))
    answer = (AnswerOutput(name=HOSTILE, value=Reference(step="var1")),)
    waiting = Plan(steps=(call("var1", BOOK, room=HOSTILE),), answer=answer)
    gateway.fakes.planner.plans[f"{HOSTILE} Book a room"] = waiting
    asked = await gateway.client.solve(ask(f"{HOSTILE} Book a room"))
    assert asked.status is RunStatus.NEEDS_APPROVAL
    of_runs = ("", "?edge=var1.var2", "?step=var1", "/planning")
    paths = [f"runs/{run.id}{rest}" for rest in of_runs]
    paths += ["runs", f"runs/{asked.id}", "approvals", f"playground?run={asked.id}", f"catalogue/api?id={BOOK.id}"]
    paths += ["catalogue"]
    for path in paths:
        page = await _get(gateway, path)
        assert page.status_code == 200, path
        assert ESCAPED in page.text, path
        assert "<script>alert" not in page.text, path
        assert "<img" not in page.text, path
        assert "\u202e" not in page.text, path
    for path in ("runs?q=", "catalogue?q=", "playground?q="):
        page = await gateway.http.get(f"/console/{path.partition('?')[0]}", params={"q": HOSTILE[:100]})
        assert page.status_code == 200
        assert "<script>alert" not in page.text


async def test_without_a_session_everything_leads_to_the_login(guarded: Gateway) -> None:
    for path in (*SCREENS, "runs/run_1", "runs/run_1/events", "runs/run_1/json", "palette"):
        answer = await _get(guarded, path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/console/login?next=%2Fconsole%2F"), path
    nested = base64.urlsafe_b64encode(b"[" * 2_200).decode()
    forged = ("x.y", "e30.0", f"e30.{'0' * 64}", "a" * 2_000, "%FF.%FF", "W10.x", nested)
    for cookie in forged:
        assert (await _get(guarded, "runs", f"{COOKIE}={cookie}")).status_code == 303
    posted = await _post(guarded, "runs/run_1/approve", "", csrf="x")
    assert posted.headers["location"] == "/console/login?next=%2Fconsole%2Fruns%2Frun_1"


async def test_a_session_holds_no_token_and_ends_with_the_logout(guarded: Gateway) -> None:
    answer = await guarded.http.post("/console/login", data={"token": "red-token-1"})
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    assert "Path=/console" in kept
    assert "red-token-1" not in kept
    cookie, csrf = await _log_in(guarded, "red-token-1")
    page = await _get(guarded, "runs", cookie)
    assert "shop" in page.text
    assert "red-token-1" not in page.text
    out = await _post(guarded, "logout", cookie, csrf=csrf)
    assert "Max-Age=0" in out.headers["set-cookie"]
    wrong = await guarded.http.post("/console/login", data={"token": "wrong-token"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert "wrong-token" not in wrong.text


async def test_a_key_opens_the_console_until_it_is_revoked(guarded: Gateway, tmp_path: Path) -> None:
    boss = guarded.as_principal("red-token-1")
    key = await boss.create_key(KeyRequest(name="desk", roles=frozenset({GatewayRole.ASK, GatewayRole.APPROVE})))
    run = await boss.solve(ask(ASK_ROOM))
    cookie, csrf = await _log_in(guarded, key.key, "approvals")
    said = base64.urlsafe_b64decode(cookie.partition("=")[2].partition(".")[0] + "==").decode()
    assert key.key.split("_", 2)[2] not in said
    page = await _get(guarded, f"runs/{run.id}", cookie)
    assert page.status_code == 200
    assert "desk" in page.text
    assert (await _get(guarded, "ops", cookie)).status_code == 403
    fields = {"plan_id": BOOKING.id, "digest": run.digest, "read": "yes"}
    assert (await _post(guarded, f"runs/{run.id}/approve", cookie, csrf=csrf, **fields)).status_code == 303
    approved = (await boss.run(run.id)).approval
    assert approved is not None
    assert approved.approver == "desk"
    async with open_gateway(tmp_path, principals=PRINCIPALS) as other:
        assert (await _get(other, "runs", cookie)).status_code == 303, "another gateway, without the same `console_key`"
    await boss.revoke_key(key.id)
    assert (await _get(guarded, "runs", cookie)).status_code == 303
    assert (await guarded.http.post("/console/login", data={"token": key.key})).status_code == 401


async def test_what_the_database_keeps_of_a_key_signs_no_session(guarded: Gateway) -> None:
    key = await guarded.as_principal("red-token-1").create_key(KeyRequest(name="desk", roles=frozenset(GatewayRole)))
    cookie, _ = await _log_in(guarded, key.key)
    body = cookie.partition("=")[2].partition(".")[0]
    kept = hashlib.sha256(key.key.split("_", 2)[2].encode())
    for secret in (kept.hexdigest().encode(), kept.digest(), key.id.encode(), key.key.encode(), b"red-token-1"):
        assert (await _get(guarded, "runs", f"{COOKIE}={body}.{_sign(secret, body)}")).status_code == 303
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    for changed in ({"tenant": "blue"}, {"key": ""}, {"ends": 2**40}, {"key": "jwt:corp", "roles": "administer"}):
        other = base64.urlsafe_b64encode(json.dumps(said | changed).encode()).decode().rstrip("=")
        signature = cookie.partition(".")[2]
        assert (await _get(guarded, "runs", f"{COOKIE}={other}.{signature}")).status_code == 303


async def test_gateways_with_one_console_key_share_sessions(tmp_path: Path) -> None:
    options: dict[str, Any] = {"principals": PRINCIPALS, "console_key": "k" * 32}
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(open_gateway(tmp_path, **options)) for _ in range(2)]
        asked = KeyRequest(name="desk", roles=frozenset({GatewayRole.ASK}))
        key = await one.as_principal("red-token-1").create_key(asked)
        cookie, _ = await _log_in(one, key.key)
        assert (await _get(two, "runs", cookie)).status_code == 200


async def test_a_token_of_an_issuer_opens_the_console_until_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.issuer_keys.FETCH_WITHIN_S", 60.0)
    async with serve_issuer() as issuer:
        corp = {"name": "corp", "issuer": issuer.url, "audience": [AUDIENCE], "tenant": "red"}
        async with open_gateway(tmp_path, principals=PRINCIPALS, issuers=[corp]) as gateway:
            run = await gateway.as_principal("red-token-1").solve(ask(ASK_ROOM))
            cookie, csrf = await _log_in(gateway, issuer.token(), "runs")
            assert run.id in (await _get(gateway, "runs", cookie)).text
            assert (await _post(gateway, f"runs/{run.id}/approve", cookie, csrf=csrf)).status_code == 403
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


async def test_a_session_is_its_tenants(guarded: Gateway) -> None:
    run = await guarded.as_principal("red-token-1").solve(ask(ASK_ROOM))
    red, _ = await _log_in(guarded, "red-token-1")
    blue, csrf = await _log_in(guarded, "blue-token-1")
    assert run.id in (await _get(guarded, "runs", red)).text
    for path in ("runs", "approvals", "palette", "ops"):
        assert run.id not in (await _get(guarded, path, blue)).text
    for path in ("", "/planning", "/json", "/events", f"/values/{'0' * 64}"):
        assert (await _get(guarded, f"runs/{run.id}{path}", blue)).status_code == 404
    assert (await _get(guarded, f"playground?run={run.id}", blue)).status_code == 404
    posts = {
        "approve": {"plan_id": BOOKING.id, "read": "yes"},
        "reject": {},
        "cancel": {},
        "feedback": {"verdict": "rejected"},
        "resolve": {"step": "var1", "outcome": "retry"},
    }
    for action, fields in posts.items():
        assert (await _post(guarded, f"runs/{run.id}/{action}", blue, csrf=csrf, **fields)).status_code == 404
    for action in ("run", "answers"):
        assert (await _post(guarded, f"playground/{action}", blue, csrf=csrf, run=run.id)).status_code == 404
    assert (await guarded.as_principal("red-token-1").run(run.id)).status is RunStatus.NEEDS_APPROVAL


async def test_a_form_of_another_page_or_session_is_refused(guarded: Gateway) -> None:
    run = await guarded.as_principal("red-token-1").solve(ask(ASK_ROOM))
    red, _ = await _log_in(guarded, "red-token-1")
    _, other = await _log_in(guarded, "red-token-1")
    for csrf in ("", "0" * 64, other, "\xff"):
        answer = await _post(guarded, f"runs/{run.id}/approve", red, csrf=csrf, plan_id=BOOKING.id, read="yes")
        assert answer.status_code == 403
    json = await guarded.http.post(f"/console/runs/{run.id}/approve", headers={"Cookie": red}, json={"read": "yes"})
    assert json.status_code == 400
    assert (await guarded.as_principal("red-token-1").run(run.id)).status is RunStatus.NEEDS_APPROVAL


async def test_where_anybody_is_taken_forms_still_belong_to_their_page(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await _visit(gateway, f"runs/{run.id}")
    _, other = await _visit(gateway)
    fields = {"plan_id": BOOKING.id, "read": "yes"}
    for wrong in ((cookie, other), ("", csrf)):
        assert (await _post(gateway, f"runs/{run.id}/approve", wrong[0], csrf=wrong[1], **fields)).status_code == 403
    assert (await _post(gateway, f"runs/{run.id}/approve", cookie, csrf=csrf, **fields)).status_code == 303
    assert (await ended(gateway.client, run.id)).status is RunStatus.SUCCEEDED


async def test_an_approval_takes_reading_and_exactly_this_plan(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await _visit(gateway)
    page = await _get(gateway, f"runs/{run.id}", cookie)
    assert "POST" in page.text
    assert "blue" in page.text
    path = f"runs/{run.id}/approve"
    assert (await _post(gateway, path, cookie, csrf=csrf, plan_id=BOOKING.id)).status_code == 422
    assert (await _post(gateway, path, cookie, csrf=csrf, plan_id=NESTED.id, read="yes")).status_code == 409
    assert (await _post(gateway, path, cookie, csrf=csrf, plan_id="short", read="yes")).status_code == 422
    assert gateway.fakes.executor.sent == []


async def test_a_rejected_plan_is_never_sent_and_the_reason_stays(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await _visit(gateway, "approvals")
    answer = await _post(gateway, f"runs/{run.id}/reject", cookie, csrf=csrf, reason=HOSTILE)
    assert answer.headers["location"] == f"/console/runs/{run.id}"
    after = await gateway.client.run(run.id)
    assert after.status is RunStatus.CANCELLED
    assert after.feedback is not None
    assert ESCAPED in (await _get(gateway, f"runs/{run.id}", cookie)).text
    assert "Nothing waits" in (await _get(gateway, "approvals", cookie)).text


async def test_feedback_and_doubts_are_settled_on_the_run(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="nobody knows")
    doubtful = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"))
    assert doubtful.status is RunStatus.IN_DOUBT
    cookie, csrf = await _visit(gateway)
    assert "nobody knows" in (await _get(gateway, f"runs/{doubtful.id}", cookie)).text
    assert doubtful.id in (await _get(gateway, "approvals", cookie)).text
    path = f"runs/{doubtful.id}/resolve"
    fields = {"csrf": csrf, "step": "var1", "outcome": "succeeded"}
    assert (await _post(gateway, path, cookie, **fields, value="{")).status_code == 422
    assert (await _post(gateway, path, cookie, **fields, value='{"id": "bkg_2"}')).status_code == 303
    assert (await ended(gateway.client, doubtful.id)).status is RunStatus.SUCCEEDED
    judged = await _post(gateway, f"runs/{doubtful.id}/feedback", cookie, csrf=csrf, verdict="confirmed", reason="")
    assert judged.status_code == 303
    assert "confirmed" in (await _get(gateway, "runs?judged=confirmed", cookie)).text


class Asking(FakePlanner):
    """Wants to know a country before it plans."""

    async def plan(self, request: PlanRequest, timeout_s: float = 30.0) -> PlanResponse:
        self.given = request.context.values
        if "country" not in request.context.values:
            schema = {"enum": ["PT", "<b>"]}
            question = Question(
                step="var1", api=HOLIDAYS.id, argument="country", text="Which country?", json_schema=schema
            )
            return PlanResponse(status="needs_input", backend="fake", questions=(question,))
        return await super().plan(request, timeout_s)


async def test_the_playground_plans_asks_and_then_runs(tmp_path: Path) -> None:
    planner = Asking()
    planner.plans[ASK_HOLIDAYS] = NESTED
    async with open_gateway(tmp_path, Fakes(planner=planner)) as gateway:
        cookie, csrf = await _visit(gateway)
        planned = await _post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS, timezone="Europe/Lisbon")
        asking = await gateway.http.get(planned.headers["location"], headers={"Cookie": cookie})
        assert "Which country?" in asking.text
        assert '<option value="0">PT</option>' in asking.text
        run_id = planned.headers["location"].partition("run=")[2]
        fields = {"csrf": csrf, "run": run_id, "value.country": "7"}
        assert (await _post(gateway, "playground/answers", cookie, **fields)).status_code == 422
        again = await _post(gateway, "playground/answers", cookie, **(fields | {"value.country": "0"}))
        assert planner.given == {"country": "PT"}
        proved = await gateway.http.get(again.headers["location"], headers={"Cookie": cookie})
        assert "Run it" in proved.text
        assert "execute" not in gateway.fakes.executor.calls
        run_id = again.headers["location"].partition("run=")[2]
        started = await _post(gateway, "playground/run", cookie, csrf=csrf, run=run_id)
        assert started.status_code == 303
        run = await ended(gateway.client, started.headers["location"].rpartition("/")[2])
        assert run.status is RunStatus.SUCCEEDED
        for fields in ({"q": " "}, {"q": "x", "mutations": "perhaps"}, {"q": "x", "timezone": "x" * 99}):
            assert (await _post(gateway, "playground", cookie, csrf=csrf, **fields)).status_code == 422


async def test_the_palette_finds_screens_runs_and_apis(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    found = (await _get(gateway, "palette?q=holidays")).json()["items"]
    assert {"run", "API"} == {item["kind"] for item in found}
    assert f"/console/runs/{run.id}" in {item["path"] for item in found}
    assert len((await _get(gateway, "palette")).json()["items"]) == 7


async def test_a_run_of_250_steps_is_a_small_page(gateway: Gateway) -> None:
    steps = [call("s0", FIND, name="Portugal")]
    steps += [call(f"s{n}", HOLIDAYS, country=Reference(step="s0", path=("code",))) for n in range(1, 200)]
    steps += [call(f"s{n}", HOLIDAYS, country=Reference(step=f"s{n - 1}", path=("names", 0))) for n in range(200, 250)]
    answer = (AnswerOutput(name="all", value=Reference(step="s249")),)
    gateway.fakes.planner.plans[MANY] = Plan(steps=tuple(steps), answer=answer)
    run = await gateway.client.solve(ask(MANY))
    assert run.status is RunStatus.SUCCEEDED
    for query in ("", "?begin=60", "?step=s249"):
        page = await _get(gateway, f"runs/{run.id}{query}")
        assert page.status_code == 200
        assert len(page.content) < 100_000
    assert "\u00d7199" in page.text


@pytest.mark.parametrize("text", ["\x00", "नमस्ते\u200f שלום", "x" * 10_000])
async def test_queries_of_any_kind_are_shown(gateway: Gateway, text: str) -> None:
    gateway.fakes.planner.plans[f"a{text[:-1]}"] = NESTED
    run = await gateway.client.solve(SolveRequest(query=f"a{text[:-1]}"))
    assert isinstance(run, Run)
    for path in ("runs", f"runs/{run.id}", f"playground?run={run.id}", "palette"):
        assert (await _get(gateway, path)).status_code == 200


async def test_a_value_that_is_not_there_is_said_to_be_missing(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"other": 1}, status=200)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert "not in the answer" in (await _get(gateway, f"runs/{run.id}?edge=var1.var2")).text


@pytest.mark.parametrize(
    ("role", "sees"),
    [
        ("ask", {"runs", "playground", "approvals", "review", "catalogue", "catalogue/providers"}),
        ("approve", {"runs", "approvals", "review", "catalogue", "catalogue/providers"}),
        ("administer", {"catalogue", "catalogue/providers", "ops"}),
    ],
)
async def test_a_role_sees_and_does_what_it_is_for(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, role: Role, sees: set[str]
) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await _visit(gateway)
    monkeypatch.setattr(Session, "may", lambda _self, *roles: role in roles)
    answers = {screen: (await _get(gateway, screen, cookie)).status_code for screen in SCREENS}
    assert answers == {screen: 200 if screen in sees else 403 for screen in SCREENS}
    page = await _get(gateway, "catalogue", cookie)
    linked = {screen for screen in SCREENS if f'href="/console/{screen}"' in page.text.partition("</nav>")[0]}
    assert linked == sees - {"catalogue/providers"}
    reads = [f"runs/{run.id}{rest}" for rest in ("", "/planning", "/json", "/events", f"/values/{'0' * 64}")]
    refused = {(await _get(gateway, path, cookie)).status_code == 403 for path in reads}
    assert refused == {role == "administer"}
    found = (await _get(gateway, "palette", cookie)).json()["items"]
    assert any(item["kind"] == "run" for item in found) == (role != "administer")
    posts = {"approve": {"approve"}, "reject": {"approve"}, "resolve": {"approve"}, "feedback": {"ask", "approve"}}
    for action, roles in posts.items():
        answer = await _post(gateway, f"runs/{run.id}/{action}", cookie, csrf=csrf)
        assert (answer.status_code != 403) == (role in roles), action
    for action in ("", "/answers", "/run"):
        answer = await _post(gateway, f"playground{action}", cookie, csrf=csrf, run=run.id)
        assert (answer.status_code != 403) == (role == "ask"), action
