"""The dependency graph of a plan. Built once per run, in time linear in the number of steps and references."""

import math
from collections import defaultdict
from collections.abc import Iterable

from services.contracts.base import before_every
from services.contracts.plan import Plan, Step, dependencies, step_references


class NotAGraph(ValueError):
    """The plan refers to a missing step or has a cycle. The message names the steps."""


class Graph:
    """A plan's steps and their dependants.

    Raises:
        NotAGraph: for a dangling reference or a cycle.
    """

    def __init__(self, plan: Plan) -> None:
        self.steps = {step.id: step for step in plan.steps}
        self.dependants: dict[str, list[str]] = defaultdict(list)
        self.waiting = {step.id: 0 for step in plan.steps}
        self.items = _items_wanted(plan)
        """How many items of a step's list the plan uses, by step. Steps whose whole list may be used are left out."""
        self.chosen_from = frozenset(ref.step for step in plan.steps for ref in step_references(step) if ref.match)
        """Steps from whose lists another step takes the item that matches words."""
        self._values = {step.id: frozenset(ref.step for ref in step_references(step)) for step in plan.steps}
        for step in plan.steps:
            self._connect(step)
        self.order = self._ordered()
        """The step ids in topological order."""

    def _connect(self, step: Step) -> None:
        for needed in dependencies(step):
            if needed not in self.steps:
                raise NotAGraph(f"step {step.id} depends on {needed}, which is not in the plan")
            self.dependants[needed].append(step.id)
            self.waiting[step.id] += 1

    def _ordered(self) -> tuple[str, ...]:
        waiting = dict(self.waiting)
        order = [step for step, count in waiting.items() if count == 0]
        for done in order:  # the loop appends to it
            for dependant in self.dependants.get(done, ()):
                waiting[dependant] -= 1
                if waiting[dependant] == 0:
                    order.append(dependant)
        if len(order) < len(waiting):
            raise NotAGraph(f"the plan has a cycle through {_some(s for s, count in waiting.items() if count)}")
        return tuple(order)

    def needs_value(self, step: str, needed: str) -> bool:
        """Whether ``step`` uses the output of ``needed``, rather than only running after it."""
        return needed in self._values[step]


def _items_wanted(plan: Plan) -> dict[str, int]:
    """``var1.items[0].id`` needs one item of ``var1``'s list. A path without an index may need all items."""
    mapped = {step.id for step in plan.steps if step.foreach is not None}
    wanted: dict[str, float] = {}
    references = [ref for step in plan.steps for ref in step_references(step)]
    for ref in [*references, *(output.value for output in plan.answer)]:
        path = ref.path[1:] if ref.step in mapped else ref.path
        index = next((key for key in before_every(path) if isinstance(key, int)), math.inf)
        wanted[ref.step] = max(wanted.get(ref.step, 0), index + 1)
    return {step: int(items) for step, items in wanted.items() if items != math.inf}


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
