"""Approvals: who allowed which plan to be run, and the request that allows one."""

from pydantic import AwareDatetime, Field

from services.contracts.base import Contract, Digest


class Approval(Contract):
    """Who allowed which plan to be run, and when."""

    plan_id: str
    approver: str = Field(description="The principal whose token was sent; `anonymous` where none is configured.")
    on_behalf_of: str = Field(default="", description="The person, as the app that sent the approval names them.")
    at: AwareDatetime
    digest: str = Field(default="", description="Of what was approved.")


class ApproveRequest(Contract):
    """Approve exactly this plan and, by `digest`, these requests: others need another approval."""

    plan_id: str = Field(min_length=64, max_length=64)
    digest: Digest | None = Field(
        default=None,
        description="The run's `digest` that was looked at; needed where the run has `moved`, and good in any case.",
    )
    on_behalf_of: str = Field(default="", max_length=200, description="The person who approves, for the record.")
    wait: bool = Field(default=True, description="False: answer 202 at once; follow the run under its id.")
