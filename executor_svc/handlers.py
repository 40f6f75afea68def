"""The executor's routes."""

from typing import Annotated

from fastapi import Path, Query, Request, Response, status

from executor_svc.service import ExecutorService
from services.app import service_router
from services.contracts.api import Tenant
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionState
from services.contracts.operations import ExecutorStatus
from services.contracts.preview import PreviewRequest, PreviewResponse
from services.contracts.secret import Credentials, JournalPage, SecretTest, SecretTestRequest
from services.streams import NdjsonResponse

router = service_router(tags=["execution"])
Id = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]*$")]


def _service(request: Request) -> ExecutorService:
    service: ExecutorService = request.app.state.service
    return service


@router.post(
    "/execute",
    summary="Run a proved plan, or follow the run with that id",
    response_class=NdjsonResponse,
    response_description="One `ExecutionEvent` a line; the last is `execution_finished`.",
)
async def execute(request: Request, body: ExecuteRequest) -> NdjsonResponse:
    """Run a plan and stream what happens.

    A plan of safe reads is cancelled when the caller disconnects. A plan that may change something continues; a further
    request with the same `run_id` follows it from its beginning.
    """
    return NdjsonResponse(_service(request).execute(body))


@router.post("/preview", summary="Preview the requests of a plan")
async def preview(request: Request, body: PreviewRequest) -> PreviewResponse:
    """The requests of the steps that may change something or wait for an approval. None of them is sent.

    With `reads`, the reads that feed these steps are made, and the requests are shown with their values.
    """
    return await _service(request).preview(body)


@router.post("/executions/{run_id}:cancel", summary="Cancel a run")
async def cancel(request: Request, run_id: Id) -> ExecutionState:
    """Calls in flight are awaited, since they may have an effect. A run that has ended stays as it is."""
    return await _service(request).cancel(run_id)


@router.post("/executions/{run_id}/steps/{step}:resolve", summary="Settle a call in doubt")
async def resolve(request: Request, run_id: Id, step: Id, body: ResolveRequest) -> ExecutionState:
    """Record the outcome of the call. When the last call in doubt is settled, the run continues."""
    return await _service(request).resolve(run_id, step, body)


@router.delete("/executions/{run_id}", summary="Delete a run", status_code=status.HTTP_204_NO_CONTENT)
async def forget(request: Request, run_id: Id) -> None:
    """Deletes its request, its calls and its result; 409 if it is not over. Its id stays reserved for a while."""
    await _service(request).forget(run_id)


@router.get("/values/{value_id}", summary="A large value in full")
async def value(request: Request, value_id: Id) -> Response:
    """The value as JSON."""
    return Response(await _service(request).value(value_id), media_type="application/json")


@router.get("/status", summary="Show processes and failing hosts")
async def executor_status(request: Request) -> ExecutorStatus:
    """All processes, by their leases. Breakers are those of the process that answers."""
    return await _service(request).status()


@router.get("/credentials", summary="Which secrets are configured?")
async def credentials(request: Request, tenant: Tenant | None = None) -> Credentials:
    """The names of the secrets that this tenant may use; without a tenant, of those that every tenant may use."""
    return _service(request).credentials(tenant)


@router.get("/secret-changes", summary="Which secrets were added, changed and removed?")
async def secret_changes(
    request: Request, after: Annotated[int, Query(ge=0, le=2**31 - 1, description="Only later entries.")] = 0
) -> JournalPage:
    """Names, hosts, places and tenants, oldest first; never values. The first call reads a changed file again."""
    return await _service(request).secret_changes(after)


@router.post("/credentials:test", summary="Try an API's credentials")
async def test_credentials(request: Request, body: SecretTestRequest) -> SecretTest:
    """The result of presenting them, without their values. Fetches an OAuth2 token. With `send`, one call is made."""
    return await _service(request).test_secret(body)
