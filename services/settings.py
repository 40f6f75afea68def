"""What every service can be told from outside. Each service subclasses this with its own environment prefix."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """Settings read from the environment when a service is created, never at import time.

    Every field has a default that works on a laptop. Unknown keyword arguments are refused, so a typo is seen.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    log_level: str = Field(default="INFO", description="`DEBUG`, `INFO`, `WARNING` or `ERROR`.")
    log_json: bool = Field(default=True, description="JSON lines; false: coloured text for a terminal.")
    max_body_bytes: int = Field(default=1_048_576, ge=1, description="Largest request body accepted, in bytes.")
    max_json_depth: int = Field(default=64, ge=1, le=500, description="Deepest nesting accepted in a JSON body.")
    readiness_timeout_s: float = Field(default=2.0, gt=0, description="How long one `/readyz` check may take.")


def default_database_url(name: str) -> str:
    """One SQLite file per service under ``var/`` of the working directory."""
    return f"sqlite+aiosqlite:///{Path('var').absolute() / name}.db"
