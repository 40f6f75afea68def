"""What all pages of the console share: templates, headers, access checks and error pages."""

import asyncio
import hashlib
import importlib.resources
import json
import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from gateway.console.session import COOKIE, PATH, LoginNeeded, Role, Session, Sessions, drop_cookie, set_cookie
from services.app import version
from services.contracts.outcome import RequestRecord
from services.errors import InvalidRequest, NotFound, ServiceError
from services.http import StrictRoute, validation_problem
from services.turns import accept, refuse

READING_RUNS: Final[tuple[Role, ...]] = ("ask", "approve")
"""Roles that may see the runs of their tenant, as in the API."""
SCREENS: Final[tuple[tuple[str, str, tuple[Role, ...]], ...]] = (
    ("runs", "Runs", READING_RUNS),
    ("playground", "Playground", ("ask",)),
    ("approvals", "Approvals", READING_RUNS),
    ("review", "Review", READING_RUNS),
    ("catalogue", "Catalogue", ("ask", "approve", "administer")),
    ("ops", "Ops", ("administer",)),
)
"""Name, title and roles of each screen. A reader must have at least one of the roles."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
MAX_FIELDS: Final = 200
_LARGE: Final = 65_536
"""Forms with more bytes than this are parsed in a thread."""
_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder displayed text: Unicode TR 36
_STEERING: Final = {
    code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS) if chr(code) not in "\n\t"
}


class ConsoleRoute(StrictRoute):
    """A page that needs a session. Without one, it redirects to the login, and back afterwards.

    Errors are pages too, with the same status as in the API.
    """

    needs_session = True

    async def admit(self, request: Request) -> None:
        """Find the session and count the request. Raises LoginNeeded and QuotaExceeded."""
        request.state.session = None
        if self.needs_session:
            session = request.state.session = await Sessions(request.app.state.principals).of(request)
            request.app.state.service.quotas.count_request(session.principal.tenant)
            accept(request.scope, session.principal.tenant)

    def tenant_of(self, request: Request) -> str:
        """The session's tenant; empty without a session."""
        session: Session | None = request.state.session
        return session.principal.tenant if session is not None else ""

    def charge(self, request: Request, size: int) -> None:
        """Count a page like stored JSON of its size. Raises QuotaExceeded."""
        request.app.state.service.quotas.read(self.tenant_of(request), size)

    async def readmit(self, request: Request) -> None:
        """Refuse a form, or end a stream, whose session has ended (Unauthorized)."""
        await request.app.state.principals.check(request.state.session.principal)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with errors turned into pages."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                response = await handle(request)
            except LoginNeeded:
                response = _to_login(request)
            except RequestValidationError as error:
                response = problem_page(request, validation_problem(error))
            except ServiceError as error:
                response = problem_page(request, error)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Cache-Control", "no-store")
            session: Session | None = request.state.session
            if session is not None:
                size = len(getattr(response, "body", b""))
                request.app.state.service.quotas.charge(session.principal.tenant, size)
                if session.is_new:
                    set_cookie(response, request, session)
            return response

        return shown


class OpenRoute(ConsoleRoute):
    """A page that needs no session: the login and static files."""

    needs_session = False


async def get_session(request: Request) -> Session:
    """The session of the request."""
    session: Session = request.state.session
    return session


async def get_form(request: Request) -> dict[str, str]:
    """The fields of a form of this session. It counts like a stored run of its size that is read.

    Raises:
        Forbidden: its CSRF token is wrong.
        QuotaExceeded: the tenant has to wait.
    """
    tenant = (await get_session(request)).principal.tenant
    request.app.state.service.quotas.read(tenant, len(await request.body()))
    return await get_document_form(request)


