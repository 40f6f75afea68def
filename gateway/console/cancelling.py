"""Cancels several runs at once, from the list of runs."""

from typing import Annotated, Final

from fastapi import Depends, Request, Response

from gateway.console.pages import READING_RUNS, ConsoleRoute, cut, get_form, get_session, own_path, redirect, render
from gateway.console.session import PATH, Session
from gateway.routing import Service
from gateway.storage import UNDER_WAY
from services.app import service_router
from services.contracts.run import RunStatus
from services.errors import ServiceError, ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
CANCELLABLE: Final = UNDER_WAY | {RunStatus.NEEDS_APPROVAL, RunStatus.NEEDS_INPUT}
"""States of a run that can be cancelled."""
_FIELD: Final = "run."
_CHARS: Final = 300
"""Characters of an id and of a reason that are shown. Both may repeat what was sent."""


@router.post(f"{PATH}/runs/cancel")
async def cancel_chosen(
    request: Request,
    service: Service,
    who: Annotated[Session, Depends(get_session)],
    form: Annotated[dict[str, str], Depends(get_form)],
) -> Response:
    """Cancel each chosen run. Runs that could not be cancelled are listed, each with the reason."""
    who.require(*READING_RUNS)
    chosen = [name.removeprefix(_FIELD) for name in form if name.startswith(_FIELD)]
    if not chosen:
        raise ValidationFailed("Nothing was cancelled: select runs in the list first.")
    back = own_path(form.get("back", ""))
    refused: list[tuple[str, str]] = []
    for run_id in chosen:
        try:
            await service.decisions.cancel(run_id, who.principal)
        except ServiceError as error:
            refused.append((cut(run_id, _CHARS), cut(error.detail or error.title, _CHARS)))
    if not refused:
        return redirect(back)
    done = len(chosen) - len(refused)
    return render(request, "cancelled.html", status=409, screen="runs", done=done, refused=refused, back=back)
