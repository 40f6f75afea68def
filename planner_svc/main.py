"""The planner as an application."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from planner_svc.backends import load_backends
from planner_svc.backends.base import PlannerBackend
from planner_svc.backends.served.backend import ServedBackend, open_served
from planner_svc.cascade import CascadePolicy
from planner_svc.handlers import router
from planner_svc.judging.judge import Weigh, load_judges
from planner_svc.metrics import PlannerMetrics
from planner_svc.sentences.writer import SentenceWriter
from planner_svc.service import PlannerService
from planner_svc.settings import PlannerSettings, ServedSettings
from services.app import create_service
from services.compute import ComputePool
from services.encoder import model_directory
from services.fair_slots import FairSlots
from services.signing import PlanSigner


def create_app(
    settings: PlannerSettings | None = None,
    *,
    transports: Mapping[str, Any] | None = None,
    backends: Mapping[str, PlannerBackend] | None = None,
    writer: SentenceWriter | None = None,
) -> FastAPI:
    """Build the service.

    Args:
        settings: read from the environment if not given.
        transports: how to reach other services; this service needs none.
        backends: planner backends by name; if not given, the backends that ship.
        writer: writes answers as sentences; if not given, the language model that the settings name, if any.

    Raises:
        JudgeError: a judge is damaged, or NESTOR_PLANNER_SERVED_JUDGE names a folder without one.
    """
    settings = settings or PlannerSettings()
    judges = load_judges(model_directory(settings.model), settings.served.judge) if backends is None else {}
    weigh = {name: judge.weigh for name, judge in judges.items()}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _opened(settings, app.state.registry, backends, writer, weigh) as service:
            app.state.service = service
            app.state.readiness |= {"computations": service.check_moving}
            yield

    return create_service(
        name="planner_svc",
        title="Nestor planner",
        description="Drafts plans of API calls for requests in words, and proves the plans before any request is sent.",
        settings=settings,
        routers=[router],
        lifespan=lifespan,
    )


@asynccontextmanager
async def _opened(
    settings: PlannerSettings,
    registry: CollectorRegistry,
    backends: Mapping[str, PlannerBackend] | None,
    writer: SentenceWriter | None,
    weigh: Mapping[str, Weigh],
) -> AsyncIterator[PlannerService]:
    """The service and its resources; see :func:`create_app`."""
    pool = ComputePool(
        settings.compute_workers, settings.compute_waiting, name="planner", budget_s=settings.draft_cpu_s
    )
    metrics = PlannerMetrics(registry)
    served: ServedBackend | None = None
    try:
        available = backends
        if available is None:
            available = await asyncio.to_thread(load_backends, pool, settings.model)
            served = open_served(settings.served, pool, metrics)
            if served is not None:
                available = {**available, served.name: served}
        yield PlannerService(
            available,
            settings.default_backend,
            pool,
            backend_timeout_s=settings.backend_timeout_s,
            metrics=metrics,
            turns=FairSlots(settings.max_plans, settings.max_plans_waiting, settings.max_plans_per_tenant, "plans"),
            policy=CascadePolicy.of(settings),
            weigh=weigh,
            signer=PlanSigner(settings.proof_key) if settings.proof_key else None,
            servers=() if served is None else (served.model.status,),
            writer=writer or (None if served is None else _writer(served, settings.served, pool)),
        )
    finally:
        if served is not None:
            await served.aclose()
        await pool.close()


def _writer(served: ServedBackend, settings: ServedSettings, pool: ComputePool) -> SentenceWriter:
    on = settings.sentences if settings.sentences is not None else settings.detail == "full"
    return SentenceWriter(served.model, pool, name=served.name, on=on, timeout_s=settings.timeout_s)
