"""Reads what a running Nestor knows, as a folder to train on: its catalogue, what it solved, its demonstrations."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from deploy.cli.gateway import gateway, run
from services.contracts.api import Api
from services.contracts.demo import Demo
from services.contracts.plan import Plan
from services.contracts.run import Run, RunStatus

_PAGE = 100


def record(out: Path, console: Console) -> tuple[int, int]:
    """Write ``tools.jsonl`` and ``instances.jsonl``; returns how many APIs and requests.

    The requests are the runs that solved theirs with a plan, of one asked often the last, then the task-level
    demonstrations that are not among them.
    """
    from evals.recording import instance_row, tool_row, write_folder  # evals stay out of the services' images

    apis, solved, demos = run(_collect(console))
    known: dict[str, tuple[str, Plan]] = {one.query: (one.id, one.plan) for one in demos if one.level == "task"}
    known |= {one.query: (one.id, one.plan) for one in solved if one.plan is not None}
    instances = [instance_row(identifier, query, plan) for query, (identifier, plan) in known.items()]
    write_folder(out, [tool_row(api) for api in apis], instances)
    return len(apis), len(instances)


async def _collect(console: Console) -> tuple[list[Api], list[Run], list[Demo]]:
    tools: list[Api] = []
    solved: list[Run] = []
    demos: list[Demo] = []
    async with gateway() as client:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("reading the catalogue")
            while page := (found := await client.search_apis(limit=_PAGE, offset=len(tools))).hits:
                tools += [await client.api(hit.id) for hit in page]
                progress.update(task, completed=len(tools), total=found.total)
            cursor: str | None = None
            while True:
                runs = await client.runs(status=RunStatus.SUCCEEDED.value, limit=_PAGE, cursor=cursor)
                solved += [await client.run(line.id) for line in runs.runs]
                if (cursor := runs.next) is None:
                    break
            while more := (await client.demos(limit=_PAGE, offset=len(demos))).demos:
                demos += more
    return tools, solved, demos
