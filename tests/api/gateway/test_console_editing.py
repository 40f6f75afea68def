"""The pages for reruns, comparisons and edited plans: refusals, kept input, and permissions."""

import html
import re
import threading
from typing import Any

import pytest

from gateway.comparing import compare
from gateway.console.session import Role, Session
from services.contracts.api import Location, Parameter
from services.contracts.comparison import Comparison
from services.contracts.outcome import Succeeded
from services.contracts.plan import AnswerOutput, LiteralValue, Match, Plan, Reference
from services.contracts.planning import PlanResponse, Question
from services.contracts.run import Run, RunStatus
from services.http import loads_strict
from tests.api.gateway.test_rerun import BROKEN, ran
from tests.api.gateway.test_solve import DOUBT, make_unsure
from tests.support.console_pages import ESCAPED, HOSTILE, get, hidden, post, visit
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    FIND,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    call,
    ended,
)


async def test_a_rerun_is_shown_before_it_is_one_and_is_the_one_that_was_shown(gateway: Gateway) -> None:
    first = await ran(gateway)
    cookie, csrf = await visit(gateway)
    path = f"runs/{first.id}/rerun"
    fields = {"csrf": csrf, "from": "var3", "in.country": "bkg_9", "reuse": "yes"}
    shown = await post(gateway, path, cookie, **fields, do="show")
    assert shown.status_code == 200
    assert "1 call sent again, 2 not" in shown.text
    keys = {name: hidden(shown.text, name) for name in ("key", "plan")}
    other = await post(gateway, path, cookie, **(fields | keys | {"in.country": "bkg_8"}), do="run")
    assert "Nothing was sent" in other.text
    assert len((await gateway.client.runs()).runs) == 1
    begun = [await post(gateway, path, cookie, **fields, **keys, do="run") for _ in range(2)]
    assert begun[0].headers["location"] == begun[1].headers["location"]
    run = await ended(gateway.client, begun[0].headers["location"].rpartition("/")[2])
    assert (run.status, run.rerun_of) == (RunStatus.SUCCEEDED, first.id)
    assert run.plan is not None
    assert run.plan.steps[0].arguments == {"country": LiteralValue(value="bkg_9")}
    page = await get(gateway, f"runs/{run.id}", cookie)
    assert f"/console/runs/{first.id}" in page.text
    assert "not sent again: var1, var2" in page.text


