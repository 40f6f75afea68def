"""The executor's routes."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from fastapi import Request
from fastapi.responses import StreamingResponse

from executor_svc.service import ExecutorService
from services.app import service_router
from services.contracts.run import Credentials, ExecuteRequest, ExecutionEvent

NDJSON = "application/x-ndjson"
router = service_router(tags=["execution"])


def _service(request: Request) -> ExecutorService:
    service: ExecutorService = request.app.state.service
    return service


@router.post(
    "/execute",
    summary="Run a proved plan",
    response_class=StreamingResponse,
    responses={
        200: {"description": "One `ExecutionEvent` a line; the last is `execution_finished`.", "content": {NDJSON: {}}}
    },
)
async def execute(request: Request, body: ExecuteRequest) -> StreamingResponse:
    """Run a plan and stream what happens. When the caller hangs up, the run is cancelled."""
    return StreamingResponse(_lines(_service(request).execute(body)), media_type=NDJSON)


@router.get("/credentials", summary="Which secrets are configured?")
async def credentials(request: Request) -> Credentials:
    """Names only."""
    return _service(request).credentials()


async def _lines(events: AsyncGenerator[ExecutionEvent, None]) -> AsyncIterator[bytes]:
    """One event a line. In ASCII: readers may take U+2028 and U+0085 for line ends too, and outputs may hold them."""
    async with aclosing(events) as open_events:
        async for event in open_events:
            yield event.model_dump_json(ensure_ascii=True).encode() + b"\n"
