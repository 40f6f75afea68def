"""Routes that export or delete a whole tenant, for its own administrators and the operator's."""

from typing import Annotated

from fastapi import Path

from gateway.routing import ADMINISTERING, Caller, ProtectedRoute, Service
from gateway.settings import TENANT
from services.app import service_router
from services.contracts.tenant import TenantDeletion
from services.streams import NdjsonResponse

TenantName = Annotated[str, Path(pattern=TENANT)]
tenants = service_router(route_class=ProtectedRoute, tags=["access"])


@tenants.get(
    "/tenants/{tenant}/export",
    summary="Export the data of a tenant",
    response_class=NdjsonResponse,
    openapi_extra=ADMINISTERING,
)
async def export_tenant(tenant: TenantName, service: Service, caller: Caller) -> NdjsonResponse:
    """Keys (never the keys themselves), runs, demonstrations, documents with their APIs, entries of the audit log.

    One JSON object per line; the last is `end` with the counts. Without it the export is incomplete. An empty line is
    sent if nothing happens for 15 seconds. Only the operator's administrators export other tenants.
    """
    caller.check_tenant(tenant)
    return NdjsonResponse(service.tenants.export(tenant, caller))


@tenants.delete("/tenants/{tenant}", summary="Delete a tenant in steps", openapi_extra=ADMINISTERING)
async def delete_tenant(tenant: TenantName, service: Service, caller: Caller) -> TenantDeletion:
    """Delete its keys, runs, demonstrations and imported providers. Repeat the request until `done` is true.

    Active runs are cancelled. 409 if the settings name principals of the tenant, or if calls of it are in doubt; then
    nothing is deleted. The audit log stays. Only the operator's administrators delete other tenants.
    """
    caller.check_tenant(tenant)
    return await service.tenants.delete(tenant, caller)
