"""One step: its condition, its arguments, and its call or, with `foreach`, its calls. Independent of graph and HTTP."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from executor_svc.conditions import Incomparable, holds
from executor_svc.models import MAX_LOOP_VALUES, Adapter, Call, CallResult, Limits, NotBegun, crashed
from executor_svc.references import (
    Item,
    Several,
    Unmatched,
    Unresolved,
    Use,
    check_compared,
    literal_bytes,
    parts,
    resolve,
    type_name,
)
from executor_svc.values import RunFull, ValueStore, not_kept
from services.contracts.api import Api
from services.contracts.evidence import EACH
from services.contracts.outcome import (
    Failed,
    InDoubt,
    ItemChoice,
    ItemRecord,
    RequestRecord,
    Skipped,
    StepOutcome,
    Succeeded,
)
from services.contracts.plan import ItemReference, ListValue, ObjectValue, Step, Value, references
from services.ownership.ticket import Fenced
from services.size_budget import SizeBudget, SizeExceeded
from services.telemetry import get_logger

_log = get_logger(__name__)

CONDITION = "when"
"""The reason of a step that is skipped by its own condition."""

CANCELLED = "cancelled"
"""The reason of a step that is skipped because its run was cancelled."""

MAX_MESSAGES = 10
"""Number of items in doubt that the step's own message names. The items' records hold all of them."""

AT_ONCE = 8
"""Calls started per iteration of the event loop. Building and signing a call can take a few milliseconds."""

GRACE_S = 0.5
"""Seconds after which an adapter that has not returned at its deadline is cancelled. They begin once the event loop has
seen the deadline: it may have stood still, and only the adapter knows whether anything was sent."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step with its inputs resolved: the arguments of each of its calls.

    ``mapped``: whether a `foreach` makes the calls. ``value_bytes``: for each call, the size of its argument values,
    those that are copied from other answers and the plan's own. ``items``: how many items of a list the plan uses; None
    if it may use all. ``pages_anywhere``: see :class:`~executor_svc.models.Call`.
    """

    step: Step
    api: Api
    arguments: tuple[dict[str, JsonValue], ...]
    value_bytes: tuple[int, ...]
    mapped: bool
    items: int | None
    pages_anywhere: bool = False


@dataclass(slots=True)
class Stop:
    """Whether to start no further calls, and which calls a former process had started.

    Calls that were started are always processed: one of them may be in doubt, which would go unreported otherwise.
    """

    requested: bool = False
    begun: frozenset[str] = frozenset()
    _begun_steps: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._begun_steps = frozenset(key.partition("/")[0] for key in self.begun)

    def holds(self, step: Step) -> bool:
        """Whether a step must not start."""
        return self.requested and not self.has_begun(step)

    def has_begun(self, step: Step) -> bool:
        """Whether a former process had started a call of the step."""
        return step.id in self._begun_steps


@dataclass(slots=True)
class StepResult:
    """The result of a step; the fields are those of :class:`~services.contracts.outcome.StepRecord`."""

    outcome: StepOutcome
    requests: tuple[RequestRecord, ...] = ()
    attempts: int = 0
    items: tuple[ItemRecord, ...] = ()
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()
    recovered: bool = False
    secrets: tuple[str, ...] = ()
    bytes: int = 0
    """Size of the answers that its value was read from."""


@dataclass(slots=True)
class _Progress:
    """The progress of a `foreach`. ``held``: the bytes of answers that it holds in the run's budget."""

    pending: Iterator[int]
    value_store: ValueStore
    changes: bool
    results: dict[int, CallResult] = field(default_factory=dict)
    stopped: bool = False
    held: int = 0

    def add(self, index: int, result: CallResult) -> None:
        """Add the result of an item; without its value if the run has no room for it. A failure stops the loop."""
        if isinstance(result.outcome, Succeeded) and result.outcome.kept:
            try:
                self.held += self.value_store.hold(result.outcome.value, result.bytes)
            except RunFull as error:
                result = replace(result, outcome=not_kept(result.outcome, error, changed=self.changes))
        self.results[index] = result
        if not isinstance(result.outcome, Succeeded):
            self.stopped = True


