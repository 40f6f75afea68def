"""Sessions that end during a decision or a stream, in a real browser. Skipped without Chromium."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.contracts.run import RunStatus
from tests.support.browser import Page
from tests.support.consoles import CHROMIUM, looking
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, Gateway, ask, ended

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
TOKEN = "red-token-1"
REASON = 'Not this room: "blue" is <b>taken</b> 🛑'
FIELD = "document.querySelector('input[aria-label=\"Reason for rejecting\"]')"
TYPED = f"{FIELD}?.value === {REASON!r}"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
COUNTED = """
window.streams = [];
window.EventSource = class extends EventSource {
  constructor(url) { super(url); window.streams.push(this); }
};
"""


@asynccontextmanager
async def deciding(tmp_path: Path) -> AsyncIterator[tuple[Gateway, str, str, Page]]:
    """A logged-in user on the page of a waiting run, with the reason for rejecting it already typed."""
    async with looking(tmp_path, principals=({"name": "shop", "tenant": "red", "token": TOKEN},)) as (
        gateway,
        url,
        page,
    ):
        run = await gateway.as_principal(TOKEN).solve(ask(ASK_ROOM))
        await page.open(f"{url}/runs/{run.id}")
        await log_in(page, run.id)
        await page.evaluate(f"{FIELD}.focus()")
        await page.type(REASON)
        yield gateway, url, run.id, page


async def log_in(page: Page, run_id: str) -> None:
    """Type the token into the form. The login leads back to the run."""
    await page.type(TOKEN)
    await page.press("Enter")
    await page.until(f"location.pathname.endsWith('{run_id}') && document.readyState === 'complete'")


async def press(page: Page, text: str) -> None:
    await page.evaluate(f"[...document.querySelectorAll('button')].find((one) => one.textContent === {text!r}).click()")


async def test_a_decision_after_the_session_is_asked_for_again_with_the_reason_that_was_typed(tmp_path: Path) -> None:
    async with deciding(tmp_path) as (gateway, url, run_id, page):
        await page.send("Network.clearBrowserCookies")  # as a browser does when a cookie expires
        await press(page, "Reject")
        await page.until("location.pathname.endsWith('/login') && document.readyState === 'complete'")
        said = await page.evaluate("document.querySelector('main').textContent")
        assert "Your session has ended, so your last action was not done." in said
        assert (await gateway.as_principal(TOKEN).run(run_id)).status is RunStatus.NEEDS_APPROVAL
        await log_in(page, run_id)
        await page.until(TYPED)
        await page.open(f"{url}/approvals")
        await page.until(TYPED)
        await press(page, "Reject")
        await page.until(f"location.pathname.endsWith('{run_id}') && document.readyState === 'complete'")
        run = await gateway.as_principal(TOKEN).run(run_id)
        assert (run.status, run.feedback and run.feedback.reason) == (RunStatus.CANCELLED, REASON)
        await page.until("sessionStorage.length === 0")
        assert page.errors == []


async def test_a_page_says_that_the_session_has_ended_and_keeps_what_is_typed(tmp_path: Path) -> None:
    async with deciding(tmp_path) as (gateway, _, run_id, page):
        await page.evaluate("document.activeElement.blur()")
        await page.evaluate("document.body.dataset.same = 'yes'")
        await page.send("Network.clearBrowserCookies")
        await page.evaluate(LOOK_AGAIN)
        await page.until("!document.querySelector('#ended').hidden")
        assert await page.evaluate(f"document.body.dataset.same === 'yes' && {TYPED}")
        await page.evaluate("document.querySelector('#ended a').click()")
        await page.until("location.pathname.endsWith('/login') && document.readyState === 'complete'")
        assert "Your session has ended." in await page.evaluate("document.querySelector('main').textContent")
        await log_in(page, run_id)
        await page.until(TYPED)
        await page.send("Network.clearBrowserCookies")
        await page.evaluate(LOOK_AGAIN)
        await page.until("!document.querySelector('#ended').hidden")
        await page.evaluate(
            "fetch('/console/login', {method: 'POST', body: new URLSearchParams({token: '" + TOKEN + "'})})"
        )  # in another tab
        await page.evaluate(LOOK_AGAIN)
        await page.until("document.querySelector('#ended').hidden")
        await page.evaluate("document.querySelector('input[name=read]').click()")
        await press(page, "Approve and send")
        await page.until("document.querySelector('#summary')?.textContent.includes('succeeded')")
        assert (await ended(gateway.as_principal(TOKEN), run_id)).status is RunStatus.SUCCEEDED
        assert page.errors == []


async def test_logging_out_keeps_nothing_and_without_typing_a_page_gives_way(tmp_path: Path) -> None:
    async with deciding(tmp_path) as (_, __, ___, page):
        await page.evaluate("document.querySelector('.who button').click()")
        await page.until("location.pathname.endsWith('/login') && document.readyState === 'complete'")
        assert await page.evaluate("sessionStorage.length") == 0
        assert "has ended" not in await page.evaluate("document.querySelector('main').textContent")
        await log_in(page, "runs")
        await page.send("Network.clearBrowserCookies")
        await page.evaluate(LOOK_AGAIN)
        await page.until("location.pathname.endsWith('/login') && document.readyState === 'complete'")
        assert "Your session has ended." in await page.evaluate("document.querySelector('main').textContent")
        assert page.errors == []


async def test_a_page_has_one_stream_of_events_however_often_it_is_looked_at(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        await page.send("Page.addScriptToEvaluateOnNewDocument", source=COUNTED)
        await page.open(f"{url}/runs/{run.id}")
        await page.until("window.streams.length && document.querySelector('#plan')")
        for step in ("var1", "var2"):
            await page.evaluate(LOOK_AGAIN)
            await page.evaluate(f"document.querySelector(\".steps a[href*='step={step}']\").click()")
            await page.until(f"location.search.includes('step={step}')")
            await page.evaluate(LOOK_AGAIN)
        assert await page.evaluate("window.streams.length") == 1
        streams = (await gateway.client.operations()).quotas.tenants[0].streams
        assert streams.used == 1
        gateway.fakes.executor.gate.set()
        await page.until("document.querySelector('#summary').textContent.includes('Portugal Day')")
        await page.until("window.streams.every((one) => one.readyState === EventSource.CLOSED)")
        assert await page.evaluate("window.streams.length") == 1
        assert page.errors == []
