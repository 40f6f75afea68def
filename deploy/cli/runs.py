"""``nestor runs``: lists and shows runs; approves, cancels, resolves and confirms them."""

import sys
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError
from pydantic_core import from_json
from rich.console import Console

from deploy.cli.gateway import Json, Limit, ask, echo_json, exit_for, follow, gateway, run, utc
from deploy.cli.rerunning import compare_runs, rerun
from deploy.cli.solving import approve, follow_drawn
from deploy.cli.starting import delete_run, start_run
from deploy.drawing import candidate_table, draw_doubt, draw_requests, draw_run, plain, screen, visible
from deploy.explaining import draw_explanation
from deploy.following import event_line
from services.clients import GatewayClient
from services.contracts.doubt import DoubtfulCall, ResolveRequest
from services.contracts.event import RunEvent
from services.contracts.feedback import FeedbackRequest, Judged, Verdict
from services.contracts.run import Run, RunStatus, RunSummary

runs = typer.Typer(no_args_is_help=True, help="List, show, approve, cancel and rerun runs.")

runs.command("start")(start_run)
runs.command("delete")(delete_run)
runs.command("rerun")(rerun)
runs.command("compare")(compare_runs)

_MAX_REQUEST = 160

RunId = Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")]
Reason = Annotated[str, typer.Option(help="Reason, stored with the run.")]
Step = Annotated[str, typer.Argument(help="The step, e.g. `var2`.", metavar="STEP")]


class DoubtOutcome(StrEnum):
    """A person's decision on a call in doubt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRY = "retry"


@runs.command("list")
def list_runs(
    status: Annotated[list[RunStatus] | None, typer.Option(help="Only runs in this state; can be repeated.")] = None,
    after: Annotated[datetime | None, typer.Option(help="Only runs created after this local time.")] = None,
    before: Annotated[datetime | None, typer.Option(help="Only runs created before this local time.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only runs whose request contains this text.")] = None,
    feedback: Annotated[
        Judged | None, typer.Option(help="Only runs that were confirmed, rejected, or neither.")
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="Cursor printed below the previous page.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    states = [state.value for state in status or ()]
    page = ask(
        lambda g: g.runs(
            limit=limit,
            cursor=cursor,
            status=states or None,
            after=utc(after),
            before=utc(before),
            q=contains,
            feedback=feedback.value if feedback else None,
        )
    )
    if json:
        echo_json(page)
        return
    for line in page.runs:
        print_run(screen(), line)
    if page.next:
        typer.echo(visible(f"More results: --cursor {page.next}"))


def print_run(console: Console, line: RunSummary) -> None:
    """A run's id and state, below them the request, and the reason if there is no answer."""
    when = line.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    said = f"  {line.verdict.value}" if line.verdict else ""
    console.print(plain(f"{line.id}  {line.status.value}{said}  {when}  {line.total_ms:.0f} ms"), soft_wrap=True)
    for text in (line.query, line.trouble):
        if text:
            console.print(plain(f"  {text if len(text) <= _MAX_REQUEST else text[: _MAX_REQUEST - 1] + '…'}"))


@runs.command("show")
def show_run(
    run_id: RunId,
    candidates: Annotated[bool, typer.Option("--candidates", help="Also show the candidate APIs.")] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also show the planners used, and the language model's prompt and answers."),
    ] = False,
    json: Json = False,
) -> None:
    """Show one run: its plan, the outcome of each call, and the answer."""
    found = ask(lambda g: g.run(run_id))
    if json:
        echo_json(found)
        return
    console = screen()
    console.print(plain(found.query))
    if candidates:
        console.print(candidate_table(found))
    if explain:
        draw_explanation(console, found)
    draw_run(console, found)


@runs.command("watch")
def watch_run(run_id: RunId, json: Json = False) -> None:
    """Follow a run until it ends or waits for a person. Reconnects if the connection breaks.

    On a terminal the plan is drawn; elsewhere each event is one line, with `--json` a JSON object. Exits like
    `nestor solve`.
    """
    raise exit_for(run(_watch(run_id, json=json)).status)


async def _watch(run_id: str, *, json: bool) -> Run:
    async with gateway() as client:
        if json:
            return await follow(client, run_id, lambda event: echo_json(event, indent=None))
        console = screen()
        if console.is_terminal:
            return await follow_drawn(client, run_id)

        def print_event(numbered: RunEvent) -> None:
            console.print(event_line(numbered.event))

        ended = await follow(client, run_id, print_event)
        draw_run(console, ended)
        return ended


@runs.command("approve")
def approve_run(
    run_id: RunId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    digest: Annotated[
        str | None, typer.Option(help="Approve only the requests with this digest, which is shown with them.")
    ] = None,
    on_behalf_of: Annotated[str, typer.Option(help="The person who approves, for the record.")] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the run.")] = False,
    json: Json = False,
) -> None:
    """Approve the requests of a waiting run, and run its plan.

    Shows the requests, the values in them from earlier reads, and their digest; on a terminal, asks for confirmation.
    If the requests have changed since, nothing is sent: the command reports it, or the run waits again with the new
    ones.
    """
    waiting = ask(lambda g: g.run(run_id))
    if waiting.plan is None:
        raise typer.BadParameter(f"{run_id} has no plan")
    if waiting.status is RunStatus.NEEDS_APPROVAL:
        draw_requests(screen(stderr=True), waiting)
        if digest is not None and digest != waiting.digest:
            typer.echo("Nothing was approved: the requests do not have this digest.", err=True)
            raise typer.Exit(1)
        if sys.stdin.isatty() and not yes:
            typer.confirm("Approve this plan and run it?", abort=True, err=True)
    done = run(approve(waiting, on_behalf_of=on_behalf_of, wait=not no_wait, quiet=json))
    if json:
        echo_json(done)
    elif no_wait:
        typer.echo(visible(f"{run_id} is {done.status.value}"))
    if not no_wait:
        raise exit_for(done.status)


