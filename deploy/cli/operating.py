"""``nestor operations``: processes, their leases, and hosts in trouble."""

import typer
from rich.console import Console
from rich.table import Column, Table

from deploy.cli.gateway import Json, ask
from deploy.drawing import plain
from services.contracts.operations import Worker


def operations(json: Json = False) -> None:
    """Show the gateway's and the executor's processes, what each owns, and hosts to which calls fail.

    For the operator's administrators.
    """
    found = ask(lambda g: g.operations())
    if json:
        typer.echo(found.model_dump_json(indent=2))
        return
    console = Console()
    console.print(_workers("gateway", found.lease_s, found.workers))
    if found.executor is None:
        console.print("The executor does not answer.")
        return
    console.print(_workers("executor", found.executor.lease_s, found.executor.workers))
    hosts = Table("host in trouble", "breaker", Column("failed in a row", justify="right"), "next probe", box=None)
    for one in found.executor.breakers:
        probe = f"in {one.probe_in_s:.0f} s" if one.probe_in_s else ""
        hosts.add_row(plain(one.host), one.state, str(one.failures), probe)
    console.print(hosts if found.executor.breakers else "No host's last call failed.")


def _workers(name: str, lease_s: float, workers: tuple[Worker, ...]) -> Table:
    table = Table(name, f"lease of {lease_s:g} s", "seen", Column("runs", justify="right"), box=None)
    for one in workers:
        seen = f"{one.seen_s:.1f} s ago" if one.seen_s is not None else "not any more"
        table.add_row(plain(one.id), "held" if one.alive else "run out", seen, str(one.runs))
    return table
