"""Settings of the gateway."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from services.settings import ServiceSettings, default_database_url


class GatewaySettings(ServiceSettings):
    """Read from ``NESTOR_GATEWAY_*``."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_GATEWAY_", extra="forbid", frozen=True)

    database_url: str = Field(
        default_factory=lambda: default_database_url("gateway"), description="SQLAlchemy URL of the runs' database."
    )
    retriever_url: str = Field(default="http://127.0.0.1:8001", description="Base URL of retriever_svc.")
    demo_url: str = Field(default="http://127.0.0.1:8002", description="Base URL of demo_svc.")
    planner_url: str = Field(default="http://127.0.0.1:8003", description="Base URL of planner_svc.")
    executor_url: str = Field(default="http://127.0.0.1:8004", description="Base URL of executor_svc.")
    token: SecretStr | None = Field(
        default=None, description="Bearer token that apps must send; unset: open, so listen on loopback only."
    )
    policy_allow: tuple[str, ...] = Field(
        default=(), description='Mutating APIs that need no approval, as a JSON list of patterns, e.g. `["crm.log*"]`.'
    )
    policy_deny: tuple[str, ...] = Field(default=(), description="APIs that are never called, as patterns.")
    max_concurrent_runs: int = Field(
        default=200, ge=1, description="Runs under way at once; more are refused with 503."
    )
    max_document_bytes: int = Field(
        default=25_000_000, ge=1, description="Largest API description or demo file accepted, in bytes."
    )
    shutdown_grace_s: float = Field(default=10.0, ge=0, description="How long runs may go on after a stop signal.")
