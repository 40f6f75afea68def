"""What all routes of the gateway share: authentication, authorization and the types of their parameters."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from pydantic import AfterValidator, AwareDatetime

from gateway.principals import Principal
from gateway.roles import Role, needed, needs
from gateway.service import GatewayService
from services.contracts.base import Contract
from services.http import StrictRoute
from services.turns import accept

PRINTABLE = r"^[^\x00-\x1f]*$"


# Coroutines, although they await nothing: FastAPI runs plain functions in a thread.
async def get_service(request: Request) -> GatewayService:
    """The service of this app."""
    service: GatewayService = request.app.state.service
    return service


class ProtectedRoute(StrictRoute):
    """A route for principals. The caller is authenticated and authorized before the body is read.

    Raises:
        ValueError: the route does not declare which roles may use it.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._roles = needed(self.openapi_extra)

    async def admit(self, request: Request) -> None:
        """Authenticate the caller and check its roles and quota.

        Raises:
            Unauthorized: the token is not valid.
            Forbidden: the caller has none of the route's roles.
            QuotaExceeded: the tenant sends too many requests.
            ServiceError: as :meth:`gateway.principals.Principals.authenticate`.
        """
        principal: Principal = await request.app.state.principals.authenticate(request)
        principal.require(self._roles)
        request.state.principal = principal
        request.app.state.service.quotas.count_request(principal.tenant)
        accept(request.scope, principal.tenant)

    def tenant_of(self, request: Request) -> str:
        """The caller's tenant."""
        tenant: str = request.state.principal.tenant
        return tenant

    def charge(self, request: Request, size: int) -> None:
        """Count a body like stored JSON of its size: to parse it takes as long. Raises QuotaExceeded."""
        request.app.state.service.quotas.read(request.state.principal.tenant, size)

    async def readmit(self, request: Request) -> None:
        """Refuse a request, or end a stream, whose caller's key or token has ended (Unauthorized)."""
        await request.app.state.principals.check(request.state.principal)


async def get_caller(request: Request) -> Principal:
    """The principal that sends the request."""
    principal: Principal = request.state.principal
    return principal


def counted(answer: Contract, service: GatewayService, caller: Principal) -> Response:
    """The answer as JSON. Reading it counts by its size. Raises QuotaExceeded if the tenant has read too much."""
    content = answer.model_dump_json(by_alias=True).encode()
    service.quotas.read(caller.tenant, len(content))
    return Response(content, media_type="application/json")


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("beyond the years 1 to 9999 in UTC") from None


ADMINISTERING = needs(Role.ADMINISTER)
Service = Annotated[GatewayService, Depends(get_service)]
Caller = Annotated[Principal, Depends(get_caller)]
Id = Annotated[str, Path(min_length=1, max_length=400, pattern=PRINTABLE)]
Limit = Annotated[int, Query(ge=1, le=100)]
RunCursor = Annotated[str | None, Query(pattern="^run_[0-9a-f]{32}$", description="`next` of the page before.")]
AuditCursor = Annotated[str | None, Query(pattern="^aud_[0-9a-f]{32}$", description="`next` of the page before.")]
KeyCursor = Annotated[str | None, Query(pattern="^[0-9a-f]{20}$", description="`next` of the page before.")]
Moment = Annotated[AwareDatetime, AfterValidator(_utc)]
