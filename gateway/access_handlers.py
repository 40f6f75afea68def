"""Routes of keys, of the audit log and of the state of the processes, for administrators."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response, status

from gateway.audit import AuditFilter, AuditLog, entry
from gateway.keys import KeyStore
from gateway.routing import (
    ADMINISTERING,
    PRINTABLE,
    AuditCursor,
    Caller,
    KeyCursor,
    Limit,
    Moment,
    ProtectedRoute,
    Service,
    counted,
)
from services.app import service_router
from services.contracts.access import Action, AuditPage, CreatedKey, KeyPage, KeyRequest
from services.contracts.api import Tenant
from services.contracts.operations import Operations


# Coroutines, although they await nothing: FastAPI runs plain functions in a thread.
async def get_keys(request: Request) -> KeyStore:
    """The keys of this app."""
    keys: KeyStore = request.app.state.keys
    return keys


async def get_audit(request: Request) -> AuditLog:
    """The audit log of this app."""
    audit: AuditLog = request.app.state.audit
    return audit


Keys = Annotated[KeyStore, Depends(get_keys)]
Audit = Annotated[AuditLog, Depends(get_audit)]
OfTenant = Annotated[
    Tenant | None,
    Query(
        description="Unset: your own tenant. Administrators of the operator's tenant may name any; for them unset "
        "means all."
    ),
]
access = service_router(route_class=ProtectedRoute, tags=["access"])


@access.get("/operations", summary="Processes, leases, breakers, model servers, quotas", openapi_extra=ADMINISTERING)
async def show_operations(service: Service, caller: Caller) -> Operations:
    """The processes and the runs they own, failing hosts, servers of language models, and what each tenant uses.

    For the operator's administrators. Administrators of other tenants only see what their own tenant uses.
    """
    return await service.overview.now(caller)


@access.post("/keys", summary="Create a key", status_code=status.HTTP_201_CREATED, openapi_extra=ADMINISTERING)
async def create_key(body: KeyRequest, keys: Keys, caller: Caller) -> CreatedKey:
    """A key of your tenant that is valid at once. It is shown only now; only its hash is kept.

    To rotate a key, create another one with the same name, use it, and revoke the first. You can give only roles that
    you have (403). Only the operator's administrators create keys of other tenants.
    """
    tenant = caller.tenant if body.tenant is None else body.tenant
    caller.check_tenant(tenant)
    for role in sorted(body.roles):
        caller.require({role})
    made = entry(caller, Action.CREATE_KEY)
    return await keys.create(body.name, tenant, body.roles, body.expires_in_days, caller.name, made)


@access.get("/keys", summary="List keys, newest first", openapi_extra=ADMINISTERING)
async def list_keys(
    keys: Keys, caller: Caller, tenant: OfTenant = None, limit: Limit = 20, cursor: KeyCursor = None
) -> KeyPage:
    """The keys of your tenant, including expired and revoked ones; never the keys themselves."""
    return await keys.page(caller.check_tenant(tenant), limit=limit, cursor=cursor)


@access.delete(
    "/keys/{key_id}", summary="Revoke a key", status_code=status.HTTP_204_NO_CONTENT, openapi_extra=ADMINISTERING
)
async def revoke_key(
    key_id: Annotated[str, Path(min_length=1, max_length=64, pattern=PRINTABLE)], keys: Keys, caller: Caller
) -> None:
    """The key is refused at once, and by other processes within two seconds. Revoking it again changes nothing."""
    await keys.revoke(key_id, caller.check_tenant(None), entry(caller, Action.REVOKE_KEY, key_id))


@access.get("/audit", summary="Read the audit log, newest first", response_model=AuditPage, openapi_extra=ADMINISTERING)
async def read_audit(
    audit: Audit,
    service: Service,
    caller: Caller,
    tenant: OfTenant = None,
    action: Annotated[list[Action] | None, Query(max_length=20, description="Any of these values; repeatable.")] = None,
    principal: Annotated[str | None, Query(max_length=100, pattern=PRINTABLE)] = None,
    target: Annotated[str | None, Query(max_length=1_000, pattern=PRINTABLE)] = None,
    after: Annotated[Moment | None, Query(description="After this moment.")] = None,
    before: Annotated[Moment | None, Query(description="Before this moment.")] = None,
    limit: Limit = 20,
    cursor: AuditCursor = None,
) -> Response:
    """What principals of your tenant imported, approved, rejected, settled, deleted, and which keys they created.

    Entries are added, never changed or deleted. They hold ids and digests, no arguments and no credentials.
    """
    which = AuditFilter(caller.check_tenant(tenant), tuple(action or ()), principal, target, after, before)
    return counted(await audit.page(which, limit=limit, cursor=cursor), service, caller)
