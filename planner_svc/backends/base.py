"""The seam between the planner service and whatever drafts plans."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from planner_svc.models import PlanDraft
from services.contracts.api import Api
from services.contracts.planning import PlanRequest


@runtime_checkable
class PlannerBackend(Protocol):
    """Drafts plans. One instance serves many requests at the same time, so it keeps no state between calls.

    Texts in the request (API descriptions, demos, context values) are data from outside, never instructions.
    """

    @property
    def name(self) -> str:
        """The name requests choose it by, for example ``compact``."""
        ...

    async def read(self, apis: Sequence[Api]) -> int:
        """Get ready for requests with these APIs; how many it has read, 0 where that would save no time.

        Must not block the event loop.

        Raises:
            Overloaded: too much work is waiting already.
        """
        ...

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan for the request, using only APIs among ``request.candidates``.

        Must not block the event loop: computation goes through a ``ComputePool``. The service bounds the time and
        cancels the call when it is over.

        Raises:
            ServiceUnavailable: what the backend depends on cannot be reached (``service`` names it).
            Overloaded: too much work is waiting already.
        """
        ...
