"""The review: runs without feedback, one after the other."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from gateway.console.flow import Flow
from gateway.console.forms import request_of
from gateway.console.graph import draw
from gateway.console.pages import READING_RUNS, ConsoleRoute, get_form, get_session, redirect, render, with_query
from gateway.console.session import PATH, Session
from gateway.console.slots import Pattern, pattern_of
from gateway.console.status import STATE_STYLES
from gateway.listing import Filter
from gateway.routing import PRINTABLE, Id, Service
from services.app import service_router
from services.contracts.demo import Demo, SelectDemosRequest
from services.contracts.feedback import FeedbackRequest, Judged, Verdict
from services.contracts.run import Run, RunStatus
from services.errors import Conflict

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_form)]
Cursor = Annotated[str, Query(max_length=64, pattern=PRINTABLE)]
HERE: Final = f"{PATH}/review"
_REVIEWED: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.NO_PLAN)
_AHEAD: Final = 8
"""How many of the next runs are shown."""
_NEAR: Final = 6
_ALIKE: Final = 0.5
"""Minimum cosine similarity of a demonstration's request to be shown as similar."""


@dataclass(frozen=True, slots=True)
class SimilarDemo:
    """An existing demonstration whose request is similar to the run's.

    Attributes:
        same: whether it differs only in values.
    """

    demo: Demo
    similarity: float
    same: bool


@router.get(HERE)
async def review(
    request: Request,
    service: Service,
    who: Who,
    cursor: Cursor = "",
    last: Annotated[str, Query(max_length=64, pattern=PRINTABLE)] = "",
) -> Response:
    """The newest run without feedback, or the one after the cursor. `last` is the run that was shown before."""
    who.require(*READING_RUNS)
    which = Filter(who.principal.tenant, _REVIEWED, judged=Judged.NONE)
    page = await service.page(which, limit=1 + _AHEAD, cursor=cursor or None)
    run = await service.run(page.runs[0].id, who.principal) if page.runs else None
    flow = Flow(run) if run is not None and run.plan is not None else None
    return render(
        request, "review.html", screen="review", run=run, flow=flow, drawing=draw(flow) if flow else None,
        styles=STATE_STYLES, ahead=page.runs[1:], cursor=cursor, last=last,
        further=with_query(HERE, {"cursor": page.next, "last": last}) if page.next else "",
        skip=with_query(HERE, {"cursor": run.id, "last": run.id}) if run and (page.runs[1:] or page.next) else "",
        confirmable=run is not None and _confirmable(run),
    )  # fmt: skip


def _confirmable(run: Run) -> bool:
    return run.status is RunStatus.SUCCEEDED and not run.reused


@router.post(f"{HERE}/{{run_id}}")
async def judge(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Confirm or reject a run, and go on with the next one."""
    who.require(*READING_RUNS)
    fields: dict[str, object] = {"verdict": form.get("verdict", ""), "reason": form.get("reason", "")}
    await service.outcomes.judge(run_id, request_of(FeedbackRequest, fields), who.principal)
    return redirect(with_query(HERE, {"cursor": form.get("cursor", ""), "last": run_id}))


@router.get(f"{HERE}/{{run_id}}/demo")
async def show_demo(request: Request, run_id: Id, service: Service, who: Who, cursor: Cursor = "") -> Response:
    """The run as a demonstration: which of its values are slots, and which demonstrations are similar to it."""
    who.require(*READING_RUNS)  # it shows a run
    who.require("administer")
    run = await service.run(run_id, who.principal)
    if run.plan is None or not _confirmable(run):
        raise Conflict(f"Run {run_id} cannot be confirmed, so it cannot become a demonstration.")
    pattern = pattern_of(run.query, run.plan)
    near = await _similar_demos(service, run, pattern)
    return render(
        request, "demo.html", screen="review", run=run, pattern=pattern, near=near, styles=STATE_STYLES, cursor=cursor
    )


async def _similar_demos(service: Service, run: Run, pattern: Pattern) -> list[SimilarDemo]:
    asked = SelectDemosRequest(query=run.query, k=_NEAR, threshold=_ALIKE, tenant=run.tenant)
    found = await service.peers.demos.select(asked)
    return [
        SimilarDemo(one.demo, one.similarity, pattern_of(one.demo.query, one.demo.plan).words == pattern.words)
        for one in found.demos
    ]


@router.post(f"{HERE}/{{run_id}}/demo")
async def make_demo(run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Confirm the run if it is not confirmed yet, and make it a demonstration."""
    who.require(*READING_RUNS)  # it shows a run
    who.require("administer")
    shared = form.get("shared") == "yes"
    who.principal.audience(shared=shared)  # refused before the run is confirmed
    run = await service.run(run_id, who.principal)
    if run.feedback is None or run.feedback.verdict is not Verdict.CONFIRMED:
        await service.outcomes.judge(run_id, FeedbackRequest(verdict=Verdict.CONFIRMED), who.principal)
    await service.outcomes.demonstrate(run_id, who.principal, shared=shared)
    return redirect(with_query(HERE, {"cursor": form.get("cursor", ""), "last": run_id}))
