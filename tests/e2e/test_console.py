"""The console in a real browser: every screen in any size, by keyboard, live, with hostile values.

Needs Chromium (Debian's package `chromium` or `chromium-headless-shell`), and is skipped without it.
NESTOR_TEST_SCREENSHOTS names a folder for pictures of the screens.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from services.contracts.run import Failed, RunStatus, Succeeded
from tests.support.browser import Page, find_chromium, open_browser
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    FIND,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)

CHROMIUM = find_chromium()
SCREENS = (
    "runs",
    "playground",
    "approvals",
    "catalogue?q=holidays",
    f"catalogue/api?id={FIND.id}",
    "catalogue/providers",
    "ops",
)
SIZES = ((320, 700), (768, 900), (1600, 1000))
HOSTILE = 'Find a country <script>window.taken = 1</script><img src=x onerror="window.taken = 1">'
CTRL = 2

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


@asynccontextmanager
async def _at(gateway: Gateway) -> AsyncIterator[str]:
    """The console's address while the gateway is served on a socket."""
    server = uvicorn.Server(uvicorn.Config(gateway.app, port=0, lifespan="off", log_level="warning"))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/console"
    finally:
        server.should_exit = server.force_exit = True
        with suppress(asyncio.CancelledError):
            await serving


@asynccontextmanager
async def _looking(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Gateway, str, Page]]:
    assert CHROMIUM is not None
    (tmp_path / "database").mkdir()
    async with (
        open_gateway(tmp_path / "database", **settings) as gateway,
        _at(gateway) as url,
        open_browser(CHROMIUM, tmp_path / "profile") as page,
    ):
        yield gateway, url, page


async def _runs(gateway: Gateway) -> list[str]:
    """A run that succeeded, one that failed, one that waits, and one of hostile values."""
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": HOSTILE, HOSTILE: HOSTILE}, status=200)
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="upstream_error", message=HOSTILE, detail=HOSTILE)
    gateway.fakes.planner.plans[HOSTILE] = NESTED
    failed = await gateway.client.solve(ask(HOSTILE))
    assert [run.status.value for run in (solved, waiting, failed)] == ["succeeded", "needs_approval", "failed"]
    return [run.id for run in (solved, waiting, failed)]


async def test_every_screen_fits_every_size_and_runs_nothing_of_others(tmp_path: Path) -> None:
    pictures = os.environ.get("NESTOR_TEST_SCREENSHOTS")
    async with _looking(tmp_path) as (gateway, url, page):
        ids = await _runs(gateway)
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
    async with _looking(tmp_path) as (gateway, url, page):
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
    async with _looking(tmp_path) as (gateway, url, page):
        solved, waiting, _ = await _runs(gateway)
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
    async with _looking(tmp_path, principals=principals) as (_, url, page):
        await page.open(f"{url}/runs?status=failed")
        assert "/login" in await page.evaluate("location.pathname")
        await page.type("red-token-1")
        await page.press("Enter")
        await page.until("location.search === '?status=failed' && document.querySelector('.who')")
        assert await page.evaluate("document.cookie") == ""
        await page.evaluate("document.querySelector('.who button').click()")
        await page.until("location.pathname.endsWith('/login')")
        assert page.errors == []
