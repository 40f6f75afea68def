"""``create_service``: the FastAPI application every service starts from."""

import asyncio
import hmac
import importlib.metadata
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

from services.contracts.base import Contract
from services.contracts.problem import Problem
from services.docs_page import docs_page
from services.errors import NotReady, ServiceError, Unauthorized
from services.http import (
    PROBLEM_MEDIA_TYPE,
    StrictRoute,
    bearer_token,
    body_budget,
    install_error_handlers,
    parsing_slots,
    reading_slots,
)
from services.middleware import NamesMiddleware, RequestScopeMiddleware
from services.service_token import ServiceTokenMiddleware
from services.settings import InternalSettings, ServiceSettings
from services.telemetry import HttpMetrics
from services.tracing import SPANS
from services.turns import TurnsMiddleware

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
ReadinessCheck = Callable[[], Awaitable[None]]
"""Raises a :class:`~services.errors.ServiceError` while the service cannot do its work."""
SHARED_S = 1.0
"""How long `/readyz` answers with one outcome of its checks, in seconds."""

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in {
        "4XX": "The request is not valid or cannot be served.",
        "5XX": "The service cannot serve the request now.",
    }.items()
}


class Health(Contract):
    """The process is alive. It says nothing about its dependencies; `/readyz` does."""

    status: Literal["ok"] = "ok"
    service: str
    version: str


class Readiness(Contract):
    """The service can do its work: every check passed, except possibly optional ones."""

    status: Literal["ready"] = "ready"
    checks: dict[str, str]


def version() -> str:
    """The installed version of Nestor."""
    return importlib.metadata.version("nestor")


def create_service(
    *,
    name: str,
    title: str,
    description: str,
    settings: ServiceSettings,
    routers: Sequence[APIRouter],
    lifespan: Lifespan,
) -> FastAPI:
    """Build a service: problem documents, request ids, limits, ``/healthz``, ``/readyz`` and ``/metrics``.

    The lifespan sets ``app.state.service`` to the service object and adds checks to ``app.state.readiness``. A check
    named in ``app.state.optional`` is reported but may fail. Metrics are registered with ``app.state.registry``;
    ``/metrics`` shows ``app.state.exposed``. Two apps in one process share nothing.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(SPANS)

    @asynccontextmanager
    async def with_state(app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(app):
            app.state.started = True
            try:
                yield
            finally:
                app.state.started = False

    app = FastAPI(
        title=title,
        description=description,
        version=version(),
        lifespan=with_state,
        responses=PROBLEM_RESPONSES,
        openapi_url=None,  # replaced below: FastAPI's route renders the document each time
        docs_url=None,  # replaced by the route below: FastAPI's page loads scripts without a pinned hash
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # FastAPI's own records paths and queries
        redirect_slashes=False,  # an unknown path is an error, not a redirect
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.name, app.state.settings = name, settings
    app.state.parsing, app.state.bodies, app.state.reading = parsing_slots(), body_budget(), reading_slots()
    app.state.registry = app.state.exposed = registry
    app.state.readiness = {}
    app.state.optional = frozenset()
    app.state.started = False
    app.router.route_class = StrictRoute
    install_error_handlers(app)
    for router in routers:
        app.include_router(router)
    app.include_router(_operations_router())
    _declare_problem(app)
    _add_middleware(app, settings, HttpMetrics(registry, name))
    return app


def _add_middleware(app: FastAPI, settings: ServiceSettings, metrics: HttpMetrics) -> None:
    """Add what each request passes, the innermost first."""
    is_open = isinstance(settings, InternalSettings) and settings.service_token is None
    if isinstance(settings, InternalSettings) and settings.service_token:
        own_check = frozenset({"/metrics"} if settings.metrics_token else ())
        app.add_middleware(ServiceTokenMiddleware, token=settings.service_token, own_check=own_check)
    app.add_middleware(NamesMiddleware, allowed=settings.allowed_hosts)
    app.add_middleware(RequestScopeMiddleware, service=app.state.name, metrics=metrics)
    if not is_open:  # an internal service without a token works for whoever can reach it
        app.add_middleware(TurnsMiddleware)


def service_router(*, route_class: type[StrictRoute] = StrictRoute, **options: Any) -> APIRouter:
    """A router whose routes parse request bodies strictly. Every service uses it."""
    return APIRouter(route_class=route_class, **options)


def _operations_router() -> APIRouter:
    router = service_router(tags=["operations"])
    checking, rendered = _Checking(), b""

    @router.get("/healthz", summary="Check that the process is alive")
    async def healthz(request: Request) -> Health:
        return Health(service=request.app.state.name, version=version())

    @router.get("/readyz", summary="Check that the service is ready")
    async def readyz(request: Request) -> Readiness:
        state = request.app.state
        results = await checking.results(state.readiness, state.settings.readiness_timeout_s)
        outcome = results | ({} if state.started else {"lifespan": "not started"})
        failed = {check: result for check, result in outcome.items() if result != "ok" and check not in state.optional}
        if failed:
            told = "; ".join(f"{check}: {result.removesuffix('.')}" for check, result in failed.items())
            raise NotReady(f"{told}.", checks=outcome)
        return Readiness(checks=outcome)

    @router.get("/openapi.json", summary="The OpenAPI document", response_class=Response, include_in_schema=False)
    async def openapi(request: Request) -> Response:
        nonlocal rendered
        rendered = rendered or bytes(JSONResponse(request.app.openapi()).body)
        return Response(rendered, media_type="application/json")

    @router.get("/docs", summary="The API, to read and try", response_class=Response, include_in_schema=False)
    async def docs(request: Request) -> Response:
        return docs_page(request.app.title)

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response, include_in_schema=False)
    async def metrics(request: Request) -> Response:
        wanted = request.app.state.settings.metrics_token
        if wanted and not hmac.compare_digest(bearer_token(request.headers), wanted.get_secret_value().encode()):
            raise Unauthorized("Send `Authorization: Bearer TOKEN` with the token for metrics.")
        return Response(generate_latest(request.app.state.exposed), media_type=CONTENT_TYPE_LATEST)

    return router


class _Checking:
    """Makes the checks of a service. Calls within a short time share one outcome, since anybody may ask."""

    def __init__(self) -> None:
        self._made_at = -math.inf
        self._results: dict[str, str] = {}
        self._turn = asyncio.Lock()

    async def results(self, checks: Mapping[str, ReadinessCheck], timeout_s: float) -> dict[str, str]:
        """What each check says: `ok`, or what is wrong."""
        async with self._turn:
            if time.monotonic() - self._made_at >= SHARED_S or self._results.keys() != checks.keys():
                said = await asyncio.gather(*(_check(check, timeout_s) for check in checks.values()))
                self._results, self._made_at = dict(zip(checks, said, strict=True)), time.monotonic()
            return self._results


async def _check(check: ReadinessCheck, timeout_s: float) -> str:
    try:
        async with asyncio.timeout(timeout_s):
            await check()
    except ServiceError as error:
        return error.detail or error.title
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    return "ok"


def _declare_problem(app: FastAPI) -> None:
    """Add the Problem schema to the OpenAPI document. No route returns it, so FastAPI does not add it."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.setdefault("Problem", Problem.model_json_schema(mode="serialization"))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
