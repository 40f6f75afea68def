"""Client of ``planner_svc``."""

from collections.abc import Sequence
from typing import Protocol

from services.clients.base import DEFAULT_TIMEOUT_S, ServiceClient
from services.contracts.api import Api
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


class Planner(Protocol):
    """Turns a request, candidates and demos into a proved plan."""

    async def ready(self) -> None:
        """Raise unless ready."""

    async def plan(self, request: PlanRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> PlanResponse:
        """Plan and prove."""

    async def compile(self, request: CompileRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> CompileResponse:
        """Prove a given plan."""

    async def read(self, apis: Sequence[Api]) -> ReadApisReport:
        """Let the planner read at most 100 APIs before they are candidates of a request."""

    async def sentence(self, request: SentenceRequest) -> Sentence:
        """Words for an answer, with slots for its values."""

    async def backends(self) -> PlannerBackends:
        """The available backends."""

    async def status(self) -> PlannerStatus:
        """The language model servers, as seen by the process that answers."""


class PlannerClient(ServiceClient):
    """:class:`Planner` over HTTP."""

    service = "planner_svc"

    async def plan(self, request: PlanRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> PlanResponse:
        """Plan and prove."""
        return await self._call("POST", "/plan", PlanResponse, body=request, timeout_s=timeout_s)

    async def compile(self, request: CompileRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> CompileResponse:
        """Prove a given plan."""
        return await self._call("POST", "/compile", CompileResponse, body=request, timeout_s=timeout_s)

    async def read(self, apis: Sequence[Api]) -> ReadApisReport:
        """Let the planner read at most 100 APIs before they are candidates of a request."""
        return await self._call("POST", "/apis:read", ReadApisReport, body=ReadApisRequest(apis=tuple(apis)))

    async def sentence(self, request: SentenceRequest) -> Sentence:
        """Words for an answer, with slots for its values. The request's deadline is also the timeout."""
        return await self._call("POST", "/sentences", Sentence, body=request, timeout_s=request.deadline_ms / 1000)

    async def backends(self) -> PlannerBackends:
        """The available backends."""
        return await self._call("GET", "/backends", PlannerBackends)

    async def status(self) -> PlannerStatus:
        """The language model servers, as seen by the process that answers."""
        return await self._call("GET", "/status", PlannerStatus)
