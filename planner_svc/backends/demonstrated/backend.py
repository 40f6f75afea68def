"""The demonstrated backend as the planner's service knows it."""

from collections.abc import Sequence
from typing import Final

from planner_svc.backends.demonstrated.transfer import transferred
from planner_svc.backends.demonstrated.wording import Wording
from planner_svc.models import PlanDraft
from planner_svc.reading.context import read_clock
from planner_svc.reading.profile import Library
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.planning import PlanRequest

SAME: Final = 1.0
"""Confidence in the plan of the very same request: somebody has said that it solves it."""
LIKE: Final = 0.9
"""Confidence in a plan whose values were read anew: the reading may err, the plan is known."""
MAX_DEMOS: Final = 8


class DemonstratedBackend:
    """Plans as a demonstration does, where one is of the same request or of the same one with other values.

    How similar the selector calls a demonstration does not count: other names and numbers make the same question
    dissimilar, and its other words must all be there anyway.
    """

    name = "demonstrated"

    def __init__(self, pool: ComputePool) -> None:
        self._library = Library()
        self._pool = pool

    async def read(self, apis: Sequence[Api]) -> int:
        """None: APIs are read with the first request that has them."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`."""
        return await self._pool.run(self.draft, request)

    def draft(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan, on the calling thread.

        A demonstration of the very same request is followed before all others. Of others, all that fit must give the
        same plan: where two disagree, the request's words do not tell which of them it is like.
        """
        apis = {candidate.api.id: candidate.api for candidate in request.candidates}
        asked = Wording(request.query, read_clock(request.context))
        demos = [one.demo for one in request.demos if apis.keys() >= {*one.demo.apis}][:MAX_DEMOS]
        found = []
        for demo in demos:
            profiles = {name: self._library.profile(apis[name]) for name in demo.apis}
            transfer = transferred(demo, asked, profiles, request.context.values)
            if transfer is not None and transfer.same:
                return PlanDraft(transfer.plan, SAME)
            if transfer is not None:
                found.append(transfer.plan)
        if len({plan.id for plan in found}) == 1:
            return PlanDraft(found[0], LIKE)
        reason = "Demonstrations disagree about it." if found else "No demonstration is of this request."
        return PlanDraft(None, reason=reason)
