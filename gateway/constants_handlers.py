"""The route that sets what a provider's calls always send, for administrators."""

from gateway.routing import ADMINISTERING, Caller, Id, ProtectedRoute, Service
from services.app import service_router
from services.contracts.constants import ConstantsRequest, ProviderConstants

constants = service_router(route_class=ProtectedRoute, tags=["apis"])


@constants.patch("/providers/{provider}/constants", summary="Set a provider's constants", openapi_extra=ADMINISTERING)
async def set_constants(provider: Id, body: ConstantsRequest, service: Service, caller: Caller) -> ProviderConstants:
    """Set the constants that have a value and remove those that are null, all of them or none.

    A value is sent in every call whose operation takes a parameter of that name, unless the plan gives another one.
    422 if no operation takes the parameter or allows the value, and for credentials, which are secrets. 409 if
    another tenant imported the provider. `GET /documents` lists them.
    """
    return await service.administration.set_constants(provider, body, caller)
