"""The planner's own types: what a backend hands to the service."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

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
    """Why a backend has no draft although it was asked for one: what it depends on failed, or answered nonsense.

    Attributes:
        kind: in a word, for metrics: ``down``, ``hung``, ``late``, ``busy``, ``denied_access``, ``refused``,
            ``garbage``.
        text: for a person.
        outage: whether the same request may do better at another time.
    """

    kind: str
    text: str
    outage: bool = False


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A backend's proposal. It need not compile: the service proves it, and tries ``alternatives`` where it does not.

    Attributes:
        plan: The best draft; None where nothing in the candidates fits (abstaining is an answer).
        confidence: Estimated probability, 0 to 1, that the plan is right; for an abstention, that abstaining is right.
        missing: Required arguments left out of ``plan`` on purpose because neither request nor context holds them.
        reason: Why there is no plan, in a sentence for the user; empty where there is one.
        alternatives: The next best drafts, best first. The service tries a bounded number of them, and looks at none
            where the best one compiles: see :class:`Lazily`.
        fault: Set where there is no plan because something failed; an abstention is none.
        needs: Operations that a plan would take and that are not among the candidates, in words.
        revise: Makes a better draft of this one, given what the compiler found; None where that cannot be tried.
        trace: What a language model was shown and answered.
    """

    plan: Plan | None
    confidence: float = 0.0
    missing: tuple[MissingValue, ...] = ()
    reason: str = ""
    alternatives: Sequence[Plan] = ()
    fault: Fault | None = None
    needs: tuple[str, ...] = ()
    revise: Callable[[Sequence[Diagnostic]], Awaitable["PlanDraft"]] | None = None
    trace: PlannerTrace | None = None


class Lazily(Sequence[Plan]):
    """Plans that are made when one of them is first looked at: mostly none is.

    Args:
        make: makes them; called once, on the thread that looks.
    """

    def __init__(self, make: Callable[[], Iterable[Plan]]) -> None:
        self._make = make

    @cached_property
    def _plans(self) -> tuple[Plan, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Plan]: ...
    def __getitem__(self, index: int | slice) -> Plan | Sequence[Plan]:
        """The plan at a place, or some of them."""
        return self._plans[index]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._plans)
