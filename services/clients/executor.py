"""Client of ``executor_svc``."""

from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Protocol

from pydantic import TypeAdapter

from services.clients.base import ServiceClient, Turn, segment
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionState
from services.contracts.operations import ExecutorStatus
from services.contracts.preview import PreviewRequest, PreviewResponse
from services.contracts.secret import Credentials, JournalPage, SecretTest, SecretTestRequest

_EVENTS: TypeAdapter[ExecutionEvent] = TypeAdapter(ExecutionEvent)
_GRACE_S = 5.0
CREDENTIALS_TIMEOUT_S = 20.0
"""Timeout for listing secrets. It is long so that an import or approval waits for a busy machine instead of failing."""


class Executor(Protocol):
    """Runs proved plans."""

    async def ready(self) -> None:
        """Raise unless ready."""

    def execute(self, request: ExecuteRequest, turn: Turn = nullcontext) -> AsyncGenerator[ExecutionEvent, None]:
        """Run a plan; the last event is ``execution_finished``. Raises Conflict if an approval is missing.

        Each event is parsed in a ``turn``.
        """

    async def credentials(self, tenant: str, timeout_s: float = CREDENTIALS_TIMEOUT_S) -> Credentials:
        """The names of the configured secrets that this tenant may use."""

    async def secret_changes(self, after: int = 0) -> JournalPage:
        """Changes of the configured secrets with a higher number than ``after``, oldest first."""

    async def status(self) -> ExecutorStatus:
        """The executor's processes, and the circuit breakers of the process that answers."""

    async def test_secret(self, request: SecretTestRequest) -> SecretTest:
        """Test the credentials of an API."""

    async def preview(self, request: PreviewRequest, turn: Turn = nullcontext) -> PreviewResponse:
        """The requests that a plan's mutating or unapproved steps would send. It is parsed in a ``turn``."""

    async def cancel(self, run_id: str) -> ExecutionState:
        """Cancel a durable run: start no further calls and wait for those in flight. Raises NotFound."""

    async def resolve(self, run_id: str, step: str, request: ResolveRequest) -> ExecutionState:
        """Settle a call in doubt. After the last one, the run continues. Raises NotFound and Conflict."""

    async def forget(self, run_id: str) -> None:
        """Delete the data of a durable run, if it exists. Raises Conflict if it is not over."""

    async def value(self, value_id: str) -> bytes:
        """The JSON of a stored value: up to 10 MB, so it is not parsed here. Raises NotFound."""


class ExecutorClient(ServiceClient):
    """:class:`Executor` over HTTP."""

    service = "executor_svc"

    def execute(self, request: ExecuteRequest, turn: Turn = nullcontext) -> AsyncGenerator[ExecutionEvent, None]:
        """Run a plan; the last event is ``execution_finished``. Raises Conflict if an approval is missing.

        Each event is parsed in a ``turn``.
        """
        patience_s = request.deadline_ms / 1000 + _GRACE_S
        return self._events("/execute", _EVENTS, request, timeout_s=patience_s, event_timeout_s=patience_s, turn=turn)

    async def credentials(self, tenant: str, timeout_s: float = CREDENTIALS_TIMEOUT_S) -> Credentials:
        """The names of the configured secrets that this tenant may use."""
        return await self._call("GET", "/credentials", Credentials, params={"tenant": tenant}, timeout_s=timeout_s)

    async def secret_changes(self, after: int = 0) -> JournalPage:
        """Changes of the configured secrets with a higher number than ``after``, oldest first."""
        return await self._call("GET", "/secret-changes", JournalPage, params={"after": after})

    async def status(self) -> ExecutorStatus:
        """The executor's processes, and the circuit breakers of the process that answers."""
        return await self._call("GET", "/status", ExecutorStatus)

    async def test_secret(self, request: SecretTestRequest) -> SecretTest:
        """Test the credentials of an API."""
        return await self._call("POST", "/credentials:test", SecretTest, body=request)

    async def preview(self, request: PreviewRequest, turn: Turn = nullcontext) -> PreviewResponse:
        """The requests that a plan's mutating or unapproved steps would send. Optionally makes the reads they need."""
        timeout_s = request.deadline_ms / 1000 + _GRACE_S
        return await self._call("POST", "/preview", PreviewResponse, turn, body=request, timeout_s=timeout_s)

    async def cancel(self, run_id: str) -> ExecutionState:
        """Cancel a durable run: start no further calls and wait for those in flight. Raises NotFound."""
        return await self._call("POST", f"/executions/{segment(run_id)}:cancel", ExecutionState)

    async def resolve(self, run_id: str, step: str, request: ResolveRequest) -> ExecutionState:
        """Settle a call in doubt. After the last one, the run continues. Raises NotFound and Conflict."""
        path = f"/executions/{segment(run_id)}/steps/{segment(step)}:resolve"
        return await self._call("POST", path, ExecutionState, body=request)

    async def forget(self, run_id: str) -> None:
        """Delete the data of a durable run, if it exists. Raises Conflict if it is not over."""
        await self._send("DELETE", f"/executions/{segment(run_id)}")

    async def value(self, value_id: str) -> bytes:
        """The JSON of a stored value: up to 10 MB, so it is not parsed here. Raises NotFound."""
        return await self._send("GET", f"/values/{segment(value_id)}")
