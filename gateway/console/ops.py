"""Operations: the health of the platform, as seen by this gateway."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Depends, Query, Request, Response
from prometheus_client import CollectorRegistry

from gateway.console.history import HEIGHT, bars, edges
from gateway.console.pages import ConsoleRoute, get_session, render
from gateway.console.session import PATH, Session
from gateway.console.status import STATE_STYLES
from gateway.routing import Service
from services.app import service_router
from services.contracts.api import CatalogueStatus
from services.contracts.run import RunStatus
from services.errors import ServiceError

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
_HOURS: Final = {"1": 1, "24": 24, "168": 168}
_PARTS: Final = ("retrieve", "demos", "plan", "execute", "sentence", "total")


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies in milliseconds. Quantiles are the upper ends of the histogram's buckets."""

    name: str
    count: int
    mean: float
    half: float
    most: float


@dataclass(frozen=True, slots=True)
class Check:
    """A service or resource that the gateway needs, and its problem, if any."""

    name: str
    problem: str = ""


@router.get(f"{PATH}/ops")
async def ops(
    request: Request, service: Service, who: Who, hours: Annotated[Literal["1", "24", "168"], Query()] = "24"
) -> Response:
    """Checks, runs by status, latencies, and counters of this process."""
    who.require("administer")
    since, *ends = edges(_HOURS[hours], datetime.now(UTC))
    counted = await service.counts(who.principal, since, ends)  # before all else: it refuses a flood
    checks, catalogue, operations = await asyncio.gather(
        _checks(request), _catalogue(service), service.overview.now(who.principal)
    )
    registry: CollectorRegistry = request.app.state.registry
    settings = request.app.state.settings
    return render(
        request, "ops.html", screen="ops", checks=checks, counts=sum(map(Counter, counted), Counter()),
        bars=bars([since, *ends], counted), height=HEIGHT, catalogue=catalogue, styles=STATE_STYLES,
        operations=operations, hours=hours, since=since.isoformat(), statuses=list(RunStatus),
        under_way=_value(registry, "nestor_runs_active"), most=settings.max_concurrent_runs,
        followers=_value(registry, "nestor_run_followers"), recovered=_value(registry, "nestor_runs_recovered_total"),
        parts=_latencies(registry, "nestor_solve_part_seconds", "part", _PARTS),
        routes=_latencies(registry, "nestor_http_request_seconds", "route")[:12],
        counters=_counters(registry),
    )  # fmt: skip


async def _checks(request: Request) -> list[Check]:
    """The checks of `/readyz`."""
    state = request.app.state

    async def one(name: str) -> Check:
        try:
            async with asyncio.timeout(state.settings.readiness_timeout_s):
                await state.readiness[name]()
        except ServiceError as error:
            return Check(name, error.detail or error.title)
        except TimeoutError:
            return Check(name, "no answer in time")
        return Check(name)

    return list(await asyncio.gather(*map(one, state.readiness)))


async def _catalogue(service: Service) -> CatalogueStatus | None:
    """Size and version of the catalogue; None if the retriever does not answer."""
    try:
        return await service.peers.retriever.status()
    except ServiceError:
        return None


def _value(registry: CollectorRegistry, name: str) -> int:
    return int(registry.get_sample_value(name) or 0)


def _counters(registry: CollectorRegistry) -> list[tuple[str, str, int]]:
    """The counters of this process, as name, label and number."""
    shown = ("nestor_runs", "nestor_evidence_rounds", "nestor_evidence_attempts", "nestor_sentences")
    found = []
    for metric in registry.collect():
        if metric.name in shown:
            for sample in metric.samples:
                if sample.name.endswith("_total") and sample.value:
                    labels = " ".join(sample.labels.values())
                    found.append((metric.name.removeprefix("nestor_").replace("_", " "), labels, int(sample.value)))
    return found


def _latencies(registry: CollectorRegistry, name: str, label: str, only: tuple[str, ...] = ()) -> list[Latency]:
    """A histogram's latencies for each value of a label, the most frequent first, or in the order of ``only``."""
    buckets: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    for metric in registry.collect():
        if metric.name != name:
            continue
        for sample in metric.samples:
            which = sample.labels[label]
            if sample.name.endswith("_bucket"):
                bound = math.inf if sample.labels["le"] == "+Inf" else float(sample.labels["le"])
                there = buckets.setdefault(which, {})
                there[bound] = there.get(bound, 0) + sample.value
            elif sample.name.endswith("_sum"):
                sums[which] = sums.get(which, 0) + sample.value
    found = [_latency(which, there, sums[which]) for which, there in buckets.items() if there[math.inf]]
    if only:
        return sorted((one for one in found if one.name in only), key=lambda one: only.index(one.name))
    return sorted(found, key=lambda one: -one.count)


def _latency(name: str, buckets: Mapping[float, float], total: float) -> Latency:
    count = buckets[math.inf]
    bounds = sorted(buckets)

    def quantile(share: float) -> float:
        bound = next(bound for bound in bounds if buckets[bound] >= share * count)
        return (bounds[-2] if math.isinf(bound) else bound) * 1000

    return Latency(name, int(count), total / count * 1000, quantile(0.5), quantile(0.95))