def prepare(
    step: Step,
    api: Api,
    outputs: Mapping[str, JsonValue],
    limits: Limits,
    wanted: int | None = None,
    compared: SizeBudget | None = None,
    use: Use = "change",
) -> Prepared | Failed | Skipped:
    """Resolve a step's inputs, or return why it makes no call.

    A condition that uses the current item filters the items; any other condition applies to the whole step.
    ``compared`` bounds what the run's conditions compare and how many values its loops have, and caches results about
    its values. ``use``: what the step's values are used for.
    """
    filtering = step.foreach is not None and step.when is not None and _of_item(step.when.left, step.when.right)
    own = literal_bytes(step.arguments.values())
    compared, budgets = compared or SizeBudget(limits.compared_bytes), list[SizeBudget]()

    def arguments(item: Item | None) -> dict[str, JsonValue]:
        budgets.append(SizeBudget(limits.copied_bytes, known=compared.known))
        return _arguments(step, outputs, item, budgets[-1], use)

    try:
        if step.when is not None and not filtering and not holds(step.when, outputs, None, compared, use):
            return Skipped(because=CONDITION)
        if step.foreach is None:
            single = arguments(None)
            return Prepared(step, api, (single,), (budgets[0].taken + own,), mapped=False, items=wanted)
        listed = SizeBudget(limits.compared_bytes, known=compared.known)
        elements = _argument(EACH, step.foreach.items, outputs, None, listed, use)
        if not isinstance(elements, list):
            return Failed(reason="reference", message=f"foreach needs a list, not {type_name(elements)}")
        if filtering and step.when is not None:
            sides = parts(step.when.left, literals=False) + parts(step.when.right, literals=False)
            compared.count(len(elements) * sides, MAX_LOOP_VALUES)
            elements = [one for one in elements if holds(step.when, outputs, Item(one), compared, use)]
        if len(elements) > limits.items:
            return Failed(reason="refused", message=f"foreach over {len(elements)} items; the limit is {limits.items}")
        values = 1 + sum(parts(value, literals=False) for value in step.arguments.values())
        compared.count(len(elements) * values, MAX_LOOP_VALUES)
        calls = tuple(arguments(Item(element)) for element in elements)
        return Prepared(step, api, calls, tuple(budget.taken + own for budget in budgets), mapped=True, items=wanted)
    except Ambiguous as error:
        return error.failed(step.id)
    except Unresolved as error:
        return Failed(reason="reference", message=f"{step.id}: {error}")
    except Incomparable as error:
        return Failed(reason="bad_request", message=f"{step.id}: {error}")
    except SizeExceeded as error:
        return Failed(reason="refused", message=f"{step.id}: it takes {error}")


async def perform(
    prepared: Prepared, adapter: Adapter, run_id: str, deadline: float, stop: Stop, value_store: ValueStore
) -> StepResult:
    """Make the step's call or calls with bounded parallelism.

    ``deadline`` is a reading of the loop's clock. ``value_store`` bounds the answers that a loop collects.
    """
    step = prepared.step
    if not prepared.mapped:
        if stop.holds(step):
            return StepResult(Skipped(because=CANCELLED))
        result = await _call(prepared, adapter, f"{run_id}/{step.id}", 0, deadline, value_store)
        return StepResult(Skipped(because=CANCELLED)) if result is None else _single(result)
    assert step.foreach is not None
    progress = _Progress(iter(range(len(prepared.arguments))), value_store, prepared.api.mutating)
    async with asyncio.TaskGroup() as group:
        for worker in range(min(step.foreach.parallel, len(prepared.arguments))):
            if worker and worker % AT_ONCE == 0:
                await asyncio.sleep(0)
            group.create_task(_work(prepared, adapter, run_id, deadline, progress, stop))
    value_store.release(progress.held)
    return _joined(progress.results, len(prepared.arguments))


async def _work(
    prepared: Prepared, adapter: Adapter, run_id: str, deadline: float, progress: _Progress, stop: Stop
) -> None:
    """Process items until none is left or one has failed.

    Calls in flight are not cancelled then: a mutating call that is cut off would be in doubt.
    """
    for index in progress.pending:
        if (progress.stopped or stop.requested) and f"{prepared.step.id}/{index}" not in stop.begun:
            continue
        result = await _call(
            prepared, adapter, f"{run_id}/{prepared.step.id}/{index}", index, deadline, progress.value_store
        )
        if result is None:
            continue
        progress.add(index, result)


async def _call(
    prepared: Prepared, adapter: Adapter, key: str, index: int, deadline: float, value_store: ValueStore
) -> CallResult | None:
    """Make one of the calls; None if its run was cancelled before.

    The adapter enforces the deadline itself, since only it knows whether the request was sent. A bug in it ends the
    call and not the run, which would be taken over and would make its calls again. Raises Fenced.
    """
    call = Call(
        prepared.api,
        prepared.arguments[index],
        key,
        deadline,
        prepared.items,
        pages_anywhere=prepared.pages_anywhere,
        value_bytes=prepared.value_bytes[index],
    )
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as patience:
            late = loop.call_at(deadline, lambda: patience.reschedule(loop.time() + GRACE_S))
            try:
                return value_store.held(await adapter.call(call), changed=prepared.api.mutating)
            finally:
                late.cancel()
    except NotBegun:
        return None
    except Fenced:
        raise
    except TimeoutError:
        message = "the call did not end within its deadline"
        if prepared.api.mutating:
            return CallResult(InDoubt(message=message), None, 1)
        return CallResult(Failed(reason="timeout", message=message), None, 1)
    except Exception as error:  # noqa: BLE001 - see above
        _log.error("bug", call=key, exc_info=error)
        return crashed(call, may_be_sent=True)


