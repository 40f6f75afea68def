"""Sets and removes the constants that every call of a provider sends, on the page of the providers."""

from typing import Annotated

from fastapi import Depends, Response

from gateway.console.forms import request_of
from gateway.console.pages import ConsoleRoute, get_form, get_session, redirect
from gateway.console.session import PATH, Session
from gateway.routing import Id, Service
from services.app import service_router
from services.contracts.constants import ConstantsRequest
from services.errors import ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)


@router.post(f"{PATH}/catalogue/providers/{{provider}}/constants")
async def set_constant(
    provider: Id,
    service: Service,
    who: Annotated[Session, Depends(get_session)],
    form: Annotated[dict[str, str], Depends(get_form)],
) -> Response:
    """Set one constant, or remove it."""
    who.require("administer")
    name, value = form.get("name", "").strip(), form.get("value", "").strip()
    removes = form.get("do") == "remove"
    if not name or not (value or removes):
        raise ValidationFailed("Nothing was set: a constant needs a name and a value.")
    wish = request_of(ConstantsRequest, {"constants": {name: None if removes else value}})
    await service.administration.set_constants(provider, wish, who.principal)
    return redirect(f"{PATH}/catalogue/providers#{provider}")
