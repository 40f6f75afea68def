"""The console in real browsers: accessibility in every size and colour scheme, keyboard, broken streams."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.run import RunStatus
from tests.support.browser import Page, open_browser
from tests.support.consoles import CHROMIUM, SIZES, grave_findings, load_axe, looking, prepared_runs, serving
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, FIND, HOLIDAYS, Gateway, ask, call, open_gateway

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
PARTS = 5
"""The number of tests into which the screens are divided; they run in parallel."""
WATCH_FOCUS = """
window.every = () => [...document.querySelectorAll(
  'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'
)].filter((one) => !one.disabled && one.tabIndex >= 0 && one.checkVisibility({visibilityProperty: true}));
window.reached = {};
addEventListener('focusin', ({target}) => {
  const shown = [target, target.closest('label')].some((one) => one && getComputedStyle(one).outlineStyle !== 'none');
  window.reached[every().indexOf(target)] = shown;
});
document.activeElement.blur();
"""
NOT_REACHED = "every().filter((one, at) => reached[at] !== true).map((one) => one.outerHTML.slice(0, 150))"


def _screens(ids: list[str]) -> tuple[str, ...]:
    """The paths of all screens for these runs (succeeded, waiting, failed)."""
    solved, waiting, failed = ids
    return (
        "runs",
        "runs?status=cancelled",
        f"runs/{solved}",
        f"runs/{solved}?edge=var1.var2",
        f"runs/{solved}/planning",
        f"runs/{waiting}",
        f"runs/{failed}",
        f"runs/{failed}?edge=var1.var2",
        f"runs/{solved}/rerun",
        f"runs/{failed}/rerun?from=var2",
        f"runs/{solved}/compare",
        f"runs/{solved}/compare?other={failed}",
        "catalogue/import",
        f"playground?run={solved}",
        "playground",
        f"playground?run={waiting}",
        "approvals",
        "review",
        f"review/{solved}/demo",
        "catalogue?q=holidays",
        f"catalogue/api?id={FIND.id}",
        "catalogue/providers",
        "ops",
        "runs/run_none",
        "login",
    )


@pytest.mark.parametrize("part", range(PARTS))
async def test_axe_finds_nothing_serious_on_any_screen(tmp_path: Path, part: int) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        found = []
        for screen in _screens(await prepared_runs(gateway))[part::PARTS]:
            await page.open(f"{url}/{screen}")
            assert await page.evaluate("window.taken === undefined")
            await load_axe(page)
            for width, height in SIZES:
                for dark in (False, True):
                    await page.look(width=width, height=height, dark=dark)
                    rules = ("color-contrast",) if dark else ()
                    found += [(screen, width, dark, one) for one in await grave_findings(page, *rules)]
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (screen, width)
        assert not found, "\n".join(map(str, found))
        assert page.errors == []


async def test_axe_would_find_what_is_not_accessible(tmp_path: Path) -> None:
    async with looking(tmp_path) as (_, url, page):
        await page.open(f"{url}/runs")
        await page.evaluate(
            "document.querySelector('main').insertAdjacentHTML('beforeend', '<input><button></button>')"
        )
        await load_axe(page)
        assert {one.partition(":")[0] for one in await grave_findings(page)} == {"label", "button-name"}


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_control_is_reached_with_the_tab_key_alone_and_shows_it(tmp_path: Path, part: int) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        for screen in _screens(await prepared_runs(gateway))[part::PARTS]:
            await page.open(f"{url}/{screen}")
            await page.evaluate(WATCH_FOCUS)
            for _ in range(await page.evaluate("every().length") + 3):
                await page.press("Tab")
            assert await page.evaluate(NOT_REACHED) == [], screen


async def test_the_focus_stays_where_it_is_while_the_list_goes_on(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        run = await gateway.client.solve(ask(ASK_HOLIDAYS))
        await page.open(f"{url}/runs")
        here = f"document.activeElement.getAttribute('href')?.endsWith('{run.id}')"
        await page.evaluate("document.querySelector('[data-row] a').focus()")
        assert await page.evaluate(here)
        await gateway.client.solve(ask(ASK_ROOM))
        await page.until("document.querySelectorAll('[data-row]').length === 2")
        assert await page.evaluate(here)


async def test_two_browsers_side_by_side_see_the_same_run_live(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    async with looking(tmp_path) as (gateway, url, page), open_browser(CHROMIUM, tmp_path / "other") as other:
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        for one in (page, other):
            await one.open(f"{url}/runs/{run.id}")
        for one in (page, other):
            await one.until("document.querySelector('#plan')?.textContent.includes('running')")
        gateway.fakes.executor.gate.set()
        seen = []
        for one in (page, other):
            await one.until("document.querySelector('#summary').textContent.includes('Portugal Day')")
            await one.until("!document.querySelector('#live').dataset.events")
            seen.append(await one.evaluate("document.querySelector('#plan').innerText.replace(/\\s+/g, ' ')"))
        assert seen[0] == seen[1]
        assert page.errors == other.errors == []


async def test_a_stream_that_breaks_is_taken_up_again(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    (tmp_path / "database").mkdir()
    async with (
        open_gateway(tmp_path / "database") as gateway,
        open_browser(CHROMIUM, tmp_path / "profile") as page,
    ):
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        async with serving(gateway) as url:
            await page.open(f"{url}/runs/{run.id}")
            await page.until("document.querySelector('#plan')?.textContent.includes('running')")
            await page.evaluate("document.body.dataset.same = 'yes'")
        gateway.fakes.executor.gate.set()  # the page gets no event of this
        port = int(url.rpartition(":")[2].partition("/")[0])
        async with serving(gateway, port):
            await page.until("document.querySelector('#summary').textContent.includes('Portugal Day')")
            assert await page.evaluate("document.body.dataset.same") == "yes"


async def test_nothing_moves_for_a_reader_who_wants_that(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        moving = "document.getAnimations().length > 0"
        await page.look(motion=True)
        await page.open(f"{url}/runs/{run.id}")
        await page.until(f"document.querySelector('#plan')?.textContent.includes('running') && {moving}")
        await page.look(motion=False)
        await page.until(f"!({moving})")
        gateway.fakes.executor.gate.set()
        await page.until("document.querySelector('#summary').textContent.includes('Portugal Day')")
        assert not await page.evaluate(moving)


async def test_a_run_of_1000_steps_stays_usable(tmp_path: Path) -> None:
    async with looking(tmp_path) as (gateway, url, page):
        run_id = await _run_many(gateway, 1_000)
        await page.open(f"{url}/runs/{run_id}")
        assert await page.evaluate("document.querySelectorAll('*').length") < 3_000
        assert await page.evaluate("performance.getEntriesByType('navigation')[0].decodedBodySize") <= 100_000
        await _click(page, ".pager a")
        there = "location.search.includes('begin=60') && document.querySelector('[data-row]')"
        await page.until(f"{there} && document.readyState === 'complete'")  # keys before the script has loaded are lost
        await page.press("j")
        await page.press("Enter")
        await page.until("document.querySelector('#detail h2')?.textContent.includes('succeeded')")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.errors == []


async def _run_many(gateway: Gateway, count: int) -> str:
    steps = [call("s0", FIND, name="Portugal")]
    for n in range(1, count):
        source = Reference(step="s0", path=("code",)) if n % 3 else Reference(step=f"s{n - 1}", path=("names", 0))
        steps.append(call(f"s{n}", HOLIDAYS, country=source))
    plan = Plan(
        steps=tuple(steps), answer=(AnswerOutput(name="all", value=Reference(step=f"s{count - 1}", path=("names",))),)
    )
    gateway.fakes.planner.plans["Find a country and many holidays"] = plan
    run = await gateway.client.solve(ask("Find a country and many holidays"))
    assert run.status is RunStatus.SUCCEEDED
    return run.id


async def _click(page: Page, selector: str) -> None:
    await page.evaluate(f"document.querySelector({selector!r}).click()")
