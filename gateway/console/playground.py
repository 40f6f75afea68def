"""The playground: ask in words, see the plan and its proof, answer its questions, edit it, and run it as shown."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Response

from gateway.console.editing import (
    ARGUMENT,
    Call,
    Draft,
    calls_of,
    is_small,
    read_calls,
    rows,
    stamp,
    with_entered,
    written,
)
from gateway.console.flow import Flow
from gateway.console.forms import check_sent_back, entered, fields_of, request_of
from gateway.console.graph import draw
from gateway.console.pages import ConsoleRoute, curl, get_form, get_session, redirect, render, with_query
from gateway.console.session import PATH, Session
from gateway.console.status import STATE_STYLES
from gateway.routing import PRINTABLE, Service
from services.app import service_router
from services.codecs.calls import RESULT
from services.contracts.api import Api
from services.contracts.outcome import RequestRecord
from services.contracts.plan import Plan
from services.contracts.planning import CompileResponse, Diagnostic, DiagnosticCode
from services.contracts.rerun import RerunRequest
from services.contracts.retrieval import LookupRequest
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.contracts.start import StartOptions, StartRequest
from services.errors import Conflict, ServiceError, ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_form)]
HERE = f"{PATH}/playground"
_MOST_APIS: Final = 200
_COPIED_CHARS: Final = 3_000
"""Maximum number of characters of an edited plan's JSON that a page includes twice more, as commands to copy."""
EXAMPLES = (
    "Which public holidays does Portugal have in June 2027?",
    "How long is a flight from Lisbon to Vienna?",
    "Convert 26.2 miles to kilometers.",
    "Book the room Lisbon tomorrow from 10:00 to 11:00.",
)


@dataclass(frozen=True)
class PlanView:
    """A plan that can be viewed and edited.

    Attributes:
        run: the run that was planned. For an edited plan, it has that plan and the compiler's findings.
        asked: the request of the run.
        text: the calls as JSON; empty if they do not fit on a page, or cannot represent all of the plan.
        draft: what was entered; None if nothing was.
        problem: why the entered calls are not a plan.
        moved: whether the plan was to be run, but differs from what was shown.
    """

    run: Run
    asked: SolveRequest
    text: str
    draft: Draft | None = None
    problem: str = ""
    moved: bool = False


@router.get(HERE)
async def playground(
    request: Request,
    service: Service,
    who: Who,
    q: Annotated[str, Query(max_length=2_000)] = "",
    run: Annotated[str, Query(max_length=64, pattern=PRINTABLE)] = "",
) -> Response:
    """The form; with a run, also its plan for editing, or the questions that must be answered first."""
    who.require("ask")
    if not run:
        return render(request, "playground.html", **_NOTHING, query=q)
    planned = await service.run(run, who.principal)
    asked = await service.original_request(run, who.principal)
    calls = await _calls(planned.plan)
    text = written(calls) if calls is not None else ""
    return await _page(request, service, PlanView(planned, asked, text if calls and is_small(calls, text) else ""))


_NOTHING: Final[dict[str, Any]] = {
    "screen": "playground", "run": None, "asked": None, "styles": STATE_STYLES, "flow": None, "drawing": None,
    "fields": [], "examples": EXAMPLES, "curl": "", "python": "", "view": None,
}  # fmt: skip


async def _calls(plan: Plan | None) -> list[Call] | None:
    return None if plan is None else await asyncio.to_thread(calls_of, plan)


async def _page(request: Request, service: Service, view: PlanView, status: int = 200) -> Response:
    """The page of a plan."""
    run, asked = view.run, view.asked
    flow = Flow(run) if run.plan is not None else None
    calls = read_calls(view.text) if view.text and not view.problem else []
    apis = await _apis(service, calls, run.tenant)
    lines = rows(calls, apis, run.diagnostics, view.draft)
    labels = {row.label for row in lines}
    edited = calls if view.draft is not None else []
    is_copied = len(view.text) <= _COPIED_CHARS or not edited
    answers = calls[-1]["arguments"] if calls and calls[-1]["name"] == RESULT else {}
    return render(
        request, "playground.html", status=status,
        **_NOTHING | {
            "run": run, "asked": asked, "query": run.query, "flow": flow, "drawing": draw(flow) if flow else None,
            "fields": fields_of(run.questions), "view": view, "rows": lines, "answers": answers,
            "stamp_of": stamp(view.text), "key": secrets.token_hex(16), "argument_prefix": ARGUMENT,
            "elsewhere": [one for one in run.diagnostics if one.step not in labels][:12],
            "curl": _curl(request, asked, edited) if is_copied else "",
            "python": _python(request, asked, edited) if is_copied else "",
        },
    )  # fmt: skip


