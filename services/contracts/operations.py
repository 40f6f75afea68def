"""Status of the platform's processes and of the hosts that it calls, for operators."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Contract


class Worker(Contract):
    """A process of a service, and the runs that it owns."""

    id: str = Field(description="Host, process and a random part.")
    seen_s: float | None = Field(
        default=None, ge=0, description="Seconds since it showed that it is alive; null: it has left, or was forgotten."
    )
    alive: bool = Field(description="It was seen within a lease. What others own is taken over.")
    runs: int = Field(default=0, ge=0, description="Runs under way that it owns.")


class Breaker(Contract):
    """The circuit breaker of a host with consecutive failures, in one process of the executor."""

    host: str
    state: Literal["closed", "open"] = Field(description="`open`: but for a probe now and then nothing is sent to it.")
    failures: int = Field(ge=0, description="In a row.")
    probe_in_s: float = Field(default=0, ge=0, description="Seconds until the next probe may be sent.")


class ExecutorStatus(Contract):
    """The processes of the executor, and the circuit breakers of the process that answers."""

    lease_s: float = Field(gt=0, description="Seconds after which a process that was not seen counts as dead.")
    workers: tuple[Worker, ...] = ()
    breakers: tuple[Breaker, ...] = Field(default=(), description="Of hosts whose last call failed; open ones first.")


class ModelServer(Contract):
    """The server of a planning language model, as seen by one planner process. Counts start with that process."""

    url: str
    model: str
    state: Literal["unknown", "up", "down"] = Field(
        description="`unknown`: not asked yet. `down`: it failed, and is left alone until a probe brings a token."
    )
    trouble: str = Field(default="", description="Why it is `down`.")
    probe_in_s: float = Field(
        default=0, ge=0, description="Seconds until it may be probed; 0 where it is `down`: with the next request."
    )
    completions: dict[str, int] = Field(
        default_factory=dict, description="How many were `answered`, and how many were not, by what was in the way."
    )
    tokens: dict[str, int] = Field(
        default_factory=dict, description="Of prompts (`prompt`) and answers (`completion`)."
    )
    mean_s: float = Field(default=0, ge=0, description="Seconds of a completion, those that failed among them.")


class PlannerStatus(Contract):
    """The language model servers, as seen by the planner process that answers."""

    servers: tuple[ModelServer, ...] = Field(default=(), description="Empty where no language model is configured.")


class Allowance(Contract):
    """Usage of a limited resource, and its limit."""

    used: int = Field(ge=0)
    most: int | None = Field(default=None, ge=0, description="Null: there is no limit.")

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self.most is not None and self.used >= self.most


class TenantUse(Contract):
    """A tenant's usage of its limits."""

    tenant: str
    requests: Allowance = Field(
        description="What is spent of the requests that may come at once; each second gives `requests_per_s` back."
    )
    requests_per_s: float | None = Field(default=None, description="Null: there is no limit, and nothing is counted.")
    runs: Allowance = Field(description="Those under way, and those that wait to begin.")
    waiting: int = Field(ge=0, description="How many of the runs wait to begin.")
    streams: Allowance
    imports: Allowance

    @property
    def is_full(self) -> bool:
        """Whether the tenant is at one of its limits."""
        return any(one.is_full for one in (self.requests, self.runs, self.streams, self.imports))


class QuotaUse(Contract):
    """Usage of the limits of one gateway process. Each process counts separately."""

    runs: Allowance = Field(description="Runs of all tenants under way.")
    waiting: Allowance = Field(description="Runs of all tenants that wait to begin.")
    tenants: tuple[TenantUse, ...] = Field(
        description="100 at most, those nearest to a limit first: who uses something, and whom a setting names."
    )
    others: int = Field(default=0, ge=0, description="Tenants that are not shown.")


class Operations(Contract):
    """The processes of the gateway and of the executor, their leases, hosts in trouble, model servers and quotas."""

    tenant: str | None = Field(
        default=None,
        description="Null: all is told, as to the operator's administrators. To other tenants' administrators only "
        "`quotas` is, of their tenant.",
    )
    lease_s: float = Field(gt=0, description="As the executor's, of the gateway.")
    workers: tuple[Worker, ...] = Field(default=(), description="Of the gateway.")
    executor: ExecutorStatus | None = Field(default=None, description="Null where it does not answer.")
    planner: PlannerStatus | None = Field(default=None, description="Null where it does not answer.")
    quotas: QuotaUse = Field(description="As the gateway's process that answers counts them.")
