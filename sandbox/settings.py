"""Settings of the sandbox, from ``NESTOR_SANDBOX_*`` environment variables."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_CREDENTIALS = ("api_key", "basic_password", "bearer_token", "oauth_client_secret")


class SandboxSettings(BaseSettings):
    """Settings of one sandbox app. Unset credentials are random per start, so there are no default secrets."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_SANDBOX_", extra="ignore", frozen=True)

    public_url: str | None = Field(
        default=None,
        description="URL in the OpenAPI document's `servers`; unset, the base URL of the request that reads it.",
    )
    api_key: SecretStr | None = Field(default=None, min_length=8, description="Key expected in the X-API-Key header.")
    basic_username: str = Field(default="sandbox", min_length=1, description="User name for HTTP basic.")
    basic_password: SecretStr | None = Field(default=None, min_length=8, description="Password for HTTP basic.")
    bearer_token: SecretStr | None = Field(default=None, min_length=8, description="Static bearer token.")
    oauth_client_id: str = Field(default="sandbox-client", min_length=1, description="OAuth2 client id.")
    oauth_client_secret: SecretStr | None = Field(default=None, min_length=8, description="OAuth2 client secret.")
    oauth_token_seconds: float = Field(
        default=300, gt=0, le=86_400, description="Lifetime of an OAuth2 access token, in seconds."
    )
    max_items: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Cap of every in-memory collection (bookings, orders, keys...)."
    )
    max_delay_seconds: float = Field(
        default=30, ge=0, le=600, description="Longest delay the lab endpoints accept, in seconds."
    )
    max_body_bytes: int = Field(default=256 * 1024, ge=1024, description="Largest request body accepted, in bytes.")

    def unset_credentials(self) -> list[str]:
        """Names of the environment variables whose credential will be random."""
        return [f"NESTOR_SANDBOX_{name.upper()}" for name in _CREDENTIALS if getattr(self, name) is None]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials one app accepts. Kept out of ``repr`` so that they never reach a log."""

    api_key: str = field(repr=False)
    basic_username: str
    basic_password: str = field(repr=False)
    bearer_token: str = field(repr=False)
    oauth_client_id: str
    oauth_client_secret: str = field(repr=False)

    @classmethod
    def from_settings(cls, settings: SandboxSettings) -> Credentials:
        """Use the credentials in the settings, and random ones for the rest."""

        def value(secret: SecretStr | None) -> str:
            return secrets.token_urlsafe(24) if secret is None else secret.get_secret_value()

        return cls(
            api_key=value(settings.api_key),
            basic_username=settings.basic_username,
            basic_password=value(settings.basic_password),
            bearer_token=value(settings.bearer_token),
            oauth_client_id=settings.oauth_client_id,
            oauth_client_secret=value(settings.oauth_client_secret),
        )
