"""Reruns, comparisons, edited plans and imports as pages: what is refused, what is kept, and who may."""

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from gateway.affected import affected_by
from gateway.console.session import Role, Session
from gateway.principals import Principal
from gateway.roles import Role as ApiRole
from services.contracts.api import ApiResponse, FieldChange, ImportChange, Location, Parameter
from services.contracts.demo import Demo
from services.contracts.operations import Breaker
from services.contracts.plan import AnswerOutput, LiteralValue, Match, Plan, Reference
from services.contracts.run import RunStatus, Succeeded
from services.errors import Forbidden
from tests.api.gateway.test_console import ESCAPED, HOSTILE, PRINCIPALS, _get, _log_in, _post, _visit
from tests.api.gateway.test_rerun import BROKEN, ran
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    FIND,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    call,
    ended,
    open_gateway,
)


def _hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, name
    return found[1]


async def test_a_rerun_is_shown_before_it_is_one_and_is_the_one_that_was_shown(gateway: Gateway) -> None:
    first = await ran(gateway)
    cookie, csrf = await _visit(gateway)
    path = f"runs/{first.id}/rerun"
    fields = {"csrf": csrf, "from": "var3", "in.country": "bkg_9", "reuse": "yes"}
    shown = await _post(gateway, path, cookie, **fields, do="show")
    assert shown.status_code == 200
    assert "1 call sent again, 2 not" in shown.text
    keys = {name: _hidden(shown.text, name) for name in ("key", "plan")}
    other = await _post(gateway, path, cookie, **(fields | keys | {"in.country": "bkg_8"}), do="run")
    assert "Nothing was sent" in other.text
    assert len((await gateway.client.runs()).runs) == 1
    begun = [await _post(gateway, path, cookie, **fields, **keys, do="run") for _ in range(2)]
    assert begun[0].headers["location"] == begun[1].headers["location"]
    run = await ended(gateway.client, begun[0].headers["location"].rpartition("/")[2])
    assert (run.status, run.rerun_of) == (RunStatus.SUCCEEDED, first.id)
    assert run.plan is not None
    assert run.plan.steps[0].arguments == {"country": LiteralValue(value="bkg_9")}
    page = await _get(gateway, f"runs/{run.id}", cookie)
    assert f"/console/runs/{first.id}" in page.text
    assert "not sent again: var1, var2" in page.text


