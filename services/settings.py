"""Settings that all services have. Each service subclasses them with its own environment prefix."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """Settings read from the environment when a service is created, never at import time.

    Every field has a default that works on a laptop. Unknown keyword arguments are refused, so typos are noticed.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    log_level: str = Field(default="INFO", description="`DEBUG`, `INFO`, `WARNING` or `ERROR`.")
    log_json: bool = Field(default=True, description="JSON lines; false: coloured text for a terminal.")
    max_body_bytes: int = Field(default=1_048_576, ge=1, description="Largest request body accepted, in bytes.")
    max_json_depth: int = Field(default=64, ge=1, le=500, description="Deepest nesting accepted in a JSON body.")
    max_json_values: int = Field(
        default=1_000_000, ge=1, description="Most values accepted in a JSON body, lists and objects counted too."
    )
    max_header_bytes: int = Field(
        default=65_536, ge=1_024, description="Largest address and headers accepted, together, in bytes."
    )
    read_timeout_s: float = Field(
        default=20.0,
        gt=0,
        description="Seconds within which a request's headers must have come; its body has as long, and a second more "
        "for every 10 kB.",
    )
    max_connections: int = Field(
        default=2_000,
        ge=1,
        description="Connections open at once, at most half of the files that the process may open. The oldest that "
        "owes a request makes room for a new one; where all are being served, a new one is refused with 503.",
    )
    max_connections_per_address: int = Field(
        default=1_000, ge=1, description="The same for one address (of IPv6, one /64 network)."
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses of proxies in front, as a JSON list: what they say in `X-Forwarded-For` is believed, "
        "and `max_connections_per_address` does not hold for them.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names under which the service is addressed, as a JSON list, beside IP addresses, `localhost` and "
        "names without a dot, which are always taken; `*.example.com`: all below it; `*`: any name. Other names, and "
        "pages of other origins, are refused.",
    )
    metrics_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Bearer token that `/metrics` asks for; without it, it is open, save in a "
        "service that asks for a service token.",
    )
    readiness_timeout_s: float = Field(default=2.0, gt=0, description="How long one `/readyz` check may take.")

    @property
    def takes_anybody(self) -> bool:
        """Whether the service serves anybody although it should not. If so, it should listen on loopback only."""
        return False


class InternalSettings(ServiceSettings):
    """Settings of an internal service, which only other services call."""

    service_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Bearer token that callers must send, of 8 characters or more; `/healthz` and `/readyz` need none, "
        "and `/metrics` takes its own where it has one. Without it the service listens on loopback only.",
    )
    allow_anybody: bool = Field(
        default=False,
        description="Listen beyond loopback without a token, where nobody but Nestor's services reaches the network.",
    )

    @property
    def takes_anybody(self) -> bool:
        """Whether no token is required and ``allow_anybody`` does not permit that."""
        return self.service_token is None and not self.allow_anybody


def default_database_url(name: str) -> str:
    """One SQLite file per service under ``var/`` of the working directory."""
    return f"sqlite+aiosqlite:///{Path('var').absolute() / name}.db"
