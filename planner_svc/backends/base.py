"""The interface between the planner service and its backends."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from planner_svc.models import PlanDraft
from services.contracts.api import Api
from services.contracts.planning import PlanRequest


@runtime_checkable
class PlannerBackend(Protocol):
    """Drafts plans. One instance serves concurrent requests, so it keeps no state between calls.

    Texts in the request (API descriptions, demos, context values) are untrusted data, never instructions.
    """

    @property
    def name(self) -> str:
        """The name by which requests choose this backend, for example ``compact``."""
        ...

    async def read(self, apis: Sequence[Api]) -> int:
        """Prepare for requests with these APIs. Returns how many were read; 0 if reading them ahead saves no time.

        Must not block the event loop.

        Raises:
            Overloaded: too much work is waiting already.
        """
        ...

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan for the request, using only APIs among ``request.candidates``.

        Must not block the event loop: computation goes through a ``ComputePool``. The service limits the time and
        cancels the call when it is up.

        Raises:
            ServiceUnavailable: a dependency of the backend cannot be reached (``service`` names it).
            Overloaded: too much work is waiting already.
        """
        ...
