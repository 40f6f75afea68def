"""The screens of runs: the list, one run with its graph, approvals, and feedback."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import Depends, Header, Query, Request, Response

from gateway.console.cancelling import CANCELLABLE
from gateway.console.declared import declared
from gateway.console.flow import ANSWER, Flow
from gateway.console.forms import read_json, request_of
from gateway.console.graph import draw
from gateway.console.pages import (
    READING_RUNS,
    SCREENS,
    ConsoleRoute,
    curl,
    get_form,
    get_session,
    redirect,
    render,
    with_query,
)
from gateway.console.session import PATH, Session
from gateway.console.status import STATE_STYLES
from gateway.handlers import EventNumber
from gateway.listing import Filter
from gateway.routing import PRINTABLE, Id, Moment, Service
from gateway.storage import UNDER_WAY
from gateway.tables import run_of
from gateway.told_events import ToldEvent
from services.app import service_router
from services.contracts.approval import ApproveRequest
from services.contracts.base import StepId
from services.contracts.doubt import ResolveRequest
from services.contracts.event import RunEvent
from services.contracts.feedback import FeedbackRequest, Judged, Verdict
from services.contracts.outcome import RequestRecord
from services.contracts.plan import Step
from services.contracts.run import Run, RunStatus
from services.errors import NotFound, ValidationFailed
from services.streams import SseResponse

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_form)]
Text = Annotated[str, Query(max_length=200, pattern=PRINTABLE)]
_PAGE: Final = 50
_STEPS: Final = 60
"""Maximum number of steps that one page of a run lists."""
_EVENTS: Final = 60
_WAITING: Final = 10
_WAITING_BYTES: Final = 4_000_000
"""Total size of the waiting runs that one page shows in full; at least one is."""
_OVER: Final = frozenset(RunStatus) - UNDER_WAY - {RunStatus.NEEDS_APPROVAL, RunStatus.IN_DOUBT}


def run_path(run_id: str) -> str:
    """The path of a run's page."""
    return f"{PATH}/runs/{run_id}"


@router.get(PATH)
@router.get(f"{PATH}/")
async def first_page(who: Who) -> Response:
    """Redirect to the first screen that the reader may see."""
    return redirect(next((f"{PATH}/{name}" for name, _, roles in SCREENS if who.may(*roles)), f"{PATH}/catalogue"))


@router.get(f"{PATH}/runs")
async def list_runs(
    request: Request,
    service: Service,
    who: Who,
    status: Annotated[list[RunStatus] | None, Query(max_length=20)] = None,
    q: Text = "",
    since: Annotated[Moment | Literal[""], Query()] = "",
    before: Annotated[Moment | Literal[""], Query()] = "",
    judged: Annotated[Judged | Literal[""], Query()] = "",
    cursor: Annotated[str | None, Query(max_length=64, pattern=PRINTABLE)] = None,
) -> Response:
    """Runs, newest first. The filters are query parameters."""
    who.require(*READING_RUNS)
    after = since or None
    which = Filter(who.principal.tenant, tuple(status or ()), after, before or None, q or None, judged or None)
    page = await service.page(which, limit=_PAGE, cursor=cursor)
    asked = {"status": [one.value for one in status or ()], "q": q, "judged": judged}
    if isinstance(since, datetime):
        asked["since"] = since.isoformat()
    if isinstance(before, datetime):
        asked["before"] = before.isoformat()
    older = with_query(f"{PATH}/runs", {**asked, "cursor": page.next}) if page.next else ""
    return render(
        request, "runs.html", screen="runs", page=page, asked=asked, older=older, first=cursor is None,
        statuses=list(RunStatus), styles=STATE_STYLES, filtered=any(asked.values()),
        here_with=with_query(f"{PATH}/runs", asked),
        cancellable={run.id for run in page.runs if run.status in CANCELLABLE},
    )  # fmt: skip


