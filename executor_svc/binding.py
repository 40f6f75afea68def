"""What an approval binds: the calls that were shown, with the values that reads returned for them.

Before a person is asked for approval, the reads that feed the *held* steps are made, except for reads that need an
approval themselves or depend on a held step. When the approved plan runs, these reads are repeated, and every held step
waits for them. If a held step would then send anything other than what was approved, no held step sends anything.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from pydantic import JsonValue

from executor_svc.conditions import Incomparable, holds, presence
from executor_svc.graph import Graph
from executor_svc.models import COMPARISONS, MAX_LOOP_VALUES, Limits
from executor_svc.references import (
    Item,
    Several,
    Unresolved,
    chosen,
    literal_bytes,
    parts,
    resolve,
    taken,
)
from executor_svc.steps import Ambiguous, Prepared, uncompared
from executor_svc.workers import BESIDE, NotDone, Workers
from services.compute import checkpoint, with_checkpoints
from services.contracts.evidence import EACH
from services.contracts.execution import ExecuteRequest
from services.contracts.outcome import Failed, Skipped
from services.contracts.plan import (
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    When,
    content_hash_in_parts,
    dependencies,
    step_references,
)
from services.contracts.planning import CompiledPlan
from services.size_budget import SizeBudget, SizeExceeded

APPROVAL = "approval"
"""Why a step is skipped while the requests of its plan are only shown."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The steps of a plan that are ``held`` until its approval, and the ``reads`` that feed them, made before it."""

    held: frozenset[str]
    reads: frozenset[str]

    @classmethod
    def of(cls, compiled: CompiledPlan, graph: Graph) -> Self:
        """The scope of an approval of this plan."""
        held = frozenset(compiled.proof.mutating) | frozenset(compiled.proof.approvals)
        needs = {step.id: dependencies(step) for step in compiled.plan.steps}
        free: set[str] = set()
        for step_id in graph.order:
            if step_id not in held and needs[step_id] <= free:
                free.add(step_id)
        wanted = [ref.step for step in compiled.plan.steps if step.id in held for ref in step_references(step)]
        reads: set[str] = set()
        while wanted:
            if (step_id := wanted.pop()) in free and step_id not in reads:
                reads.add(step_id)
                wanted += needs[step_id]
        return cls(held, frozenset(reads))

    def of_reads(self, outputs: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The outputs of the reads."""
        return {step: output for step, output in outputs.items() if step in self.reads}


def feeding_changes(compiled: CompiledPlan, graph: Graph) -> frozenset[str]:
    """The held steps, and all whose outputs they use, directly or through other steps."""
    found = {*compiled.proof.mutating, *compiled.proof.approvals}
    for step_id in reversed(graph.order):
        if step_id in found:
            found |= {ref.step for ref in step_references(graph.steps[step_id])}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ResolvedCalls:
    """What is known about a held step's calls before it starts.

    Attributes:
        calls: the arguments of each call; unknown values are left as in the plan. For a `foreach` with an unknown list,
            one entry stands for all of its calls.
        mapped: whether a `foreach` makes the calls, and its list is known.
        step: the step, if its list or its condition is not known.
    """

    calls: tuple[dict[str, Value], ...]
    mapped: bool = False
    step: Step | None = None

    @property
    def digest(self) -> str:
        """A hash of all attributes: equal if the same calls would be made. Get it in a thread: they may be large."""
        calls: list[JsonValue] = [
            {name: value.model_dump(mode="json") for name, value in call.items()}
            for call in with_checkpoints(self.calls)
        ]
        rest = None if self.step is None else self.step.model_dump(mode="json", include={"foreach", "when"})
        return content_hash_in_parts({"calls": calls, "mapped": self.mapped, "rest": rest}, checkpoint)

    def number(self, step: Step) -> int | None:
        """How many calls the step makes at most; None if the list of its `foreach` is not known."""
        return len(self.calls) if step.foreach is None or self.mapped or not self.calls else None


def resolved_calls(
    step: Step, outputs: Mapping[str, JsonValue], reads: frozenset[str], limit: int, budget: SizeBudget
) -> ResolvedCalls | Failed:
    """A step's calls, as far as the outputs of the ``reads`` determine them; at most ``limit`` for a `foreach`.

    ``budget`` bounds the values that all steps of the plan copy from outputs, and the number of values in its loops.
    """
    if any(ref.step in reads and ref.step not in outputs for ref in step_references(step)):
        return ResolvedCalls(())  # a read that feeds it was skipped, so the step is skipped, too
    try:
        return _resolved_calls(step, outputs, limit, budget)
    except Ambiguous as error:
        return error.failed(step.id)
    except Unresolved as error:
        return Failed(reason="reference", message=f"{step.id}: {error}")
    except Incomparable as error:
        return Failed(reason="bad_request", message=f"{step.id}: {error}")
    except SizeExceeded as error:
        return Failed(reason="refused", message=f"{step.id}: the calls that are shown take {error}")


def _resolved_calls(
    step: Step, outputs: Mapping[str, JsonValue], limit: int, budget: SizeBudget
) -> ResolvedCalls | Failed:
    when = step.when
    if when is not None:
        left, right = (_side(side, when, outputs, budget) for side in (when.left, when.right))
        when = when.model_copy(update={"left": left, "right": right})
    rest = step.model_copy(update={"when": when})
    condition = when is not None and _is_literal(when.left) and _is_literal(when.right)
    if when is not None and condition:
        if not holds(when, outputs, None, budget):
            return ResolvedCalls(())
        when, rest = None, step.model_copy(update={"when": None})
    if step.foreach is None:
        return ResolvedCalls((_arguments(step, outputs, None, budget),), step=rest if when is not None else None)
    items = _argument(EACH, step.foreach.items, outputs, None, budget)
    if not isinstance(items, LiteralValue):
        rest = rest.model_copy(update={"foreach": step.foreach.model_copy(update={"items": items})})
        return ResolvedCalls((_arguments(step, outputs, None, budget),), step=rest)
    if not isinstance(items.value, list):
        return Failed(reason="reference", message=f"{step.id}: foreach needs a list")
    elements = items.value
    if when is not None and _decidable(when.left) and _decidable(when.right):
        compared = SizeBudget(COMPARISONS * budget.limit, known=budget.known)
        sides = parts(when.left, literals=False) + parts(when.right, literals=False)
        budget.count(len(elements) * sides, MAX_LOOP_VALUES)
        elements = [element for element in elements if holds(when, outputs, Item(element), compared)]
        when = None
    if len(elements) > limit:
        return Failed(reason="refused", message=f"foreach over {len(elements)} items; the limit is {limit}")
    values = 1 + sum(parts(value, literals=True) for value in step.arguments.values())
    budget.count(len(elements) * values, MAX_LOOP_VALUES)
    budget.repeat(len(elements) * literal_bytes(step.arguments.values()), COMPARISONS * budget.limit)
    calls = tuple(_arguments(step, outputs, Item(element), budget) for element in elements)
    return ResolvedCalls(calls, mapped=True, step=None if when is None else rest.model_copy(update={"foreach": None}))


def _arguments(step: Step, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget) -> dict[str, Value]:
    checkpoint()
    return {name: _argument(name, value, outputs, item, budget) for name, value in step.arguments.items()}


def _argument(
    name: str, value: Value, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget
) -> Value:
    try:
        return filled(value, outputs, item, budget)
    except Several as error:
        raise Ambiguous(name, error) from None


def filled(value: Value, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget) -> Value:
    """The value with known references replaced by literals; unknown ones stay. Raises the same as ``resolve``."""
    match value:
        case Reference():
            return LiteralValue(value=resolve(value, outputs, None, budget)) if value.step in outputs else value
        case ItemReference():
            return value if item is None else LiteralValue(value=resolve(value, outputs, item, budget))
        case ListValue():
            items = tuple(filled(element, outputs, item, budget) for element in value.items)
            if all(isinstance(element, LiteralValue) for element in items):
                return LiteralValue(value=[e.value for e in items if isinstance(e, LiteralValue)])
            return ListValue(items=items)
        case ObjectValue():
            fields = {name: filled(member, outputs, item, budget) for name, member in value.fields.items()}
            if all(isinstance(member, LiteralValue) for member in fields.values()):
                return LiteralValue(value={n: m.value for n, m in fields.items() if isinstance(m, LiteralValue)})
            return ObjectValue(fields=fields)
        case LiteralValue():
            return value


def _side(side: Value, when: When, outputs: Mapping[str, JsonValue], budget: SizeBudget) -> Value:
    """One side of a condition, as :func:`filled`; of an `exists`, whether it is there. A missing value is null."""
    if when.op != "exists":
        return filled(side, outputs, None, budget)
    try:
        return presence(side, outputs, None, budget.uncounted())
    except Unresolved:
        return LiteralValue(value=None)


def _is_literal(value: Value) -> bool:
    return isinstance(value, LiteralValue)


def _decidable(value: Value) -> bool:
    """Whether the value depends on no unknown output, only on the current item."""
    if isinstance(value, ListValue):
        return all(map(_decidable, value.items))
    if isinstance(value, ObjectValue):
        return all(map(_decidable, value.fields.values()))
    return not isinstance(value, Reference)


def source(
    reference: Reference, outputs: Mapping[str, JsonValue], budget: SizeBudget
) -> tuple[tuple[str | int, ...], JsonValue]:
    """The path that a reference resolves to, with the item that its match selects, and its value. Raises Unresolved."""
    output, path = outputs[reference.step], reference.path
    if reference.match is not None:
        try:
            path = tuple(chosen(output, reference, "change", budget))
        except Several:  # no request has the value, but a condition asks whether there is one
            path = tuple(chosen(output, reference, "shown", budget))
    return path, taken(output, path, f"the output of {reference.step}", budget)


class Hold(Protocol):
    """Keeps steps of a run from making calls. Held steps wait until the reads that feed them have ended."""

    @property
    def scope(self) -> Scope:
        """The held steps and the reads that they wait for."""
        ...

    async def refusal(
        self, step: Step, outputs: Mapping[str, JsonValue], cut: Collection[str], deadline: float
    ) -> Failed | Skipped | None:
        """Why a step that is ready must not make its call; None if it may.

        ``cut``: the steps whose lists go on. ``deadline``: until when it has to be known, by the loop's clock.
        """
        ...

    def excess(self, prepared: Prepared) -> Failed | None:
        """Why a step must not make these calls: they are more than were approved; None if they are not."""
        ...


@dataclass(frozen=True, slots=True)
class PreviewHold:
    """Lets a run make only the reads that feed held steps."""

    scope: Scope

    async def refusal(
        self, step: Step, outputs: Mapping[str, JsonValue], cut: Collection[str], deadline: float
    ) -> Skipped | None:
        """Why a step makes no call; None if it is one of these reads."""
        return None if step.id in self.scope.reads else Skipped(because=APPROVAL)

    def excess(self, prepared: Prepared) -> None:
        """Nothing is approved yet, and reads need no approval."""


@dataclass(slots=True)
class ApprovalHold:
    """Lets a run make the approved calls. ``digests``: the digest of each step's :class:`ResolvedCalls`, by step.

    ``limit`` and ``most_bytes`` are the limits with which the calls were shown.
    """

    plan: Plan
    scope: Scope
    digests: Mapping[str, str]
    limit: int
    most_bytes: int
    workers: Workers
    _changed: list[str] | Failed | None = None
    _most: dict[str, int | None] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def refusal(
        self, step: Step, outputs: Mapping[str, JsonValue], cut: Collection[str], deadline: float
    ) -> Failed | None:
        """Why a held step must not make its call: with the new reads, some held step differs from what was approved."""
        if step.id not in self.scope.held:
            return None
        async with self._lock:
            if self._changed is None:
                self._changed = await self._compared_with(self.scope.of_reads(outputs), cut, deadline)
        if isinstance(self._changed, Failed):
            return self._changed
        if not self._changed:
            return None
        listed = ", ".join(self._changed[:5])
        return Failed(
            reason="changed", message=f"nothing was sent: the requests of {listed} differ from the approved ones"
        )

    def excess(self, prepared: Prepared) -> Failed | None:
        """Why a step must not make these calls: they are more than were approved.

        Conditions do not decide otherwise than when they were shown, so this is a second lock. It does not ask again:
        other held steps may have made their calls.
        """
        step, number = prepared.step.id, len(prepared.arguments)
        if (most := self._most.get(step)) is None or number <= most:
            return None
        return Failed(reason="refused", message=f"{step}: it would make {number} calls, and {most} were approved")

    async def _compared_with(
        self, read: Mapping[str, JsonValue], cut: Collection[str], deadline: float
    ) -> list[str] | Failed:
        """The held steps that differ from what was approved; or why that is not known, so that none may be sent."""
        try:
            return await self.workers.run(BESIDE, deadline, self._find_changed, read, cut)
        except NotDone as error:
            message = "nothing was sent: it could not be checked in time whether the requests are the approved ones"
            return Failed(reason=error.reason, message=message)

    def _find_changed(self, read: Mapping[str, JsonValue], cut: Collection[str]) -> list[str]:
        budget = SizeBudget(self.most_bytes)
        return [one.id for one in self.plan.steps if self._is_changed(one, read, cut, budget)]

    def _is_changed(self, step: Step, read: Mapping[str, JsonValue], cut: Collection[str], budget: SizeBudget) -> bool:
        if step.id not in self.digests:
            return False
        if uncompared(step, read, cut, budget) is not None:
            return True  # its own refusal would come too late: others would have made their calls
        found = resolved_calls(step, read, self.scope.reads, self.limit, budget)
        if isinstance(found, Failed):
            return True
        self._most[step.id] = found.number(step)
        return found.digest != self.digests[step.id]


def hold_of(request: ExecuteRequest, graph: Graph, limits: Limits, workers: Workers) -> ApprovalHold | None:
    """The hold for an approved run; None if the approval binds no calls."""
    if not request.bound:
        return None
    scope = Scope.of(request.compiled, graph)
    return ApprovalHold(request.compiled.plan, scope, request.bound, limits.items, limits.copied_bytes, workers)
