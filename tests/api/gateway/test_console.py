"""The console's pages: their content, escaping, and a page for every run."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from gateway.console.session import Role, Session
from services.contracts.api import ApiResponse, ImportedDocument
from services.contracts.outcome import Failed, InDoubt, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.planning import PlanRequest, PlanResponse, Question
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.contracts.trace import PlannerTrace
from tests.fakes import FakePlanner
from tests.support.console_pages import ESCAPED, HOSTILE, get, log_in, post, visit
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

MANY: Final = "Find a country and list many holidays"
SCREENS: Final = ("runs", "playground", "approvals", "review", "catalogue", "catalogue/providers", "ops")


@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_is_a_page_that_loads_nothing_of_others(gateway: Gateway, screen: str) -> None:
    await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await get(gateway, screen)
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
    page = await get(gateway, "runs")
    for path in set(re.findall(r'"(/console/static/[^"#]+)', page.text)):
        file = await gateway.http.get(path)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
    for name in ("../pages.py", "..%2Fpages.py", "base.html", "console.css%00", ""):
        assert (await get(gateway, f"static/{name}")).status_code == 404


async def test_the_runs_are_listed_by_filters_in_the_address(gateway: Gateway) -> None:
    empty = await get(gateway, "runs")
    assert "No run yet" in empty.text
    assert "/console/playground" in empty.text
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))

    async def listed(query: str) -> set[str]:
        page = await get(gateway, f"runs{query}")
        assert page.status_code == 200
        return {run.id for run in (solved, waiting) if f"/console/runs/{run.id}" in page.text}

    assert await listed("") == {solved.id, waiting.id}
    assert await listed("?status=needs_approval") == {waiting.id}
    assert await listed("?status=needs_approval&status=succeeded&q=") == {solved.id, waiting.id}
    assert await listed("?q=holidays") == {solved.id}
    assert await listed("?since=2026-01-01T00%3A00%3A00Z&judged=none") == {solved.id, waiting.id}
    assert await listed("?since=2999-01-01T00%3A00%3A00Z") == set()
    assert (await get(gateway, "runs?status=nonsense")).status_code == 422


async def test_an_api_tells_how_its_calls_went(gateway: Gateway) -> None:
    path = f"catalogue/api?id={HOLIDAYS.id}"
    assert "newest 200 runs has called it" in (await get(gateway, path)).text
    await gateway.client.solve(ask(ASK_HOLIDAYS))
    gateway.fakes.executor.outcomes[FIND.id] = Failed(reason="upstream_error", message="answered 500", status=500)
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = (await get(gateway, path)).text
    assert "<b>1 of 1</b> calls succeeded" in page  # the second was skipped
    page = (await get(gateway, f"catalogue/api?id={FIND.id}")).text
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
        cookie, _ = await log_in(guarded, token)
        page = (await get(guarded, f"catalogue/api?id={FIND.id}", cookie)).text
        assert said in page
        assert f"<span>{owner}&#39;s, imported" in page


async def test_a_run_names_the_model_that_planned_it(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    store = gateway.app.state.service._store
    stored = await store.stored(run.id, "default")
    traces = (PlannerTrace(model=HOSTILE, prompt_version="p1"),) * 2
    assert await store.replace(stored, run.model_copy(update={"traces": traces}))
    page = (await get(gateway, f"runs/{run.id}")).text
    assert page.count(ESCAPED) == 1


async def test_a_run_shows_what_flowed_along_each_edge(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await get(gateway, f"runs/{run.id}")
    assert page.status_code == 200
    assert "<svg" in page.text
    assert "&#34;PT&#34;" in page.text
    assert "Labour Day" in page.text
    edge = await get(gateway, f"runs/{run.id}?edge=var1.var2")
    assert "var1.code" in edge.text
    assert "string" in edge.text
    step = await get(gateway, f"runs/{run.id}?step=var2")
    assert "from <code>var1.code</code>" in step.text
    for nothing in ("?step=var9", "?edge=var2.var1", "?step=<b>"):
        assert (await get(gateway, f"runs/{run.id}{nothing}")).status_code in (404, 422)
    for further in ("planning", "json"):
        assert (await get(gateway, f"runs/{run.id}/{further}")).status_code == 200
    assert (await get(gateway, "runs/run_none")).status_code == 404


async def test_a_failed_step_shows_its_inputs_at_once(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(
        reason="upstream_error", message="answered 500", status=500, detail={"why": "out of order"}
    )
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = await get(gateway, f"runs/{run.id}")
    assert page.status_code == 200
    assert "answered 500" in page.text
    assert "out of order" in page.text
    assert "from <code>var1.code</code>" in page.text
    assert f"{HOLIDAYS.id}: answered 500" in (await get(gateway, "runs")).text
    (line,) = (await gateway.client.runs()).runs
    assert line.trouble == f"{HOLIDAYS.id}: answered 500"


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
        page = await get(gateway, path)
        assert page.status_code == 200, path
        assert ESCAPED in page.text, path
        assert "<script>alert" not in page.text, path
        assert "<img" not in page.text, path
        assert "\u202e" not in page.text, path
    for path in ("runs?q=", "catalogue?q=", "playground?q="):
        page = await gateway.http.get(f"/console/{path.partition('?')[0]}", params={"q": HOSTILE[:100]})
        assert page.status_code == 200
        assert "<script>alert" not in page.text


async def test_runs_with_a_nul_in_their_request_are_compared_like_others(gateway: Gateway) -> None:
    one, other = [await gateway.client.solve(ask("Make me a \x00 sandwich")) for _ in range(2)]
    page = await get(gateway, f"runs/{one.id}/compare")
    assert page.status_code == 200
    assert f"other={other.id}" in page.text


async def test_an_approval_takes_reading_and_exactly_this_plan(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await visit(gateway)
    page = await get(gateway, f"runs/{run.id}", cookie)
    assert "POST" in page.text
    assert "blue" in page.text
    path = f"runs/{run.id}/approve"
    assert (await post(gateway, path, cookie, csrf=csrf, plan_id=BOOKING.id)).status_code == 422
    assert (await post(gateway, path, cookie, csrf=csrf, plan_id=NESTED.id, read="yes")).status_code == 409
    assert (await post(gateway, path, cookie, csrf=csrf, plan_id="short", read="yes")).status_code == 422
    assert gateway.fakes.executor.sent == []


@pytest.mark.parametrize(("size", "cut"), [(10, set()), (10_000, {"approvals"}), (30_000, {"approvals", "run"})])
async def test_an_approval_says_where_a_body_is_cut(gateway: Gateway, size: int, cut: set[str]) -> None:
    padded = call("var1", BOOK, room="x" * size)
    gateway.fakes.planner.plans[ASK_ROOM] = Plan(steps=(padded,), answer=BOOKING.answer)
    run = await gateway.client.solve(ask(ASK_ROOM))
    pages = {"approvals": await get(gateway, "approvals"), "run": await get(gateway, f"runs/{run.id}")}
    said = f'Only the beginning of the body is shown: <a href="/console/runs/{run.id}/json">'
    assert {name for name, page in pages.items() if said in page.text} == cut
    assert "x" * size in (await get(gateway, f"runs/{run.id}/json")).text


async def test_a_rejected_plan_is_never_sent_and_the_reason_stays(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM))
    cookie, csrf = await visit(gateway, "approvals")
    answer = await post(gateway, f"runs/{run.id}/reject", cookie, csrf=csrf, reason=HOSTILE)
    assert answer.headers["location"] == f"/console/runs/{run.id}"
    after = await gateway.client.run(run.id)
    assert after.status is RunStatus.CANCELLED
    assert after.feedback is not None
    assert ESCAPED in (await get(gateway, f"runs/{run.id}", cookie)).text
    assert "Nothing waits" in (await get(gateway, "approvals", cookie)).text


async def test_feedback_and_doubts_are_settled_on_the_run(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="nobody knows")
    doubtful = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"))
    assert doubtful.status is RunStatus.IN_DOUBT
    cookie, csrf = await visit(gateway)
    assert "nobody knows" in (await get(gateway, f"runs/{doubtful.id}", cookie)).text
    assert doubtful.id in (await get(gateway, "approvals", cookie)).text
    path = f"runs/{doubtful.id}/resolve"
    fields = {"csrf": csrf, "step": "var1", "outcome": "succeeded"}
    assert (await post(gateway, path, cookie, **fields, value="{")).status_code == 422
    assert (await post(gateway, path, cookie, **fields | {"step": "x" * 5_000}, value="1")).status_code == 404
    assert all(len(entry.target) < 200 for entry in (await gateway.client.audit()).entries)
    assert (await post(gateway, path, cookie, **fields, value='{"id": "bkg_2"}')).status_code == 303
    assert (await ended(gateway.client, doubtful.id)).status is RunStatus.SUCCEEDED
    judged = await post(gateway, f"runs/{doubtful.id}/feedback", cookie, csrf=csrf, verdict="confirmed", reason="")
    assert judged.status_code == 303
    assert "confirmed" in (await get(gateway, "runs?judged=confirmed", cookie)).text


class Asking(FakePlanner):
    """A planner that asks for a country before it plans."""

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
        cookie, csrf = await visit(gateway)
        planned = await post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS, timezone="Europe/Lisbon")
        asking = await gateway.http.get(planned.headers["location"], headers={"Cookie": cookie})
        assert "Which country?" in asking.text
        assert '<option value="0">PT</option>' in asking.text
        run_id = planned.headers["location"].partition("run=")[2]
        fields = {"csrf": csrf, "run": run_id, "value.country": "7"}
        assert (await post(gateway, "playground/answers", cookie, **fields)).status_code == 422
        again = await post(gateway, "playground/answers", cookie, **(fields | {"value.country": "0"}))
        assert planner.given == {"country": "PT"}
        proved = await gateway.http.get(again.headers["location"], headers={"Cookie": cookie})
        assert "Run it" in proved.text
        assert "execute" not in gateway.fakes.executor.calls
        run_id = again.headers["location"].partition("run=")[2]
        started = await post(gateway, "playground/run", cookie, csrf=csrf, run=run_id)
        assert started.status_code == 303
        run = await ended(gateway.client, started.headers["location"].rpartition("/")[2])
        assert run.status is RunStatus.SUCCEEDED
        for fields in ({"q": " "}, {"q": "x", "mutations": "perhaps"}, {"q": "x", "timezone": "Mars/Phobos"}):
            assert (await post(gateway, "playground", cookie, csrf=csrf, **fields)).status_code == 422


async def test_the_palette_finds_screens_runs_and_apis(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    found = (await get(gateway, "palette?q=holidays")).json()["items"]
    assert {"run", "API"} == {item["kind"] for item in found}
    assert f"/console/runs/{run.id}" in {item["path"] for item in found}
    assert len((await get(gateway, "palette")).json()["items"]) == 7


async def test_a_run_of_250_steps_is_a_small_page(gateway: Gateway) -> None:
    steps = [call("s0", FIND, name="Portugal")]
    steps += [call(f"s{n}", HOLIDAYS, country=Reference(step="s0", path=("code",))) for n in range(1, 200)]
    steps += [call(f"s{n}", HOLIDAYS, country=Reference(step=f"s{n - 1}", path=("names", 0))) for n in range(200, 250)]
    answer = (AnswerOutput(name="all", value=Reference(step="s249")),)
    gateway.fakes.planner.plans[MANY] = Plan(steps=tuple(steps), answer=answer)
    run = await gateway.client.solve(ask(MANY))
    assert run.status is RunStatus.SUCCEEDED
    for query in ("", "?begin=60", "?step=s249"):
        page = await get(gateway, f"runs/{run.id}{query}")
        assert page.status_code == 200
        assert len(page.content) < 100_000
    assert "\u00d7199" in page.text


@pytest.mark.parametrize("text", ["\x00", "नमस्ते\u200f שלום", "x" * 10_000])
async def test_queries_of_any_kind_are_shown(gateway: Gateway, text: str) -> None:
    gateway.fakes.planner.plans[f"a{text[:-1]}"] = NESTED
    run = await gateway.client.solve(SolveRequest(query=f"a{text[:-1]}"))
    assert isinstance(run, Run)
    for path in ("runs", f"runs/{run.id}", f"playground?run={run.id}", "palette"):
        assert (await get(gateway, path)).status_code == 200


async def test_a_value_that_is_not_there_is_said_to_be_missing(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"other": 1}, status=200)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert "not in the answer" in (await get(gateway, f"runs/{run.id}?edge=var1.var2")).text


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
    cookie, csrf = await visit(gateway)
    monkeypatch.setattr(Session, "may", lambda _self, *roles: role in roles)
    answers = {screen: (await get(gateway, screen, cookie)).status_code for screen in SCREENS}
    assert answers == {screen: 200 if screen in sees else 403 for screen in SCREENS}
    page = await get(gateway, "catalogue", cookie)
    linked = {screen for screen in SCREENS if f'href="/console/{screen}"' in page.text.partition("</nav>")[0]}
    assert linked == sees - {"catalogue/providers"}
    reads = [f"runs/{run.id}{rest}" for rest in ("", "/planning", "/json", "/events", f"/values/{'0' * 64}")]
    refused = {(await get(gateway, path, cookie)).status_code == 403 for path in reads}
    assert refused == {role == "administer"}
    found = (await get(gateway, "palette", cookie)).json()["items"]
    assert any(item["kind"] == "run" for item in found) == (role != "administer")
    posts = {"approve": {"approve"}, "reject": {"approve"}, "resolve": {"approve"}, "feedback": {"ask", "approve"}}
    for action, roles in posts.items():
        answer = await post(gateway, f"runs/{run.id}/{action}", cookie, csrf=csrf)
        assert (answer.status_code != 403) == (role in roles), action
    for action in ("", "/answers", "/run"):
        answer = await post(gateway, f"playground{action}", cookie, csrf=csrf, run=run.id)
        assert (answer.status_code != 403) == (role == "ask"), action


async def test_an_edge_tells_the_declared_types_and_the_actual_one(gateway: Gateway) -> None:
    schema = {"properties": {"code": {"$ref": "#/$defs/Code"}}}
    finds = FIND.model_copy(
        update={
            "response": ApiResponse(json_schema=schema),
            "definitions": {"Code": {"type": "string", "format": HOSTILE}},
        }
    )
    country = HOLIDAYS.parameters[0].model_copy(update={"json_schema": {"type": ["integer", "null"]}})
    gateway.fakes.retriever.apis[FIND.id] = finds
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    page = (await get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert ESCAPED in page
    assert "not as declared" not in page
    assert re.search(r"<dt>actual</dt><dd>string", page)
    gateway.fakes.retriever.apis[HOLIDAYS.id] = HOLIDAYS.model_copy(
        update={"parameters": (country,), "content_hash": "f" * 64}
    )
    page = (await get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert "integer or null; world.listHolidays has changed since" in page
    assert "world.listHolidays declares to take something else" in page
    gateway.fakes.retriever.apis.clear()
    assert "no longer in the catalogue" in (await get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert "nothing is declared" not in page
    gateway.fakes.retriever.down = True
    assert (await get(gateway, f"runs/{run.id}?edge=var2.answer")).status_code == 200
