"""A planner with a served backend whose model is a scripted server, and one without a model behind it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from planner_svc.backends.served.backend import ServedBackend, open_served
from planner_svc.cascade import CascadePolicy
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.service import PlannerService
from planner_svc.settings import ServedSettings
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.planning import PlanRequest
from tests.support.chat_server import ChatServer, Reply, serve_chat
from tests.support.model_faults import KEY


class Plain:
    """The planner without a model: it drafts what it is told to."""

    name = "plain"

    def __init__(self, draft: PlanDraft) -> None:
        self.draft = draft
        self.asked = 0

    async def read(self, apis: Sequence[Api]) -> int:
        """There is nothing to get ready."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """The draft."""
        self.asked += 1
        return self.draft


@dataclass
class World:
    """The planner, the model's server and the other planner."""

    service: PlannerService
    server: ChatServer
    plain: Plain
    served: ServedBackend
    registry: CollectorRegistry

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


Make = Callable[..., Any]


@pytest.fixture
async def world() -> AsyncIterator[Make]:
    """Makes worlds: ``await world(*replies, draft=..., policy=..., **settings)``."""
    async with AsyncExitStack() as stack:
        pool = ComputePool(1, 8)
        stack.push_async_callback(pool.close)

        async def make(
            *replies: Reply, draft: PlanDraft | None = None, policy: CascadePolicy | None = None, **settings: Any
        ) -> World:
            server = await stack.enter_async_context(serve_chat(*replies))
            given = {"url": server.url, "api_key": SecretStr(KEY), "constraint": "none", **settings}
            registry = CollectorRegistry()
            metrics = PlannerMetrics(registry)
            served = open_served(ServedSettings(**given), pool, metrics)
            assert served is not None
            stack.push_async_callback(served.aclose)
            plain = Plain(draft or PlanDraft(None))
            service = PlannerService(
                {"served": served, "plain": plain},
                "plain",
                pool,
                backend_timeout_s=30,
                metrics=metrics,
                policy=policy,
            )
            return World(service, server, plain, served, registry)

        yield make
