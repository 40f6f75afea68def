"""Client of the gateway, for the command line and for Python apps."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime

from pydantic import JsonValue, TypeAdapter

from services.clients.base import ServiceClient, search_params, segment
from services.contracts.access import AuditPage, CreatedKey, KeyPage, KeyRequest
from services.contracts.api import Api, DocumentPage, ImportEvent, ImportRequest, NeededSecrets
from services.contracts.approval import ApproveRequest
from services.contracts.comparison import Comparison
from services.contracts.constants import ConstantsRequest, ProviderConstants
from services.contracts.demo import Demo, DemoPage, ImportDemosReport, ImportDemosRequest
from services.contracts.doubt import ResolveRequest
from services.contracts.event import RunEvent, SolveEvent
from services.contracts.feedback import FeedbackRequest
from services.contracts.operations import Operations
from services.contracts.rerun import RerunRequest
from services.contracts.retrieval import ApiSearchPage
from services.contracts.run import Run, RunPage
from services.contracts.secret import SecretTest, TrySecret
from services.contracts.solve import SolveRequest
from services.contracts.start import StartRequest
from services.contracts.tenant import ExportLine, TenantDeletion
from services.errors import ServiceError

_IMPORT_EVENTS: TypeAdapter[ImportEvent] = TypeAdapter(ImportEvent)
_SOLVE_EVENTS: TypeAdapter[SolveEvent] = TypeAdapter(SolveEvent)
_EXPORT_LINES: TypeAdapter[ExportLine] = TypeAdapter(ExportLine)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_GRACE_S = 10.0
_LONG_S = 130.0
_LONGEST_S = 3_600.0
_SILENCE_S = 45.0
"""Read timeout of event streams: three of the gateway's keep-alive intervals."""


