"""``nestor demo``: starts everything, solves a few example sentences, and shows plans and answers."""

import asyncio
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from deploy.following import RunDrawing
from deploy.onebox import RunningStack, running_stack
from services.clients import GatewayClient, open_http
from services.contracts.event import RunFinished
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.telemetry import configure_logging

SENTENCES = (
    "Which public holidays does Portugal have in 2027?",
    "How long is a flight from Lisbon to Vienna?",
    "Is it a working day in Norway on 17 May 2027?",
    'How much is 250 EUR in JPY, and how many words are in "to be or not to be"?',
)


def show(console: Console) -> int:
    """Start everything, solve the sentences, draw plans and answers. Returns the exit status."""
    configure_logging(level="WARNING", json=False)
    console.print("[bold]Nestor[/bold]: starting five services and the sandbox in this process ...")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nestor-") as folder, running_stack(Path(folder)) as found:
        console.print(
            f"ready in {time.perf_counter() - began:.1f} s: gateway {found.gateway_url}, sandbox {found.sandbox_url}, "
            "its APIs imported from its OpenAPI document\n"
        )
        runs = asyncio.run(_solve_all(console, found))
    solved = sum(run.status is RunStatus.SUCCEEDED for run in runs)
    console.print(
        f'\n{solved} of {len(runs)} solved. Next: `make run`, then `.venv/bin/nestor solve "..."`', markup=False
    )
    return 0 if solved == len(runs) else 1


async def _solve_all(console: Console, found: RunningStack) -> list[Run]:
    gateway = GatewayClient(open_http(found.gateway_url), found.token)
    try:
        return [await _solve(console, gateway, sentence) for sentence in SENTENCES]
    finally:
        await gateway.aclose()


async def _solve(console: Console, gateway: GatewayClient, sentence: str) -> Run:
    console.print(Text.assemble(("\n> ", "bold magenta"), (sentence, "bold")))
    drawing = RunDrawing(console)
    run: Run | None = None
    async for event in gateway.solve_events(SolveRequest(query=sentence)):
        drawing.show(event)
        if isinstance(event, RunFinished):
            run = event.run
            drawing.finish(run)
    assert run is not None, "a run's stream ends with its last state"
    return run
