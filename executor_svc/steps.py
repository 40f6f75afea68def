"""One step: its condition, its arguments, its call, or with `foreach` its calls. Knows neither the graph nor HTTP."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from executor_svc.models import MAX_LOOP_VALUES, Adapter, Call, CallResult, Limits, NotBegun
from executor_svc.references import Incomparable, Item, Several, Unresolved, holds, parts, resolve, type_name
from services.contracts.api import Api
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
from services.contracts.plan import ItemReference, ListValue, ObjectValue, Step, Value
from services.room import NoRoomLeft, Room

CONDITION = "when"
"""What a step skipped by its own condition is skipped because of."""

CANCELLED = "cancelled"
"""What a step is skipped because of where its run was cancelled."""

MAX_MESSAGES = 10
"""Of how many items in doubt the step's own message speaks; the items' records tell all."""

AT_ONCE = 8
"""Calls that are begun in one round of the loop: building and signing one takes up to some milliseconds."""

GRACE_S = 0.5
"""How long after its deadline an adapter may still report, before it is cancelled and taken to have failed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step with its inputs resolved: the arguments of each call it makes. ``mapped`` where a `foreach` makes them.

    ``taken_bytes``: how much of each call's arguments others answered. ``items``: of how many items of a list the plan
    makes use; None: perhaps of all. ``pages_anywhere``: see :class:`~executor_svc.models.Call`.
    """

    step: Step
    api: Api
    arguments: tuple[dict[str, JsonValue], ...]
    taken_bytes: tuple[int, ...]
    mapped: bool
    items: int | None
    pages_anywhere: bool = False


@dataclass(slots=True)
class Stop:
    """Whether no further call shall be started, and which calls a former process had begun.

    Those are always looked at, whatever became of others: one of them may be in doubt, and nobody else would say so.
    """

    requested: bool = False
    begun: frozenset[str] = frozenset()

    def holds(self, step: Step) -> bool:
        """Whether a step is not to be started."""
        return self.requested and not any(key.partition("/")[0] == step.id for key in self.begun)


@dataclass(slots=True)
class StepResult:
    """What a step did, in the terms of :class:`~services.contracts.outcome.StepRecord`."""

    outcome: StepOutcome
    requests: tuple[RequestRecord, ...] = ()
    attempts: int = 0
    items: tuple[ItemRecord, ...] = ()
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()
    recovered: bool = False
    secrets: tuple[str, ...] = ()


@dataclass(slots=True)
class _Progress:
    """The items of a `foreach` under way."""

    pending: Iterator[int]
    results: dict[int, CallResult] = field(default_factory=dict)
    stopped: bool = False


def prepare(
    step: Step,
    api: Api,
    outputs: Mapping[str, JsonValue],
    limits: Limits,
    wanted: int | None = None,
    compared: Room | None = None,
) -> Prepared | Failed | Skipped:
    """Resolve a step's inputs, or say why there is nothing to call.

    A condition that speaks of the current item filters the items; any other decides over the whole step. ``compared``
    is the run's room for what conditions compare, and knows what was worked out of its values.
    """
    filtering = step.foreach is not None and step.when is not None and _of_item(step.when.left, step.when.right)
    compared, rooms = compared or Room(limits.compared_bytes), list[Room]()

    def arguments(item: Item | None) -> dict[str, JsonValue]:
        rooms.append(Room(limits.taken_bytes, known=compared.known))
        return _arguments(step, outputs, item, rooms[-1])

    try:
        if step.when is not None and not filtering and not holds(step.when, outputs, None, compared):
            return Skipped(because=CONDITION)
        if step.foreach is None:
            single = arguments(None)
            return Prepared(step, api, (single,), (rooms[0].taken,), mapped=False, items=wanted)
        elements = resolve(step.foreach.items, outputs, None, Room(limits.compared_bytes, known=compared.known))
        if not isinstance(elements, list):
            return Failed(reason="reference", message=f"foreach needs a list, not {type_name(elements)}")
        items = [Item(element) for element in elements]
        if filtering and step.when is not None:
            items = [item for item in items if holds(step.when, outputs, item, compared)]
        if len(items) > limits.items:
            return Failed(reason="refused", message=f"foreach over {len(items)} items; the limit is {limits.items}")
        if len(items) * sum(parts(value, literals=False) for value in step.arguments.values()) > MAX_LOOP_VALUES:
            return Failed(reason="refused", message=f"the calls of a foreach have more than {MAX_LOOP_VALUES} values")
        calls = tuple(map(arguments, items))
        return Prepared(step, api, calls, tuple(room.taken for room in rooms), mapped=True, items=wanted)
    except Ambiguous as error:
        return error.failed(step.id)
    except Unresolved as error:
        return Failed(reason="reference", message=f"{step.id}: {error}")
    except Incomparable as error:
        return Failed(reason="bad_request", message=f"{step.id}: {error}")
    except NoRoomLeft as error:
        return Failed(reason="refused", message=f"{step.id}: it takes {error}")


async def perform(prepared: Prepared, adapter: Adapter, run_id: str, deadline: float, stop: Stop) -> StepResult:
    """Make the step's call, or its calls with bounded parallelism; ``deadline`` is a reading of the loop's clock."""
    step = prepared.step
    if not prepared.mapped:
        if stop.holds(step):
            return StepResult(Skipped(because=CANCELLED))
        result = await _call(prepared, adapter, f"{run_id}/{step.id}", 0, deadline)
        return StepResult(Skipped(because=CANCELLED)) if result is None else _single(result)
    assert step.foreach is not None
    progress = _Progress(iter(range(len(prepared.arguments))))
    async with asyncio.TaskGroup() as group:
        for worker in range(min(step.foreach.parallel, len(prepared.arguments))):
            if worker and worker % AT_ONCE == 0:
                await asyncio.sleep(0)
            group.create_task(_work(prepared, adapter, run_id, deadline, progress, stop))
    return _joined(progress.results, len(prepared.arguments))


async def _work(
    prepared: Prepared, adapter: Adapter, run_id: str, deadline: float, progress: _Progress, stop: Stop
) -> None:
    """Take items until none is left or one has failed.

    What is in flight then ends by itself: cutting a mutating call short would only put it in doubt.
    """
    for index in progress.pending:
        if (progress.stopped or stop.requested) and f"{prepared.step.id}/{index}" not in stop.begun:
            continue
        result = await _call(prepared, adapter, f"{run_id}/{prepared.step.id}/{index}", index, deadline)
        if result is None:
            continue
        progress.results[index] = result
        if not isinstance(result.outcome, Succeeded):
            progress.stopped = True


async def _call(prepared: Prepared, adapter: Adapter, key: str, index: int, deadline: float) -> CallResult | None:
    """Make one of the calls; None where its run was cancelled before.

    The adapter keeps the deadline itself, since it alone knows whether anything was sent.
    """
    try:
        async with asyncio.timeout_at(deadline + GRACE_S):
            return await adapter.call(
                Call(
                    prepared.api,
                    prepared.arguments[index],
                    key,
                    deadline,
                    prepared.items,
                    pages_anywhere=prepared.pages_anywhere,
                    taken_bytes=prepared.taken_bytes[index],
                )
            )
    except NotBegun:
        return None
    except TimeoutError:
        message = "the call did not end within its deadline"
        if prepared.api.mutating:
            return CallResult(InDoubt(message=message), None, 1)
        return CallResult(Failed(reason="timeout", message=message), None, 1)


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
    )


def _joined(results: Mapping[int, CallResult], items: int) -> StepResult:
    """What a `foreach` did: all that its items did, and one outcome for the step."""
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
    )


def _outcome(results: Mapping[int, CallResult], records: tuple[ItemRecord, ...]) -> StepOutcome:
    """An item in doubt weighs more than one that failed: somebody has to look at it."""
    doubtful = [r for r in records if isinstance(r.outcome, InDoubt)]
    failed = [r for r in records if isinstance(r.outcome, Failed)]
    if doubtful:
        messages = [f"item {r.index}: {r.outcome.message}" for r in doubtful if isinstance(r.outcome, InDoubt)]
        return InDoubt(message="; ".join(messages[:MAX_MESSAGES]))
    if failed and isinstance(first := failed[0].outcome, Failed):
        return first.model_copy(update={"message": f"item {failed[0].index}: {first.message}"})
    if len(results) < len(records):
        return Skipped(because=CANCELLED)
    outcomes = (results[record.index].outcome for record in records)
    return Succeeded.model_construct(value=[o.value for o in outcomes if isinstance(o, Succeeded)])


def _item(index: int, result: CallResult | None, stopped_by: str) -> ItemRecord:
    """An item's outcome; of those that succeeded without their values, which are in the step's."""
    if result is None:
        return ItemRecord.model_construct(index=index, outcome=Skipped(because=stopped_by))
    if isinstance(result.outcome, Succeeded):
        return ItemRecord.model_construct(index=index, outcome=Succeeded(status=result.outcome.status))
    return ItemRecord.model_construct(index=index, outcome=result.outcome, request=result.request)


class Ambiguous(Unresolved):
    """An argument is one of several values."""

    def __init__(self, argument: str, several: Several) -> None:
        super().__init__(str(several))
        self._argument, self._several = argument, several

    def failed(self, step: str) -> Failed:
        """What became of the step: nothing, until somebody says which."""
        choices = tuple(ItemChoice(argument=self._argument, value=v, label=label) for v, label in self._several.choices)
        return Failed(reason="ambiguous", message=f"{step}: {self._argument}: {self._several}", choices=choices)


def _arguments(step: Step, outputs: Mapping[str, JsonValue], item: Item | None, room: Room) -> dict[str, JsonValue]:
    arguments = {}
    for name, value in step.arguments.items():
        try:
            arguments[name] = resolve(value, outputs, item, room)
        except Several as error:
            raise Ambiguous(name, error) from None
    return arguments


def _of_item(*values: Value) -> bool:
    """Whether any of the values speaks of the current item."""
    for value in values:
        if isinstance(value, ItemReference):
            return True
        if isinstance(value, ListValue) and _of_item(*value.items):
            return True
        if isinstance(value, ObjectValue) and _of_item(*value.fields.values()):
            return True
    return False
