"""The four services behind the gateway, as typed clients."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from pydantic import SecretStr

from gateway.settings import GatewaySettings
from services.clients import (
    DemoClient,
    Demos,
    Executor,
    ExecutorClient,
    Planner,
    PlannerClient,
    Retriever,
    RetrieverClient,
    open_http,
)

Transports = Mapping[str, httpx2.AsyncBaseTransport]
"""A transport per service name. A service without one is reached over the network."""


@dataclass(frozen=True)
class Peers:
    """The clients of the four services."""

    retriever: Retriever
    demos: Demos
    planner: Planner
    executor: Executor


def open_peers(settings: GatewaySettings, transports: Transports) -> tuple[Peers, list[httpx2.AsyncClient]]:
    """Typed clients for all services, and their HTTP clients, which the caller must close."""
    urls = {
        "retriever_svc": settings.retriever_url,
        "demo_svc": settings.demo_url,
        "planner_svc": settings.planner_url,
        "executor_svc": settings.executor_url,
    }
    http = {name: open_http(url, transports.get(name)) for name, url in urls.items()}
    peers = Peers(
        retriever=RetrieverClient(http["retriever_svc"], _text(settings.retriever_token)),
        demos=DemoClient(http["demo_svc"], _text(settings.demo_token)),
        planner=PlannerClient(http["planner_svc"], _text(settings.planner_token)),
        executor=ExecutorClient(http["executor_svc"], _text(settings.executor_token)),
    )
    return peers, list(http.values())


def _text(token: SecretStr | None) -> str | None:
    return token.get_secret_value() if token else None