async def get_document_form(request: Request) -> dict[str, str]:
    """The same without counting it: for imports, which have a limit of their own. Raises Forbidden."""
    fields = await read_form(request)
    (await get_session(request)).check_csrf(fields.pop("csrf", ""))
    return fields


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. If a name is repeated, the last value counts. Raises InvalidRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise InvalidRequest("This is not a form.")
    body = await request.body()
    read = partial(parse_qsl, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    try:
        text = body.decode()
        pairs = await asyncio.to_thread(read, text) if len(body) > _LARGE else read(text)
    except ValueError as error:
        raise InvalidRequest(f"The form cannot be read: {error}.") from None
    if any("\x00" in text for pair in pairs for text in pair):  # PostgreSQL cannot store NUL in text
        raise InvalidRequest("The form contains a NUL character.")
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page."""
    session: Session | None = request.state.session
    text = _environment().get_template(template).render(session=session, here=request.url.path, **values)
    return HTMLResponse(text, status_code=status)


def problem_page(request: Request, error: ServiceError) -> Response:
    """An error page with the same status as in the API."""
    return render(request, "problem.html", status=error.status, problem=error, screen="")


def redirect(path: str) -> RedirectResponse:
    """Redirect to another page after a form."""
    return RedirectResponse(path, status_code=303)


def own_path(path: str) -> str:
    """The path if it belongs to the console, else the console's first page. It prevents open redirects."""
    inside = path == PATH or path.startswith((f"{PATH}/", f"{PATH}?"))
    return path if inside and path.isprintable() and "\\" not in path and path.isascii() else PATH


def _to_login(request: Request) -> RedirectResponse:
    """Redirect to the login, and from there back to the page that was open, or that contained the form.

    A browser deletes a cookie when its session ends. So there are two signs that there was a session: a form, since
    pages without a session have none, or a cookie that is no longer valid.
    """
    refuse(request.scope)
    path, ended = request.url.path, "page" if COOKIE in request.cookies else ""
    if request.method == "GET":
        path += f"?{request.url.query}" if request.url.query else ""
    else:
        parts, ended = path.split("/"), "form"
        path = "/".join(parts[:4] if parts[2:3] == ["runs"] and len(parts) > 4 else parts[:3])
    response = redirect(with_query(f"{PATH}/login", {"next": path, "ended": ended}))
    drop_cookie(response)  # a cookie that no token has signed counts as a wrong token each minute that it is sent
    return response


def static(name: str) -> Response:
    """A static file of the console. Raises NotFound."""
    files = _static_files()
    if name not in files:
        raise NotFound(f"There is no {name}.")
    media_type, content = files[name]
    return Response(content, media_type=media_type, headers={"Cache-Control": "public, max-age=31536000, immutable"})


def _folder(name: str) -> Path:
    return Path(str(importlib.resources.files("gateway.console") / name))


@cache
def _static_files() -> dict[str, tuple[str, bytes]]:
    return {
        file.name: (_MEDIA[file.suffix], file.read_bytes())
        for file in sorted(_folder("static").iterdir())
        if file.suffix in _MEDIA
    }


@cache
def _stamp() -> str:
    """A version for the files' URLs, so that browsers cache them until they change."""
    return hashlib.sha256(b"".join(content for _, content in _static_files().values())).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_folder("templates")),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(screens=SCREENS, version=version(), stamp=_stamp(), base=PATH)
    environment.filters.update(
        segment=lambda text: quote(str(text), safe=""),
        moment=_moment,
        ms=duration,
        json=written_json,
        short=cut,
        curl=curl,
        words=lambda text: str(text).replace("_", " "),
        query=lambda values: urlencode(values, doseq=True),
    )
    return environment


def visible(value: Any) -> Any:
    """A value without control characters that change how text is displayed. Much of it comes from other services."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return value.translate(_STEERING)
    return value


def _moment(value: datetime) -> Markup:
    """A moment in UTC. A script converts it to the reader's time zone."""
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        utc.isoformat(timespec="milliseconds"), utc.strftime("%Y-%m-%d %H:%M:%S")
    )


def duration(ms: float) -> str:
    """A duration in milliseconds, formatted for people."""
    if ms < 1_000:
        return f"{ms:.0f} ms" if ms >= 10 or ms < 0.05 else f"{ms:.1f} ms"
    return f"{ms / 1_000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"


def written_json(value: JsonValue, most: int = 4_000, *, indented: bool = True) -> str:
    """A JSON value as text, cut to ``most`` characters. What is cut off is not written: it may repeat a large value."""
    text, room = list[str](), most
    for piece in _pieces(value, most, "\n" if indented else ""):
        text.append(piece)
        room -= len(piece)
        if room < 0:
            break
    return cut("".join(text), most)


def _pieces(value: JsonValue, most: int, line: str) -> Iterator[str]:
    """The pieces of a value's JSON. ``line`` begins a line; if empty, all is on one. Texts are cut to ``most``."""
    if not value or not isinstance(value, (dict, list)):
        yield json.dumps(value[:most] if isinstance(value, str) else value, ensure_ascii=False)
        return
    inner, (begin, end) = line and line + "  ", "{}" if isinstance(value, dict) else "[]"
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield begin + inner
        begin = "," if line else ", "
        if isinstance(name, str):
            yield from _pieces(name, most, line)
            yield ": "
        yield from _pieces(member, most, inner)
    yield line + end


def cut(text: object, most: int) -> str:
    """The text, cut to at most that many characters."""
    said = str(text)
    return said if len(said) <= most else said[: most - 1] + "…"


def curl(request: RequestRecord) -> str:
    """A command that sends the request. Masked values stay masked."""
    parts = ["curl", "-s", "-X", request.method, request.url]
    for name, text in request.headers.items():
        parts += ["-H", f"{name}: {text}"]
    if request.body is not None:
        parts += ["--data-raw", request.body if isinstance(request.body, str) else json.dumps(request.body)]
    return shlex.join(parts)


def with_query(path: str, values: Mapping[str, Any]) -> str:
    """A path with the non-empty values as its query string."""
    said = {name: value for name, value in values.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(said, doseq=True)}" if said else path
