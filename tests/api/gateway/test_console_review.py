"""The review, demos made from runs, and the cancellation of several runs, without a browser."""

import re
from pathlib import Path

import pytest

from services.codecs import nestful
from services.contracts.demo import Demo
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.outcome import Failed
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.run import RunStatus
from services.contracts.start import StartRequest
from tests.support.console_pages import visit
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, FIND, HOLIDAYS, NESTED, Gateway, ask, call, open_gateway

ASK_SPAIN = "Which holidays does the country Spain have?"


async def _visit(gateway: Gateway) -> tuple[dict[str, str], str]:
    """Open the console without login. Returns the headers and the form token."""
    cookie, csrf = await visit(gateway)
    gateway.http.cookies.clear()
    return {"Cookie": cookie}, csrf


async def test_runs_without_feedback_are_shown_one_after_the_other(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    assert "Nothing to review" in (await gateway.http.get("/console/review", headers=cookie)).text
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    await gateway.client.solve(ask(ASK_ROOM))  # it waits for approval, so it cannot be reviewed yet
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="timeout", message="no answer in time")
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await gateway.http.get("/console/review", headers=cookie)
    assert f"/console/review/{failed.id}" in page.text
    assert "no answer in time" in page.text
    assert 'value="confirmed"' not in page.text
    skip = re.search(r'href="(/console/review\?cursor=[^"]+)" data-key="s"', page.text)
    assert skip is not None
    behind = await gateway.http.get(skip[1].replace("&amp;", "&"), headers=cookie)
    assert f'action="/console/review/{first.id}"' in behind.text
    fields = {"csrf": csrf, "verdict": "rejected", "reason": "slow"}
    judged = await gateway.http.post(f"/console/review/{failed.id}", headers=cookie, data=fields)
    assert judged.headers["location"] == f"/console/review?last={failed.id}"
    said = (await gateway.client.run(failed.id)).feedback
    assert said is not None
    assert (said.verdict, said.reason) == (Verdict.REJECTED, "slow")
    assert f'action="/console/review/{first.id}"' in (await gateway.http.get("/console/review", headers=cookie)).text
    for wrong, status in (({"verdict": "perhaps"}, 422), ({"verdict": "rejected", "csrf": "x"}, 403)):
        answer = await gateway.http.post(f"/console/review/{first.id}", headers=cookie, data=fields | wrong)
        assert answer.status_code == status


