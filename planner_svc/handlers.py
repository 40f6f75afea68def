"""The routes of the planner."""

from typing import Annotated

from fastapi import Depends, Request

from planner_svc.service import PlannerService
from services.app import service_router
from services.contracts.operations import PlannerStatus
from services.contracts.planning import (
    CompileRequest,
    CompileResponse,
    PlannerBackends,
    PlanRequest,
    PlanResponse,
    ReadApisReport,
    ReadApisRequest,
)
from services.contracts.sentence import Sentence, SentenceRequest

router = service_router(tags=["planning"])


# A coroutine, although it awaits nothing: FastAPI runs plain functions in another thread.
async def _service(request: Request) -> PlannerService:
    service: PlannerService = request.app.state.service
    return service


Service = Annotated[PlannerService, Depends(_service)]


@router.post("/plan", summary="Plan a request and prove the plan")
async def plan(body: PlanRequest, service: Service) -> PlanResponse:
    """A proved plan, questions to the user (`needs_input`), or the statement that nothing fits (`no_plan`)."""
    return await service.plan(body)


@router.post("/compile", summary="Prove a given plan")
async def compile_plan(body: CompileRequest, service: Service) -> CompileResponse:
    """The compiled plan with its proof, or diagnostics of what keeps it from being proved; 200 in both cases."""
    return await service.compile(body)


@router.post("/apis:read", summary="Read APIs in advance")
async def read_apis(body: ReadApisRequest, service: Service) -> ReadApisReport:
    """Only saves time: what is not read yet is read when a request has it as a candidate."""
    return await service.read(body.apis)


@router.post("/sentences", summary="Write the sentence of an answer before its values are known")
async def word_answer(body: SentenceRequest, service: Service) -> Sentence:
    """Words and slots, or why there are none; 200 in both cases."""
    return await service.sentence(body)


@router.get("/backends", summary="List planner backends")
async def backends(service: Service) -> PlannerBackends:
    """The backends there are, and the one used where a request names none."""
    return service.backends()


@router.get("/status", summary="Show the language models' servers")
async def status(service: Service) -> PlannerStatus:
    """What this process knows about the servers; the request does not contact them."""
    return service.status()
