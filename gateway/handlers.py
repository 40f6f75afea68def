"""Routes of the gateway. The signatures declare what they take and return; ``service.py`` does the work."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response, status

from gateway.access_handlers import access
from gateway.catalogue_handlers import Shared, apis, demos
from gateway.constants_handlers import constants
from gateway.listing import Filter
from gateway.roles import Role, needs
from gateway.routing import (
    ADMINISTERING,
    PRINTABLE,
    Caller,
    Id,
    Limit,
    Moment,
    ProtectedRoute,
    RunCursor,
    Service,
    counted,
)
from gateway.storage import UNDER_WAY
from gateway.tenant_handlers import tenants
from services.app import service_router
from services.contracts.approval import ApproveRequest
from services.contracts.comparison import Comparison
from services.contracts.demo import Demo
from services.contracts.doubt import ResolveRequest
from services.contracts.feedback import FeedbackRequest, Judged
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run, RunPage, RunStatus
from services.contracts.solve import SolveRequest
from services.contracts.start import StartRequest
from services.streams import NdjsonResponse, SseResponse

ASKING = needs(Role.ASK)
APPROVING = needs(Role.APPROVE)
WORKING = needs(Role.ASK, Role.APPROVE)
"""For principals that ask and principals that approve."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]*$",
        description="Repeating a request with the same key returns the first run. The same key with another request "
        "is refused with 409.",
    ),
]
EventNumber = Annotated[int | None, Query(ge=0, le=2**53)]
runs = service_router(route_class=ProtectedRoute, tags=["solve"])
UNDER_WAY_ANSWER: dict[int | str, dict[str, Any]] = {
    202: {
        "model": Run,
        "description": "The run is in progress; `Location` has its address.",
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
}


def _answered(run: Run, request: Request, response: Response) -> Run:
    """200 with a run that has ended; 202 with one that is under way."""
    if run.status in UNDER_WAY:
        prefix = "/v1" if request.url.path.startswith("/v1/") else ""
        response.status_code = status.HTTP_202_ACCEPTED
        response.headers["Location"] = f"{prefix}/runs/{run.id}"
    return run


@runs.post("/solve", summary="Solve a request in words", responses=UNDER_WAY_ANSWER, openapi_extra=ASKING)
async def solve(
    body: SolveRequest,
    service: Service,
    caller: Caller,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Find APIs, plan, prove, run, answer. Waits for the answer unless `wait` is false; the run is stored under its id.

    An error that keeps a run from being planned or executed is a problem that names the run as `run_id`.
    """
    run = await service.solve(body, caller, idempotency_key)
    response.headers.update(service.quotas.fields(caller.tenant))
    return _answered(run, request, response)


@runs.post(
    "/solve:stream",
    summary="Solve, and follow the run",
    response_class=NdjsonResponse,
    openapi_extra=ASKING,
)
async def solve_stream(
    body: SolveRequest, service: Service, caller: Caller, idempotency_key: IdempotencyKey = None
) -> NdjsonResponse:
    """As `/solve`, but answers one JSON event per line: planned, step_started, step_finished, finished.

    If nothing happens for 15 seconds, an empty line is sent to keep the stream open.
    """
    events = await service.solve_events(body, caller, idempotency_key)
    return NdjsonResponse(events, accepted=True, headers=service.quotas.fields(caller.tenant))


@runs.post("/plan", summary="Plan and prove, execute nothing", openapi_extra=ASKING)
async def plan(body: SolveRequest, service: Service, caller: Caller, response: Response) -> Run:
    """The plan and its proof, or the questions and diagnostics that prevent it. Always waits."""
    run = await service.plan(body, caller)
    response.headers.update(service.quotas.fields(caller.tenant))
    return run


@runs.post("/runs", summary="Run a given plan", responses=UNDER_WAY_ANSWER, openapi_extra=ASKING)
async def start_run(
    body: StartRequest,
    service: Service,
    caller: Caller,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Prove the plan and run it unchanged. Policy, approvals, events and idempotency keys work as for `/solve`.

    If the plan cannot be proved, the run ends as `no_plan`, with diagnostics, and no call is made.
    """
    return _answered(await service.start(body, caller, idempotency_key), request, response)


@runs.get("/runs", summary="List runs, newest first", response_model=RunPage, openapi_extra=WORKING)
async def list_runs(
    service: Service,
    caller: Caller,
    limit: Limit = 20,
    cursor: RunCursor = None,
    status: Annotated[
        list[RunStatus] | None, Query(max_length=20, description="Any of these values; repeatable.")
    ] = None,
    after: Annotated[Moment | None, Query(description="Created after this moment.")] = None,
    before: Annotated[Moment | None, Query(description="Created before this moment.")] = None,
    q: Annotated[
        str | None, Query(min_length=1, max_length=200, pattern=PRINTABLE, description="Text in the request.")
    ] = None,
    feedback: Annotated[Judged | None, Query(description="Its feedback; `none`: no feedback yet.")] = None,
) -> Response:
    """A page of runs. `next` is the `cursor` of the following page.

    Text, in the first 300 characters of requests, and feedback are looked for in 10,000 runs: a page may be empty
    although there is a `next`.
    """
    which = Filter(caller.tenant, tuple(status or ()), after, before, q, feedback)
    return counted(await service.page(which, limit=limit, cursor=cursor), service, caller)


@runs.get("/runs/{run_id}", summary="One run", response_model=Run, openapi_extra=WORKING)
async def get_run(run_id: Id, service: Service, caller: Caller) -> Response:
    """The run with its plan, proof, steps, answer and decisions."""
    return Response(await service.run_json(run_id, caller), media_type="application/json")


@runs.get("/runs/{run_id}/compare/{other}", summary="Compare two runs", openapi_extra=WORKING)
async def compare_runs(run_id: Id, other: Id, service: Service, caller: Caller) -> Comparison:
    """The first step, in the plan's order, whose plan, request, response or value differs. Headers are left out."""
    return await service.compare(run_id, other, caller)


@runs.delete(
    "/runs/{run_id}",
    summary="Delete a run",
    status_code=status.HTTP_204_NO_CONTENT,
    openapi_extra=ADMINISTERING,
)
async def delete_run(run_id: Id, service: Service, caller: Caller) -> None:
    """Delete a run that has ended, with its events, its idempotency key and the executor's record of its calls.

    409 if it may still send something: first cancel it, or settle its calls in doubt. A demonstration made from it is
    kept. Large values, which other runs may share, are kept until the executor's retention time is over.
    """
    await service.delete(run_id, caller)


@runs.get(
    "/runs/{run_id}/events",
    summary="Follow a run",
    response_class=SseResponse,
    response_description="Server-sent events: `id`, the kind as `event`, and a `SolveEvent` as `data`.",
    responses={204: {"description": "The given event was the last one; do not reconnect."}},
    openapi_extra=WORKING,
)
async def run_events(
    run_id: Id,
    service: Service,
    caller: Caller,
    after: EventNumber = None,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=2**53, description="The last event that was received; overrides `after`.")
    ] = None,
) -> Response:
    """All events so far, then new ones as they happen, up to `finished`.

    Ids increase, with gaps. After another process has taken over a run, events of steps may be repeated.
    """
    events = await service.follow(run_id, caller, last_event_id if last_event_id is not None else after or 0)
    return Response(status_code=status.HTTP_204_NO_CONTENT) if events is None else SseResponse(events)


