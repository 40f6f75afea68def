"""Imports a document, after a preview of what it would add, change, remove and break."""

import unicodedata
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Response
from markupsafe import escape

from gateway.catalogue_handlers import LARGE_DOCUMENT
from gateway.console.forms import check_sent_back, request_of
from gateway.console.pages import ConsoleRoute, get_document_form, get_session, render
from gateway.console.session import PATH, Session
from gateway.routing import Service
from services.app import service_router
from services.changes import ChangeGroups, SameChange
from services.contracts.api import ImportChange, ImportReport, ImportRequest
from services.errors import Conflict, ServiceError, ServiceUnavailable, ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_document_form)]
HERE: Final = f"{PATH}/catalogue/import"
_ROOM: Final = 40_000
"""Approximate maximum number of characters of changes on a page. The command line shows all of them."""
_DOCUMENT_CHARS: Final = 4_000
"""A longer document is not sent back with the page."""
_FIELD_CHARS: Final = 600
_LISTED: Final = 100
_NAMED: Final = 20
"""Maximum number of operations that are named under a change that they share."""
_SUMMARY: Final = 120


@dataclass
class ImportResult:
    """The result of an import.

    Attributes:
        report: the final report.
        groups: changes that fit on the page, those that affect the most operations first.
        others: removals and additions that fit on the page.
        left_out: how many more there are of both.
    """

    report: ImportReport
    groups: Sequence[SameChange]
    others: Sequence[ImportChange]
    left_out: int


@dataclass(frozen=True)
class ImportForm:
    """What was entered in the form."""

    document: str = ""
    provider: str = ""
    server: str = ""
    left_out: int = field(default=0)


@router.get(HERE)
async def choose(
    request: Request,
    service: Service,
    who: Who,
    provider: Annotated[str, Query(max_length=100, pattern=r"^([a-z0-9][a-z0-9_-]*)?$")] = "",
) -> Response:
    """The form for the document."""
    who.require("administer")
    return await _page(request, service, who, ImportForm(provider=provider))


@router.post(HERE, openapi_extra=LARGE_DOCUMENT)
async def show_or_import(request: Request, service: Service, who: Who, form: Form) -> Response:
    """Show what would change. Import the document if exactly these changes were shown and, if needed, accepted."""
    who.require("administer")
    entered = ImportForm(form.get("document", ""), form.get("provider", "").strip(), form.get("server", "").strip())
    check_sent_back(entered.provider, entered.server)
    fields: dict[str, object] = {"document": entered.document, "dry_run": form.get("do") != "import"}
    fields |= {name: form[name].strip() for name in ("provider", "server") if form.get(name, "").strip()}
    try:
        if not entered.document.strip():
            raise ValidationFailed("There is no document: choose the file, or paste its text into the field.")
        if form.get("do") == "import":
            fields["confirm" if form.get("accept") == "yes" else "expected_change"] = form.get("change", "")
        found = await _imported(service, who, request_of(ImportRequest, fields))
        if not found.report.applied and form.get("do") == "import":
            raise Conflict("Nothing was changed: tick the box to confirm the changes below, then import.")
    except ServiceError as error:
        return await _page(request, service, who, entered, problem=error, status=error.status)
    return await _page(request, service, who, entered, found=found)


async def _imported(service: Service, who: Session, request: ImportRequest) -> ImportResult:
    """Send the import to the catalogue. Raises its errors."""
    changes = ChangeGroups(most=_LISTED, named=_NAMED)
    report = None
    async with aclosing(service.administration.import_apis(request, who.principal)) as events:
        async for event in events:
            if isinstance(event, ImportReport):
                report = event
            elif isinstance(event, ImportChange):
                changes.add(event)
    if report is None:
        raise ServiceUnavailable("The catalogue did not report the result of the import.", service="retriever_svc")
    return _fitting(report, changes)


def _fitting(report: ImportReport, changes: ChangeGroups) -> ImportResult:
    """As many changes as fit on a page."""
    groups, others, room = list[SameChange](), list[ImportChange](), _ROOM
    for group in map(_short, changes.groups):
        room -= _size(group.said, group.before or "", group.after or "", *group.apis)
        if room > 0:
            groups.append(group)
    for change in (one for several in changes.others.values() for one in several):
        room -= _size(change.id, change.summary[:_SUMMARY])
        if room > 0:
            others.append(change)
    hidden = len(changes.groups) - len(groups) + sum(map(len, changes.others.values())) - len(others)
    return ImportResult(report, groups, others, hidden + changes.left_out + changes.others_left_out)


def _short(group: SameChange) -> SameChange:
    """The change with its texts cut and every hidden character escaped, because instructions may hide in those."""
    return replace(group, said=revealed(group.said), before=_cut(group.before), after=_cut(group.after))


def _cut(text: str | None) -> str | None:
    return None if text is None else revealed(text if len(text) <= _FIELD_CHARS else f"{text[:_FIELD_CHARS]}…")


def _size(*texts: str) -> int:
    """Approximate number of characters that the texts take on the page."""
    return 200 + sum(20 + len(escape(text)) for text in texts)


def revealed(text: str) -> str:
    """The text with every invisible character escaped."""
    return "".join(f"\\u{{{ord(c):x}}}" if unicodedata.category(c) in ("Cf", "Co", "Cn", "Cs") else c for c in text)


async def _page(
    request: Request,
    service: Service,
    who: Session,
    entered: ImportForm,
    found: ImportResult | None = None,
    problem: ServiceError | None = None,
    status: int = 200,
) -> Response:
    documents = await service.peers.retriever.documents(tenant=who.principal.tenant, limit=_LISTED)
    if len(entered.document) > _DOCUMENT_CHARS:
        entered = replace(entered, document="", left_out=len(entered.document))
    values: dict[str, Any] = {"found": found, "problem": problem, "entered": entered, "documents": documents.documents}
    return render(request, "import.html", status=status, screen="catalogue", **values)