async def _apis(service: Service, calls: Sequence[Call], tenant: str) -> dict[str, Api]:
    """The APIs that the calls name, if they exist."""
    named = list(dict.fromkeys(call["name"] for call in calls if call["name"] != RESULT))[:_MOST_APIS]
    if not named:
        return {}
    found = await service.peers.retriever.lookup(LookupRequest(ids=tuple(named), tenant=tenant))
    return {api.id: api for api in found.apis}


def _curl(request: Request, asked: SolveRequest, calls: Sequence[Call]) -> str:
    """A command that sends the same request or, for an edited plan, runs it."""
    headers = {"Content-Type": "application/json"}
    if request.state.session.logged_in:
        headers["Authorization"] = "Bearer TOKEN"
    path, body = _plain(asked, calls)
    return curl(RequestRecord(method="POST", url=f"{_origin(request)}{path}", headers=headers, body=body))


def _python(request: Request, asked: SolveRequest, calls: Sequence[Call]) -> str:
    """A Python program that does the same, with only the standard library."""
    token = ', "Authorization": "Bearer TOKEN"' if request.state.session.logged_in else ""
    path, body = _plain(asked, calls)
    return (
        "import json\nfrom urllib.request import Request, urlopen\n\n"
        f"body = {body!r}\n"
        f'headers = {{"Content-Type": "application/json"{token}}}\n'
        f'request = Request("{_origin(request)}{path}", json.dumps(body).encode(), headers)\n'
        'print(json.load(urlopen(request))["answer"]["text"])\n'
    )


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _plain(asked: SolveRequest, calls: Sequence[Call]) -> tuple[str, dict[str, Any]]:
    """The path and the body of the request. Defaults and delivery options are left out."""
    plain: dict[str, Any] = asked.model_dump(mode="json", exclude_defaults=True, exclude={"wait"})
    if isinstance(options := plain.get("options"), dict):
        options.pop("dry_run", None)
    if not calls:
        return "/solve", {name: value for name, value in plain.items() if value != {}}
    return "/runs", {
        "calls": list(calls),
        "query": asked.query,
        "options": {"mutations": asked.options.mutations.value},
    }


@router.post(HERE)
async def plan(service: Service, who: Who, form: Form) -> Response:
    """Plan and prove; no API is called."""
    who.require("ask")
    context = {"timezone": form["timezone"]} if form.get("timezone") else {}
    options = {"mutations": form.get("mutations") or "ask"}
    fields = {"query": form.get("q", ""), "context": context, "options": options}
    return await _planned(service, request_of(SolveRequest, fields), who)


@router.post(f"{HERE}/answers")
async def answer(service: Service, who: Who, form: Form) -> Response:
    """Plan again with the answers to the questions."""
    who.require("ask")
    run = await service.run(form.get("run", ""), who.principal)
    asked = await service.original_request(run.id, who.principal)
    values = asked.context.values | await asyncio.to_thread(entered, fields_of(run.questions), form)
    context = asked.context.model_copy(update={"values": values})
    return await _planned(service, asked.model_copy(update={"context": context}), who)


async def _planned(service: Service, asked: SolveRequest, who: Session) -> Response:
    try:
        run_id = (await service.plan(asked, who.principal)).id
    except ServiceError as error:
        run_id = error.extensions.get("run_id", "")
        if not run_id:
            raise
    return redirect(with_query(HERE, {"run": run_id}))


