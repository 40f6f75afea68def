"""The requests that a plan would send, for the person who approves them."""

from pydantic import Field, JsonValue

from services.contracts.api import Tenant
from services.contracts.base import Contract
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import RequestRecord
from services.contracts.planning import CompiledPlan


class PreviewRequest(Contract):
    """Show the requests that this plan would send."""

    compiled: CompiledPlan
    tenant: Tenant = Field(default="default", description="Whose run it is, and whose secrets may be presented.")
    reads: bool = Field(
        default=False,
        description="Make the reads that feed them, unless those need an approval or come after a change.",
    )
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000, description="For the reads.")


class RequestPreview(Contract):
    """A request as it would be sent. Values known only during a run are written as ``{var1.id}`` or ``{item.id}``."""

    step: str
    api: str
    request: RequestRecord
    complete: bool = Field(description="Whether every value in it is known already.")
    foreach: str | None = Field(default=None, description="The list whose every element gets a request of this form.")
    item: int | None = Field(
        default=None, ge=0, description="Which element of that list, from 0, where each is shown by itself."
    )
    calls: int | None = Field(
        default=None, ge=0, description="How many calls the step makes, where that is known; not all may be shown."
    )
    digest: str = Field(
        default="", description="Hash of all that is known of the step's calls; empty where reads were not made yet."
    )
    problem: str = Field(default="", description="Why no request can be built from these values, or none is sent.")


class ReadValue(Contract):
    """A value from a read that is used in the shown requests."""

    step: str
    api: str
    path: tuple[str | int, ...] = ()
    value: JsonValue = Field(description="The beginning of it, where it is large.")
    request: str = Field(default="", description="Method and URL of the call that gave it.")


class PreviewResponse(Contract):
    """The requests of the steps that may change state or wait for an approval, in the plan's order."""

    requests: tuple[RequestPreview, ...] = ()
    reads: tuple[ReadValue, ...] = Field(default=(), description="The values that reads gave, and where they are from.")
    settled: bool = Field(
        default=True, description="Whether all is shown that can be known before: no read that feeds them is left."
    )
    secrets: tuple[str, ...] = Field(default=(), description="Names of the secrets that these reads presented.")
    failed: ExecutionFinished | None = Field(
        default=None, description="What the reads did, where one failed or what it gave is of no use; nothing is shown."
    )
