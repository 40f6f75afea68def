"""Serves an app on a real socket from a thread of the current process."""

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from services.server import BoundedConfig
from services.settings import InternalSettings


class UnprotectedService(Exception):
    """A service without authentication was told to listen on more than loopback."""


def refuse_unprotected(app: FastAPI, host: str) -> None:
    """Raise UnprotectedService if this app would accept requests from other machines without a token."""
    settings = getattr(app.state, "settings", None)
    if getattr(settings, "takes_anybody", False) and not _is_loopback(host):
        if isinstance(settings, InternalSettings):
            prefix = settings.model_config["env_prefix"]
            raise UnprotectedService(
                f"on {host}, any machine that reaches this one could use {app.state.name} as if it were the gateway. "
                f"Set {prefix}SERVICE_TOKEN, listen on 127.0.0.1, or, where nobody else reaches the network, set "
                f"{prefix}ALLOW_ANYBODY=true."
            )
        raise UnprotectedService(
            f"on {host}, any machine that reaches this one could make calls with your credentials. Set "
            "NESTOR_GATEWAY_TOKEN, NESTOR_GATEWAY_PRINCIPALS or NESTOR_GATEWAY_ISSUERS, listen on 127.0.0.1, or, "
            "where a proxy in front authorises, set NESTOR_GATEWAY_ALLOW_ANYBODY=true."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves signal handling to the calling process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class NotStarted(RuntimeError):
    """The app did not start; its log says why."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises OSError, which names the address, where it cannot be taken."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from None
    return bound


def address(bound: socket.socket) -> str:
    """The address a socket is bound to, as ``host:port``."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago. Another process may take it; prefer to keep the socket of :func:`listen`."""
    with listen(host, 0) as bound:
        port: int = bound.getsockname()[1]
        return port


@contextlib.contextmanager
def refusing(host: str = "127.0.0.1") -> Iterator[str]:
    """A base URL where connections are refused. The port stays bound, so no other process can listen on it."""
    with listen(host, 0) as bound:
        yield f"http://{address(bound)}"


@contextlib.contextmanager
def serving(
    app: ASGIApp, host: str = "127.0.0.1", port: int = 0, *, bound: socket.socket | None = None
) -> Iterator[str]:
    """Serve ``app`` in a thread with its own event loop. Yields its base URL once it answers.

    Args:
        app: what to serve.
        host: where to listen.
        port: 0 takes a free one.
        bound: a socket of :func:`listen`, used instead of host and port if the address must be known first.

    Raises:
        NotStarted: the app did not start.
    """
    bound = bound or listen(host, port)
    server = EmbeddedServer(BoundedConfig(app, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            if not thread.is_alive():
                raise NotStarted("the line above says why")
        yield f"http://{address(bound)}"
    finally:
        server.should_exit = True
        thread.join(15)
        bound.close()