@router.post(f"{HERE}/run")
async def check_or_run(request: Request, service: Service, who: Who, form: Form) -> Response:
    """Prove the calls in the form. Run them if they are the plan that was shown.

    Without calls, the plan of the named run is run. That is a plan that the page shows, but has no room to edit.
    """
    who.require("ask")
    origin = await service.run(form.get("run", ""), who.principal)
    asked = await service.original_request(origin.id, who.principal)
    if origin.plan is None:
        raise ValidationFailed("There is no plan to run.")
    if "calls" not in form:
        return await _begin(service, who, PlanView(origin, asked, ""), await _calls(origin.plan), form)
    check_sent_back(form["calls"])
    check_sent_back(*(text for name, text in form.items() if name != "calls"))
    draft = None
    try:
        draft = await _draft(service, form, origin.tenant)
        plan = await service.previews.plan_of(draft.calls, origin.tenant)
        draft.calls = await _calls(plan) or draft.calls
    except ValidationFailed as error:
        unread = origin.model_copy(update=_UNPROVED | {"plan": None, "status": RunStatus.NO_PLAN})
        text = _text(draft.calls) if draft is not None else form["calls"]
        return await _page(request, service, PlanView(unread, asked, text, draft, error.detail), status=error.status)
    is_to_run = form.get("do") == "run"
    if is_to_run and plan.id == form.get("plan") and not draft.errors:
        return await _begin(service, who, PlanView(origin, asked, ""), draft.calls, form)
    answer = CompileResponse(diagnostics=tuple(draft.errors))
    if not draft.errors:
        answer = await service.previews.plan(plan, asked.options.mutations, who.principal)
    edited = origin.model_copy(update=_UNPROVED | _proved(plan, answer))
    return await _page(request, service, PlanView(edited, asked, _text(draft.calls), draft, moved=is_to_run))


def _text(calls: Sequence[Call]) -> str:
    """The calls as JSON that the page sends back. Raises ValidationFailed if it is too long."""
    text = written(calls)
    check_sent_back(text)
    return text


_UNPROVED: Final[dict[str, Any]] = {"proof": None, "diagnostics": (), "questions": (), "reason": "", "problem": None}


def _proved(plan: Plan, answer: CompileResponse) -> dict[str, Any]:
    """The run's fields for an edited plan. Questions become diagnostics, because the page has fields for them."""
    missing = (
        Diagnostic(code=DiagnosticCode.MISSING_ARGUMENT, step=one.step, argument=one.argument, message=one.text)
        for one in answer.questions
    )
    proof = answer.compiled.proof if answer.compiled is not None else None
    status = RunStatus.NO_PLAN if proof is None else RunStatus.PLANNED
    if proof is not None and proof.approvals:
        status = RunStatus.NEEDS_APPROVAL
    return {"plan": plan, "proof": proof, "diagnostics": (*answer.diagnostics, *missing), "status": status}


async def _draft(service: Service, form: dict[str, str], tenant: str) -> Draft:
    """The calls with the values entered in their fields. If their JSON was edited, the fields are ignored."""
    plan = await service.previews.plan_of(await asyncio.to_thread(read_calls, form["calls"]), tenant)
    calls = await _calls(plan) or []
    if stamp(form["calls"]) != form.get("was"):
        return Draft(calls)
    return await asyncio.to_thread(with_entered, calls, await _apis(service, calls, tenant), form)


async def _begin(
    service: Service, who: Session, view: PlanView, calls: Sequence[Call] | None, form: dict[str, str]
) -> Response:
    """Run the plan that was shown. A mutating call still waits for its approval.

    A plan that a list of calls cannot represent is started as a rerun of the run that planned it. If that run is a dry
    run that waits for an approval, it is cancelled, so that the same plan does not wait for two approvals.
    """
    options = StartOptions(deadline_ms=view.asked.options.deadline_ms, mutations=view.asked.options.mutations)
    key = f"console {form['key'][:64]}" if form.get("key") else None
    if calls is None:
        again = RerunRequest(options=options, wait=False)
        run = await service.rerun(view.run.id, again, who.principal, key)
    else:
        start = StartRequest(calls=tuple(calls), query=view.asked.query, options=options, wait=False)
        run = await service.start(start, who.principal, key, planned=view.run)
    if view.run.status is RunStatus.NEEDS_APPROVAL and view.asked.options.dry_run:
        with suppress(Conflict):
            await service.decisions.cancel(view.run.id, who.principal)
    return redirect(f"{PATH}/runs/{run.id}")
