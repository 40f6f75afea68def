"""Demonstrations: solved requests that serve as examples for a planner (TPTU-v2, section 3.4)."""

from typing import Annotated, Literal

from pydantic import FailFast, Field

from services.contracts.api import Tenant
from services.contracts.base import ApiId, Contract, Query
from services.contracts.plan import Plan, content_hash

MAX_SELECTED_BYTES = 300_000
"""Most bytes of the demos of a selection, as JSON in ASCII. Each is passed on, parsed and shown to planners whole."""


class Demo(Contract):
    """A request and the plan that solves it.

    A *task-level* demo shows a whole request; an *API-level* demo shows one API in use and belongs to that API.
    """

    id: str = Field(default="", max_length=64, description="Content hash of query and plan; computed when empty.")
    level: Literal["task", "api"] = "task"
    query: Query
    plan: Plan
    source: str = Field(default="", max_length=200, description="Origin of the demo, for example `sandbox`.")

    @property
    def apis(self) -> tuple[str, ...]:
        """The ids of the APIs it uses, in order of first use."""
        return tuple(dict.fromkeys(step.api for step in self.plan.steps))


def demo_id(demo: Demo) -> str:
    """SHA-256, in hex, of the demo's query and plan: equal demos have equal ids."""
    return content_hash({"query": demo.query, "plan": demo.plan.id})


class ApiDescription(Contract):
    """An API as the selector sees it. The order of these APIs is the order of API-level fallback."""

    id: ApiId
    description: str = ""


class SelectDemosRequest(Contract):
    """The demos most useful for planning this request with these APIs."""

    query: Query
    apis: tuple[ApiDescription, ...] = Field(default=(), max_length=200)
    k: int = Field(default=3, ge=0, le=20)
    tenant: Tenant | None = Field(
        default=None, description="The tenant whose demos are selected in addition to everyone's."
    )
    threshold: float | None = Field(
        default=None, ge=-1, le=1, description="Cosine similarity; unset: the service's setting (0.8 by default)."
    )
    alike: int = Field(
        default=0,
        ge=0,
        le=20,
        description="How many demos to add to the `k`, whose requests share words with this one, regardless of "
        "similarity. The same question with other names and numbers may have a low similarity.",
    )
    same: bool = Field(
        default=False,
        description="True: only demos of this very text all of whose APIs are among `apis`, the tenant's own first; "
        "`threshold` and `alike` are ignored.",
    )


class SameDemosRequest(Contract):
    """Which APIs the demos of this very text use."""

    query: Query
    tenant: Tenant | None = Field(default=None, description="The tenant whose demos are meant, besides everyone's.")


class SameDemosResponse(Contract):
    """The APIs of each demo of a text, at most 20, in the order in which they are selected."""

    apis: tuple[tuple[ApiId, ...], ...] = ()


class DemosOfApisRequest(Contract):
    """A page of the demos that use any of these APIs."""

    apis: tuple[ApiId, ...] = Field(min_length=1, max_length=200)
    tenant: Tenant | None = Field(default=None, description="The tenant whose demos are listed, besides everyone's.")
    limit: int = Field(default=50, ge=1, le=1_000)
    cursor: int = Field(default=0, ge=0, le=2**31 - 1, description="`next` of the page before.")


class SelectedDemo(Contract):
    """A demo that was chosen, how similar its request is, and on which level it was found."""

    demo: Demo
    similarity: float
    level: Literal["task", "api"]


class SelectDemosResponse(Contract):
    """At most k demos: task-level ones first, most similar first, then API-level ones in the order of the APIs.

    Demos whose requests only share words follow last, if requested.
    """

    demos: tuple[SelectedDemo, ...] = ()


class DemoPage(Contract):
    """A page of the knowledge base. `next` is the cursor of the following page."""

    demos: tuple[Demo, ...]
    total: int = Field(ge=0)
    next: str | None = None


class ImportDemosRequest(Contract):
    """Demos to add; those already there (same query and plan) are left as they are."""

    # Without FailFast, pydantic validates all items, however long the list: a million may be errors.
    demos: Annotated[tuple[Demo, ...], FailFast()] = Field(min_length=1, max_length=10_000)


class ImportDemosReport(Contract):
    """What an import of demos did."""

    added: int = Field(ge=0)
    unchanged: int = Field(ge=0)
