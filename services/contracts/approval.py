"""Approvals: who allowed which plan to be run, and the request that allows one."""

from pydantic import AwareDatetime, Field

from services.contracts.base import Contract, Digest


class Approval(Contract):
    """Who allowed which plan to be run, and when."""

    plan_id: str
    approver: str = Field(description="The principal whose token was sent; `anonymous` if no principal is configured.")
    on_behalf_of: str = Field(default="", description="The person, as named by the app that sent the approval.")
    at: AwareDatetime
    digest: str = Field(default="", description="Digest of what was approved.")


class ApproveRequest(Contract):
    """Approve exactly this plan and, by `digest`, these requests: others need another approval."""

    plan_id: str = Field(min_length=64, max_length=64)
    digest: Digest | None = Field(
        default=None,
        description="The run's `digest` that was reviewed. It is required if the run has `moved`, and recommended "
        "otherwise.",
    )
    on_behalf_of: str = Field(default="", max_length=200, description="The person who approves, for the record.")
    wait: bool = Field(default=True, description="False: answer 202 immediately; follow the run under its id.")
