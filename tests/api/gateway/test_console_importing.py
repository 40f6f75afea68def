"""The pages for imports: the preview, what would break, and what each role may see."""

import json
import re
from pathlib import Path

import pytest

import gateway.affected as gateway_affected
from gateway.affected import Touched, affected_by
from gateway.principals import Principal
from gateway.roles import Role as ApiRole
from services.contracts.api import FieldChange, ImportChange, ImportRequest, Location, Parameter
from services.contracts.demo import Demo
from services.contracts.plan import Plan
from services.contracts.review import Affected
from tests.support.console_pages import ESCAPED, HOSTILE, PRINCIPALS, get, hidden, log_in, post, visit
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    call,
    open_gateway,
    world_api,
)


def _document(**summaries: str) -> str:
    """A document with operations without parameters, by name, on its own host."""
    paths = {f"/{name}": {"get": {"operationId": name, "summary": text}} for name, text in summaries.items()}
    return json.dumps(
        {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://elsewhere.example"}], "paths": paths}
    )


async def test_an_import_is_shown_with_what_it_would_break_and_then_is_that_very_one(gateway: Gateway) -> None:
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    await gateway.client.add_demo(Demo(query=f"{ASK_HOLIDAYS} {HOSTILE}", plan=NESTED))
    cookie, csrf = await visit(gateway)
    document = _document(listHolidays=f"{HOSTILE} \u200b\u202e", listPorts=HOSTILE)
    fields = {"csrf": csrf, "document": document, "provider": "world"}
    before = dict(gateway.fakes.retriever.apis)
    shown = await post(gateway, "catalogue/import", cookie, **fields, do="show")
    assert shown.status_code == 200
    assert gateway.fakes.retriever.apis == before
    assert ESCAPED in shown.text
    assert "<script>alert" not in shown.text
    assert "\\u{200b}" in shown.text
    said = shown.text.partition('id="affected"')[2].partition("</div>\n")[0]
    assert said.count("breaks") == 2  # the waiting booking, and the demo's other call
    assert f"/console/runs/{waiting.id}" in said
    assert "to be proved again" in said
    change = hidden(shown.text, "change")
    for missing in ({"change": change}, {"change": "0" * 64, "accept": "yes"}, {"change": "x", "accept": "yes"}):
        refused = await post(gateway, "catalogue/import", cookie, **fields, **missing, do="import")
        assert refused.status_code in (409, 422)
        assert gateway.fakes.retriever.apis == before
    other = fields | {"document": _document(listHolidays="other")}
    assert (
        await post(gateway, "catalogue/import", cookie, **other, change=change, accept="yes", do="import")
    ).status_code == 409
    done = await post(gateway, "catalogue/import", cookie, **fields, change=change, accept="yes", do="import")
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
        cookie, csrf = await visit(gateway)
        answer = await post(gateway, "catalogue/import", cookie, csrf=csrf, **fields)
        assert answer.status_code == status
        assert "<b><b>" not in answer.text
        assert gateway.fakes.retriever.pins == {}


async def test_a_large_document_is_taken_and_its_page_is_small(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    document = _document(**{f"list{n}": "Lists " * 40 for n in range(2_000)})
    fields = {"csrf": csrf, "document": document, "provider": "big"}
    shown = await post(gateway, "catalogue/import", cookie, **fields)
    assert re.search(r"and 19\d\d more", shown.text)
    assert "choose it again" in shown.text
    assert len(shown.content) < 100_000
    done = await post(gateway, "catalogue/import", cookie, **fields, change=hidden(shown.text, "change"), do="import")
    assert "Imported" in done.text
    assert len(gateway.fakes.retriever.apis) == 2_003


async def test_equal_changes_of_many_operations_are_said_once(gateway: Gateway) -> None:
    cookie, csrf = await visit(gateway)
    names = [f"list{n}" for n in range(25)]
    fields = {"csrf": csrf, "provider": "many"}
    old = _document(**dict.fromkeys(names, "Lists"), other="Other")
    shown = await post(gateway, "catalogue/import", cookie, **fields, document=old)
    change = hidden(shown.text, "change")
    await post(gateway, "catalogue/import", cookie, **fields, document=old, change=change, do="import")
    new = _document(**dict.fromkeys(names, f"Lists {HOSTILE}"), other="Another")
    page = (await post(gateway, "catalogue/import", cookie, **fields, document=new)).text
    assert page.count("25 operations: `summary` changed") == 1
    assert page.count("many.other: `summary` changed") == 1
    assert "and 5 more" in page
    assert ESCAPED in page


async def affected(
    gateway: Gateway, *changes: ImportChange, who: Principal | None = None
) -> tuple[tuple[Affected, ...], int]:
    touched = {change.id: Touched.by(change) for change in changes}
    service = gateway.app.state.service
    return await affected_by(touched, who or Principal(), gateway.fakes.peers, service._store, service.quotas)


async def test_a_whole_parameter_breaks_what_does_without_or_with_it(gateway: Gateway) -> None:
    await gateway.client.add_demo(Demo(query="holidays", plan=NESTED))
    (given,) = {name for step in NESTED.steps if step.api == HOLIDAYS.id for name in step.arguments}
    for name, required, constant, came, breaks in (
        ("key", True, None, True, True),
        ("key", True, "42", True, False),
        ("key", False, None, True, False),
        (given, True, None, True, False),
        (given, False, None, False, True),
        ("key", True, None, False, False),
    ):
        whole = Parameter(name=name, wire_name=name, location=Location.QUERY, required=required, constant=constant)
        text = whole.model_dump_json(exclude_defaults=True)
        before, after = (None, text) if came else (text, None)
        field = FieldChange(field=f"parameters.{name}", before=before, after=after)
        change = ImportChange(action="updated", id=HOLIDAYS.id, fields=(field,))
        found, _ = await affected(gateway, change)
        assert [one.breaks for one in found] == [breaks]


async def test_who_may_not_read_runs_is_told_no_words_of_them(gateway: Gateway) -> None:
    await gateway.client.solve(ask(ASK_ROOM))
    change = ImportChange(action="removed", id=BOOK.id)
    for roles, query in (({ApiRole.ADMINISTER}, ""), ({ApiRole.ADMINISTER, ApiRole.APPROVE}, ASK_ROOM)):
        who = Principal(roles=frozenset(roles))
        found, _ = await affected(gateway, change, who=who)
        assert [(one.kind, one.query, one.breaks) for one in found] == [("run", query, True)]


async def test_what_is_certain_to_break_is_told_from_what_may_hold(gateway: Gateway) -> None:
    await gateway.client.add_demo(Demo(query="holidays", plan=NESTED))

    async def told(*fields: FieldChange) -> list[tuple[bool, str]]:
        change = ImportChange(action="updated", id=HOLIDAYS.id, fields=fields)
        found, total = await affected(gateway, change)
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


async def test_what_every_call_sends_is_set_and_removed_on_the_page_of_the_providers(gateway: Gateway) -> None:
    taking = [{"name": "Wiki-Version", "in": "header", "required": True, "schema": {"type": "string"}}]
    document = {
        "openapi": "3.1.0",
        "info": {"title": "wiki"},
        "servers": [{"url": "https://wiki.example"}],
        "paths": {"/pages": {"get": {"operationId": "listPages", "summary": "Pages", "parameters": taking}}},
    }
    async for _ in gateway.client.import_apis(ImportRequest(document=json.dumps(document), provider="wiki")):
        pass
    cookie, csrf = await visit(gateway)
    here = "catalogue/providers/wiki/constants"
    shown = await get(gateway, "catalogue/providers", cookie)
    assert "nothing yet" in shown.text
    done = await post(gateway, here, cookie, csrf=csrf, name="Wiki-Version", value=HOSTILE)
    assert (done.status_code, done.headers["location"]) == (303, "/console/catalogue/providers#wiki")
    shown = await get(gateway, "catalogue/providers", cookie)
    assert ESCAPED in shown.text
    assert "<script>alert" not in shown.text
    assert gateway.fakes.retriever.pins["wiki"].constants == {"Wiki-Version": HOSTILE}
    for fields, status in (
        ({"name": "nothing", "value": "1"}, 422),
        ({"name": "Wiki-Version"}, 422),
        ({"value": "1"}, 422),
        ({"name": "Wiki-Version", "value": "x" * 1_001}, 422),
    ):
        assert (await post(gateway, here, cookie, csrf=csrf, **fields)).status_code == status
    assert (await post(gateway, here, cookie, csrf="0" * 64, name="Wiki-Version", value="1")).status_code == 403
    other = here.replace("wiki", "nobody")
    assert (await post(gateway, other, cookie, csrf=csrf, name="Wiki-Version", value="1")).status_code == 404
    assert gateway.fakes.retriever.pins["wiki"].constants == {"Wiki-Version": HOSTILE}
    await post(gateway, here, cookie, csrf=csrf, name="Wiki-Version", do="remove")
    assert gateway.fakes.retriever.pins["wiki"].constants == {}


async def test_only_administrators_set_what_every_call_sends(tmp_path: Path) -> None:
    principals = tuple(one | {"roles": ("ask",)} for one in PRINCIPALS)
    async with open_gateway(tmp_path, principals=principals) as gateway:
        cookie, csrf = await log_in(gateway, "red-token-1", "playground")
        fields = {"csrf": csrf, "name": "room", "value": "1"}
        assert (await post(gateway, "catalogue/providers/world/constants", cookie, **fields)).status_code == 403
        assert 'name="value"' not in (await get(gateway, "catalogue/providers", cookie)).text


async def test_a_field_of_a_change_is_read_once_for_all_demonstrations(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(10):
        await gateway.client.add_demo(Demo(query=f"holidays {n}", plan=NESTED))
    read, parameter = list[str | None](), gateway_affected._parameter

    def counted(text: str | None) -> Parameter | None:
        read.append(text)
        return parameter(text)

    monkeypatch.setattr(gateway_affected, "_parameter", counted)
    whole = Parameter(name="n" * 150, wire_name="n", location=Location.QUERY, required=True)
    fields = tuple(
        FieldChange(
            field=f"parameters.{n}", after=whole.model_copy(update={"name": f"{n} {whole.name}"}).model_dump_json()
        )
        for n in range(300)
    )
    change = ImportChange(action="updated", id=HOLIDAYS.id, fields=fields)
    found, total = await affected(gateway, change)
    assert ([one.breaks for one in found], total) == ([True] * 10, 10)
    assert len(read) == 2 * len(fields)
    assert len("".join(Touched.by(change).needed)) < 10_000


async def test_few_demonstrations_and_runs_are_read(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    apis = [BOOK.model_copy(update={"id": f"p.a{n}"}) for n in range(30)]
    steps = tuple(call(f"s{n}", api) for n, api in enumerate(apis))
    for n in range(10):
        await gateway.client.add_demo(Demo(query=f"all {n}", plan=Plan(steps=steps)))
    waiting = [await gateway.client.solve(ask(ASK_ROOM)) for _ in range(3)]
    monkeypatch.setattr(gateway_affected, "_DEMOS", 2)
    monkeypatch.setattr(gateway_affected, "_EXAMINED", 6)
    size = len((await gateway.client.run(waiting[-1].id)).model_dump_json())
    monkeypatch.setattr(gateway_affected, "_RUN_BYTES", 2 * size + 100)
    changes = [ImportChange(action="removed", id=api.id) for api in (*apis, BOOK)]
    gateway.fakes.demos.calls.clear()
    found, total = await affected(gateway, *changes)
    assert gateway.fakes.demos.calls == ["of_apis"] * 3
    assert total == 6 * 30 + 2
    assert {one.id for one in found if one.kind == "run"} == {run.id for run in waiting[1:]}


async def test_each_demonstration_is_read_once_and_counted_by_its_size(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"world.op{n}" for n in range(49)]
    steps = tuple(call(f"var{n}", world_api(f"op{n}", "Op"), text="x" * 2_000) for n in range(49))
    for n in range(3):
        await gateway.client.add_demo(Demo(query=f"demonstration {n}", plan=Plan(steps=steps)))
    changes = [ImportChange(action="removed", id=name) for name in names]
    demos, quotas = gateway.fakes.demos, gateway.app.state.service.quotas
    charged = list[int]()
    monkeypatch.setattr(quotas, "charge", lambda tenant, size: charged.append(size))
    demos.calls.clear()
    _, total = await affected(gateway, *changes)
    assert total == 3 * 49
    assert demos.calls == ["of_apis"]
    assert 3 * 49 * 2_000 < sum(charged) < 3 * 49 * 3_000
    monkeypatch.setattr("gateway.affected._DEMOS", 1)
    monkeypatch.setattr("gateway.affected._DEMO_BYTES", 150_000)
    assert (await affected(gateway, *changes))[1] == 2 * 49
