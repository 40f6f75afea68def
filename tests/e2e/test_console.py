"""The console in a real browser: every screen in every size, by keyboard, live, with hostile values.

Needs Chromium (Debian's package `chromium` or `chromium-headless-shell`); skipped without it.
NESTOR_TEST_SCREENSHOTS names a folder for screenshots.
"""

import asyncio
import os
from pathlib import Path

import pytest

from services.contracts.run import RunStatus
from tests.support.consoles import CHROMIUM, SIZES, looking, prepared_runs
from tests.support.gateways import ASK_HOLIDAYS, FIND, ask, ended

SCREENS = (
    "runs",
    "playground",
    "approvals",
    "catalogue?q=holidays",
    f"catalogue/api?id={FIND.id}",
    "catalogue/providers",
    "ops",
)
CTRL = 2

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


async def test_every_screen_fits_every_size_and_runs_nothing_of_others(tmp_path: Path) -> None:
    pictures = os.environ.get("NESTOR_TEST_SCREENSHOTS")
    async with looking(tmp_path) as (gateway, url, page):
        ids = await prepared_runs(gateway)
        screens = (
            *SCREENS,
            *(f"runs/{one}" for one in ids),
            f"runs/{ids[2]}?edge=var1.var2",
            f"runs/{ids[0]}/planning",
        )
        for width, height in SIZES:
            for number, screen in enumerate(screens):
                await page.look(width=width, height=height, dark=number % 2 == 0)
                await page.open(f"{url}/{screen}")
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (screen, width)
                assert await page.evaluate("window.taken === undefined")
                assert await page.evaluate("document.scripts.length") == 1
                if pictures:
                    await page.shoot(Path(pictures) / f"{number:02}-{width}.png")
        assert page.errors == []


async def test_a_run_is_live_and_its_parts_open_without_another_page(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        await page.open(f"{url}/runs/{run.id}")
        await page.evaluate("document.body.dataset.same = 'yes'")
        await page.until("document.querySelector('#plan')?.textContent.includes('running')")
        gateway.fakes.executor.gate.set()
        await page.until("document.querySelector('#summary').textContent.includes('Portugal Day')")
        await page.evaluate("document.querySelector('.graph .label').closest('a').dispatchEvent("
                            "new MouseEvent('click', {bubbles: true, cancelable: true}))")  # fmt: skip
        await page.until("document.querySelector('#detail').textContent.includes('var1.code')")
        assert "edge=var1.var2" in await page.evaluate("location.search")
        await page.evaluate("history.back()")
        await page.until("!document.querySelector('#detail').textContent.includes('var1.code')")
        assert await page.evaluate("document.body.dataset.same") == "yes"
        assert page.errors == []


async def test_keys_lead_everywhere_and_approve_nothing(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        solved, waiting, _ = await prepared_runs(gateway)
        await page.open(f"{url}/runs")
        await page.press("/")
        await page.type("room")
        await page.press("Enter")
        await page.until("location.search.includes('q=room')")
        await page.until("document.readyState === 'complete' && document.querySelectorAll('[data-row]').length === 1")
        await page.press("j")
        await page.press("Enter")
        await page.until(f"location.pathname.endsWith('{waiting}') && document.readyState === 'complete'")
        for key in ("j", "Enter", "a", "y", "Enter", "?", "Escape"):
            await page.press(key)
        assert (await gateway.client.run(waiting)).status is RunStatus.NEEDS_APPROVAL
        await page.open(f"{url}/ops")
        await page.press("k", CTRL)
        await page.until("document.querySelector('#palette').open && document.activeElement.id === 'palette-text'")
        await page.type("holidays")
        await page.until("document.querySelector('#palette-items a span')?.textContent === 'run'")
        await page.press("Enter")
        await page.until(f"location.pathname.endsWith('{solved}')")
        await page.open(f"{url}/approvals")
        await page.evaluate("document.querySelector('input[name=read]').click()")
        await page.evaluate("document.querySelector('button.primary').click()")
        await page.until(f"location.pathname.endsWith('{waiting}')")
        assert (await ended(gateway.client, waiting)).status is RunStatus.SUCCEEDED
        assert page.errors == []


async def test_a_token_opens_the_page_that_was_asked_for(tmp_path: Path) -> None:
    principals = ({"name": "shop", "tenant": "red", "token": "red-token-1"},)
    async with looking(tmp_path, principals=principals) as (_, url, page):
        await page.open(f"{url}/runs?status=failed")
        assert "/login" in await page.evaluate("location.pathname")
        await page.type("red-token-1")
        await page.press("Enter")
        await page.until("location.search === '?status=failed' && document.querySelector('.who')")
        assert await page.evaluate("document.cookie") == ""
        await page.evaluate("document.querySelector('.who button').click()")
        await page.until("location.pathname.endsWith('/login')")
        assert page.errors == []
