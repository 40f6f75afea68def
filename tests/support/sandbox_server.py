"""The sandbox on a real socket, with credentials that tests know."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from deploy.sockets import serving
from sandbox.main import create_app
from sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class SandboxServer:
    """A served sandbox, and the settings that hold its credentials."""

    url: str
    settings: SandboxSettings


@contextmanager
def serve_sandbox() -> Iterator[SandboxServer]:
    """Serve a fresh sandbox with its initial orders, bookings and reminders."""
    settings = SandboxSettings(
        api_key=SecretStr("test-api-key"),
        basic_password=SecretStr("test-password"),
        bearer_token=SecretStr("test-bearer-token"),
        oauth_client_secret=SecretStr("test-client-secret"),
    )
    with serving(create_app(settings)) as url:
        yield SandboxServer(url, settings)
