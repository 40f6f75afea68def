"""The cascade: in which order planners are asked, whose word stands, and how the time is shared."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from planner_svc.models import Fault
from services.contracts.plan import Plan
from services.contracts.planning import Cascade, PlanResponse
from services.contracts.trace import PlannerTrace

MODEL: Final = "served"
"""The backend that is a language model. What it says stands, be it that nothing fits; where it fails, the next is
asked."""
DEMONSTRATED: Final = "demonstrated"
"""The backend that follows demonstrations. It is asked before all others where there are any; unless it has a plan that
can be proved, it has said nothing: that no demonstration fits says nothing of the request."""
COMPACT: Final = "compact"
"""The trained backend. How likely its word is right is told by a judge, where one was fitted."""
DELIBERATE: Final = frozenset({"planned", "needs_input", "no_plan", "needs", "denied"})
"""Outcomes that are somebody's word, rather than a failure to say one."""
_RESERVE_S: Final = 1.5
_RESERVED_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class CascadePolicy:
    """Whom to ask, and what becomes of answers that nobody is sure of.

    Attributes:
        cascade: who is asked first where there is a language model.
        escalate_to: a further backend that is asked after the default one; None: none is.
        escalate_below: the confidence from which on a plan stands that no language model made.
        abstain_below: a plan that is less sure than this, after all, is not answered with.
        abstain_changes_below: the same of a plan that may change something.
        unsure_below: a plan that is less sure than this is answered with, and said to be unsure; so is one whose calls
            do not tell what is asked for. 0: none is.
    """

    cascade: Cascade = "model_first"
    escalate_to: str | None = None
    escalate_below: float = 0.0
    abstain_below: float = 0.0
    abstain_changes_below: float = 0.0
    unsure_below: float = 0.0

    def order(self, default: str, available: Collection[str], wished: Cascade | None = None) -> tuple[str, ...]:
        """The backends to ask, in order.

        Args:
            default: the one that is asked where there is no language model.
            available: all there are.
            wished: by the request, in place of the policy's.
        """
        own = tuple(dict.fromkeys([default, *([self.escalate_to] if self.escalate_to else [])]))
        if MODEL in available and MODEL not in own:
            own = (MODEL, *own) if (wished or self.cascade) == "model_first" else (*own, MODEL)
        return (DEMONSTRATED, *own) if DEMONSTRATED in available and DEMONSTRATED not in own else own

    def enough(self, response: PlanResponse) -> float:
        """The confidence from which on a proved plan is answered with."""
        changes = response.compiled is not None and bool(response.compiled.proof.mutating)
        return max(self.abstain_below, self.abstain_changes_below) if changes else self.abstain_below

    def stands(self, word: Word) -> bool:
        """Whether nobody else needs to be asked."""
        if word.response.backend == MODEL:
            return word.outcome in DELIBERATE
        if word.response.backend == DEMONSTRATED:
            return word.outcome == "planned"
        return word.outcome == "planned" and word.response.confidence >= self.escalate_below


@dataclass(frozen=True, slots=True)
class Word:
    """What a backend said.

    Attributes:
        response: as it would be answered with.
        outcome: in a word (:class:`~services.contracts.trace.PlannerAsked` lists them).
        fault: what failed, where something did.
        trace: what a language model was shown and answered.
        plan: what it is about: the plan, or the one that the questions are asked of, or that was denied.
        sure: its own confidence in that, or in that there is none.
        rank: of the plan among the backend's drafts, 0 for the best.
    """

    response: PlanResponse
    outcome: str
    fault: Fault | None = None
    trace: PlannerTrace | None = None
    plan: Plan | None = None
    sure: float = 0.0
    rank: int = 0

    def replaces(self, other: Word | None) -> bool:
        """Whether it is the better answer of the two, the other having come first and not standing."""
        if other is None or other.outcome != "planned":
            return True
        return self.outcome == "planned" and self.response.confidence >= other.response.confidence


class TimeLeft:
    """How long each backend may take.

    Args:
        deadline_ms: for all of them together; None: there is none.
        each_s: for one of them.
    """

    def __init__(self, deadline_ms: int | None, each_s: float) -> None:
        self._ends = None if deadline_ms is None else time.monotonic() + deadline_ms / 1000
        self._each_s = each_s

    def share_s(self, *, last: bool) -> float:
        """Seconds for the next backend. Some are kept for those after it, which take milliseconds."""
        if self._ends is None:
            return self._each_s
        left = max(self._ends - time.monotonic(), 0.0)
        return min(self._each_s, left if last else left - min(_RESERVE_S, _RESERVED_SHARE * left))