@router.get(f"{PATH}/runs/{{run_id}}")
async def show_run(
    request: Request,
    run_id: Id,
    service: Service,
    who: Who,
    step: Annotated[StepId | Literal[""], Query()] = "",
    edge: Annotated[str, Query(max_length=140, pattern=r"^[A-Za-z0-9_.]*$")] = "",
    begin: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """One run. `step` and `edge` choose what is shown in full; by default it is a step that failed."""
    who.require(*READING_RUNS)
    run = await service.run(run_id, who.principal)
    flow, events, told = await _events_of(run, service, who)
    chosen = step or ("" if edge else next(iter(flow.troubled), ""))
    selected = next((one for one in flow.steps if one.id == chosen), None)
    taken = flow.bindings.get(_ends(edge)) if edge else None
    if (step and selected is None) or (edge and taken is None):
        raise NotFound("The plan of this run has no such step or edge.")
    types = await declared(service.peers, run, taken, _ends(edge)[1]) if taken else []
    return render(
        request, "run.html", screen="runs", run=run, flow=flow, types=types, drawing=draw(flow) if flow.steps else None,
        styles=STATE_STYLES, selected=selected, record=flow.records.get(chosen), edge=_ends(edge), taken=taken,
        steps=_lines(flow, begin), begin=begin, per_page=_STEPS, events=events, told=told,
        under_way=run.status in UNDER_WAY, over=run.status in _OVER, answer=ANSWER, curl=_curl(request, run),
    )  # fmt: skip


async def _events_of(
    run: Run, service: Service, who: Session
) -> tuple[Flow, Sequence[RunEvent] | Sequence[ToldEvent], int]:
    """What the page shows of a run's flow, its newest events, and how many there are.

    The values of a run that has its steps are not read a second time from its events.
    """
    if run.steps:
        newest, told = await service.newest_events(run.id, who.principal, _EVENTS)
        return Flow(run), newest, told
    events = await service.stored_events(run.id, who.principal)
    return Flow(run, events), events[-_EVENTS:], len(events)


def _ends(edge: str) -> tuple[str, str]:
    source, _, target = edge.partition(".")
    return source, target


def _lines(flow: Flow, begin: int) -> list[Step]:
    by_id = {step.id: step for step in flow.steps}
    ordered = [by_id[one] for layer in flow.layers for one in layer]
    return ordered[begin : begin + _STEPS]


def _curl(request: Request, run: Run) -> str:
    """A command that sends the same request to the API."""
    token = {"Authorization": "Bearer TOKEN"} if request.state.session.logged_in else {}
    origin = f"{request.url.scheme}://{request.url.netloc}"
    headers = {"Content-Type": "application/json", **token}
    return curl(RequestRecord(method="POST", url=f"{origin}/solve", headers=headers, body={"query": run.query}))


@router.get(f"{PATH}/runs/{{run_id}}/planning")
async def show_planning(request: Request, run_id: Id, service: Service, who: Who) -> Response:
    """How the plan was made: candidates, planners, prompts."""
    who.require(*READING_RUNS)
    run = await service.run(run_id, who.principal)
    return render(request, "planning.html", screen="runs", run=run, styles=STATE_STYLES)


@router.get(f"{PATH}/runs/{{run_id}}/json")
async def run_json(run_id: Id, service: Service, who: Who) -> Response:
    """The run as `GET /runs/{id}` answers it."""
    who.require(*READING_RUNS)
    return Response(await service.run_json(run_id, who.principal), media_type="application/json")


@router.get(f"{PATH}/runs/{{run_id}}/values/{{value_id}}")
async def run_value(run_id: Id, value_id: str, service: Service, who: Who) -> Response:
    """A large value in full, as a download."""
    who.require(*READING_RUNS)
    kept = {"Content-Disposition": 'attachment; filename="value.json"'}
    value = await service.value(run_id, value_id, who.principal)
    return Response(value, media_type="application/json", headers=kept)


@router.get(f"{PATH}/runs/{{run_id}}/events")
async def run_events(
    run_id: Id,
    service: Service,
    who: Who,
    after: EventNumber = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
) -> Response:
    """The events of a run, as `GET /runs/{id}/events` streams them."""
    who.require(*READING_RUNS)
    since = last_event_id if last_event_id is not None else after or 0
    events = await service.follow(run_id, who.principal, since)
    return Response(status_code=204) if events is None else SseResponse(events)


@router.post(f"{PATH}/runs/{{run_id}}/approve")
async def approve(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Approve exactly the plan that the form showed. The reader must have ticked that the requests were read."""
    who.require("approve")
    if form.get("read") != "yes":
        raise ValidationFailed("Nothing was sent: tick that you have read the requests, then approve.")
    fields: dict[str, object] = {"plan_id": form.get("plan_id", ""), "wait": False}
    if form.get("digest"):  # of the requests that were shown, if the run has one
        fields["digest"] = form["digest"]
    asked = request_of(ApproveRequest, fields)
    await service.decisions.approve(run_id, asked, who.principal)
    return redirect(run_path(run_id))


@router.post(f"{PATH}/runs/{{run_id}}/reject")
async def reject(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Cancel a run that waits for an approval. A reason, if given, is stored as feedback."""
    who.require("approve")
    said = request_of(FeedbackRequest, {"verdict": Verdict.REJECTED, "reason": form.get("reason", "")})
    await service.decisions.cancel(run_id, who.principal)
    if said.reason:
        await service.outcomes.judge(run_id, said, who.principal)
    return redirect(run_path(run_id))


@router.post(f"{PATH}/runs/{{run_id}}/cancel")
async def cancel(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Cancel a run."""
    who.require(*READING_RUNS)
    await service.decisions.cancel(run_id, who.principal)
    return redirect(run_path(run_id))


@router.post(f"{PATH}/runs/{{run_id}}/feedback")
async def judge(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Confirm or reject a run's outcome."""
    who.require(*READING_RUNS)
    said = request_of(FeedbackRequest, {"verdict": form.get("verdict", ""), "reason": form.get("reason", "")})
    await service.outcomes.judge(run_id, said, who.principal)
    return redirect(run_path(run_id))


@router.post(f"{PATH}/runs/{{run_id}}/resolve")
async def resolve(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Settle a call in doubt."""
    who.require("approve")
    said = await asyncio.to_thread(_settlement, form)
    await service.decisions.resolve(run_id, form.get("step", ""), said, who.principal, wait=False)
    return redirect(run_path(run_id))


def _settlement(form: Mapping[str, str]) -> ResolveRequest:
    fields: dict[str, object] = {"outcome": form.get("outcome", ""), "message": form.get("message", "")}
    if form.get("item"):
        fields["item"] = form["item"]
    if form.get("value", "").strip():
        fields["value"] = read_json("value", form["value"])
    return request_of(ResolveRequest, fields)


@router.get(f"{PATH}/approvals")
async def approvals(request: Request, service: Service, who: Who) -> Response:
    """Runs that wait for an approval or for a call to be settled, oldest first, with the exact requests."""
    who.require(*READING_RUNS)
    statuses = (RunStatus.NEEDS_APPROVAL, RunStatus.IN_DOUBT)
    page = await service.page(Filter(who.principal.tenant, statuses), limit=100, cursor=None)
    lines = page.runs[::-1]
    waiting, room = list[Run](), _WAITING_BYTES
    for line in lines[:_WAITING]:
        text = await service.run_json(line.id, who.principal)
        room -= len(text)
        if waiting and room < 0:
            break
        waiting.append(run_of(text, None))
    return render(
        request, "approvals.html", screen="approvals", waiting=waiting, further=lines[len(waiting):],
        styles=STATE_STYLES, more=page.next is not None,
    )  # fmt: skip
