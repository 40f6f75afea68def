"""The cascade: the order in which backends are asked, which answer is final, and how the time is shared."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Final

from planner_svc.models import Fault
from planner_svc.settings import PlannerSettings
from services.contracts.plan import Plan
from services.contracts.planning import Cascade, PlanRequest, PlanResponse
from services.contracts.trace import PlannerTrace

MODEL: Final = "served"
"""The backend that is a language model. Its answer is final, even if it says that nothing fits, unless a judge finds it
unlikely. If the model fails, the next backend is asked."""
DEMONSTRATED: Final = "demonstrated"
"""The backend that follows demonstrations. It is asked first if the request has demonstrations. Only a plan that can be
proved counts as its answer: if no demonstration fits, that says nothing about the request."""
COMPACT: Final = "compact"
"""The trained backend."""
DELIBERATE: Final = frozenset({"planned", "needs_input", "no_plan", "needs", "denied"})
"""Outcomes that are an answer, rather than a failure to give one."""
_RESERVE_S: Final = 1.5
_RESERVED_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class CascadePolicy:
    """Which backends to ask, and what to do with answers of low confidence.

    Attributes:
        cascade: which backend is asked first if there is a language model.
        escalate_to: a further backend, asked after the default one; None: no further backend.
        escalate_below: the smallest confidence at which a plan is final. Of a language model's answers it applies to
            those that a judge weighed: to plans, questions and refusals.
        abstain_below: a plan with less confidence than this, after all backends were asked, is withheld.
        abstain_changes_below: the same for a plan that may change something.
        unsure_below: a plan with less confidence than this is returned and marked as unsure. So is a plan whose calls
            do not return what is asked for. 0: no plan is marked.
    """

    cascade: Cascade = "model_first"
    escalate_to: str | None = None
    escalate_below: float = 0.0
    abstain_below: float = 0.0
    abstain_changes_below: float = 0.0
    unsure_below: float = 0.0

    @classmethod
    def of(cls, settings: PlannerSettings) -> CascadePolicy:
        """The policy that the settings describe."""
        return cls(**{one.name: getattr(settings, one.name) for one in fields(cls)})

    def order(self, default: str, available: Collection[str], wished: Cascade | None = None) -> tuple[str, ...]:
        """The backends to ask, in order.

        Args:
            default: the backend to ask if there is no language model.
            available: the names of all backends.
            wished: the cascade that the request asks for, in place of the policy's.
        """
        own = tuple(dict.fromkeys([default, *([self.escalate_to] if self.escalate_to else [])]))
        if MODEL in available and MODEL not in own:
            own = (MODEL, *own) if (wished or self.cascade) == "model_first" else (*own, MODEL)
        return (DEMONSTRATED, *own) if DEMONSTRATED in available and DEMONSTRATED not in own else own

    def min_confidence(self, response: PlanResponse) -> float:
        """The smallest confidence at which a proved plan is returned."""
        changes = response.compiled is not None and bool(response.compiled.proof.mutating)
        return max(self.abstain_below, self.abstain_changes_below) if changes else self.abstain_below

    def is_final(self, answer: BackendAnswer) -> bool:
        """Whether the answer is final, so that no other backend needs to be asked."""
        if answer.response.backend == MODEL:
            likely = not answer.judged or answer.response.confidence >= self.escalate_below
            return likely and answer.outcome in DELIBERATE
        if answer.response.backend == DEMONSTRATED:
            return answer.outcome == "planned"
        return answer.outcome == "planned" and answer.response.confidence >= self.escalate_below


@dataclass(frozen=True, slots=True)
class BackendAnswer:
    """A backend's answer.

    Attributes:
        response: the response to return if this answer is used.
        outcome: the kind of answer, in one word (:class:`~services.contracts.trace.PlannerAsked` lists them).
        fault: what failed, if something did.
        trace: what a language model was shown and answered.
        plan: the plan, the plan that the questions are about, or the plan that was denied.
        own_confidence: the backend's own confidence in the plan, or in there being no plan.
        judged: whether the response's confidence is a judge's, rather than the backend's own.
        reworded: the request that the plan is for, with codes for names, or today's date; None: as it was asked.
    """

    response: PlanResponse
    outcome: str
    fault: Fault | None = None
    trace: PlannerTrace | None = None
    plan: Plan | None = None
    own_confidence: float = 0.0
    judged: bool = False
    reworded: PlanRequest | None = None

    @property
    def can_be_judged(self) -> bool:
        """Whether this is an answer to the request. A failed server gives none, nor does a wish for operations."""
        return self.outcome != "needs" and (self.fault is None or not self.fault.outage)

    def replaces(self, other: BackendAnswer | None) -> bool:
        """Whether this answer is better than an earlier one that is not final.

        If both were judged, the likelier one is better, whatever its kind. Otherwise a plan is better than an answer
        without one, and of two plans the more confident one is.
        """
        if other is None:
            return True
        likelier = self.response.confidence >= other.response.confidence
        if self.judged and other.judged:
            return likelier
        return other.outcome != "planned" or (self.outcome == "planned" and likelier)


class TimeLeft:
    """The time that each backend may take.

    Args:
        deadline_ms: for all backends together; None: no deadline.
        each_s: for one backend.
    """

    def __init__(self, deadline_ms: int | None, each_s: float) -> None:
        self._ends = None if deadline_ms is None else time.monotonic() + deadline_ms / 1000
        self._each_s = each_s

    def share_s(self, *, last: bool) -> float:
        """Seconds for the next backend. Some time is reserved for the backends after it, which take milliseconds."""
        if self._ends is None:
            return self._each_s
        left = max(self._ends - time.monotonic(), 0.0)
        return min(self._each_s, left if last else left - min(_RESERVE_S, _RESERVED_SHARE * left))
