"""``nestor import``: one document with its report, or many with a progress bar. Changes are shown before they are made.

An imported document is pinned by the hash of its text. So an interrupted bulk import can be run again: documents that
are in the catalogue already are not sent.
"""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.cli.bundling import Unreadable
from deploy.cli.credentials import missing_secrets, print_missing
from deploy.cli.declaring import FORMS, Auth, parse_auth, with_auth
from deploy.cli.gateway import EXIT_PROBLEM, gateway, run
from deploy.cli.reasons import grouped, split_operation
from deploy.cli.reviewing import FEW, show_affected, show_changes, show_sensitive
from deploy.cli.sources import Source, find_sources
from deploy.cli.tally import Outcome, Tally
from deploy.drawing import plain, screen, visible
from services.clients import GatewayClient
from services.contracts.api import (
    ImportChange,
    ImportedDocument,
    ImportProgress,
    ImportReport,
    ImportRequest,
    NeededSecret,
    ProviderName,
)
from services.errors import DeadlineExceeded, ServiceError, ServiceUnavailable

_AT_ONCE = 2
"""Documents imported concurrently: while one is embedded, the next one is read."""
_PAGE = 1_000
_NO_TERMINAL = "No terminal to ask for confirmation: review the changes in a terminal, or use --yes."
_FIELD_ERRORS: Final = {
    "document": "it is empty",
    "server": "--server must be an http or https URL",
    "provider": "--provider must be at most 100 characters of a-z, 0-9, - and _, starting with a letter or digit",
}
"""Error messages for invalid fields of a request that come from the command line."""

