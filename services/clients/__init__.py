"""One typed client per service, over one transport seam.

A client is a thin wrapper around an ``httpx2.AsyncClient``; what differs between deployments is only the transport
under it: sockets (httpx2's own), or :class:`~services.clients.transport.InProcessTransport` around an ASGI app.
Problems come back as the same exceptions the service raised.
"""

from services.clients.base import ServiceClient, open_http
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
    "open_http",
]
