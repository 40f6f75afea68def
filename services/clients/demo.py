"""Client of ``demo_svc``."""

from typing import Protocol

from services.clients.base import DEFAULT_TIMEOUT_S, ServiceClient, segment
from services.contracts.demo import (
    Demo,
    DemoPage,
    DemosOfApisRequest,
    ImportDemosReport,
    ImportDemosRequest,
    SameDemosRequest,
    SameDemosResponse,
    SelectDemosRequest,
    SelectDemosResponse,
)


class Demos(Protocol):
    """The knowledge base of solved requests, and the Demo Selector.

    A demo belongs to a tenant or, if ``tenant`` is None, to everyone. A tenant sees both but changes only its own.
    """

    async def ready(self) -> None:
        """Raise unless ready."""

    async def select(self, request: SelectDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SelectDemosResponse:
        """The demos most useful for a request."""

    async def same(self, request: SameDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SameDemosResponse:
        """The APIs of the demos of a text."""

    async def of_apis(self, request: DemosOfApisRequest) -> DemoPage:
        """A page of the demos that use any of some APIs."""

    async def add(self, demo: Demo, *, tenant: str | None = None) -> Demo:
        """Add a demo; adding it again changes nothing."""

    async def import_demos(self, request: ImportDemosRequest, *, tenant: str | None = None) -> ImportDemosReport:
        """Add many demos."""

    async def list(
        self,
        *,
        api: str | None = None,
        tenant: str | None = None,
        own: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> DemoPage:
        """A page of demos; with ``own`` only of the tenant's, without everyone's."""

    async def get(self, demo_id: str, *, tenant: str | None = None) -> Demo:
        """One demo. Raises NotFound."""

    async def delete(self, demo_id: str, *, tenant: str | None = None) -> None:
        """Remove a demo. Raises NotFound."""


class DemoClient(ServiceClient):
    """:class:`Demos` over HTTP."""

    service = "demo_svc"

    async def select(self, request: SelectDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SelectDemosResponse:
        """The demos most useful for a request."""
        return await self._call("POST", "/select", SelectDemosResponse, body=request, timeout_s=timeout_s)

    async def same(self, request: SameDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SameDemosResponse:
        """The APIs of the demos of a text."""
        return await self._call("POST", "/select:same", SameDemosResponse, body=request, timeout_s=timeout_s)

    async def of_apis(self, request: DemosOfApisRequest) -> DemoPage:
        """A page of the demos that use any of some APIs."""
        return await self._call("POST", "/demos:of-apis", DemoPage, body=request)

    async def add(self, demo: Demo, *, tenant: str | None = None) -> Demo:
        """Add a demo; adding it again changes nothing."""
        return await self._call("POST", "/demos", Demo, body=demo, params={"tenant": tenant})

    async def import_demos(self, request: ImportDemosRequest, *, tenant: str | None = None) -> ImportDemosReport:
        """Add many demos."""
        params = {"tenant": tenant}
        return await self._call("POST", "/demos:import", ImportDemosReport, body=request, params=params, timeout_s=600)

    async def list(
        self,
        *,
        api: str | None = None,
        tenant: str | None = None,
        own: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> DemoPage:
        """A page of demos; with ``own`` only of the tenant's, without everyone's."""
        params = {"api": api, "tenant": tenant, "own": "true" if own else None, "limit": limit, "cursor": cursor}
        return await self._call("GET", "/demos", DemoPage, params=params)

    async def get(self, demo_id: str, *, tenant: str | None = None) -> Demo:
        """One demo. Raises NotFound."""
        return await self._call("GET", f"/demos/{segment(demo_id)}", Demo, params={"tenant": tenant})

    async def delete(self, demo_id: str, *, tenant: str | None = None) -> None:
        """Remove a demo. Raises NotFound."""
        await self._send("DELETE", f"/demos/{segment(demo_id)}", params={"tenant": tenant})
