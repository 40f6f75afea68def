"""The sandbox as an ASGI app."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute

from sandbox.errors import install_error_handlers
from sandbox.limits import BodyLimit
from sandbox.openapi import build_document, with_server
from sandbox.reference import Reference
from sandbox.settings import SandboxSettings
from sandbox.state import SandboxState

TAGS = {
    "countries": "Countries, their subdivisions and their names.",
    "currencies": "Currencies and conversion at the European Central Bank's reference rates of one stated day.",
    "holidays": "Public holidays and working days by country and region.",
    "airports": "Airports of the world and flights between them.",
    "places": "Cities and geographical calculations on coordinates.",
    "astronomy": "Sun and moon as seen from a place.",
    "timezones": "Time zones of the tz database.",
    "dates": "Arithmetic on dates, and calendars other than the Gregorian.",
    "units": "Units of measurement.",
    "phone": "Telephone numbers and calling codes.",
    "locale": "Numbers, money and dates written as people of a locale write them.",
    "statistics": "Descriptive statistics and fitted lines.",
    "text": "Measuring and transforming text.",
    "codes": "QR codes and bank account numbers.",
    "bookings": "Meeting rooms and their bookings. Needs an API key.",
    "reminders": "A personal list of reminders. Needs a user name and a password.",
    "contacts": "The company's address book. Needs a bearer token.",
    "catalogue": "Products on sale, open to everybody.",
    "orders": "Customers and their orders. Needs an OAuth2 access token.",
    "auth": "Access tokens.",
    "lab": "Endpoints that misbehave as they are told, for testing clients.",
}
_DESCRIPTION = (
    "An estate of small services about the world, its calendars, numbers and texts, and about an office with rooms, "
    "reminders, contacts and a shop. It computes every answer itself and reaches no other system."
)


def _camel_case(route: APIRoute) -> str:
    first, *rest = route.name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def create_app(settings: SandboxSettings | None = None) -> FastAPI:
    """Build one sandbox with its own state and credentials (`app.state.sandbox`).

    Settings default to the environment.
    """
    settings = SandboxSettings() if settings is None else settings
    app = FastAPI(
        title="Sandbox",
        version="1.0.0",
        summary="A real world to solve in.",
        description=_DESCRIPTION,
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        openapi_url=None,
        generate_unique_id_function=_camel_case,
    )
    app.state.sandbox = SandboxState(settings)
    app.state.reference = Reference()
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    install_error_handlers(app)
    for domain in TAGS:
        app.include_router(import_module(f"sandbox.domains.{domain}").router, tags=[domain])
    _publish(app, settings.public_url)
    return app


def _publish(app: FastAPI, public_url: str | None) -> None:
    """Serve the OpenAPI document and a health check, which are not part of the document itself."""
    built: list[dict[str, Any]] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi_document(request: Request) -> dict[str, Any]:
        if not built:
            built.append(build_document(app))
        return with_server(built[0], public_url or str(request.base_url))

    @app.get("/healthz", include_in_schema=False)
    async def health() -> dict[str, str]:
        return {"status": "ok"}
