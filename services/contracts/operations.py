"""How the platform's processes and the hosts that it calls are, for whoever runs it."""

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
    """A host that calls to fail in a row, as one process of the executor knows it."""

    host: str
    state: Literal["closed", "open"] = Field(description="`open`: but for a probe now and then nothing is sent to it.")
    failures: int = Field(ge=0, description="In a row.")
    probe_in_s: float = Field(default=0, ge=0, description="Seconds until the next probe may be sent.")


class ExecutorStatus(Contract):
    """The processes of the executor, and what the one that answers knows of hosts."""

    lease_s: float = Field(gt=0, description="Seconds after which a process that was not seen counts as dead.")
    workers: tuple[Worker, ...] = ()
    breakers: tuple[Breaker, ...] = Field(default=(), description="Of hosts whose last call failed; open ones first.")


class Operations(Contract):
    """The processes of the gateway and of the executor, their leases, and hosts in trouble."""

    lease_s: float = Field(gt=0, description="As the executor's, of the gateway.")
    workers: tuple[Worker, ...] = Field(default=(), description="Of the gateway.")
    executor: ExecutorStatus | None = Field(default=None, description="Null where it does not answer.")
