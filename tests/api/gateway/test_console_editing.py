"""Reruns, comparisons, edited plans and imports as pages: what is refused, what is kept, and who may."""

import re

import pytest

from gateway.console.session import Role, Session
from services.contracts.plan import LiteralValue
from services.contracts.run import RunStatus, Succeeded
from tests.api.gateway.test_console import ESCAPED, HOSTILE, _get, _post, _visit
from tests.api.gateway.test_rerun import BROKEN, ran
from tests.support.gateways import ASK_HOLIDAYS, FIND, HOLIDAYS, Gateway, ask, ended


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
    for path in (f"runs/{first.id}/rerun",):
        assert ((await _get(gateway, path, cookie)).status_code == 200) == (role == "ask"), path
        assert ((await _post(gateway, path, cookie, csrf=csrf)).status_code != 403) == (role == "ask"), path
    compared = await _get(gateway, f"runs/{first.id}/compare", cookie)
    assert (compared.status_code == 200) == (role in ("ask", "approve"))
    if role != "administer":
        page = await _get(gateway, f"runs/{first.id}", cookie)
        assert ("Run again" in page.text) == (role == "ask")
