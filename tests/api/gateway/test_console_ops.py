"""The operator's page: runs by time, workers, leases, breakers, model servers and quotas."""

import asyncio
import html
import re
from pathlib import Path

from services.contracts.operations import Allowance, Breaker, ModelServer, PlannerStatus
from tests.support.console_pages import ESCAPED, HOSTILE, PRINCIPALS, get, log_in
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    Gateway,
    ask,
    ended,
    open_gateway,
)


async def test_a_bar_of_operations_opens_the_runs_it_counts(gateway: Gateway) -> None:
    assert "When they were requested" not in (await get(gateway, "ops")).text
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    page = (await get(gateway, "ops?hours=168")).text
    paths = {html.unescape(path) for path in re.findall(r'href="/console/(runs\?since=[^"]+before=[^"]+)"', page)}
    assert "1 succeeded" in page
    assert "1 needs approval" in page
    lists = [(await get(gateway, path)).text for path in paths]
    for run in (solved, waiting):
        assert sum(f"/console/runs/{run.id}" in listed for listed in lists) == 1
    assert all("until 2" in listed for listed in lists)


async def test_the_operator_sees_workers_leases_and_breakers(gateway: Gateway) -> None:
    gateway.fakes.executor.breakers = (Breaker(host=f"{HOSTILE}:443", state="open", failures=7, probe_in_s=4),)
    gateway.fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    told = await gateway.client.operations()
    assert [(one.alive, one.runs) for one in told.workers] == [(True, 1)]
    page = (await get(gateway, "ops")).text
    assert told.workers[0].id in page
    assert ESCAPED in page
    assert "in 4.0 s" in page
    gateway.fakes.executor.gate.set()
    await ended(gateway.client, run.id)
    assert (await gateway.client.operations()).workers[0].runs == 0
    gateway.fakes.executor.down = True
    assert (await gateway.client.operations()).executor is None
    assert "does not answer" in (await get(gateway, "ops")).text


async def test_the_operator_sees_model_servers_and_everybodys_quotas(tmp_path: Path) -> None:
    operator = {"name": "boss", "tenant": "default", "token": "boss-token-1"}
    people, limits = (*PRINCIPALS, operator), {"red": {"runs": 1}}
    async with open_gateway(tmp_path, principals=people, tenant_limits=limits, max_waiting_runs=7) as guarded:
        guarded.fakes.executor.gate = asyncio.Event()
        run = await guarded.as_principal("red-token-1").solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        boss = guarded.as_principal("boss-token-1")
        quotas = (await boss.operations()).quotas
        red, *others = quotas.tenants
        assert (red.tenant, red.runs, red.is_full) == ("red", Allowance(used=1, most=1), True)
        assert {one.tenant: one.is_full for one in others} == {"default": False, "blue": False}
        assert (quotas.runs.used, quotas.waiting, quotas.others) == (1, Allowance(used=0, most=7), 0)
        cookie, _ = await log_in(guarded, "boss-token-1")
        page = (await get(guarded, "ops", cookie)).text
        assert "1 of 1 runs" in page
        assert page.count("at a limit") == 1
        assert "No language model is configured" in page
        guarded.fakes.planner.servers = (
            ModelServer(url="http://llm:8080/v1", model=HOSTILE, state="down", trouble=HOSTILE, probe_in_s=4,
                        completions={"answered": 3, "hung": 1}, tokens={"prompt": 700}, mean_s=1.5),
        )  # fmt: skip
        assert (await boss.operations()).planner == PlannerStatus(servers=guarded.fakes.planner.servers)
        page = (await get(guarded, "ops", cookie)).text
        assert page.count(ESCAPED) == 2
        assert "3 answered, 1 hung" in page
        assert "no requests for 4.0 s" in page
        guarded.fakes.planner.down = True
        assert (await boss.operations()).planner is None
        assert "The planner does not answer" in (await get(guarded, "ops", cookie)).text
        guarded.fakes.executor.gate.set()
        await ended(guarded.as_principal("red-token-1"), run.id)


async def test_a_tenant_sees_its_own_quotas_and_no_processes_hosts_or_servers(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as guarded:
        await guarded.as_principal("blue-token-1").operations()
        told = await guarded.as_principal("red-token-1").operations()
        assert (told.tenant, [one.tenant for one in told.quotas.tenants]) == ("red", ["red"])
        assert (told.workers, told.executor, told.planner) == ((), None, None)
        cookie, _ = await log_in(guarded, "red-token-1")
        page = await get(guarded, "ops", cookie)
        assert page.status_code == 200
        assert "<code>red</code>" in page.text
        for word in ("blue", "Workers of the", "Failing hosts", "Model servers"):
            assert word not in page.text
