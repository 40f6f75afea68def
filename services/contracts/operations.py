"""Status of the platform's processes and of the hosts that it calls, for operators."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Contract


class Worker(Contract):
    """A process of a service, and the runs that it owns."""

    id: str = Field(description="Id of the process: host, process id and a random part.")
    seen_s: float | None = Field(
        default=None,
        ge=0,
        description="Seconds since its last heartbeat; null: it has ended or its record was deleted.",
    )
    alive: bool = Field(
        description="Whether its last heartbeat is within the lease. Runs of other processes are taken over."
    )
    runs: int = Field(default=0, ge=0, description="Number of active runs that it owns.")


class Breaker(Contract):
    """The circuit breaker of a host with consecutive failures, in one process of the executor."""

    host: str
    state: Literal["closed", "open"] = Field(description="`open`: nothing is sent to it except an occasional probe.")
    failures: int = Field(ge=0, description="Consecutive failures.")
    probe_in_s: float = Field(default=0, ge=0, description="Seconds until the next probe may be sent.")


class ExecutorStatus(Contract):
    """The processes of the executor, and the circuit breakers of the process that answers."""

    lease_s: float = Field(gt=0, description="Seconds without a heartbeat after which a process counts as dead.")
    workers: tuple[Worker, ...] = ()
    breakers: tuple[Breaker, ...] = Field(default=(), description="Hosts whose last call failed; open ones first.")


class ModelServer(Contract):
    """The server of a planning language model, as seen by one planner process. Counts start with that process."""

    url: str
    model: str
    state: Literal["unknown", "up", "down"] = Field(
        description="`unknown`: not asked yet. `down`: it failed, and gets no requests until a probe returns a token."
    )
    trouble: str = Field(default="", description="Why it is `down`.")
    probe_in_s: float = Field(
        default=0,
        ge=0,
        description="Seconds until it may be probed. 0 for a server that is `down`: it is probed with the next "
        "request.",
    )
    completions: dict[str, int] = Field(
        default_factory=dict,
        description="Number of requests that were `answered`, and of those that were not, by the reason.",
    )
    tokens: dict[str, int] = Field(
        default_factory=dict, description="Number of tokens in prompts (`prompt`) and answers (`completion`)."
    )
    mean_s: float = Field(
        default=0, ge=0, description="Mean duration of a completion in seconds, including failed ones."
    )


class PlannerStatus(Contract):
    """The language model servers, as seen by the planner process that answers."""

    servers: tuple[ModelServer, ...] = Field(default=(), description="Empty if no language model is configured.")


class Allowance(Contract):
    """Usage of a limited resource, and its limit."""

    used: int = Field(ge=0)
    most: int | None = Field(default=None, ge=0, description="Null: no limit.")

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self.most is not None and self.used >= self.most


class TenantUse(Contract):
    """A tenant's usage of its limits."""

    tenant: str
    requests: Allowance = Field(
        description="How much of the allowed burst of requests is used. It decreases by `requests_per_s` each second."
    )
    requests_per_s: float | None = Field(default=None, description="Null: no limit, and requests are not counted.")
    runs: Allowance = Field(description="Active runs and runs that wait to begin.")
    waiting: int = Field(ge=0, description="Number of runs that wait to begin.")
    streams: Allowance
    imports: Allowance

    @property
    def is_full(self) -> bool:
        """Whether the tenant is at one of its limits."""
        return any(one.is_full for one in (self.requests, self.runs, self.streams, self.imports))


class QuotaUse(Contract):
    """Usage of the limits of one gateway process. Each process counts separately."""

    runs: Allowance = Field(description="Active runs of all tenants.")
    waiting: Allowance = Field(description="Runs of all tenants that wait to begin.")
    tenants: tuple[TenantUse, ...] = Field(
        description="At most 100 tenants, those closest to a limit first: tenants that use something and tenants "
        "named in settings."
    )
    others: int = Field(default=0, ge=0, description="Number of tenants that are not shown.")


class Operations(Contract):
    """The processes of the gateway and of the executor, their leases, hosts in trouble, model servers and quotas."""

    tenant: str | None = Field(
        default=None,
        description="Null: everything is shown, as for the operator's administrators. Administrators of other tenants "
        "see only `quotas`, and only of their tenant.",
    )
    lease_s: float = Field(
        gt=0, description="Seconds without a heartbeat after which a process of the gateway counts as dead."
    )
    workers: tuple[Worker, ...] = Field(default=(), description="Processes of the gateway.")
    executor: ExecutorStatus | None = Field(default=None, description="Null if it does not answer.")
    planner: PlannerStatus | None = Field(default=None, description="Null if it does not answer.")
    quotas: QuotaUse = Field(description="As counted by the gateway process that answers.")