async def test_what_a_rerun_is_refused_for_stands_above_what_was_entered(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = BROKEN
    failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await _visit(gateway)
    path = f"runs/{failed.id}/rerun"
    fields = {"csrf": csrf, "from": "var2", "in.country": HOSTILE, "reuse": "yes", "do": "show"}
    refused = await _post(gateway, path, cookie, **fields)
    assert refused.status_code == 409
    assert "gave no value" in refused.text
    assert ESCAPED in refused.text
    for more, problem in (
        ("{", "this is no JSON"),
        ("[1]", "by step, then by argument"),
        ('{"var9": {"a": 1}}', "no step"),
    ):
        answer = await _post(gateway, path, cookie, **(fields | {"from": "var1", "more": more}))
        assert answer.status_code == 422
        assert problem in answer.text
        assert "var1" in answer.text
    unknown = await _post(gateway, path, cookie, **(fields | {"from": "var1", "more": '{"var1": {"colour": 1}}'}))
    assert unknown.status_code == 422
    assert "takes no" in unknown.text
    assert (await _get(gateway, f"{path}?from=var9", cookie)).status_code == 404
    assert (await _get(gateway, f"{path}?from=<b>", cookie)).status_code == 422
    assert len((await gateway.client.runs()).runs) == 1


async def test_a_run_without_a_plan_or_without_its_apis_has_a_page_for_reruns(gateway: Gateway) -> None:
    planless = await gateway.client.solve(ask("Nothing that there is"))
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    del gateway.fakes.retriever.apis[HOLIDAYS.id]
    cookie, csrf = await _visit(gateway)
    assert "There is no plan" in (await _get(gateway, f"runs/{planless.id}/rerun", cookie)).text
    page = await _get(gateway, f"runs/{first.id}/rerun?from=var2", cookie)
    assert page.status_code == 200
    assert 'name="in.country" value="PT"' in page.text
    refused = await _post(gateway, f"runs/{first.id}/rerun", cookie, csrf=csrf, **{"from": "var2"}, do="show")
    assert refused.status_code == 422
    assert "no API" in refused.text


async def test_two_runs_are_compared_side_by_side(gateway: Gateway) -> None:
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": [HOSTILE]}, status=200)
    second = await gateway.client.solve(ask(ASK_HOLIDAYS))
    near = await _get(gateway, f"runs/{first.id}/compare")
    assert f"compare?other={second.id}" in near.text
    page = await _get(gateway, f"runs/{first.id}/compare?other={second.id}")
    assert "They part in step var2, in the value" in page.text
    assert ESCAPED in page.text
    assert "<script>alert" not in page.text
    assert "do not differ" in (await _get(gateway, f"runs/{first.id}/compare?other={first.id}")).text
    assert (await _get(gateway, f"runs/{first.id}/compare?other=run_none")).status_code == 404


@pytest.mark.parametrize("role", ["ask", "approve", "administer"])
async def test_a_role_edits_what_it_may(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, csrf = await _visit(gateway)
    monkeypatch.setattr(Session, "may", lambda _self, *roles: role in roles)
    path = f"runs/{first.id}/rerun"
    assert ((await _get(gateway, path, cookie)).status_code == 200) == (role == "ask")
    assert ((await _post(gateway, path, cookie, csrf=csrf)).status_code != 403) == (role == "ask")
    for answer in (
        await _get(gateway, "catalogue/import", cookie),
        await _post(gateway, "catalogue/import", cookie, csrf=csrf),
    ):
        assert (answer.status_code != 403) == (role == "administer")
    assert ("/catalogue/import" in (await _get(gateway, "catalogue/providers", cookie)).text) == (role == "administer")
    compared = await _get(gateway, f"runs/{first.id}/compare", cookie)
    assert (compared.status_code == 200) == (role in ("ask", "approve"))
    if role != "administer":
        page = await _get(gateway, f"runs/{first.id}", cookie)
        assert ("Run again" in page.text) == (role == "ask")


async def _planned(gateway: Gateway, cookie: str, csrf: str, query: str = ASK_HOLIDAYS) -> tuple[str, dict[str, str]]:
    """The page of a plan, and the fields of its form."""
    posted = await _post(gateway, "playground", cookie, csrf=csrf, q=query)
    page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
    assert page.status_code == 200
    return page.text, {"csrf": csrf} | _form(page.text)


def _form(page: str) -> dict[str, str]:
    calls = re.search(r'<textarea name="calls"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert calls is not None
    names = ("run", "key", "plan", "was")
    return {name: _hidden(page, name) for name in names} | {"calls": html.unescape(calls[1])}


async def test_the_plan_that_is_shown_is_the_one_that_runs(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert 'name="arg.var1.name" value="Portugal"' in page
    assert 'name="arg.var2.country" value="$var1.code$"' in page
    planned = len([call for call in gateway.fakes.planner.calls if call == "plan"])
    begun = [await _post(gateway, "playground/run", cookie, **fields, do="run") for _ in range(2)]
    assert begun[0].headers["location"] == begun[1].headers["location"]
    run = await ended(gateway.client, begun[0].headers["location"].rpartition("/")[2])
    assert (run.status, run.plan, run.query) == (RunStatus.SUCCEEDED, NESTED, ASK_HOLIDAYS)
    assert len([call for call in gateway.fakes.planner.calls if call == "plan"]) == planned


async def test_an_edited_plan_is_proved_and_looked_at_before_it_runs(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    edits = {"arg.var1.name": "Spain"}
    moved = await _post(gateway, "playground/run", cookie, **fields, **edits, do="run")
    assert moved.status_code == 200
    assert "Nothing was sent" in moved.text
    assert "Spain" in moved.text
    again = {"csrf": csrf} | _form(moved.text)
    begun = await _post(gateway, "playground/run", cookie, **again, **edits, do="run")
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
        ({"calls": "[", "was": ""}, "this is no JSON"),
        ({"calls": "7", "was": ""}, "JSON list of objects"),
        ({"calls": "[]", "was": ""}, "between 1 and"),
        ({"calls": '[{"name": 3}]', "was": ""}, "must be text"),
        ({"calls": '[{"name": "world.x", "label": "<b>"}]', "was": ""}, "This is no plan"),
        ({"calls": "[" * 200, "was": ""}, "this is no JSON"),
        ({"calls": f'[{{"name": "{"x" * 500}", "label": "a"}}]', "was": ""}, "This is no plan"),
    ],
)
async def test_what_the_compiler_finds_stands_by_its_step(gateway: Gateway, edits: dict[str, str], said: str) -> None:
    cookie, csrf = await _visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf)
    page = await _post(gateway, "playground/run", cookie, **(fields | edits), do="check")
    assert page.status_code in (200, 422)
    assert said in page.text
    assert "It is not planned anew" not in page.text
    refused = await _post(gateway, "playground/run", cookie, **(fields | edits), do="run")
    assert refused.status_code in (200, 422)
    assert gateway.fakes.executor.requests == []
    assert len((await gateway.client.runs()).runs) == 1


async def test_a_call_is_removed_and_a_value_that_is_no_json_is_kept_for_its_writer(gateway: Gateway) -> None:
    number = Parameter(
        name="most", wire_name="most", location=Location.QUERY, json_schema={"type": "integer", "enum": [1, 2]}
    )
    api = HOLIDAYS.model_copy(update={"parameters": (*HOLIDAYS.parameters, number)})
    gateway.fakes.retriever.apis[HOLIDAYS.id] = api
    cookie, csrf = await _visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert '<option value="1">' in page
    wrong = await _post(gateway, "playground/run", cookie, **fields, **{"arg.var2.most": HOSTILE}, do="check")
    assert "this is no JSON" in wrong.text
    assert ESCAPED in wrong.text
    right = await _post(gateway, "playground/run", cookie, **fields, **{"arg.var2.most": "2"}, do="check")
    assert "&#34;most&#34;: 2" in right.text
    assert "Run it" in right.text
    fewer = await _post(gateway, "playground/run", cookie, **fields, remove="var1")
    assert "arg.var1.name" not in fewer.text
    assert len(fewer.content) < 100_000


async def test_a_plan_that_waited_to_be_looked_at_is_not_approved_twice(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    _, fields = await _planned(gateway, cookie, csrf, ASK_ROOM)
    assert (await gateway.client.run(fields["run"])).status is RunStatus.NEEDS_APPROVAL
    begun = await _post(gateway, "playground/run", cookie, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert run.status is RunStatus.NEEDS_APPROVAL
    assert (await gateway.client.run(fields["run"])).status is RunStatus.CANCELLED
    assert gateway.fakes.executor.sent == []


async def test_a_plan_that_chooses_an_item_by_words_keeps_them(gateway: Gateway) -> None:
    chosen = Reference(step="var1", path=("codes", 0), match=Match(said=("Portugal",)))
    plan = Plan(steps=(NESTED.steps[0], call("var2", HOLIDAYS, country=chosen)), answer=NESTED.answer)
    gateway.fakes.planner.plans[ASK_HOLIDAYS] = plan
    cookie, csrf = await _visit(gateway)
    page, fields = await _planned(gateway, cookie, csrf)
    assert "is the item that matches “<bdi>Portugal</bdi>”" in page
    begun = await _post(gateway, "playground/run", cookie, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert run.plan == plan
    edited = await _post(gateway, "playground/run", cookie, **fields, **{"arg.var2.country": "PT"}, do="check")
    assert "matches" not in html.unescape(edited.text).partition("<textarea name=")[2]
    assert "Run it" in edited.text


async def test_a_plan_that_calls_cannot_say_runs_as_it_was_planned(gateway: Gateway) -> None:
    plan = Plan(
        steps=NESTED.steps, answer=(*NESTED.answer, AnswerOutput(name="holidays", value=Reference(step="var1")))
    )
    gateway.fakes.planner.plans[ASK_HOLIDAYS] = plan
    cookie, csrf = await _visit(gateway)
    posted = await _post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS)
    page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
    assert "shown as it is" in page.text
    fields = {name: _hidden(page.text, name) for name in ("run", "key", "plan")}
    begun = await _post(gateway, "playground/run", cookie, csrf=csrf, **fields, do="run")
    run = await ended(gateway.client, begun.headers["location"].rpartition("/")[2])
    assert (run.plan, run.rerun_of) == (plan, fields["run"])


async def test_a_plan_of_any_size_is_a_small_page_of_the_playground(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    for most, editable in ((39, True), (250, False)):
        steps = [call("s0", FIND, name='"quoted" and <long>' * 4)]
        steps += [call(f"s{n}", HOLIDAYS, country=Reference(step="s0", path=("code",))) for n in range(1, most)]
        answer = (AnswerOutput(name="all", value=Reference(step=f"s{most - 1}")),)
        gateway.fakes.planner.plans[ASK_HOLIDAYS] = Plan(steps=tuple(steps), answer=answer)
        posted = await _post(gateway, "playground", cookie, csrf=csrf, q=ASK_HOLIDAYS)
        page = await gateway.http.get(posted.headers["location"], headers={"Cookie": cookie})
        assert ('name="calls"' in page.text) == editable
        assert "Run it" in page.text
        assert len(page.content) < 100_000
        if editable:
            fields = {"csrf": csrf} | _form(page.text) | {"arg.s0.name": "Spain"}
            edited = await _post(gateway, "playground/run", cookie, **fields, do="check")
            assert "Spain" in edited.text
            assert len(edited.content) < 100_000


async def test_a_form_with_a_nul_is_refused(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    for path in ("playground/run", "playground/answers", "catalogue/import"):
        answer = await _post(gateway, path, cookie, csrf=csrf, run="run_\x00", document="{}\x00")
        assert answer.status_code == 400


def _document(**summaries: str) -> str:
    """A description of operations without parameters, by name, on a host of its own."""
    paths = {f"/{name}": {"get": {"operationId": name, "summary": text}} for name, text in summaries.items()}
    return json.dumps(
        {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://elsewhere.example"}], "paths": paths}
    )


async def test_an_import_is_shown_with_what_it_would_break_and_then_is_that_very_one(gateway: Gateway) -> None:
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    await gateway.client.add_demo(Demo(query=f"{ASK_HOLIDAYS} {HOSTILE}", plan=NESTED))
    cookie, csrf = await _visit(gateway)
    document = _document(listHolidays=f"{HOSTILE} \u200b\u202e", listPorts=HOSTILE)
    fields = {"csrf": csrf, "document": document, "provider": "world"}
    before = dict(gateway.fakes.retriever.apis)
    shown = await _post(gateway, "catalogue/import", cookie, **fields, do="show")
    assert shown.status_code == 200
    assert gateway.fakes.retriever.apis == before
    assert ESCAPED in shown.text
    assert "<script>alert" not in shown.text
    assert "\\u{200b}" in shown.text
    affected = shown.text.partition('id="affected"')[2].partition("</div>\n")[0]
    assert affected.count("breaks") == 2  # the room that waits, and the demonstration's other call
    assert f"/console/runs/{waiting.id}" in affected
    assert "to be proved again" in affected
    change = _hidden(shown.text, "change")
    for missing in ({"change": change}, {"change": "0" * 64, "accept": "yes"}, {"change": "x", "accept": "yes"}):
        refused = await _post(gateway, "catalogue/import", cookie, **fields, **missing, do="import")
        assert refused.status_code in (409, 422)
        assert gateway.fakes.retriever.apis == before
    other = fields | {"document": _document(listHolidays="other")}
    assert (
        await _post(gateway, "catalogue/import", cookie, **other, change=change, accept="yes", do="import")
    ).status_code == 409
    done = await _post(gateway, "catalogue/import", cookie, **fields, change=change, accept="yes", do="import")
    assert "Imported" in done.text
    assert set(gateway.fakes.retriever.apis) == {"world.listHolidays", "world.listPorts"}
    assert gateway.fakes.retriever.apis["world.listHolidays"].server == "https://elsewhere.example"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 422),
        ({"document": "{"}, 422),
        ({"document": "<b>" * 100}, 422),
        ({"document": "{}", "provider": "../x"}, 422),
        ({"document": "{}", "server": "file:///etc/passwd"}, 422),
        ({"document": "{}", "do": "import", "change": ""}, 422),
        ({"document": "x" * 2_000}, 413),
    ],
)
async def test_a_document_that_is_none_is_refused_above_the_form(
    tmp_path: Path, fields: dict[str, str], status: int
) -> None:
    async with open_gateway(tmp_path, max_document_bytes=1_500) as gateway:
        cookie, csrf = await _visit(gateway)
        answer = await _post(gateway, "catalogue/import", cookie, csrf=csrf, **fields)
        assert answer.status_code == status
        assert "<b><b>" not in answer.text
        assert gateway.fakes.retriever.pins == {}


async def test_a_large_document_is_taken_and_its_page_is_small(gateway: Gateway) -> None:
    cookie, csrf = await _visit(gateway)
    document = _document(**{f"list{n}": "Lists " * 40 for n in range(2_000)})
    fields = {"csrf": csrf, "document": document, "provider": "big"}
    shown = await _post(gateway, "catalogue/import", cookie, **fields)
    assert re.search(r"and 19\d\d more", shown.text)
    assert "choose it again" in shown.text
    assert len(shown.content) < 100_000
    done = await _post(gateway, "catalogue/import", cookie, **fields, change=_hidden(shown.text, "change"), do="import")
    assert "Imported" in done.text
    assert len(gateway.fakes.retriever.apis) == 2_003


async def test_who_may_not_read_runs_is_told_no_words_of_them(gateway: Gateway) -> None:
    await gateway.client.solve(ask(ASK_ROOM))
    change = ImportChange(action="removed", id=BOOK.id)
    store = gateway.app.state.service._store
    for roles, query in (({ApiRole.ADMINISTER}, ""), ({ApiRole.ADMINISTER, ApiRole.APPROVE}, ASK_ROOM)):
        who = Principal(roles=frozenset(roles))
        found, _ = await affected_by([change], who, gateway.fakes.peers, store)
        assert [(one.kind, one.query, one.breaks) for one in found] == [("run", query, True)]


async def test_what_is_certain_to_break_is_told_from_what_may_hold(gateway: Gateway) -> None:
    await gateway.client.add_demo(Demo(query="holidays", plan=NESTED))

    async def told(*fields: FieldChange) -> list[tuple[bool, str]]:
        change = ImportChange(action="updated", id=HOLIDAYS.id, fields=fields)
        found, total = await affected_by([change], Principal(), gateway.fakes.peers, gateway.app.state.service._store)
        assert total == len(found) == 1
        return [(one.breaks, one.reason) for one in found]

    def required(name: str, after: str | None) -> FieldChange:
        return FieldChange(field=f"parameters.{name}.required", before=None, after=after)

    assert await told(required("year", "true")) == [(True, "`year` becomes required")]
    for harmless in (
        required("country", "true"),
        required("year", "false"),
        required("year.json_schema", "true"),
        FieldChange(field="parameters.year.wire_name", before="y"),
        FieldChange(field="summary", before="a", after="b"),
    ):
        assert [breaks for breaks, _ in await told(harmless)] == [False], harmless
    assert await told(FieldChange(field="parameters.country.wire_name", before="country")) == [(True, "`country` goes")]


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
    page = (await _get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert ESCAPED in page
    assert "not as declared" not in page
    assert re.search(r"<dt>actual</dt><dd>string", page)
    gateway.fakes.retriever.apis[HOLIDAYS.id] = HOLIDAYS.model_copy(
        update={"parameters": (country,), "content_hash": "f" * 64}
    )
    page = (await _get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert "integer or null; world.listHolidays has changed since" in page
    assert "world.listHolidays declares to take something else" in page
    gateway.fakes.retriever.apis.clear()
    assert "not in the catalogue any more" in (await _get(gateway, f"runs/{run.id}?edge=var1.var2")).text
    assert "nothing is declared" not in page
    gateway.fakes.retriever.down = True
    assert (await _get(gateway, f"runs/{run.id}?edge=var2.answer")).status_code == 200


async def test_the_operator_sees_workers_leases_and_breakers(gateway: Gateway) -> None:
    gateway.fakes.executor.breakers = (Breaker(host=f"{HOSTILE}:443", state="open", failures=7, probe_in_s=4),)
    gateway.fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    told = await gateway.client.operations()
    assert [(one.alive, one.runs) for one in told.workers] == [(True, 1)]
    page = (await _get(gateway, "ops")).text
    assert told.workers[0].id in page
    assert ESCAPED in page
    assert "in 4.0 s" in page
    gateway.fakes.executor.gate.set()
    await ended(gateway.client, run.id)
    assert (await gateway.client.operations()).workers[0].runs == 0
    gateway.fakes.executor.down = True
    assert (await gateway.client.operations()).executor is None
    assert "does not answer" in (await _get(gateway, "ops")).text


async def test_a_tenant_sees_no_processes_and_no_hosts(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as guarded:
        with pytest.raises(Forbidden):
            await guarded.as_principal("red-token-1").operations()
        cookie, _ = await _log_in(guarded, "red-token-1")
        page = await _get(guarded, "ops", cookie)
        assert page.status_code == 200
        assert "Workers of the" not in page.text
        assert "Hosts in trouble" not in page.text
