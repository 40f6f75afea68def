"""``python -m tests.screenshots [FOLDER]``: pictures of the console's screens, light and dark, for the documents.

Serves everything with the sandbox in this process, asks some sentences, and looks with Chromium.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.onebox import RunningStack, running_stack
from services.clients import GatewayClient, open_http
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.run import Run
from services.contracts.solve import SolveOptions, SolveRequest
from services.telemetry import configure_logging
from tests.support.browser import find_chromium, open_browser

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
SUCCEEDED: Final = "How long is a flight from Lisbon to Vienna?"
FAILED: Final = "Look up the order ord_99999"
WAITING: Final = "Order one AUD-1003 for cus_2, billed in EUR"
QUESTIONS: Final = "Book the room Lisbon tomorrow from 10:00 to 11:00."
FURTHER: Final = (
    "Which public holidays does Portugal have in June 2027?",
    "Show me the latest orders of Amara Okafor",
    "How much is 80 USD in the money of Iceland?",
    "Convert 30 celsius to fahrenheit and 4 liters to gallons",
    "Is it a working day in Norway on 17 May 2027?",
    "What languages do they speak in Peru and in Namibia?",
)
STATUSES: Final = {SUCCEEDED: "succeeded", FAILED: "failed", WAITING: "needs_approval", QUESTIONS: "needs_input"}
WIDTH, HEIGHT = 1280, 820


async def prepare(found: RunningStack) -> dict[str, Run]:
    """Ask everything; the runs by their sentences. Raises SystemExit where one does not end as its picture shows."""
    gateway = GatewayClient(open_http(found.gateway_url), found.token)
    options = SolveOptions(deadline_ms=300_000)
    try:
        runs = {}
        for sentence in (FURTHER[0], QUESTIONS, *FURTHER[1:4], WAITING, *FURTHER[4:], FAILED, SUCCEEDED):
            runs[sentence] = await gateway.solve(SolveRequest(query=sentence, options=options))
        for sentence, status in STATUSES.items():
            if runs[sentence].status != status:
                raise SystemExit(
                    f"{sentence!r} is {runs[sentence].status}, not {status}: its picture would not show it."
                )
        await gateway.judge(runs[FURTHER[2]].id, FeedbackRequest(verdict=Verdict.CONFIRMED))
        return runs
    finally:
        await gateway.aclose()


def screens(runs: Mapping[str, Run]) -> dict[str, str]:
    """The address of each picture, by its name."""
    solved, failed = runs[SUCCEEDED].id, runs[FAILED].id
    return {
        "runs": "runs",
        "run": f"runs/{solved}?edge=var1.var3",
        "failed": f"runs/{failed}",
        "why": f"runs/{solved}/planning",
        "playground": f"playground?run={runs[QUESTIONS].id}",
        "approvals": "approvals",
        "review": "review",
        "demonstration": f"review/{solved}/demo",
        "catalogue": "catalogue?q=find+a+customer",
        "api": "catalogue/api?id=sandbox.createOrder",
        "ops": "ops",
    }


async def shoot(url: str, pages: Mapping[str, str], folder: Path, kind: str = "webp") -> None:
    """Take the pictures. Raises SystemExit without Chromium."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("There is no Chromium; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="nestor-", ignore_cleanup_errors=True) as profile:
        async with open_browser(chromium, Path(profile)) as page:
            await page.send("Emulation.setScrollbarsHidden", hidden=True)
            for dark in (False, True):
                await page.look(width=WIDTH, height=HEIGHT, dark=dark)
                for name, path in pages.items():
                    await page.open(f"{url}/console/{path}")
                    await page.shoot(folder / f"{name}-{'dark' if dark else 'light'}.{kind}")


def main() -> None:
    """Serve, ask, look."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    configure_logging(level="WARNING", json=False)
    with tempfile.TemporaryDirectory(prefix="nestor-") as data, running_stack(Path(data)) as found:
        runs = asyncio.run(prepare(found))
        asyncio.run(shoot(found.gateway_url, screens(runs), folder))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{len(list(folder.iterdir()))} pictures in {folder}, {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
