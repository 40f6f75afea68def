"""Opens the console of a gateway with fakes in a browser, and checks pages with axe-core."""

import asyncio
import importlib.resources
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from services.contracts.outcome import Failed, Succeeded
from tests.support.browser import Page, find_chromium, open_browser
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    FIND,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    open_gateway,
    until,
)

CHROMIUM = find_chromium()
HOSTILE = 'Find a country <script>window.taken = 1</script><img src=x onerror="window.taken = 1">'
SIZES = ((320, 700), (768, 900), (1600, 1000))
_GRAVE = ("serious", "critical")


@asynccontextmanager
async def serving(gateway: Gateway, port: int = 0) -> AsyncIterator[str]:
    """Serve the gateway on a socket and give the console's address. Connections are closed at the end."""
    server = uvicorn.Server(uvicorn.Config(gateway.app, port=port, lifespan="off", log_level="warning"))
    running = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        bound = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{bound}/console"
    finally:
        server.should_exit = server.force_exit = True
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def looking(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Gateway, str, Page]]:
    """Open a gateway, its console's address and a browser."""
    assert CHROMIUM is not None
    (tmp_path / "database").mkdir()
    async with (
        open_gateway(tmp_path / "database", **settings) as gateway,
        serving(gateway) as url,
        open_browser(CHROMIUM, tmp_path / "profile") as page,
    ):
        yield gateway, url, page


async def prepared_runs(gateway: Gateway) -> list[str]:
    """Create three runs with hostile values: one succeeded, one waits for approval, one failed."""
    solved = await gateway.client.solve(ask(ASK_HOLIDAYS))
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": HOSTILE, HOSTILE: HOSTILE}, status=200)
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="upstream_error", message=HOSTILE, detail=HOSTILE)
    gateway.fakes.planner.plans[HOSTILE] = NESTED
    failed = await gateway.client.solve(ask(HOSTILE))
    assert [run.status.value for run in (solved, waiting, failed)] == ["succeeded", "needs_approval", "failed"]
    return [run.id for run in (solved, waiting, failed)]


async def load_axe(page: Page) -> None:
    """Load axe-core into the page."""
    await page.evaluate((importlib.resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))


async def grave_findings(page: Page, *rules: str) -> list[str]:
    """Run axe-core in the page: all rules, or only these. Returns serious and critical findings with their places."""
    only = f"runOnly: {list(rules)}," if rules else ""
    found: list[dict[str, Any]] = await page.evaluate(
        f"axe.run(document, {{{only} resultTypes: ['violations']}}).then(({{violations}}) => violations.map("
        "(one) => ({id: one.id, impact: one.impact, at: one.nodes.map((node) => node.target + ' ' "
        "+ (node.any[0]?.message ?? ''))})))"
    )
    return [f"{one['id']}: {at}" for one in found if one["impact"] in _GRAVE for at in one["at"]]
