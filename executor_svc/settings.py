"""Settings of the executor, from ``NESTOR_EXECUTOR_*`` environment variables."""

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from services.settings import HostName, InternalSettings, default_database_url
from services.storage.url import DatabaseUrl

MAX_TAKEN_BYTES: Final = 10 * 1024 * 1024
"""Default limit on the values that one call copies from other answers."""

MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Default limit on the large values of one run."""


class HostLimit(BaseModel):
    """The maximum load on one upstream from one executor process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: int | None = Field(default=None, ge=1, description="Requests at a time.")
    per_second: float | None = Field(default=None, gt=0, description="Requests a second, on average.")


class ExecutorSettings(InternalSettings):
    """How plans run, which credentials exist, and where requests may be sent."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_EXECUTOR_")

    max_body_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1, description="Largest plan accepted, with its APIs, in bytes."
    )
    max_json_values: int = Field(
        default=5_000_000, ge=1, description="Most values accepted in a JSON body, including lists and objects."
    )
    proof_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="The planner's `NESTOR_PLANNER_PROOF_KEY`. Only plans that are signed with it are run. Unset: "
        "authorised callers may run any plan.",
    )
    database_url: DatabaseUrl = Field(
        default_factory=lambda: default_database_url("executor"),
        description="SQLAlchemy URL of the ledger's database; all executors of one installation share it.",
    )
    lease_s: float = Field(
        default=10.0, gt=0, description="Seconds without a heartbeat after which another process takes over."
    )
    max_takeovers: int = Field(
        default=5,
        ge=0,
        description="How often a run is taken over before it is given up as the likely cause of the crashes.",
    )
    keep_days: float = Field(
        default=30.0,
        gt=0,
        description="How long ended runs and large values are kept, in days. Runs are kept for at least two days after "
        "they began.",
    )
    max_inline_bytes: int = Field(
        default=256 * 1024,
        ge=1_024,
        description="Largest output that is sent in full, in bytes. Larger ones are sent as a preview. Once an answer "
        "has four times as much in total, its further values are sent as previews too.",
    )
    shutdown_grace_s: float = Field(
        default=10.0, ge=0, description="How long calls in flight may continue after a stop signal, in seconds."
    )
    secrets_file: Path | None = Field(
        default=None, description="JSON file of credentials by name; see the page on credentials for its form."
    )
    secrets: SecretStr | None = Field(
        default=None, description="The same JSON as a value. Its entries override those of the file."
    )
    allowed_private_hosts: tuple[HostName, ...] = Field(
        default=(),
        description="Hosts (`host` or `host:port`) that may be called even if their addresses are not public.",
    )
    traceparent_hosts: tuple[HostName, ...] = Field(
        default=(),
        description="Hosts (`host` or `host:port`) to which calls send `traceparent` (W3C Trace Context), if tracing "
        "is on. `*`: all.",
    )
    step_deadline_ms: int = Field(
        default=30_000, ge=1, le=3_600_000, description="Deadline of a step if the request sets none, in milliseconds."
    )
    max_concurrent_runs: int = Field(
        default=1_000, ge=1, description="Runs at the same time. Further runs are refused."
    )
    max_items: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Most elements for which one `foreach` may call its API."
    )
    max_attempts: int = Field(
        default=3, ge=1, le=10, description="Most times one call is sent, if it may be sent again."
    )
    retry_base_s: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="Longest pause before the first retry, in seconds. It doubles each time, with full jitter.",
    )
    circuit_failures: int = Field(
        default=10,
        ge=1,
        description="Consecutive failures (no answer, or a 5xx) after which no calls are sent to a host.",
    )
    circuit_open_s: float = Field(
        default=10.0, gt=0, description="How long no calls are sent to such a host before each new attempt, in seconds."
    )
    host_limits: dict[HostName, HostLimit] = Field(
        default_factory=dict,
        description='Limits by `host` or `host:port`: `{"api.example.com": {"concurrency": 8, "per_second": 5}}`.',
    )
    connect_timeout_s: float = Field(
        default=5.0, gt=0, description="How long opening a connection may take, in seconds."
    )
    max_upstream_connections: int = Field(
        default=256, ge=1, description="Open connections to all upstreams together; one tenant may use half."
    )
    max_connections_per_host: int = Field(
        default=256, ge=1, description="Open connections to one upstream; one tenant may use half."
    )
    max_response_bytes: int = Field(
        default=10 * 1024 * 1024,
        ge=1,
        description="Largest answer read from an upstream, in bytes after decompression.",
    )
    max_response_values: int = Field(
        default=1_000_000, ge=1, description="Most values read from a JSON answer, including lists and objects."
    )
    max_answers_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        description="Most bytes of answers held in memory for all calls in flight, not counting the first 64 kB of "
        "each answer. One tenant may use half of them, one upstream three quarters.",
    )
    answers_wait_s: float = Field(
        default=10.0,
        gt=0,
        description="How long a read waits for free memory under `max_answers_bytes`, in seconds, before it fails "
        "as `overloaded`.",
    )
    max_taken_bytes: int = Field(
        default=MAX_TAKEN_BYTES,
        ge=1,
        description="Most bytes that the arguments of one call may take from answers of earlier calls; each reference "
        "counts. The same limit holds for all calls together that are shown for an approval.",
    )
    max_kept_bytes: int = Field(
        default=MAX_KEPT_BYTES,
        ge=1,
        description="Most bytes of large values that one run stores, and of answers that its loops collect.",
    )
    max_held_bytes: int = Field(
        default=1024 * 1024 * 1024,
        ge=1,
        description="Most bytes of memory that the answers of finished calls take until their runs end. One tenant's "
        "runs may use half of them.",
    )
    max_pages: int = Field(default=10, ge=1, description="Most pages fetched for one list.")
    max_list_items: int = Field(
        default=10_000, ge=1, description="No further page of a list is fetched once it has this many items."
    )
    strict_responses: bool = Field(
        default=False, description="Whether an answer that does not match the API's response schema is a failure."
    )
    max_error_bytes: int = Field(
        default=16 * 1024,
        ge=1,
        description="How much of an upstream's error answer is kept, in bytes after decompression.",
    )
    oauth_skew_s: float = Field(
        default=30.0, ge=0, description="How long before its expiry an OAuth2 access token is replaced, in seconds."
    )
