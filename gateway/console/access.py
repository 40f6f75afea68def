"""Access to the console: login, logout, the palette, and static files."""

from typing import Annotated, Final, Literal

from fastapi import Depends, Query, Request, Response

from gateway.console.pages import (
    READING_RUNS,
    SCREENS,
    ConsoleRoute,
    OpenRoute,
    cut,
    get_form,
    get_session,
    own_path,
    read_form,
    redirect,
    render,
    static,
    with_query,
)
from gateway.console.session import PATH, LoginNeeded, Session, Sessions, drop_cookie, set_cookie
from gateway.listing import Filter
from gateway.routing import PRINTABLE, Service
from services.app import service_router
from services.errors import Unauthorized
from services.http import BODY_LIMIT

open_router = service_router(route_class=OpenRoute, include_in_schema=False)
router = service_router(route_class=ConsoleRoute, include_in_schema=False)
_FEW: Final = 8
_LOGIN_BYTES: Final = 8_192
"""Size limit of the login form, which anybody may send."""


@open_router.get(f"{PATH}/static/{{name}}")
async def own_file(name: str) -> Response:
    """A static file of the console."""
    return static(name)


@open_router.get(f"{PATH}/login")
async def ask_for_token(
    request: Request,
    following: Annotated[str, Query(alias="next", max_length=2_000)] = PATH,
    ended: Annotated[Literal["", "page", "form"], Query()] = "",
) -> Response:
    """The login form. A reader that already has a session, or needs none, is redirected.

    `ended` says that the session ended while a page was open (`page`) or before a form was sent (`form`).
    """
    try:
        await Sessions(request.app.state.principals).of(request)
    except LoginNeeded:
        return render(request, "login.html", screen="", next=own_path(following), ended=ended, wrong="")
    return redirect(own_path(following))


@open_router.post(f"{PATH}/login", openapi_extra={BODY_LIMIT: _LOGIN_BYTES})
async def log_in(request: Request) -> Response:
    """Exchange a token for a session cookie."""
    fields = await read_form(request)
    following = own_path(fields.get("next", PATH))
    address = request.client.host if request.client else ""
    if request.app.state.principals.takes_anybody:
        return redirect(following)
    try:
        session = await Sessions(request.app.state.principals).login(fields.get("token", "").strip(), address)
    except Unauthorized:
        wrong = "This is not a valid token of this gateway."
        return render(request, "login.html", status=401, screen="", next=following, ended="", wrong=wrong)
    response = redirect(following)
    set_cookie(response, request, session)
    return response


@router.post(f"{PATH}/logout", dependencies=[Depends(get_form)])
async def log_out() -> Response:
    """Forget the session."""
    response = redirect(f"{PATH}/login")
    drop_cookie(response)
    return response


@router.get(f"{PATH}/palette")
async def palette(
    service: Service,
    who: Annotated[Session, Depends(get_session)],
    q: Annotated[str, Query(max_length=200, pattern=PRINTABLE)] = "",
) -> dict[str, list[dict[str, str]]]:
    """The screens, runs and APIs that match what was typed."""
    words = q.strip()
    items = [
        {"text": title, "kind": "screen", "path": f"{PATH}/{name}"}
        for name, title, roles in SCREENS
        if who.may(*roles) and words.casefold() in title.casefold()
    ]
    if who.may(*READING_RUNS):
        page = await service.page(Filter(who.principal.tenant, text=words or None), limit=_FEW, cursor=None)
        items += [{"text": cut(run.query, 90), "kind": "run", "path": f"{PATH}/runs/{run.id}"} for run in page.runs]
    if words:
        found = await service.peers.retriever.search(words, tenant=who.principal.tenant, limit=_FEW)
        paths = {hit.id: with_query(f"{PATH}/catalogue/api", {"id": hit.id}) for hit in found.hits}
        items += [{"text": api_id, "kind": "API", "path": path} for api_id, path in paths.items()]
    return {"items": items}
