"""Exports a running Nestor's catalogue, confirmed runs and demos as a folder to train on."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from deploy.cli.gateway import gateway, run
from services.contracts.api import Api
from services.contracts.demo import Demo
from services.contracts.feedback import Judged
from services.contracts.plan import Plan
from services.contracts.run import Run

_PAGE = 100
_NONE_CONFIRMED = """\
No run is confirmed, and only confirmed runs are exported.
  nestor runs list --status succeeded --feedback none    lists runs without a verdict
  nestor runs show RUN                                   shows a run
  nestor runs confirm RUN                                confirms that a run is right"""


def record(out: Path, console: Console) -> tuple[int, int]:
    """Write ``tools.jsonl`` and ``instances.jsonl``. Returns the numbers of APIs and of requests.

    The requests are those of confirmed runs, plus the task-level demos for other requests. If a request has several
    confirmed runs, the latest counts. If no run is confirmed, a hint on how to confirm one goes to ``console``.
    """
    from evals.recording import instance_row, tool_row, write_folder  # the services' images have no evals

    apis, confirmed, demos = run(_collect(console))
    if not confirmed:
        console.print(_NONE_CONFIRMED, markup=False, highlight=False, soft_wrap=True)
    known: dict[str, tuple[str, Plan]] = {one.query: (one.id, one.plan) for one in demos if one.level == "task"}
    known |= {one.query: (one.id, one.plan) for one in reversed(confirmed) if one.plan is not None}
    instances = [instance_row(identifier, query, plan) for query, (identifier, plan) in known.items()]
    write_folder(out, [tool_row(api) for api in apis], instances)
    return len(apis), len(instances)


async def _collect(console: Console) -> tuple[list[Api], list[Run], list[Demo]]:
    tools: list[Api] = []
    confirmed: list[Run] = []
    demos: list[Demo] = []
    async with gateway() as client:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("reading the catalogue")
            cursor: str | None = None
            while True:
                found = await client.search_apis(limit=_PAGE, cursor=cursor)
                tools += [await client.api(hit.id) for hit in found.hits]
                progress.update(task, completed=len(tools), total=found.total)
                if (cursor := found.next) is None:
                    break
            while True:
                runs = await client.runs(feedback=Judged.CONFIRMED.value, limit=_PAGE, cursor=cursor)
                confirmed += [await client.run(line.id) for line in runs.runs]
                if (cursor := runs.next) is None:
                    break
            while True:
                more = await client.demos(limit=_PAGE, cursor=cursor)
                demos += more.demos
                if (cursor := more.next) is None:
                    break
    return tools, confirmed, demos