OnProgress = Callable[[ImportProgress], None]


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import, the same for all its documents.

    Attributes:
        server: base URL that replaces the documents'; None keeps theirs.
        tenants: tenants that own the APIs; empty: everyone; None: as before.
        yes: whether changes are applied without asking.
        accept_changes: whether sensitive changes are applied, too.
        dry_run: whether to change nothing.
        auth: how calls authenticate if the documents do not declare it.
    """

    server: str | None
    tenants: tuple[str, ...] | None
    yes: bool
    accept_changes: bool
    dry_run: bool
    auth: Auth | None


def import_apis(
    sources: Annotated[list[str], typer.Argument(help="Files, folders, ZIP archives, 'patterns', URLs, or `-`.")],
    provider: Annotated[str | None, typer.Option(help="Name of the provider. Default: see above.")] = None,
    server: Annotated[str | None, typer.Option(help="Base URL of the service, instead of the document's.")] = None,
    auth: Annotated[
        str | None, typer.Option(help=f"How calls authenticate if the document does not declare it: {FORMS}.")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Tenant that owns the APIs; can be repeated. Default: as before, at first everyone."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="Let everyone use the APIs again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Change and remove APIs without asking.")] = False,
    accept_changes: Annotated[
        bool,
        typer.Option("--accept-changes", help="Like --yes, also if calls change host, effect or credentials."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, without changing it.")] = False,
) -> None:
    """Import API descriptions.

    A newer version of a provider's document updates its APIs and removes the ones that are gone; changes to existing
    APIs are shown first and must be confirmed. If calls of an API would go to another host, change something instead of
    reading or the reverse, or send another credential, --yes is not enough: see --accept-changes. A document that
    cannot be imported changes nothing.

    The provider of a single document is named after its vendor and title; with several documents, after their files and
    folders. Files of one folder or archive that refer to each other are imported as one document. To resume an
    interrupted import, run it again: documents that are in the catalogue already are not sent again.
    """
    if tenant and everyone:
        raise typer.BadParameter("give --tenant or --everyone, not both")
    found = find_sources(sources, provider)
    tenants = () if everyone else tuple(tenant) if tenant else None
    options = ImportOptions(
        server,
        tenants,
        yes=yes or accept_changes,
        accept_changes=accept_changes,
        dry_run=dry_run,
        auth=parse_auth(auth),
    )
    if len(found) == 1 and found[0].provider == provider:
        _import_one(found[0], options)
    else:
        _import_many(found, options)


async def imported_documents(client: GatewayClient) -> AsyncIterator[ImportedDocument]:
    """All documents in the catalogue."""
    cursor = None
    while True:
        page = await client.documents(limit=_PAGE, cursor=cursor)
        for document in page.documents:
            yield document
        if (cursor := page.next) is None:
            return


def _import_one(source: Source, options: ImportOptions) -> None:
    console, errors = screen(), screen(stderr=True)
    try:
        request = _request(source, with_auth(source.read(), options.auth), options)
    except (Unreadable, ValidationError) as error:
        raise typer.BadParameter(visible(f"{source.label}: {_reason(error)}")) from None
    report, changes = run(_import_shown(request, errors))
    if not report.applied:
        if options.dry_run or not options.accept_changes:
            show_changes(console, changes, None if options.dry_run else FEW)
            show_sensitive(console, report)
            show_affected(console, report)
        if not options.dry_run:
            _accept(console, changes, report, options)
            request = request.model_copy(update={"confirm": report.change_hash, "hold_changes": False})
            report, _ = run(_import_shown(request, errors))
    _print_report(console, report)
    if report.applied:
        print_missing(console, run(_missing([report.provider])))


async def _missing(providers: list[str]) -> list[NeededSecret]:
    async with gateway() as client:
        return await missing_secrets(client, providers)


def _accept(console: Console, changes: list[ImportChange], report: ImportReport, options: ImportOptions) -> None:
    """Return if the changes are accepted; otherwise raise ``Exit`` or ``Abort``."""
    if options.accept_changes:
        return
    if options.yes:
        typer.echo("Nothing was changed: use --accept-changes, or omit --yes and review the changes.", err=True)
        raise typer.Exit(EXIT_PROBLEM)
    try:
        _ask(console, changes, report.provider)
    except typer.Abort:
        typer.echo(_NO_TERMINAL, err=True)
        raise


def _ask(console: Console, changes: list[ImportChange], provider: str) -> None:
    """Return if the person agrees, raise ``Exit`` if not. Without an answer it raises ``Abort``."""
    question = f"Apply these changes to the APIs of {provider}? (y: yes, n: no, a: show all changes)"
    while (answer := _answer(question).strip().lower()) == "a":
        show_changes(console, changes, None)
    if answer not in ("y", "yes"):
        typer.echo("Nothing was changed.")
        raise typer.Exit(EXIT_PROBLEM)


def _answer(question: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(question, default="n", err=True))
    if not (line := sys.stdin.readline()):  # an answer may be piped in; nobody would read the question
        raise typer.Abort
    return line


def _print_report(console: Console, report: ImportReport) -> None:
    counts = (
        f"{report.provider}: {report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.removed} removed, {report.skipped_total} skipped"
    )
    console.print(counts if report.applied else f"{counts} (dry run: nothing was changed)")
    for group in grouped((skipped.operation, skipped.reason) for skipped in report.skipped):
        console.print(plain(f"  skipped {group}"))
    if (more := report.skipped_total - len(report.skipped)) > 0:
        console.print(f"  skipped and {more:,} more")
    for group in grouped(map(split_operation, report.warnings)):
        console.print(plain(f"  warning: {group}"))
    for related in report.related:
        console.print(plain(f"  warning: {related.api} is {related.relation.replace('_', ' ')} {related.other}"))
    if (more := report.related_total - len(report.related)) > 0:
        console.print(f"  warning: and {more} more that are the same operation as another API")


async def _import_shown(request: ImportRequest, console: Console) -> tuple[ImportReport, list[ImportChange]]:
    with _progress(console) as progress:
        task = progress.add_task("importing", total=None)

        def report_progress(event: ImportProgress) -> None:
            progress.update(task, description=event.phase, completed=event.done, total=event.total)

        async with gateway() as client:
            return await _collect_report(client, request, report_progress)


async def _collect_report(
    client: GatewayClient, request: ImportRequest, report_progress: OnProgress
) -> tuple[ImportReport, list[ImportChange]]:
    changes = []
    async for event in client.import_apis(request):
        if isinstance(event, ImportProgress):
            report_progress(event)
        elif isinstance(event, ImportChange):
            changes.append(event)
        else:
            return event, changes
    raise ServiceUnavailable("The gateway ended its answer early.", service="gateway")


def _import_many(sources: list[Source], options: ImportOptions) -> None:
    console, tally = screen(), Tally(dry_run=options.dry_run)
    try:
        run(_Bulk(options, tally).run(sources, screen(stderr=True)))
        _review(console, tally, options)
        for outcome in tally.previewed:
            _print_heading(console, outcome)
            show_changes(console, outcome.changes, None)
    finally:
        tally.print(console, len(sources))
    if tally.imported:
        print_missing(console, run(_missing(tally.imported)))
    if tally.failed or tally.held:
        raise typer.Exit(EXIT_PROBLEM)


def _review(console: Console, tally: Tally, options: ImportOptions) -> None:
    """Show the documents that were held back, one by one, and import those that are accepted."""
    for outcome in list(tally.held):
        assert outcome.report is not None
        _print_heading(console, outcome)
        show_changes(console, outcome.changes, FEW)
        show_sensitive(console, outcome.report)
        try:
            _accept(console, outcome.changes, outcome.report, options)
            text = with_auth(outcome.source.read(), options.auth)
            request = _request(outcome.source, text, replace(options, yes=True, dry_run=False))
            request = request.model_copy(update={"confirm": outcome.report.change_hash})
            report, _ = run(_import_shown(request, screen(stderr=True)))
            tally.accept(outcome, report)
        except (typer.Exit, Unreadable):  # it stays held
            continue
        except typer.Abort:
            return


def _print_heading(console: Console, outcome: Outcome) -> None:
    console.print(plain(f"{outcome.source.label}: {outcome.source.provider}", "bold"))


class _Bulk:
    """Imports many documents, several concurrently, and records the outcomes."""

    def __init__(self, options: ImportOptions, tally: Tally) -> None:
        self._options = options
        self._tally = tally

    async def run(self, sources: list[Source], console: Console) -> None:
        """Import all documents that are not in the catalogue already.

        Raises:
            ServiceUnavailable: the gateway is unreachable. Documents imported before that stay imported.
        """
        async with gateway() as client:
            self._pins = {document.provider: document async for document in imported_documents(client)}
            waiting = iter(sources)
            with _progress(console) as progress:
                everything = progress.add_task("documents", total=len(sources))

                async def work() -> None:
                    for source in waiting:
                        outcome = await self._import(client, source, progress)
                        self._tally.add(outcome)
                        if outcome.error:
                            progress.console.print(plain(f"{source.label}: {outcome.error}", "red"))
                        progress.advance(everything)

                workers = [asyncio.create_task(work()) for _ in range(_AT_ONCE)]
                try:
                    await asyncio.gather(*workers)
                finally:
                    for worker in workers:
                        worker.cancel()

    async def _import(self, client: GatewayClient, source: Source, progress: Progress) -> Outcome:
        task = progress.add_task(source.provider or source.label, total=None)

        def report_progress(event: ImportProgress) -> None:
            progress.update(task, description=f"{source.provider}: {event.phase}", completed=event.done)
            progress.update(task, total=event.total)

        try:
            text = await asyncio.to_thread(lambda: with_auth(source.read(), self._options.auth))
            if self._is_there(source, text):
                return Outcome(source)
            request = _request(source, text, self._options)
            report, changes = await _collect_report(client, request, report_progress)
            return Outcome(source, report=report, changes=changes)
        except (Unreadable, ValidationError) as error:
            return Outcome(source, error=_reason(error))
        except ServiceError as error:
            if isinstance(error, (ServiceUnavailable, DeadlineExceeded)):
                raise
            return Outcome(source, error=_reason(error))
        finally:
            progress.remove_task(task)

    def _is_there(self, source: Source, text: str) -> bool:
        if self._options.tenants is not None:  # a pin does not hold the tenants, so import again
            return False
        pin = self._pins.get(source.provider or "")
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        server = self._options.server or source.origin
        return pin is not None and pin.current and (pin.document_hash, pin.server) == (digest, server)


def _request(source: Source, text: str, options: ImportOptions) -> ImportRequest:
    provider: ProviderName | None = source.provider
    return ImportRequest(
        document=text,
        provider=provider,
        server=options.server,
        origin=source.origin,
        tenants=options.tenants,
        dry_run=options.dry_run,
        hold_changes=not options.yes,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        return _FIELD_ERRORS.get(field) or f"{field}: {first['msg']}"
    return error.detail or error.title if isinstance(error, ServiceError) else str(error)


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
