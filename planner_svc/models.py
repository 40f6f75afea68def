"""The planner's own types: what a backend hands to the service."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from services.contracts.plan import Plan
from services.contracts.planning import Diagnostic
from services.contracts.trace import PlannerTrace


@dataclass(frozen=True, slots=True)
class MissingValue:
    """An argument the backend knows it could not fill, and how it would ask the user for it.

    ``text`` may be empty: the compiler then words the question from the parameter's description.
    """

    step: str
    argument: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a backend has no draft: a dependency failed, or gave an unusable answer.

    Attributes:
        kind: one word, for metrics: ``down``, ``hung``, ``late``, ``busy``, ``denied_access``, ``refused``,
            ``garbage``.
        text: the explanation for a person.
        outage: whether the same request may succeed at another time.
    """

    kind: str
    text: str
    outage: bool = False


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A backend's proposal. It may fail to compile: the service proves it.

    Attributes:
        plan: The draft; None if no candidate fits (abstaining is an answer).
        confidence: Estimated probability, 0 to 1, that the plan is right; for an abstention, that abstaining is right.
        missing: Required arguments left out of ``plan`` on purpose because neither request nor context holds them.
        reason: Why there is no plan, in a sentence for the user; empty if there is a plan.
        fault: Set if there is no plan because something failed; not set for an abstention.
        needs: Operations that a plan would need and that are not among the candidates, in words.
        revise: Makes a better draft from the compiler's diagnostics; None if that is not possible.
        trace: What a language model was shown and answered.
    """

    plan: Plan | None
    confidence: float = 0.0
    missing: tuple[MissingValue, ...] = ()
    reason: str = ""
    fault: Fault | None = None
    needs: tuple[str, ...] = ()
    revise: Callable[[Sequence[Diagnostic]], Awaitable["PlanDraft"]] | None = None
    trace: PlannerTrace | None = None