async def test_what_a_rerun_is_refused_for_stands_above_what_was_entered(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = BROKEN
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await visit(gateway)
    path = f"runs/{failed.id}/rerun"
    fields = {"csrf": csrf, "from": "var2", "in.country": HOSTILE, "reuse": "yes", "do": "show"}
    refused = await post(gateway, path, cookie, **fields)
    assert refused.status_code == 409
    assert "has no value" in refused.text
    assert ESCAPED in refused.text
    for more, problem in (
        ("{", "this is not JSON"),
        ("[1]", "by step, then by argument"),
        ('{"var9": {"a": 1}}', "no step"),
    ):
        answer = await post(gateway, path, cookie, **(fields | {"from": "var1", "more": more}))
        assert answer.status_code == 422
        assert problem in answer.text
        assert "var1" in answer.text
    unknown = await post(gateway, path, cookie, **(fields | {"from": "var1", "more": '{"var1": {"colour": 1}}'}))
    assert unknown.status_code == 422
    assert "takes no" in unknown.text
    assert (await get(gateway, f"{path}?from=var9", cookie)).status_code == 404
    assert (await get(gateway, f"{path}?from=<b>", cookie)).status_code == 422
    assert len((await gateway.client.runs()).runs) == 1


async def test_a_run_without_a_plan_or_without_its_apis_has_a_page_for_reruns(gateway: Gateway) -> None:
    planless = await gateway.client.solve(ask("Nothing that there is"))
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    del gateway.fakes.retriever.apis[HOLIDAYS.id]
    cookie, csrf = await visit(gateway)
    assert "There is no plan" in (await get(gateway, f"runs/{planless.id}/rerun", cookie)).text
    page = await get(gateway, f"runs/{first.id}/rerun?from=var2", cookie)
    assert page.status_code == 200
    assert 'name="in.country" value="PT"' in page.text
    refused = await post(gateway, f"runs/{first.id}/rerun", cookie, csrf=csrf, **{"from": "var2"}, do="show")
    assert refused.status_code == 422
    assert "no API" in refused.text


async def test_two_runs_are_compared_beside_the_event_loop(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold a million values; and a comparison counts as reading each run twice."""
    threads, charged = list[threading.Thread](), list[int]()

    def noting(*runs: Run) -> Comparison:
        threads.append(threading.current_thread())
        return compare(*runs)

    monkeypatch.setattr("gateway.service.compare", noting)
    store = gateway.app.state.service._store
    for what in ("_on_read", "_on_listed"):
        monkeypatch.setattr(store, what, lambda _tenant, size: charged.append(size))
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    charged.clear()
    await gateway.client.run(first.id)
    found = await gateway.http.get(f"/runs/{first.id}/compare/{first.id}")
    assert found.json()["divergence"] is None
    read = [size for size in charged if size]  # 0: whether the tenant may read at all
    assert read == [read[0], 2 * read[0], 2 * read[0]]
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_two_runs_are_compared_side_by_side(gateway: Gateway) -> None:
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": [HOSTILE]}, status=200)
    second = await gateway.client.solve(ask(ASK_HOLIDAYS))
    near = await get(gateway, f"runs/{first.id}/compare")
    assert f"compare?other={second.id}" in near.text
    page = await get(gateway, f"runs/{first.id}/compare?other={second.id}")
    assert "They first differ in step var2, in the value" in page.text
    assert ESCAPED in page.text
    assert "<script>alert" not in page.text
    assert "do not differ" in (await get(gateway, f"runs/{first.id}/compare?other={first.id}")).text
    assert (await get(gateway, f"runs/{first.id}/compare?other=run_none")).status_code == 404


@pytest.mark.parametrize("role", ["ask", "approve", "administer"])
async def test_a_role_edits_what_it_may(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await visit(gateway)
    monkeypatch.setattr(Session, "may", lambda _self, *roles: role in roles)
    path = f"runs/{first.id}/rerun"
    assert ((await get(gateway, path, cookie)).status_code == 200) == (role == "ask")
    assert ((await post(gateway, path, cookie, csrf=csrf)).status_code != 403) == (role == "ask")
    for answer in (
        await get(gateway, "catalogue/import", cookie),
        await post(gateway, "catalogue/import", cookie, csrf=csrf),
    ):
        assert (answer.status_code != 403) == (role == "administer")
    assert ("/catalogue/import" in (await get(gateway, "catalogue/providers", cookie)).text) == (role == "administer")
    compared = await get(gateway, f"runs/{first.id}/compare", cookie)
    assert (compared.status_code == 200) == (role in ("ask", "approve"))
    if role != "administer":
        page = await get(gateway, f"runs/{first.id}", cookie)
        assert ("Run again" in page.text) == (role == "ask")


async def _planned(gateway: Gateway, cookie: str, csrf: str, query: str = ASK_HOLIDAYS) -> tuple[str, dict[str, str]]:
    """The page of a plan, and the fields of its form."""
    posted = await post(gateway, "playground", cookie, csrf=csrf, q=query)
    page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
    assert page.status_code == 200
    return page.text, {"csrf": csrf} | _form(page.text)


def _form(page: str) -> dict[str, str]:
    calls = re.search(r'<textarea name="calls"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert calls is not None
    names = ("run", "key", "plan", "was")
    return {name: hidden(page, name) for name in names} | {"calls": html.unescape(calls[1])}


async def test_the_plan_that_is_shown_is_the_one_that_runs(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert 'name="arg.var1.name" value="Portugal"' in page
    assert 'name="arg.var2.country" value="$var1.code$"' in page
    planned = len([call for call in gateway.fakes.planner.calls if call == "plan"])
    begun = [await post(gateway, "playground/run", cookie, **fields, do="run") for _ in range(2)]
    assert begun[0].headers["location"] == begun[1].headers["location"]
    run = await ended(gateway.client, begun[0].headers["location"].rpartition("/")[2])
    assert (run.status, run.plan, run.query) == (RunStatus.SUCCEEDED, NESTED, ASK_HOLIDAYS)
    assert len([call for call in gateway.fakes.planner.calls if call == "plan"]) == planned


async def test_an_edited_plan_is_proved_and_looked_at_before_it_runs(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    edits = {"arg.var1.name": "Spain"}
    moved = await post(gateway, "playground/run", cookie, **fields, **edits, do="run")
    assert moved.status_code == 200
    assert "Nothing was sent" in moved.text
    assert "Spain" in moved.text
    again = {"csrf": csrf} | _form(moved.text)
    begun = await post(gateway, "playground/run", cookie, **again, **edits, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert run.plan is not None
    assert run.plan.steps[0].arguments == {"name": LiteralValue(value="Spain")}
    assert len((await gateway.client.runs()).runs) == 2


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"arg.var2.country": ""}, "needs &#39;country&#39;"),
        ({"add": "world.bookRoom"}, "needs &#39;room&#39;"),
        ({"add": "world.none"}, "there is no API"),
        ({"answer.holidays": "var2"}, "must be a reference"),
        ({"answer.holidays": ""}, "does not say what answers"),
        ({"calls": "[", "was": ""}, "this is not JSON"),
        ({"calls": "7", "was": ""}, "JSON list of objects"),
        ({"calls": "[]", "was": ""}, "between 1 and"),
        ({"calls": '[{"name": 3}]', "was": ""}, "must be text"),
        ({"calls": '[{"name": "world.x", "label": "<b>"}]', "was": ""}, "This is no plan"),
        ({"calls": "[" * 200, "was": ""}, "this is not JSON"),
        ({"calls": f'[{{"name": "{"x" * 500}", "label": "a"}}]', "was": ""}, "This is no plan"),
    ],
)
async def test_what_the_compiler_finds_stands_by_its_step(gateway: Gateway, edits: dict[str, str], said: str) -> None:
    cookie, csrf = await visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    page = await post(gateway, "playground/run", cookie, **(fields | edits), do="check")
    assert page.status_code in (200, 422)
    assert said in page.text
    assert "it is not planned again" not in page.text
    refused = await post(gateway, "playground/run", cookie, **(fields | edits), do="run")
    assert refused.status_code in (200, 422)
    assert gateway.fakes.executor.requests == []
    assert len((await gateway.client.runs()).runs) == 1


async def test_a_call_is_removed_and_a_value_that_is_no_json_is_kept_for_its_writer(gateway: Gateway) -> None:
    number = Parameter(
        name="most", wire_name="most", location=Location.QUERY, json_schema={"type": "integer", "enum": [1, 2]}
    )
    api = HOLIDAYS.model_copy(update={"parameters": (*HOLIDAYS.parameters, number)})
    gateway.fakes.retriever.apis[HOLIDAYS.id] = api
    cookie, csrf = await visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert '<option value="1">' in page
    wrong = await post(gateway, "playground/run", cookie, **fields, **{"arg.var2.most": HOSTILE}, do="check")
    assert "this is not JSON" in wrong.text
    assert ESCAPED in wrong.text
    right = await post(gateway, "playground/run", cookie, **fields, **{"arg.var2.most": "2"}, do="check")
    assert "&#34;most&#34;: 2" in right.text
    assert "Run it" in right.text
    fewer = await post(gateway, "playground/run", cookie, **fields, remove="var1")
    assert "arg.var1.name" not in fewer.text
    assert len(fewer.content) < 100_000


async def test_a_plan_that_waited_to_be_looked_at_is_not_approved_twice(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf, ASK_ROOM)
    assert (await gateway.client.run(fields["run"])).status is RunStatus.NEEDS_APPROVAL
    begun = await post(gateway, "playground/run", cookie, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert run.status is RunStatus.NEEDS_APPROVAL
    assert (await gateway.client.run(fields["run"])).status is RunStatus.CANCELLED
    assert gateway.fakes.executor.sent == []


async def test_an_unsure_plan_waits_for_an_approval_when_it_is_run_as_shown(gateway: Gateway) -> None:
    await make_unsure(gateway)
    cookie, csrf = await visit(gateway)
    posted = await post(gateway, "playground", cookie, csrf=csrf, q=ASK_ROOM, mutations="allow")
    page = await get(gateway, posted.headers["location"].removeprefix("/console/"), cookie)
    assert DOUBT in page.text
    begun = await post(gateway, "playground/run", cookie, csrf=csrf, **_form(page.text), do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert (run.status, run.unsure) == (RunStatus.NEEDS_APPROVAL, DOUBT)
    assert "execute" not in gateway.fakes.executor.calls
    assert DOUBT in (await get(gateway, "approvals", cookie)).text


async def test_a_plan_that_chooses_an_item_by_words_keeps_them(gateway: Gateway) -> None:
    chosen = Reference(step="var1", path=("codes", 0), match=Match(said=("Portugal",)))
    plan = Plan(steps=(NESTED.steps[0], call("var2", HOLIDAYS, country=chosen)), answer=NESTED.answer)
    gateway.fakes.planner.plans[ASK_HOLIDAYS] = plan
    cookie, csrf = await visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert "is the item that matches “<bdi>Portugal</bdi>”" in page
    begun = await post(gateway, "playground/run", cookie, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert run.plan == plan
    edited = await post(gateway, "playground/run", cookie, **fields, **{"arg.var2.country": "PT"}, do="check")
    assert "matches" not in html.unescape(edited.text).partition("<textarea name=")[2]
    assert "Run it" in edited.text


async def test_a_plan_that_calls_cannot_say_runs_as_it_was_planned(gateway: Gateway) -> None:
    plan = Plan(
        steps=NESTED.steps, answer=(*NESTED.answer, AnswerOutput(name="holidays", value=Reference(step="var1")))
    )
    gateway.fakes.planner.plans[ASK_HOLIDAYS] = plan
    cookie, csrf = await visit(gateway)
    posted = await post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS)
    page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
    assert "cannot be edited here" in page.text
    fields = {name: hidden(page.text, name) for name in ("run", "key", "plan")}
    begun = await post(gateway, "playground/run", cookie, csrf=csrf, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert (run.plan, run.rerun_of) == (plan, fields["run"])


async def test_a_plan_of_any_size_is_a_small_page_of_the_playground(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    for most, editable in ((39, True), (250, False)):
        steps = [call("s0", FIND, name='"quoted" and <long>' * 4)]
        steps += [call(f"s{n}", HOLIDAYS, country=Reference(step="s0", path=("code",))) for n in range(1, most)]
        answer = (AnswerOutput(name="all", value=Reference(step=f"s{most - 1}")),)
        gateway.fakes.planner.plans[ASK_HOLIDAYS] = Plan(steps=tuple(steps), answer=answer)
        posted = await post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS)
        page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
        assert ('name="calls"' in page.text) == editable
        assert "Run it" in page.text
        assert len(page.content) < 100_000
        if editable:
            fields = {"csrf": csrf} | _form(page.text) | {"arg.s0.name": "Spain"}
            edited = await post(gateway, "playground/run", cookie, **fields, do="check")
            assert "Spain" in edited.text
            assert len(edited.content) < 100_000


async def test_a_form_with_a_nul_is_refused(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    for path in ("playground/run", "playground/answers", "catalogue/import"):
        answer = await post(gateway, path, cookie, csrf=csrf, run="run_\x00", document="{}\x00")
        assert answer.status_code == 400


async def test_what_is_entered_as_json_is_read_beside_the_event_loop(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def noting(*given: Any, **named: Any) -> Any:
        threads.append(threading.current_thread())
        return loads_strict(*given, **named)

    monkeypatch.setattr("gateway.console.forms.loads_strict", noting)
    schema = {"type": "object", "additionalProperties": {}}
    question = Question(step="var1", api=FIND.id, argument="filter", text="Which?", json_schema=schema)
    asks = PlanResponse(status="needs_input", questions=(question,), backend="scripted")
    gateway.fakes.planner.answers["which"] = asks
    asking = await gateway.client.solve(ask("which"))
    assert asking.status is RunStatus.NEEDS_INPUT
    done = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await visit(gateway)
    many = "[" + ",".join(["{}"] * 100_000) + "]"
    for path, fields in (
        ("playground/answers", {"run": asking.id, "value.filter": "VALUE"}),
        (f"runs/{done.id}/resolve", {"step": "var1", "outcome": "succeeded", "value": "VALUE"}),
        (f"runs/{done.id}/rerun", {"from": "var1", "more": "VALUE"}),
        ("playground/run", {"run": done.id, "calls": "VALUE"}),
    ):
        threads.clear()
        await post(gateway, path, cookie, csrf=csrf, **{k: v.replace("VALUE", "[{}]") for k, v in fields.items()})
        assert threads, path
        assert threads[0] is not threading.main_thread()
        answer = await post(
            gateway, path, cookie, csrf=csrf, **{k: v.replace("VALUE", many) for k, v in fields.items()}
        )
        assert answer.status_code == 422
        assert "more than 100,000 values" in answer.text or "at most 40,000 characters" in answer.text
        assert len(answer.content) < 10_000


@pytest.mark.parametrize("field", ["calls", "arg.var1.name", "more", "in.name", "run", "provider"])
async def test_a_page_does_not_repeat_megabytes_that_were_entered(gateway: Gateway, field: str) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    path = "playground/run"
    if field in ("more", "in.name"):
        path, fields = f"runs/{run.id}/rerun", {"csrf": csrf, "from": "var1"}
    if field == "provider":
        path, fields = "catalogue/import", {"csrf": csrf, "document": "{}"}
    answer = await post(gateway, path, cookie, **(fields | {field: "<" * 100_000}))
    assert answer.status_code in (404, 422)
    assert len(answer.content) < 30_000
    refused = await post(gateway, "runs/cancel", cookie, csrf=csrf, **{f"run.{'<' * 100_000}": "1"})
    assert (refused.status_code, len(refused.content) < 10_000) == (409, True)


async def test_a_plan_that_grows_too_long_for_its_page_is_not_shown(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    deep = "[" * 50 + "1" + "]" * 50
    calls = f'[{{"name": "world.bookRoom", "label": "a", "arguments": {{"room": [{",".join([deep] * 60)}]}}}}]'
    assert len(calls) < 10_000
    answer = await post(gateway, "playground/run", cookie, **(fields | {"calls": calls, "was": ""}), do="check")
    assert answer.status_code == 422
    assert "at most 40,000 characters" in answer.text


async def test_a_form_counts_by_its_size(gateway: Gateway) -> None:
    quotas = gateway.app.state.service.quotas
    cookie, csrf = await visit(gateway)
    for _ in range(20):
        await post(gateway, "playground/run", cookie, csrf=csrf, run="run_1", calls="1" * 900_000)
    assert quotas.used("default").tenants[0].requests.used > 500
    while (await post(gateway, "playground/run", cookie, csrf=csrf, calls="1" * 900_000)).status_code != 429:
        assert quotas.used("default").tenants[0].requests.used < 1_100
