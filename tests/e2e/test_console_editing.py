"""Editing in the console in a real browser: reruns, plans, documents. Skipped without Chromium."""

import json
from pathlib import Path

import pytest

from services.contracts.api import ApiResponse
from services.contracts.operations import Breaker
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import LiteralValue
from services.contracts.rerun import RerunRequest
from services.contracts.run import RunStatus
from tests.api.gateway.test_rerun import CHAIN
from tests.support.browser import Page
from tests.support.consoles import CHROMIUM, looking
from tests.support.gateways import ASK_HOLIDAYS, FIND, HOLIDAYS, ask, ended

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
HOSTILE = '"><script>window.taken = 1</script><img src=x onerror="window.taken = 1">'
ASK_CHAIN = "Find a country, book a room there and list its holidays"


async def _fill(page: Page, name: str, text: str) -> None:
    """Replace a field's text as a user does."""
    await page.evaluate(f"(f => {{ f.focus(); f.select(); }})(document.getElementsByName({name!r})[0])")
    await page.type(text)


async def _press(page: Page, text: str) -> None:
    """Press the button or link with this text and wait for the next page."""
    await page.evaluate("document.documentElement.dataset.old = 1")
    await page.evaluate(
        "[...document.querySelectorAll('main a, main button')]"
        f".find(one => one.textContent.trim().startsWith({text!r})).click()"
    )
    await page.until("!document.documentElement.dataset.old && document.readyState === 'complete'")


async def test_a_failed_run_is_run_again_from_a_step_with_another_input_and_compared(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="upstream_error", message="HTTP 500", status=500)
        failed = await gateway.client.solve(ask(ASK_HOLIDAYS))
        assert failed.status is RunStatus.FAILED
        gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["Freedom Day"]}, status=200)
        await page.open(f"{url}/runs/{failed.id}")
        await _press(page, "Run again from here")
        assert await page.evaluate("document.getElementsByName('in.country')[0].value") == "PT"
        await _fill(page, "in.country", HOSTILE)
        await _press(page, "Show what is sent again")
        said = await page.evaluate("document.querySelector('#again').textContent")
        assert said.split("\n")[1].strip() == "1 call sent again, 1 not"
        assert "edited" in said
        assert len((await gateway.client.runs()).runs) == 1
        await _press(page, "Run it")
        again = await ended(gateway.client, (await page.evaluate("location.pathname")).rpartition("/")[2])
        assert (again.status, again.rerun_of) == (RunStatus.SUCCEEDED, failed.id)
        assert [(one.step, one.edited) for one in again.resent] == [("var2", ("country",))]
        await page.until("document.querySelector('#summary').textContent.includes('Freedom Day')")
        await _press(page, "Compare")
        assert "They first differ in step var2" in await page.evaluate("document.querySelector('#parts').textContent")
        assert await page.evaluate("window.taken === undefined")
        assert page.errors == []