async def test_a_review_goes_on_behind_many_judged_runs(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.listing.SEARCHED_RUNS", 2)
    runs = [await gateway.client.solve(ask(ASK_HOLIDAYS)) for _ in range(4)]
    for run in runs[1:]:
        await gateway.client.judge(run.id, FeedbackRequest(verdict=Verdict.REJECTED))
    cookie, _ = await _visit(gateway)
    page = await gateway.http.get("/console/review", headers=cookie)
    assert "Nothing to review" not in page.text
    older = re.search(r'href="(/console/review\?cursor=[^"]+)">Look at older', page.text)
    assert older is not None
    behind = await gateway.http.get(older[1].replace("&amp;", "&"), headers=cookie)
    assert f'action="/console/review/{runs[0].id}"' in behind.text


async def test_a_plan_that_was_given_is_said_to_be_given(gateway: Gateway) -> None:
    cookie, _ = await _visit(gateway)
    note = "the plan was given, not made by a planner"
    planned = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert note not in (await gateway.http.get("/console/review", headers=cookie)).text
    assert note not in (await gateway.http.get(f"/console/runs/{planned.id}", headers=cookie)).text
    given = await gateway.client.start(StartRequest.model_validate({"calls": nestful.encode(NESTED), "query": "Oslo"}))
    assert note in (await gateway.http.get("/console/review", headers=cookie)).text  # the newest comes first
    assert note in (await gateway.http.get(f"/console/runs/{given.id}", headers=cookie)).text


async def test_a_run_becomes_a_demonstration_with_slots_beside_those_like_it(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    other = Plan(steps=(call("var1", FIND, name="Spain"), NESTED.steps[1]), answer=NESTED.answer)
    await gateway.fakes.demos.add(Demo(query=ASK_SPAIN, plan=other))
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await gateway.http.get(f"/console/review/{run.id}/demo", headers=cookie)
    assert page.status_code == 200
    assert 'Which holidays does the country <span class="slot">name</span> have?' in page.text
    assert "name = &#34;{name}&#34;" in page.text
    assert ASK_SPAIN in page.text
    assert "differs only in values" in page.text
    path = f"/console/review/{run.id}/demo"
    assert (await gateway.http.post(path, headers=cookie, data={"csrf": "x"})).status_code == 403
    assert (await gateway.client.run(run.id)).feedback is None
    made = await gateway.http.post(path, headers=cookie, data={"csrf": csrf})
    assert made.headers["location"] == f"/console/review?last={run.id}"
    demos = (await gateway.client.demos()).demos
    assert [demo.source for demo in demos if demo.query == ASK_HOLIDAYS] == [run.id]
    confirmed = (await gateway.client.run(run.id)).feedback
    assert confirmed is not None
    assert confirmed.verdict is Verdict.CONFIRMED


async def test_what_cannot_be_confirmed_is_no_demonstration(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="timeout", message="no answer in time")
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    for run_id, status in ((failed.id, 409), (waiting.id, 409), ("run_none", 404)):
        path = f"/console/review/{run_id}/demo"
        assert (await gateway.http.get(path, headers=cookie)).status_code == status
        assert (await gateway.http.post(path, headers=cookie, data={"csrf": csrf})).status_code == status
    assert (await gateway.client.demos()).demos == ()


async def test_only_the_operator_makes_a_demonstration_everyones_and_only_administrators_any(tmp_path: Path) -> None:
    principals = (
        {"name": "shop", "tenant": "red", "token": "red-token-1"},
        {"name": "clerk", "tenant": "red", "token": "red-token-2", "roles": ["ask"]},
        {"name": "keeper", "tenant": "red", "token": "red-token-3", "roles": ["administer"]},
    )
    async with open_gateway(tmp_path, principals=principals) as gateway:
        run = await gateway.as_principal("red-token-1").solve(ask(ASK_HOLIDAYS))
        for token, fields, status in (
            ("red-token-2", {}, 403),
            ("red-token-3", {}, 403),
            ("red-token-1", {"shared": "yes"}, 403),
            ("red-token-1", {}, 303),
        ):
            assert (await gateway.as_principal("red-token-1").run(run.id)).feedback is None
            gateway.http.cookies.clear()
            answer = await gateway.http.post("/console/login", data={"token": token})
            cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
            gateway.http.cookies.clear()
            csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', await _page(gateway, cookie))
            assert csrf is not None
            path = f"/console/review/{run.id}/demo"
            seen = (await gateway.http.get(path, headers=cookie)).status_code
            assert seen == (200 if token == "red-token-1" else 403)
            made = await gateway.http.post(path, headers=cookie, data=fields | {"csrf": csrf[1]})
            assert made.status_code == status


async def _page(gateway: Gateway, cookie: dict[str, str]) -> str:
    return (await gateway.http.get("/console/catalogue", headers=cookie)).text


async def test_several_runs_are_cancelled_at_once(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    waiting = [await gateway.client.solve(ask(ASK_ROOM)) for _ in range(3)]
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await gateway.http.get("/console/runs?status=needs_approval", headers=cookie)
    assert page.text.count('value="yes" aria-label="Select: ') == 3
    back = "/console/runs?status=needs_approval"
    chosen = {f"run.{run.id}": "yes" for run in waiting[:2]}
    path = "/console/runs/cancel"
    done = await gateway.http.post(path, headers=cookie, data={"csrf": csrf, "back": back, **chosen})
    assert (done.status_code, done.headers["location"]) == (303, back)
    states = [(await gateway.client.run(run.id)).status for run in waiting]
    assert states == [RunStatus.CANCELLED, RunStatus.CANCELLED, RunStatus.NEEDS_APPROVAL]
    mixed = {f"run.{run_id}": "yes" for run_id in (solved.id, waiting[2].id, "<b>none</b>")}
    partly = await gateway.http.post(path, headers=cookie, data={"csrf": csrf, "back": "//evil.example", **mixed})
    assert partly.status_code == 409
    assert "1 cancelled, 2 not" in partly.text
    assert "<b>none" not in partly.text
    assert "evil.example" not in partly.text
    assert (await gateway.client.run(waiting[2].id)).status is RunStatus.CANCELLED
    assert (await gateway.http.post(path, headers=cookie, data={"csrf": csrf})).status_code == 422
    assert (await gateway.http.post(path, headers=cookie, data={"csrf": "x", **chosen})).status_code == 403


async def test_a_run_of_many_steps_is_reviewed_on_a_small_page(gateway: Gateway) -> None:
    cookie, _ = await _visit(gateway)
    steps = [call("s0", FIND, name="Portugal")]
    steps += [call(f"s{n}", HOLIDAYS, country=Reference(step="s0", path=("code",))) for n in range(1, 1_000)]
    answer = (AnswerOutput(name="all", value=Reference(step="s999")),)
    gateway.fakes.planner.plans["Find a country and list many holidays"] = Plan(steps=tuple(steps), answer=answer)
    run = await gateway.client.solve(ask("Find a country and list many holidays"))
    assert run.status is RunStatus.SUCCEEDED
    for path in ("review", f"review/{run.id}/demo", f"runs/{run.id}", f"runs/{run.id}/planning"):
        page = await gateway.http.get(f"/console/{path}", headers=cookie)
        assert page.status_code == 200
        assert len(page.content) < 100_000, path
