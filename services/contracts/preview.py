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
    tenant: Tenant = Field(default="default", description="The tenant that owns the run and whose secrets may be used.")
    reads: bool = Field(
        default=False,
        description="Make the reads that provide their values, unless these need an approval or follow a change.",
    )
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000, description="Deadline for the reads.")


class RequestPreview(Contract):
    """A request as it would be sent. Values known only during a run are written as ``{var1.id}`` or ``{item.id}``."""

    step: str
    api: str
    request: RequestRecord
    complete: bool = Field(description="Whether all its values are known.")
    foreach: str | None = Field(
        default=None, description="The list; each of its elements leads to a request of this form."
    )
    item: int | None = Field(
        default=None, ge=0, description="Index of the element in that list, from 0, if each is shown separately."
    )
    calls: int | None = Field(
        default=None, ge=0, description="Number of calls of the step, if known; some may not be shown."
    )
    digest: str = Field(
        default="", description="Hash of all that is known about the step's calls; empty if reads were not made yet."
    )
    problem: str = Field(default="", description="Why no request can be built from these values, or why none is sent.")


class ReadValue(Contract):
    """A value from a read that is used in the shown requests."""

    step: str
    api: str
    path: tuple[str | int, ...] = ()
    value: JsonValue = Field(description="The value, or its beginning if it is large.")
    request: str = Field(default="", description="Method and URL of the call that returned it.")


class PreviewResponse(Contract):
    """The requests of the steps that may change state or wait for an approval, in the plan's order."""

    requests: tuple[RequestPreview, ...] = ()
    reads: tuple[ReadValue, ...] = Field(default=(), description="The values that reads returned, with their origins.")
    settled: bool = Field(
        default=True,
        description="Whether everything that can be known before the run is shown: no read that provides values "
        "is left.",
    )
    secrets: tuple[str, ...] = Field(default=(), description="Names of the secrets that these reads used.")
    failed: ExecutionFinished | None = Field(
        default=None,
        description="Outcomes of the reads, if one failed or its value cannot be used. No requests are shown then.",
    )