class GatewayClient(ServiceClient):
    """Client of Nestor's public API."""

    service = "gateway"

    def _raised(self, error: ServiceError) -> ServiceError:
        """The error unchanged: here the token is the user's own, so Unauthorized is meaningful."""
        return error

    async def solve(self, request: SolveRequest, *, idempotency_key: str | None = None) -> Run:
        """Solve a request and wait for its answer; with ``wait`` false, get the run as soon as it is accepted."""
        headers = _keyed(idempotency_key)
        return await self._call("POST", "/solve", Run, body=request, headers=headers, timeout_s=_patience(request))

    def solve_events(
        self, request: SolveRequest, *, idempotency_key: str | None = None
    ) -> AsyncGenerator[SolveEvent, None]:
        """Solve a request and follow it: planned, steps, finished."""
        headers = _keyed(idempotency_key)
        return self._events("/solve:stream", _SOLVE_EVENTS, request, timeout_s=_patience(request), headers=headers)

    async def plan(self, request: SolveRequest) -> Run:
        """Plan and prove, without running the plan."""
        return await self._call("POST", "/plan", Run, body=request, timeout_s=_patience(request))

    async def start(self, request: StartRequest, *, idempotency_key: str | None = None) -> Run:
        """Run a given plan and wait for its answer; with ``wait`` false, get the run as soon as it is accepted."""
        timeout_s = request.options.deadline_ms / 1000 + _GRACE_S
        headers = _keyed(idempotency_key)
        return await self._call("POST", "/runs", Run, body=request, headers=headers, timeout_s=timeout_s)

    async def rerun(self, run_id: str, request: RerunRequest, *, idempotency_key: str | None = None) -> Run:
        """Run the plan of a run again; waits as ``start`` does. Raises Conflict and ValidationFailed."""
        timeout_s = request.options.deadline_ms / 1000 + _GRACE_S
        headers, path = _keyed(idempotency_key), f"/runs/{segment(run_id)}:rerun"
        return await self._call("POST", path, Run, body=request, headers=headers, timeout_s=timeout_s)

    async def approve(
        self, run_id: str, plan_id: str, *, digest: str | None = None, on_behalf_of: str = "", wait: bool = True
    ) -> Run:
        """Approve this plan of a waiting run, and the requests with this digest, and run it.

        Raises Conflict if the run waits with another plan or other requests.
        """
        body = ApproveRequest(plan_id=plan_id, digest=digest, on_behalf_of=on_behalf_of, wait=wait)
        return await self._call("POST", f"/runs/{segment(run_id)}:approve", Run, body=body, timeout_s=_LONGEST_S)

    async def cancel(self, run_id: str) -> Run:
        """Cancel a run. The returned run may still be running. Raises Conflict if it has already ended."""
        return await self._call("POST", f"/runs/{segment(run_id)}:cancel", Run)

    async def resolve(self, run_id: str, step: str, request: ResolveRequest, *, wait: bool = True) -> Run:
        """Settle a call in doubt. After the last one, the run continues. Raises Conflict if it is not in doubt."""
        path = f"/runs/{segment(run_id)}/steps/{segment(step)}:resolve"
        params = {"wait": "true" if wait else "false"}
        return await self._call("POST", path, Run, body=request, params=params, timeout_s=_LONGEST_S)

    async def judge(self, run_id: str, request: FeedbackRequest) -> Run:
        """Confirm or reject a run's outcome. Raises Conflict if it is not over, or to confirm a failed run."""
        return await self._call("POST", f"/runs/{segment(run_id)}/feedback", Run, body=request)

    async def demonstrate(self, run_id: str, *, shared: bool = False) -> Demo:
        """Make a confirmed run a demonstration. Raises Conflict if it is not confirmed."""
        return await self._call("POST", f"/runs/{segment(run_id)}:demo", Demo, params=_shared(shared))

    async def value(self, run_id: str, value_id: str) -> JsonValue:
        """A large value of a run that has ended, in full. Raises NotFound."""
        return _JSON.validate_json(await self._send("GET", f"/runs/{segment(run_id)}/values/{segment(value_id)}"))

    async def runs(
        self,
        *,
        limit: int = 20,
        cursor: str | None = None,
        status: str | list[str] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        q: str | None = None,
        feedback: str | None = None,
    ) -> RunPage:
        """A page of runs, newest first, filtered by state, time of creation, and text.

        ``feedback`` is ``confirmed``, ``rejected`` or ``none``.
        """
        params = {
            "limit": limit,
            "cursor": cursor,
            "status": status,
            "after": after.isoformat() if after else None,
            "before": before.isoformat() if before else None,
            "q": q,
            "feedback": feedback,
        }
        return await self._call("GET", "/runs", RunPage, params=params)

    async def run(self, run_id: str) -> Run:
        """One run. Raises NotFound."""
        return await self._call("GET", f"/runs/{segment(run_id)}", Run)

    async def compare(self, run_id: str, other: str) -> Comparison:
        """The first difference between two runs. Raises NotFound."""
        return await self._call("GET", f"/runs/{segment(run_id)}/compare/{segment(other)}", Comparison)

    async def operations(self) -> Operations:
        """Processes, leases, and hosts in trouble. Raises Forbidden for tenants."""
        return await self._call("GET", "/operations", Operations)

    async def delete_run(self, run_id: str) -> None:
        """Delete a run that is over. Raises NotFound, and Conflict if it is not over."""
        await self._send("DELETE", f"/runs/{segment(run_id)}")

    async def events(self, run_id: str, after: int = 0) -> AsyncGenerator[RunEvent, None]:
        """The events of a run after event number ``after``, up to ``finished``.

        Raises ServiceUnavailable if the connection is lost. To resume, pass the number of the last event.
        """
        path = f"/runs/{segment(run_id)}/events"
        events = self._server_sent(path, _SOLVE_EVENTS, params={"after": after}, timeout_s=_SILENCE_S)
        async with aclosing(events):
            async for number, event in events:
                yield RunEvent(id=number, event=event)

    async def search_apis(
        self,
        query: str | None = None,
        *,
        provider: str | None = None,
        tags: Sequence[str] = (),
        methods: Sequence[str] = (),
        deprecated: bool = True,
        limit: int = 20,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ApiSearchPage:
        """Search the APIs that the tenant sees, paged by ``offset``, or list them, paged by ``cursor``."""
        params = search_params(query, provider, tags, methods, deprecated, limit, offset, cursor)
        return await self._call("GET", "/apis", ApiSearchPage, params=params)

    async def api(self, api_id: str) -> Api:
        """One API with its schemas. Raises NotFound."""
        return await self._call("GET", f"/apis/{segment(api_id)}", Api)

    def import_apis(self, request: ImportRequest) -> AsyncGenerator[ImportEvent, None]:
        """Import an API description: progress or changes, then one report. Raises InvalidDocument and Conflict."""
        return self._events("/apis:import", _IMPORT_EVENTS, request, timeout_s=600)

    async def documents(self, *, limit: int = 100, cursor: str | None = None) -> DocumentPage:
        """A page of the imported documents."""
        return await self._call("GET", "/documents", DocumentPage, params={"limit": limit, "cursor": cursor})

    async def secrets(self, provider: str) -> NeededSecrets:
        """The credentials that a provider's APIs require, and which of them are configured."""
        return await self._call("GET", f"/providers/{segment(provider)}/credentials", NeededSecrets)

    async def try_secret(self, name: str) -> SecretTest:
        """Test a credential. Raises NotFound if no API requires only this credential."""
        return await self._call("POST", "/credentials:test", SecretTest, body=TrySecret(secret=name))

    async def set_constants(self, provider: str, request: ConstantsRequest) -> ProviderConstants:
        """Set the constants of a provider's calls. Raises NotFound, Conflict and ValidationFailed."""
        path = f"/providers/{segment(provider)}/constants"
        return await self._call("PATCH", path, ProviderConstants, body=request, timeout_s=_LONG_S)

    async def delete_provider(self, provider: str) -> None:
        """Remove a provider with all its APIs. Raises NotFound."""
        await self._send("DELETE", f"/providers/{segment(provider)}")

    async def demos(self, *, api: str | None = None, limit: int = 20, cursor: str | None = None) -> DemoPage:
        """A page of demos."""
        return await self._call("GET", "/demos", DemoPage, params={"api": api, "limit": limit, "cursor": cursor})

    async def add_demo(self, demo: Demo, *, shared: bool = False) -> Demo:
        """Add a demo for the principal's tenant, or everyone; adding it again changes nothing."""
        return await self._call("POST", "/demos", Demo, body=demo, params=_shared(shared))

    async def import_demos(self, request: ImportDemosRequest, *, shared: bool = False) -> ImportDemosReport:
        """Add many demos."""
        params = _shared(shared)
        return await self._call("POST", "/demos:import", ImportDemosReport, body=request, params=params, timeout_s=600)

    async def delete_demo(self, demo_id: str) -> None:
        """Remove a demo. Raises NotFound."""
        await self._send("DELETE", f"/demos/{segment(demo_id)}")

    async def create_key(self, request: KeyRequest) -> CreatedKey:
        """Create a key, which is shown only in this response. Raises Forbidden for a role that the caller lacks."""
        return await self._call("POST", "/keys", CreatedKey, body=request)

    async def keys(self, *, tenant: str | None = None, limit: int = 20, cursor: str | None = None) -> KeyPage:
        """A page of keys, newest first."""
        return await self._call("GET", "/keys", KeyPage, params={"tenant": tenant, "limit": limit, "cursor": cursor})

    async def revoke_key(self, key_id: str) -> None:
        """Revoke a key. Raises NotFound."""
        await self._send("DELETE", f"/keys/{segment(key_id)}")

    async def audit(
        self,
        *,
        tenant: str | None = None,
        actions: Sequence[str] = (),
        principal: str | None = None,
        target: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> AuditPage:
        """A page of the audit log, newest first, filtered by actions, principal, target and time."""
        params = {
            "tenant": tenant,
            "action": list(actions) or None,
            "principal": principal,
            "target": target,
            "after": after.isoformat() if after else None,
            "before": before.isoformat() if before else None,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._call("GET", "/audit", AuditPage, params=params)

    def export_tenant(self, tenant: str) -> AsyncGenerator[ExportLine, None]:
        """All stored data of a tenant. It is incomplete unless the last line is `end`. Raises Forbidden."""
        path = f"/tenants/{segment(tenant)}/export"
        return self._events(path, _EXPORT_LINES, None, method="GET", timeout_s=_LONGEST_S)

    async def delete_tenant(self, tenant: str) -> TenantDeletion:
        """Delete part of a tenant's data; call it until it is done. Raises Forbidden and Conflict."""
        return await self._call("DELETE", f"/tenants/{segment(tenant)}", TenantDeletion, timeout_s=_LONGEST_S)


def _patience(request: SolveRequest) -> float:
    return request.options.deadline_ms / 1000 + _GRACE_S


def _shared(shared: bool) -> dict[str, str]:
    return {"shared": "true"} if shared else {}


def _keyed(idempotency_key: str | None) -> dict[str, str]:
    return {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
