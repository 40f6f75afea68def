"""Runs a plan again, from a given step on and with other inputs; and compares two runs."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query, Request, Response
from pydantic import JsonValue

from gateway.console.arguments import ArgumentField, argument_fields, edited
from gateway.console.flow import Flow
from gateway.console.forms import check_sent_back, read_json, request_of
from gateway.console.pages import READING_RUNS, ConsoleRoute, get_form, get_session, redirect, render
from gateway.console.session import PATH, Session
from gateway.console.status import STATE_STYLES
from gateway.listing import Filter
from gateway.routing import PRINTABLE, Id, Service
from gateway.storage import UNDER_WAY
from services.app import service_router
from services.contracts.base import StepId
from services.contracts.plan import Step, content_hash
from services.contracts.rerun import RerunRequest
from services.contracts.retrieval import LookupRequest
from services.contracts.run import Run
from services.errors import NotFound, ServiceError, ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_form)]
PREFIX: Final = "in."
_OTHERS: Final = 12
_LINES: Final = 300
"""Maximum number of steps that a page lists."""


@dataclass(frozen=True)
class RerunForm:
    """What was entered in the form.

    Attributes:
        inputs: the texts of the first step's fields, by argument.
        more: inputs of other steps, as JSON.
        reuse: whether reads that need not be repeated keep their earlier values.
        plan: the id of the plan that was shown; empty before one was shown.
        key: idempotency key, so that a form that is sent twice starts one run.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    reuse: bool = True
    plan: str = ""
    key: str = field(default_factory=lambda: secrets.token_hex(16))


@router.get(f"{PATH}/runs/{{run_id}}/rerun")
async def choose(
    request: Request,
    run_id: Id,
    service: Service,
    who: Who,
    begin: Annotated[StepId | Literal[""], Query(alias="from")] = "",
) -> Response:
    """The form for the first step and its inputs."""
    who.require("ask")
    run = await service.run(run_id, who.principal)
    step = _first(run, begin)
    return render(request, "rerun.html", **await _values(service, run, step, RerunForm()))


@router.post(f"{PATH}/runs/{{run_id}}/rerun")
async def rerun(request: Request, run_id: Id, service: Service, who: Who, form: Form) -> Response:
    """Show which calls are sent again. Start the run if they are the ones that were shown.

    An error is shown above what was entered.
    """
    who.require("ask")
    run = await service.run(run_id, who.principal)
    step = _first(run, form.get("from", ""))
    inputs = {name.removeprefix(PREFIX): text for name, text in form.items() if name.startswith(PREFIX)}
    entered = RerunForm(inputs, form.get("more", ""), form.get("reuse") == "yes", form.get("plan", ""))
    values = await _values(service, run, step, entered)
    shown = {one.name: one.text for one in values["fields"]}
    check_sent_back(entered.more, *(text for name, text in inputs.items() if text != shown.get(name)))
    try:
        asked = await asyncio.to_thread(_asked, step, values["fields"], entered)
        _, again, compiled = await service.previews.rerun(run_id, asked, who.principal)
        if form.get("do") == "run" and again.plan.id == entered.plan:
            key = f"console {form.get('key', '')[:64]} {content_hash(asked.model_dump(mode='json'))}"
            started = await service.rerun(run_id, asked, who.principal, key)
            return redirect(f"{PATH}/runs/{started.id}")
    except ServiceError as error:
        return render(request, "rerun.html", status=error.status, **(values | {"problem": error}))
    return render(
        request, "rerun.html",
        **(values | {"shown": again.fields(compiled), "asked": asked, "moved": form.get("do") == "run"}),
    )  # fmt: skip


def _first(run: Run, begin: str) -> Step | None:
    """The step that a rerun begins with; None if all steps are repeated. Raises NotFound."""
    if not begin:
        return None
    step = run.plan.step(begin) if run.plan is not None else None
    if step is None:
        raise NotFound("The plan of this run has no such step.")
    return step


async def _values(service: Service, run: Run, step: Step | None, entered: RerunForm) -> dict[str, Any]:
    """The values for the template."""
    fields: list[ArgumentField] = []
    flow = Flow(run)
    if step is not None:
        apis = await service.peers.retriever.lookup(LookupRequest(ids=(step.api,), tenant=run.tenant))
        known = {one.name: one.found for one in flow.inputs(step) if one.name in step.arguments}
        notes = {name: found.note or "not known" for name, found in known.items() if not found.known}
        arguments = {name: found.value for name, found in known.items()}
        fields = argument_fields(arguments, next(iter(apis.apis), None), notes)
    return {
        "screen": "runs", "run": run, "flow": flow, "styles": STATE_STYLES, "step": step, "fields": fields,
        "entered": entered, "prefix": PREFIX, "shown": None, "asked": None, "moved": False, "problem": None,
        "under_way": run.status in UNDER_WAY, "steps": flow.steps[:_LINES],
    }  # fmt: skip


def _asked(step: Step | None, fields: list[ArgumentField], entered: RerunForm) -> RerunRequest:
    """The rerun request. Raises ValidationFailed."""
    inputs: dict[str, dict[str, JsonValue]] = {}
    if entered.more.strip():
        more = read_json("Inputs of other steps", entered.more)
        if not isinstance(more, dict) or not all(isinstance(one, dict) for one in more.values()):
            raise ValidationFailed('Inputs of other steps: by step, then by argument, as {"var2": {"name": "x"}}.')
        inputs |= more  # type: ignore[arg-type]
    if step is not None and (changed := edited(fields, entered.inputs, references=False)):
        inputs[step.id] = {**inputs.get(step.id, {}), **changed}
    begin = step.id if step is not None else None
    return request_of(RerunRequest, {"from": begin, "inputs": inputs, "reuse": entered.reuse, "wait": False})


@router.get(f"{PATH}/runs/{{run_id}}/compare")
async def compare(
    request: Request,
    run_id: Id,
    service: Service,
    who: Who,
    other: Annotated[str, Query(max_length=400, pattern=PRINTABLE)] = "",
) -> Response:
    """The first difference between two runs; without another run, runs with the same words to choose from."""
    who.require(*READING_RUNS)
    run = await service.run(run_id, who.principal)
    if not other.strip():
        which = Filter(who.principal.tenant, text=run.query[:200].replace("\x00", "\ufffd"))  # as it is stored
        page = await service.page(which, limit=_OTHERS, cursor=None)
        near = [one for one in page.runs if one.id != run.id]
        return render(request, "compare.html", screen="runs", run=run, near=near, second=None, styles=STATE_STYLES)
    second = await service.run(other.strip(), who.principal)
    found = await service.compare(run.id, second.id, who.principal)
    flows = (Flow(run), Flow(second))
    names = list(dict.fromkeys(step.id for flow in flows for step in flow.steps))
    return render(
        request, "compare.html", screen="runs", run=run, second=second, parts=found.divergence, flows=flows, near=[],
        names=names[:_LINES], left_out=len(names[_LINES:]), styles=STATE_STYLES,
    )  # fmt: skip
