"""``nestor operations``: processes and their leases, failing hosts, model servers, and the tenants' quotas."""

from collections.abc import Mapping

from rich.table import Column, Table

from deploy.cli.gateway import Json, ask, echo_json
from deploy.drawing import plain, screen
from services.contracts.operations import Allowance, ExecutorStatus, PlannerStatus, QuotaUse, Worker


def operations(json: Json = False) -> None:
    """Show processes and their runs, hosts to which calls fail, language model servers, and tenants' quotas.

    For administrators of the operator's tenant; those of other tenants see only their own quotas.
    """
    found = ask(lambda g: g.operations())
    if json:
        echo_json(found)
        return
    console = screen()
    if found.tenant is None:
        console.print(_workers("gateway", found.lease_s, found.workers))
        console.print(*_executor(found.executor), sep="\n")
        console.print(_servers(found.planner))
    console.print(_quotas(found.quotas))


def _executor(status: ExecutorStatus | None) -> tuple[Table | str, ...]:
    if status is None:
        return ("The executor does not answer.",)
    hosts = Table("failing host", "breaker", Column("consecutive failures", justify="right"), "next probe", box=None)
    for one in status.breakers:
        probe = f"in {one.probe_in_s:.0f} s" if one.probe_in_s else ""
        hosts.add_row(plain(one.host), one.state, str(one.failures), probe)
    workers = _workers("executor", status.lease_s, status.workers)
    return workers, hosts if status.breakers else "No host's last call failed."


def _servers(status: PlannerStatus | None) -> Table | str:
    if status is None:
        return "The planner does not answer."
    if not status.servers:
        return "No language model is configured."
    table = Table("model", "server", "state", "completions", Column("mean", justify="right"), "tokens", box=None)
    for one in status.servers:
        state = f"down: {one.trouble}" if one.state == "down" else one.state
        table.add_row(
            plain(one.model),
            plain(one.url),
            plain(state),
            _counts(one.completions),
            f"{one.mean_s:.1f} s",
            _counts(one.tokens),
        )
    return table


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted.items())


def _quotas(used: QuotaUse) -> Table:
    columns = (Column(name, justify="right") for name in ("burst of requests", "runs", "waiting", "streams", "imports"))
    table = Table("tenant", *columns, box=None)
    for one in used.tenants:
        requests, runs, streams, imports = map(_share, (one.requests, one.runs, one.streams, one.imports))
        table.add_row(plain(one.tenant), requests, runs, str(one.waiting), streams, imports)
    if used.others:
        table.add_row(f"and {used.others} more")
    table.add_row("all", "", _share(used.runs), _share(used.waiting))
    return table


def _share(one: Allowance) -> str:
    return str(one.used) if one.most is None else f"{one.used} of {one.most}"


def _workers(name: str, lease_s: float, workers: tuple[Worker, ...]) -> Table:
    table = Table(name, f"lease of {lease_s:g} s", "seen", Column("runs", justify="right"), box=None)
    for one in workers:
        seen = f"{one.seen_s:.1f} s ago" if one.seen_s is not None else "not any more"
        table.add_row(plain(one.id), "held" if one.alive else "expired", seen, str(one.runs))
    return table
