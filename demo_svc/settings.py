"""Settings of the demo service; environment variables start with ``NESTOR_DEMO_``."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.encoder import DEFAULT_MODEL
from services.settings import InternalSettings, default_database_url
from services.storage.url import DatabaseUrl


class DemoSettings(InternalSettings):
    """Settings for storage, encoder and similarity threshold."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_DEMO_")

    database_url: DatabaseUrl = Field(
        default_factory=lambda: default_database_url("demos"),
        description="The knowledge base: `sqlite+aiosqlite:///PATH` or `postgresql+asyncpg://USER:PASSWORD@HOST/NAME`.",
    )
    encoder: str = Field(
        default=DEFAULT_MODEL,
        description="The sentence encoder: a shipped model, an exported directory, or a sentence-transformers name.",
    )
    encoder_threads: int = Field(default=1, ge=1, le=64, description="Threads that share the encoding of one text.")
    compute_workers: int = Field(default=2, ge=1, le=64, description="Texts encoded at the same time.")
    compute_waiting: int = Field(
        default=128,
        ge=0,
        le=10_000,
        description="Encodings that may wait for a worker, half of them of one tenant. Further ones are a 503.",
    )
    similarity_threshold: float = Field(
        default=0.8,
        ge=-1,
        le=1,
        description="A task-level demo is selected only if its similarity (cosine) is above this. The default is "
        "TPTU-v2's.",
    )
    max_tenant_demos: int = Field(
        default=20_000,
        ge=1,
        description="Most demos of one tenant, besides everyone's. Each takes 3 kB of memory, 20 kB if it calls many "
        "APIs with long ids, and every request is compared with it. Further ones are refused with 409.",
    )
    max_body_bytes: int = Field(
        default=16 * 1_048_576,
        ge=1_024,
        description="Largest request body accepted, in bytes. It must hold an import of thousands of demos.",
    )
    max_json_values: int = Field(
        default=1_000_000, ge=1, description="Most values accepted in a JSON body, including lists and objects."
    )
