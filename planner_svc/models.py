"""The planner's own types: what a backend hands to the service."""

from dataclasses import dataclass

from services.contracts.plan import Plan


@dataclass(frozen=True, slots=True)
class MissingValue:
    """An argument the backend knows it could not fill, and how it would ask the user for it.

    ``text`` may be empty: the compiler then words the question from the parameter's description.
    """

    step: str
    argument: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A backend's proposal. It need not compile: the service proves it, and tries ``alternatives`` where it does not.

    Attributes:
        plan: The best draft; None where nothing in the candidates fits (abstaining is an answer).
        confidence: Estimated probability, 0 to 1, that the plan is right; for an abstention, that abstaining is right.
        missing: Required arguments left out of ``plan`` on purpose because neither request nor context holds them.
        reason: Why there is no plan, in a sentence for the user; empty where there is one.
        alternatives: The next best drafts, best first. The service tries a bounded number of them.
    """

    plan: Plan | None
    confidence: float = 0.0
    missing: tuple[MissingValue, ...] = ()
    reason: str = ""
    alternatives: tuple[Plan, ...] = ()
