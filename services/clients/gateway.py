"""Client of the gateway: what the command line and apps written in Python use."""

from collections.abc import AsyncGenerator

import httpx2
from pydantic import TypeAdapter

from services.clients.base import ServiceClient, segment
from services.contracts.api import Api, ApiSearchPage, ImportEvent, ImportRequest
from services.contracts.demo import Demo, DemoPage, ImportDemosReport, ImportDemosRequest
from services.contracts.run import ApproveRequest, Run, RunPage, SolveEvent, SolveRequest

_IMPORT_EVENTS: TypeAdapter[ImportEvent] = TypeAdapter(ImportEvent)
_SOLVE_EVENTS: TypeAdapter[SolveEvent] = TypeAdapter(SolveEvent)
_GRACE_S = 10.0


class GatewayClient(ServiceClient):
    """Everything an app or a person asks of Nestor."""

    service = "gateway"

    def __init__(self, http: httpx2.AsyncClient, token: str | None = None) -> None:
        super().__init__(http)
        if token:
            http.headers["Authorization"] = f"Bearer {token}"

    async def solve(self, request: SolveRequest) -> Run:
        """Solve a request and wait for its answer."""
        return await self._call("POST", "/solve", Run, body=request, timeout_s=_patience(request))

    def solve_events(self, request: SolveRequest) -> AsyncGenerator[SolveEvent, None]:
        """Solve a request and follow it: planned, steps, finished."""
        return self._events("/solve:stream", _SOLVE_EVENTS, request, timeout_s=_patience(request))

    async def plan(self, request: SolveRequest) -> Run:
        """Plan and prove; nothing is sent."""
        return await self._call("POST", "/plan", Run, body=request, timeout_s=_patience(request))

    async def approve(self, run_id: str, plan_id: str) -> Run:
        """Approve exactly this plan of a run that waits for it, and run it."""
        body = ApproveRequest(plan_id=plan_id)
        return await self._call("POST", f"/runs/{segment(run_id)}:approve", Run, body=body, timeout_s=3600)

    async def runs(self, *, limit: int = 20, cursor: str | None = None, status: str | None = None) -> RunPage:
        """A page of runs, newest first."""
        return await self._call("GET", "/runs", RunPage, params={"limit": limit, "cursor": cursor, "status": status})

    async def run(self, run_id: str) -> Run:
        """One run. Raises NotFound."""
        return await self._call("GET", f"/runs/{segment(run_id)}", Run)

    async def search_apis(
        self, query: str | None = None, *, provider: str | None = None, limit: int = 20, offset: int = 0
    ) -> ApiSearchPage:
        """Search or list the catalogue."""
        params = {"query": query, "provider": provider, "limit": limit, "offset": offset}
        return await self._call("GET", "/apis", ApiSearchPage, params=params)

    async def api(self, api_id: str) -> Api:
        """One API with its schemas. Raises NotFound."""
        return await self._call("GET", f"/apis/{segment(api_id)}", Api)

    def import_apis(self, request: ImportRequest) -> AsyncGenerator[ImportEvent, None]:
        """Import an API description: progress, then one report. Raises InvalidDocument."""
        return self._events("/apis:import", _IMPORT_EVENTS, request, timeout_s=600)

    async def delete_provider(self, provider: str) -> None:
        """Remove a provider with all its APIs. Raises NotFound."""
        await self._send("DELETE", f"/providers/{segment(provider)}")

    async def demos(self, *, api: str | None = None, limit: int = 20, offset: int = 0) -> DemoPage:
        """A page of demos."""
        return await self._call("GET", "/demos", DemoPage, params={"api": api, "limit": limit, "offset": offset})

    async def add_demo(self, demo: Demo) -> Demo:
        """Add a demo; adding it again changes nothing."""
        return await self._call("POST", "/demos", Demo, body=demo)

    async def import_demos(self, request: ImportDemosRequest) -> ImportDemosReport:
        """Add many demos."""
        return await self._call("POST", "/demos:import", ImportDemosReport, body=request, timeout_s=600)

    async def delete_demo(self, demo_id: str) -> None:
        """Remove a demo. Raises NotFound."""
        await self._send("DELETE", f"/demos/{segment(demo_id)}")


def _patience(request: SolveRequest) -> float:
    return request.options.deadline_ms / 1000 + _GRACE_S