async def test_a_change_that_is_made_again_is_approved_anew(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.planner.plans[ASK_CHAIN] = CHAIN
        first = await gateway.client.solve(ask(ASK_CHAIN, mutations="allow"))
        assert first.status is RunStatus.SUCCEEDED
        await page.open(f"{url}/runs/{first.id}/rerun?from=var2")
        await _fill(page, "in.room", "green")
        await _press(page, "Show what is sent again")
        said = await page.evaluate("document.querySelector('#again').textContent")
        assert "sent again, after an approval" in said
        await _press(page, "Run it")
        run = await ended(gateway.client, (await page.evaluate("location.pathname")).rpartition("/")[2])
        assert run.status is RunStatus.NEEDS_APPROVAL
        assert [one.request.body for one in run.previews] == [{"room": "green"}]
        assert gateway.fakes.executor.sent == [(first.id, "var2")]
        assert page.errors == []


async def test_a_plan_is_edited_checked_and_run_as_it_is_shown(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        await page.open(f"{url}/playground")
        await page.type(ASK_HOLIDAYS)
        await _press(page, "Plan")
        await _fill(page, "arg.var2.country", "")
        await page.press("Delete")
        await _press(page, "Check")
        said = await page.evaluate("document.querySelector('#step-var2').textContent")
        assert "needs 'country'" in said
        assert not await page.evaluate("document.querySelector('main').textContent.includes('Run it')")
        await _fill(page, "arg.var2.country", HOSTILE)
        await page.press("Enter")  # Enter in a field checks the plan and sends nothing
        await page.until("document.querySelector('main').textContent.includes('Run it')")
        assert len((await gateway.client.runs()).runs) == 1
        await _press(page, "Run it")
        run = await ended(gateway.client, (await page.evaluate("location.pathname")).rpartition("/")[2])
        assert run.status is RunStatus.SUCCEEDED
        assert run.plan is not None
        assert run.plan.steps[1].arguments == {"country": LiteralValue(value=HOSTILE)}
        assert await page.evaluate("window.taken === undefined")
        assert page.errors == []


async def test_a_file_is_imported_after_its_changes_were_read(tmp_path: Path) -> None:
    paths = {"/listHolidays": {"get": {"operationId": "listHolidays", "summary": HOSTILE}}}
    paths |= {f"/ports{n}": {"get": {"operationId": f"ports{n}", "summary": "Ports " * 20}} for n in range(100)}
    document = {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://elsewhere.example"}], "paths": paths}
    file = tmp_path / "world.json"
    file.write_text(json.dumps(document))
    async with looking(tmp_path) as (gateway, url, page):
        await page.open(f"{url}/catalogue/import?provider=world")
        root = await page.send("DOM.getDocument")
        field = await page.send("DOM.querySelector", nodeId=root["root"]["nodeId"], selector="input[type=file]")
        await page.send("DOM.setFileInputFiles", nodeId=field["nodeId"], files=[str(file)])
        await page.until("document.querySelector('textarea[name=document]').value.includes('ports99')")
        await page.evaluate("document.querySelector('#import button').click()")
        await page.until("document.querySelector('#outcome').textContent.includes('would be')")
        said = await page.evaluate("document.querySelector('#outcome').textContent")
        assert "https://elsewhere.example" in said
        assert HOLIDAYS.id in gateway.fakes.retriever.apis
        await page.evaluate("document.querySelector('#outcome button').click()")  # without the tick nothing is sent
        await page.evaluate("document.querySelector('input[name=accept]').click()")
        assert "world.ports1" not in gateway.fakes.retriever.apis
        await page.evaluate("document.querySelector('#outcome button').click()")
        await page.until("document.querySelector('#outcome').textContent.includes('Imported')")
        assert len(gateway.fakes.retriever.apis) == 101
        assert await page.evaluate("window.taken === undefined")
        assert page.errors == []


async def test_a_value_is_held_against_what_was_declared_and_hosts_in_trouble_are_told(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        declared = ApiResponse(json_schema={"properties": {"code": {"type": "integer"}}})
        gateway.fakes.retriever.apis[FIND.id] = FIND.model_copy(update={"response": declared})
        gateway.fakes.executor.breakers = (Breaker(host="flights.example:443", state="open", failures=7, probe_in_s=4),)
        run = await gateway.client.solve(ask(ASK_HOLIDAYS))
        await page.open(f"{url}/runs/{run.id}?edge=var1.var2")
        said = await page.evaluate("document.querySelector('#detail').textContent")
        assert "declaredinteger" in said
        assert "actualstring not as declared" in said
        await page.open(f"{url}/ops")
        assert "flights.example:443" in await page.evaluate("document.querySelector('#breakers').textContent")
        assert await page.evaluate("document.querySelectorAll('.workers').length") == 2
        assert page.errors == []


async def test_what_is_edited_fits_every_size(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.planner.plans[ASK_CHAIN] = CHAIN
        first = await gateway.client.solve(ask(ASK_CHAIN, mutations="allow"))
        second = await gateway.client.rerun(first.id, RerunRequest.model_validate({"from": "var3"}))
        planned = await gateway.client.plan(ask(ASK_CHAIN))
        screens = (
            f"runs/{first.id}/rerun",
            f"runs/{first.id}/rerun?from=var2",
            f"runs/{first.id}/compare",
            f"runs/{first.id}/compare?other={second.id}",
            f"playground?run={planned.id}",
            "catalogue/import",
            "ops",
        )
        for width in (320, 768, 1600):
            await page.look(width=width, dark=width == 768)
            for screen in screens:
                await page.open(f"{url}/{screen}")
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (screen, width)
        assert page.errors == []
