"""Client of ``executor_svc``."""

from collections.abc import AsyncGenerator
from typing import Protocol

from pydantic import TypeAdapter

from services.clients.base import ServiceClient
from services.contracts.run import Credentials, ExecuteRequest, ExecutionEvent

_EVENTS: TypeAdapter[ExecutionEvent] = TypeAdapter(ExecutionEvent)
_GRACE_S = 5.0
CREDENTIALS_TIMEOUT_S = 5.0


class Executor(Protocol):
    """Runs proved plans."""

    async def ready(self) -> None:
        """Raise unless ready."""

    def execute(self, request: ExecuteRequest) -> AsyncGenerator[ExecutionEvent, None]:
        """Run a plan; the last event is ``execution_finished``. Raises Conflict where an approval is missing."""

    async def credentials(self, timeout_s: float = CREDENTIALS_TIMEOUT_S) -> Credentials:
        """The names of the configured secrets."""


class ExecutorClient(ServiceClient):
    """:class:`Executor` over HTTP."""

    service = "executor_svc"

    def execute(self, request: ExecuteRequest) -> AsyncGenerator[ExecutionEvent, None]:
        """Run a plan; the last event is ``execution_finished``. Raises Conflict where an approval is missing."""
        return self._events("/execute", _EVENTS, request, timeout_s=request.deadline_ms / 1000 + _GRACE_S)

    async def credentials(self, timeout_s: float = CREDENTIALS_TIMEOUT_S) -> Credentials:
        """The names of the configured secrets."""
        return await self._call("GET", "/credentials", Credentials, timeout_s=timeout_s)
