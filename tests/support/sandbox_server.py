"""The sandbox on a real socket, with credentials that tests know."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from pydantic import SecretStr

from sandbox.main import create_app
from sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class SandboxServer:
    """A sandbox that is being served, and the settings that hold its credentials."""

    url: str
    settings: SandboxSettings


@contextmanager
def serve_sandbox() -> Iterator[SandboxServer]:
    """A fresh sandbox (its orders, bookings and reminders as they ship) on a free port, in a thread of its own."""
    settings = SandboxSettings(
        api_key=SecretStr("test-api-key"),
        basic_password=SecretStr("test-password"),
        bearer_token=SecretStr("test-bearer-token"),
        oauth_client_secret=SecretStr("test-client-secret"),
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(create_app(settings), log_level="warning", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise RuntimeError("the sandbox did not start")
                time.sleep(0.01)
            yield SandboxServer(f"http://127.0.0.1:{listener.getsockname()[1]}", settings)
        finally:
            server.should_exit = True
            thread.join()
