"""The executor's routes."""

from fastapi import Request

from executor_svc.service import ExecutorService
from services.app import service_router
from services.contracts.run import Credentials, ExecuteRequest
from services.http import NdjsonResponse

router = service_router(tags=["execution"])


def _service(request: Request) -> ExecutorService:
    service: ExecutorService = request.app.state.service
    return service


@router.post(
    "/execute",
    summary="Run a proved plan",
    response_class=NdjsonResponse,
    response_description="One `ExecutionEvent` a line; the last is `execution_finished`.",
)
async def execute(request: Request, body: ExecuteRequest) -> NdjsonResponse:
    """Run a plan and stream what happens. When the caller hangs up, the run is cancelled."""
    return NdjsonResponse(_service(request).execute(body))


@router.get("/credentials", summary="Which secrets are configured?")
async def credentials(request: Request) -> Credentials:
    """Names only."""
    return _service(request).credentials()
