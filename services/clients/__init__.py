"""One typed client per service, with exchangeable transports.

A client is a thin wrapper around an ``httpx2.AsyncClient``. Deployments differ only in its transport: sockets (httpx2's
own), or :class:`~services.clients.transport.InProcessTransport` around an ASGI app. Problem documents are raised as the
same exceptions that the service raised.
"""

from services.clients.base import ServiceClient, Turn, open_http
from services.clients.demo import DemoClient, Demos
from services.clients.executor import CREDENTIALS_TIMEOUT_S, Executor, ExecutorClient
from services.clients.gateway import GatewayClient
from services.clients.planner import Planner, PlannerClient
from services.clients.retriever import Retriever, RetrieverClient
from services.clients.transport import InProcessTransport

__all__ = [
    "CREDENTIALS_TIMEOUT_S",
    "DemoClient",
    "Demos",
    "Executor",
    "ExecutorClient",
    "GatewayClient",
    "InProcessTransport",
    "Planner",
    "PlannerClient",
    "Retriever",
    "RetrieverClient",
    "ServiceClient",
    "Turn",
    "open_http",
]