def _single(result: CallResult) -> StepResult:
    return StepResult(
        result.outcome,
        (result.request,) if result.request else (),
        result.attempts,
        pages=result.pages,
        more=result.more,
        violations=result.violations,
        recovered=result.recovered,
        secrets=result.secrets,
        bytes=result.bytes,
    )


def _joined(results: Mapping[int, CallResult], items: int) -> StepResult:
    """The result of a `foreach`: the results of its items, and one outcome for the step."""
    ordered = [result for _, result in sorted(results.items())]
    stopped_by = next(
        (f"item {i}" for i, r in sorted(results.items()) if not isinstance(r.outcome, Succeeded)), CANCELLED
    )
    records = tuple(_item(index, results.get(index), stopped_by) for index in range(items))
    return StepResult(
        _outcome(results, records),
        tuple(result.request for result in ordered if result.request is not None),
        sum(result.attempts for result in ordered),
        records,
        pages=sum(result.pages for result in ordered),
        more=any(result.more for result in ordered),
        violations=tuple(dict.fromkeys(text for result in ordered for text in result.violations)),
        recovered=any(result.recovered for result in ordered),
        secrets=tuple(dict.fromkeys(name for result in ordered for name in result.secrets)),
        bytes=sum(result.bytes for result in ordered),
    )


def _outcome(results: Mapping[int, CallResult], records: tuple[ItemRecord, ...]) -> StepOutcome:
    """The outcome of a `foreach`. Doubt takes precedence over failure, since a person has to settle it."""
    doubtful = [r for r in records if isinstance(r.outcome, InDoubt)]
    failed = [r for r in records if isinstance(r.outcome, Failed)]
    if doubtful:
        messages = [f"item {r.index}: {r.outcome.message}" for r in doubtful if isinstance(r.outcome, InDoubt)]
        return InDoubt(message="; ".join(messages[:MAX_MESSAGES]))
    if failed and isinstance(first := failed[0].outcome, Failed):
        return first.model_copy(update={"message": f"item {failed[0].index}: {first.message}"})
    if len(results) < len(records):
        return Skipped(because=CANCELLED)
    made = [o for o in (results[record.index].outcome for record in records) if isinstance(o, Succeeded)]
    return Succeeded.model_construct(value=[o.value for o in made], kept=all(o.kept for o in made))


def _item(index: int, result: CallResult | None, stopped_by: str) -> ItemRecord:
    """An item's record. A success holds no value, since the step's outcome holds it."""
    if result is None:
        return ItemRecord.model_construct(index=index, outcome=Skipped(because=stopped_by))
    if isinstance(result.outcome, Succeeded):
        outcome = Succeeded(status=result.outcome.status, kept=result.outcome.kept)
        return ItemRecord.model_construct(index=index, outcome=outcome)
    return ItemRecord.model_construct(index=index, outcome=result.outcome, request=result.request)


class Ambiguous(Unresolved):
    """It is not clear which of several values an argument has."""

    def __init__(self, argument: str, several: Several) -> None:
        super().__init__(str(several))
        self._argument, self._several = argument, several

    def failed(self, step: str) -> Failed:
        """The failure of the step, with the choices."""
        choices = tuple(ItemChoice(argument=self._argument, value=v, label=label) for v, label in self._several.choices)
        reason: Literal["ambiguous", "unmatched"] = "unmatched" if isinstance(self._several, Unmatched) else "ambiguous"
        return Failed(reason=reason, message=f"{step}: {self._argument}: {self._several}", choices=choices)


def uncompared(step: Step, outputs: Mapping[str, JsonValue], cut: Collection[str], budget: SizeBudget) -> Failed | None:
    """The failure of a step that leads to a change, if it may use an item only since another one was not read.

    ``cut``: the steps whose lists go on. ``budget`` caches what is found.
    """
    items = () if step.foreach is None else (step.foreach.items,)
    sides = () if step.when is None else (step.when.left, step.when.right)
    for name, value in (*step.arguments.items(), *((EACH, one) for one in (*items, *sides))):
        for reference in references(value):
            if reference.match is None or reference.step not in outputs:
                continue
            try:
                check_compared(outputs[reference.step], reference, budget, more=reference.step in cut)
            except Several as several:
                return Ambiguous(name, several).failed(step.id)
    return None


def _arguments(
    step: Step, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget, use: Use
) -> dict[str, JsonValue]:
    return {name: _argument(name, value, outputs, item, budget, use) for name, value in step.arguments.items()}


def _argument(
    name: str, value: Value, outputs: Mapping[str, JsonValue], item: Item | None, budget: SizeBudget, use: Use
) -> JsonValue:
    try:
        return resolve(value, outputs, item, budget, use)
    except Several as error:
        raise Ambiguous(name, error) from None


def _of_item(*values: Value) -> bool:
    """Whether any of the values uses the current item."""
    for value in values:
        if isinstance(value, ItemReference):
            return True
        if isinstance(value, ListValue) and _of_item(*value.items):
            return True
        if isinstance(value, ObjectValue) and _of_item(*value.fields.values()):
            return True
    return False