@runs.command("cancel")
def cancel_run(
    run_ids: Annotated[list[str], typer.Argument(help="The runs' ids.", metavar="RUN...")], json: Json = False
) -> None:
    """Cancel runs. Nothing further is sent; calls in flight are waited for.

    If a run cannot be cancelled, the command reports it, cancels the others, and exits 1.
    """
    problem = 0
    for run_id in run_ids:
        try:
            done = ask(partial(GatewayClient.cancel, run_id=run_id))
        except typer.Exit as exit_:
            problem = exit_.exit_code
            continue
        if json:
            echo_json(done)
        else:
            typer.echo(visible(f"{run_id} is {done.status.value}"))
    if problem:
        raise typer.Exit(problem)


@runs.command("confirm")
def confirm_run(run_id: RunId, reason: Reason = "", json: Json = False) -> None:
    """Mark a run's outcome as right, so that it can be used for training.

    `nestor train record` and `nestor train data --runs` use only confirmed runs, and so does `nestor demos add`.
    """
    _judge(run_id, Verdict.CONFIRMED, reason, json=json)


@runs.command("reject")
def reject_run(run_id: RunId, reason: Reason = "", json: Json = False) -> None:
    """Mark a run's outcome as wrong. The latest verdict on a run counts."""
    _judge(run_id, Verdict.REJECTED, reason, json=json)


def _judge(run_id: str, verdict: Verdict, reason: str, *, json: bool) -> None:
    try:
        request = FeedbackRequest(verdict=verdict, reason=reason)
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"], param_hint="--reason") from None
    done = ask(lambda g: g.judge(run_id, request))
    if json:
        echo_json(done)
    else:
        typer.echo(visible(f"{run_id} is {verdict.value}"))


@runs.command("doubts")
def list_doubts(json: Json = False) -> None:
    """List all calls in doubt: it is unknown whether they took effect. Shows each request and how to resolve it."""
    found = run(_doubts())
    if json:
        lines = [{"run": run_id, **doubt.model_dump(mode="json")} for run_id, doubt in found]
        echo_json(lines)
        return
    console = screen()
    for run_id, doubt in found:
        console.print(plain(run_id, "bold cyan"))
        draw_doubt(console, run_id, doubt)
    typer.echo(f"{len(found)} in doubt")


async def _doubts() -> list[tuple[str, DoubtfulCall]]:
    async with gateway() as client:
        ids = await _in_doubt(client)
        doubtful = [await client.run(run_id) for run_id in ids]
    return [(one.id, doubt) for one in doubtful for doubt in one.doubts]


async def _in_doubt(client: GatewayClient) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.runs(limit=100, cursor=cursor, status=RunStatus.IN_DOUBT.value)
        ids += [line.id for line in page.runs]
        cursor = page.next
        if cursor is None:
            return ids


@runs.command("resolve")
def resolve_call(
    run_id: RunId,
    step: Step,
    outcome: Annotated[
        DoubtOutcome,
        typer.Option(help="It took effect; it did not and is not repeated; it did not and is made again now."),
    ],
    value: Annotated[str | None, typer.Option(help="With `succeeded`: the call's response, as JSON.")] = None,
    item: Annotated[int | None, typer.Option(min=0, help="Index of an item of a `foreach`.")] = None,
    message: Annotated[str, typer.Option(help="Reason, stored with the run.")] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the run.")] = False,
    json: Json = False,
) -> None:
    """Resolve a call in doubt. After the last one of a run is resolved, the run continues and is followed.

    Exits 0 if the call is resolved, whatever the run's outcome.

    Example: `nestor runs resolve 0197... var2 --outcome succeeded --value '{"id": "bkg_17"}'`
    """
    if value is not None and outcome is not DoubtOutcome.SUCCEEDED:
        raise typer.BadParameter("only with --outcome succeeded", param_hint="--value")
    try:
        request = ResolveRequest(outcome=outcome.value, value=_json(value), message=message, item=item)
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"]) from None
    done = run(_resolve(run_id, step, request, wait=not no_wait, quiet=json))
    if json:
        echo_json(done)
    elif done.doubts or no_wait:
        draw_run(screen(), done)


def _json(text: str | None) -> JsonValue:
    try:
        value: JsonValue = None if text is None else from_json(text, allow_inf_nan=False)
        return value
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--value") from None


async def _resolve(run_id: str, step: str, request: ResolveRequest, *, wait: bool, quiet: bool) -> Run:
    async with gateway() as client:
        settled = await client.resolve(run_id, step, request, wait=False)
        if settled.status is RunStatus.IN_DOUBT or not wait:
            return settled
        return await follow(client, run_id, lambda _: None) if quiet else await follow_drawn(client, run_id)


@runs.command("value")
def show_value(
    run_id: RunId,
    value_id: Annotated[str, typer.Argument(help="The value's id, as the run shows it.", metavar="VALUE")],
) -> None:
    """Print a large value of a run in full, as JSON."""
    echo_json(ask(lambda g: g.value(run_id, value_id)))
