"""The demonstrated backend, behind the interface of planner backends."""

from collections.abc import Sequence
from typing import Final

from planner_svc.backends.demonstrated.transfer import transfer_plan
from planner_svc.backends.demonstrated.wording import Wording
from planner_svc.models import PlanDraft
from planner_svc.reading.context import read_clock
from planner_svc.reading.profile import profile_of
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.planning import PlanRequest

SAME: Final = 1.0
"""Confidence in the plan of the same request: somebody confirmed that it solves it."""
LIKE: Final = 0.9
"""Confidence in a plan whose values were read from the new request: reading may fail, the plan is known."""
MAX_DEMOS: Final = 8


class DemonstratedBackend:
    """Follows a demonstration of the same request, or of the same request with other values.

    The selector's similarity is ignored: other names and numbers make the same question dissimilar, and the pattern
    requires all other words anyway.
    """

    name = "demonstrated"

    def __init__(self, pool: ComputePool) -> None:
        self._pool = pool

    async def read(self, apis: Sequence[Api]) -> int:
        """Return 0: APIs are read with the first request that has them."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`."""
        return await self._pool.run(self.draft, request)

    def draft(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan, on the calling thread.

        A demonstration of the same request has priority. Otherwise all that match must give the same plan: if two
        disagree, the request's words do not tell which one applies.
        """
        apis = {candidate.api.id: candidate.api for candidate in request.candidates}
        asked = Wording(request.query, read_clock(request.context))
        demos = [one.demo for one in request.demos if apis.keys() >= {*one.demo.apis}][:MAX_DEMOS]
        found = []
        for demo in demos:
            profiles = {name: profile_of(apis[name]) for name in demo.apis}
            transfer = transfer_plan(demo, asked, profiles, request.context.values)
            if transfer is not None and transfer.same:
                return PlanDraft(transfer.plan, SAME)
            if transfer is not None:
                found.append(transfer.plan)
        if len({plan.id for plan in found}) == 1:
            return PlanDraft(found[0], LIKE)
        reason = "The demonstrations for this request disagree." if found else "No demonstration matches this request."
        return PlanDraft(None, reason=reason)
