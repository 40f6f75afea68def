"""Requests to run a given plan."""

from pydantic import Field, JsonValue

from services.contracts.base import Contract, Query
from services.contracts.plan import MAX_STEPS
from services.contracts.planning import Decision


class StartOptions(Contract):
    """Options for running a given plan."""

    dry_run: bool = Field(default=False, description="Prove, but send nothing.")
    deadline_ms: int = Field(default=30_000, ge=100, le=3_600_000, description="Deadline for the whole request.")
    mutations: Decision = Field(default=Decision.ASK, description="What to do with calls that may change state.")


class StartRequest(Contract):
    """Run this plan unchanged. It is proved, approved and executed like one from the planner."""

    calls: tuple[dict[str, JsonValue], ...] = Field(
        min_length=1,
        max_length=MAX_STEPS + 1,
        description="NESTful's list of calls. `name` is the API's id, `arguments` has its arguments, and later calls "
        "refer to it by `label`, as in `$var1.items[0].id$`. The last one may be `var_result`; its arguments are the "
        "answer.",
        examples=[
            [
                {"name": "sandbox.listCustomerOrders", "arguments": {"customer_id": "cus_6"}, "label": "var1"},
                {"name": "var_result", "arguments": {"latest": "$var1.orders[0].id$"}},
            ]
        ],
    )
    query: Query = Field(
        default="A plan that was given", description="Purpose of the plan. It is shown in the list of runs."
    )
    options: StartOptions = StartOptions()
    wait: bool = Field(default=True, description="False: answer 202 immediately; follow the run under its id.")
