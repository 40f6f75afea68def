"""Settings of the retriever; environment variables start with ``NESTOR_RETRIEVER_``."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.contracts.api import Effect
from services.encoder import RETRIEVER_MODEL
from services.settings import InternalSettings, default_database_url
from services.storage.url import DatabaseUrl, RedisUrl

IndexKind = Literal["auto", "flat", "ivf", "pgvector"]


class RetrieverSettings(InternalSettings):
    """Settings for storage, encoder, ranking, and limits on documents."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_RETRIEVER_")

    database_url: DatabaseUrl = Field(
        default_factory=lambda: default_database_url("retriever"),
        description="The catalogue: `sqlite+aiosqlite:///PATH` or `postgresql+asyncpg://USER:PASSWORD@HOST/NAME`.",
    )
    encoder: str = Field(
        default=RETRIEVER_MODEL,
        description="The sentence encoder: a shipped model, an exported directory, or a sentence-transformers name. "
        "After a change, the catalogue is embedded again at the next start.",
    )
    encoder_threads: int = Field(
        default=2, ge=1, le=64, description="Clauses of a request that are encoded at the same time."
    )
    index: IndexKind = Field(
        default="auto",
        description="Where vectors are searched: `flat` (exact, in memory), `ivf` (approximate, a quarter of the "
        "memory), `auto` (exact up to 100,000 vectors, `ivf` above) or `pgvector` (in the catalogue's PostgreSQL).",
    )
    index_folder: Path | None = Field(
        default=None,
        description="Folder where the index is stored, so that it is not rebuilt at each start. Unset: beside an "
        "SQLite database; with PostgreSQL it is not stored.",
    )
    compute_workers: int = Field(default=2, ge=1, le=64, description="Requests encoded and searched at the same time.")
    compute_waiting: int = Field(
        default=128,
        ge=0,
        le=10_000,
        description="Requests that may wait for a worker, half of them of one tenant. Further ones are a 503.",
    )
    import_workers: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Threads that read documents and embed their operations. They run beside searches.",
    )
    import_cpu_s: float = Field(
        default=120.0,
        gt=0,
        le=3_600,
        description="Processor seconds that reading one document may take. After that the answer is 504. The largest "
        "YAML documents take 40 s.",
    )
    dense_weight: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Weight of meaning, compared with words, in a score. 0: words only; 1: meaning only.",
    )
    relevance: str = Field(
        default="shipped",
        description="The model that estimates how likely an API is needed: `shipped`, a file that `nestor train "
        "relevance` wrote, or `none` (only scores decide). It is used only with the encoder that it was trained for.",
    )
    relevance_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="A request is answered with an empty list if its best API is less likely than this. 0: never; "
        "unset: the model's own threshold.",
    )
    version_check_s: float = Field(
        default=1.0,
        ge=0,
        description="How often the catalogue's version is checked, in seconds. Changes by other replicas are seen "
        "after this time at the latest, and immediately if PostgreSQL or Redis reports them. Changes by this replica "
        "are seen immediately.",
    )
    cached_apis: int = Field(
        default=2_000,
        ge=0,
        le=1_000_000,
        description="APIs whose documents are kept in memory. The least recently used are dropped first.",
    )
    redis_url: RedisUrl = Field(
        default=None,
        description="Redis that replicas share to cache answers of `POST /retrieve` and to report changes to each "
        "other: `redis://:PASSWORD@HOST:PORT/NUMBER`. Unset: answers are cached in memory.",
    )
    answer_ttl_s: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="How long an answer of `POST /retrieve` is cached, in seconds. 0: not at all.",
    )
    max_import_bytes: int = Field(
        default=24_000_000, ge=1_024, description="Largest body of `POST /imports`: the document as a JSON string."
    )
    max_document_bytes: int = Field(default=20_000_000, ge=1_024, description="Largest document imported, in bytes.")
    max_document_operations: int = Field(
        default=20_000, ge=1, description="Most operations in one document. Documents with more are refused."
    )
    max_tenant_apis: int = Field(
        default=50_000,
        ge=1,
        description="Most APIs that one tenant imports; the operator may import more. Each takes 15 kB of memory. "
        "An import that would add more is refused with 409.",
    )
    effects: dict[str, Effect] = Field(
        default={},
        description='Whether calls `read` or `change`, by shell patterns for ids of APIs: `{"acme.search*": '
        '"read"}`. It overrides what method and wording suggest. The first pattern that matches decides. Changes '
        "apply from the next import on. Importers choose the ids: use `read` only for providers that you import "
        "yourself.",
    )
