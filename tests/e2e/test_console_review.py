"""Reviewing and cancelling several runs in a browser, by keyboard."""

from pathlib import Path

import pytest

from services.contracts.feedback import Verdict
from services.contracts.run import RunStatus
from tests.support.browser import Page
from tests.support.consoles import CHROMIUM, looking
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, Gateway, ask

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


async def _shown(page: Page, run_id: str) -> None:
    await page.until(f"document.readyState === 'complete' && document.querySelector('form[action$=\"{run_id}\"]')")


async def _verdict(gateway: Gateway, run_id: str) -> Verdict | None:
    feedback = (await gateway.client.run(run_id)).feedback
    return feedback.verdict if feedback else None


async def test_runs_are_judged_one_after_the_other_by_keyboard(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        runs = [(await gateway.client.solve(ask(ASK_HOLIDAYS))).id for _ in range(4)]
        await page.open(f"{url}/runs")
        await page.press("g")
        await page.press("v")
        await _shown(page, runs[3])
        await page.press("y")
        await _shown(page, runs[2])
        await page.press("/")
        await page.type("only days off")
        await page.press("n")  # a letter in the reason's field is not a shortcut
        await page.press("Escape")
        assert await _verdict(gateway, runs[2]) is None
        await page.press("n")
        await _shown(page, runs[1])
        await page.press("s")
        await _shown(page, runs[0])
        await page.press("d")
        await page.until("document.readyState === 'complete' && location.pathname.endsWith('/demo')")
        assert await page.evaluate("document.querySelector('.slot').textContent") == "name"
        await page.evaluate("document.querySelector('.verdict .primary').focus()")
        await page.press("Enter")
        await page.until("document.body.textContent.includes('That was the last one')")
        confirmed, rejected = Verdict.CONFIRMED, Verdict.REJECTED
        assert [await _verdict(gateway, run_id) for run_id in runs] == [confirmed, None, rejected, confirmed]
        reason = (await gateway.client.run(runs[2])).feedback
        assert reason is not None
        assert reason.reason == "only days offn"
        assert [demo.source for demo in (await gateway.client.demos()).demos] == [runs[0]]
        assert page.errors == []


async def test_several_runs_are_chosen_and_cancelled_by_keyboard(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        waiting = [(await gateway.client.solve(ask(ASK_ROOM))).id for _ in range(3)]
        solved = (await gateway.client.solve(ask(ASK_HOLIDAYS))).id
        await page.open(f"{url}/runs")
        assert await page.evaluate("document.querySelector('.cancel button').disabled")
        for key in ("j", "x", "j", "x", "j", "x"):  # the first run has ended and has no checkbox
            await page.press(key)
        await page.until("document.querySelector('.cancel button').textContent === 'Cancel 2 chosen'")
        await page.evaluate("document.querySelector('.cancel button').focus()")
        await page.press("Enter")
        await page.until("document.querySelectorAll('.is-none').length > 2 && document.readyState === 'complete'")
        states = [(await gateway.client.run(run_id)).status for run_id in (*waiting, solved)]
        cancelled = RunStatus.CANCELLED
        assert states == [RunStatus.NEEDS_APPROVAL, cancelled, cancelled, RunStatus.SUCCEEDED]
        await page.evaluate("document.querySelector('[data-all]').click()")
        await page.until("document.querySelector('.cancel button').textContent === 'Cancel 1 chosen'")
        assert page.errors == []