@runs.get("/runs/{run_id}/values/{value_id}", summary="A large value in full", openapi_extra=WORKING)
async def run_value(
    run_id: Id, value_id: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")], service: Service, caller: Caller
) -> Response:
    """The JSON of a value that the run shows as a preview with `stored`. Available once the run has ended."""
    return Response(await service.value(run_id, value_id, caller), media_type="application/json")


@runs.post(
    "/runs/{run_id}:approve",
    summary="Approve a waiting plan and run it",
    responses=UNDER_WAY_ANSWER,
    openapi_extra=APPROVING,
)
async def approve_run(
    run_id: Id, body: ApproveRequest, service: Service, caller: Caller, request: Request, response: Response
) -> Run:
    """The approval holds for exactly the plan named in the body, and for the requests that the run shows."""
    return _answered(await service.decisions.approve(run_id, body, caller), request, response)


@runs.post(
    "/runs/{run_id}:rerun",
    summary="Run a plan again, from a step on, with other inputs",
    responses=UNDER_WAY_ANSWER,
    openapi_extra=ASKING,
)
async def rerun(
    run_id: Id,
    body: RerunRequest,
    service: Service,
    caller: Caller,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """A new run, proved and approved like any given plan. The earlier run does not change.

    `resent` lists the steps that are repeated, `reused` those whose earlier values are used. `options.dry_run` sends
    nothing.

    409 if the earlier run is in progress, or a step that is not repeated gave no value or is in doubt. 422 if the plan
    is not valid with these inputs and the current APIs.
    """
    return _answered(await service.rerun(run_id, body, caller, idempotency_key), request, response)


@runs.post("/runs/{run_id}:cancel", summary="Cancel a run", responses=UNDER_WAY_ANSWER, openapi_extra=WORKING)
async def cancel_run(run_id: Id, service: Service, caller: Caller, request: Request, response: Response) -> Run:
    """No further call is sent. 202 while active calls are waited for; 409 if the run has already ended."""
    return _answered(await service.decisions.cancel(run_id, caller), request, response)


@runs.post("/runs/{run_id}/feedback", summary="Confirm or reject a run's outcome", openapi_extra=WORKING)
async def judge_run(run_id: Id, body: FeedbackRequest, service: Service, caller: Caller) -> Run:
    """Say whether the outcome is what was wanted. Only confirmed runs become training data. The last verdict counts.

    409 if the run has not ended, or if it is to be confirmed but is neither `succeeded` nor `planned`.
    """
    return await service.outcomes.judge(run_id, body, caller)


@runs.post(
    "/runs/{run_id}:demo",
    summary="Make a confirmed run a demonstration",
    status_code=status.HTTP_201_CREATED,
    openapi_extra=ADMINISTERING,
)
async def demonstrate_run(run_id: Id, service: Service, caller: Caller, shared: Shared = False) -> Demo:
    """Planners see its request and plan with the same tenant's requests. 409 if the run is not confirmed.

    It is removed if an administrator rejects the run later.
    """
    return await service.outcomes.demonstrate(run_id, caller, shared=shared)


@runs.post(
    "/runs/{run_id}/steps/{step}:resolve",
    summary="Settle a call in doubt",
    responses=UNDER_WAY_ANSWER,
    openapi_extra=APPROVING,
)
async def resolve_step(
    run_id: Id,
    step: Annotated[str, Path(min_length=1, max_length=64, pattern=PRINTABLE)],
    body: ResolveRequest,
    service: Service,
    caller: Caller,
    request: Request,
    response: Response,
    wait: Annotated[bool, Query(description="False: answer 202 immediately when the run continues.")] = True,
) -> Run:
    """Report the outcome of a call. When the last call in doubt is settled, the run continues and is waited for."""
    return _answered(await service.decisions.resolve(run_id, step, body, caller, wait=wait), request, response)


def routers() -> list[APIRouter]:
    """All routes, each at the root and under ``/v1``."""
    versioned = APIRouter(prefix="/v1", include_in_schema=False)
    for router in (runs, apis, constants, demos, access, tenants):
        versioned.include_router(router)
    return [runs, apis, constants, demos, access, tenants, versioned]
