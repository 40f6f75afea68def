"""The parallel runner: each step starts as soon as *its* inputs are ready; it does not wait for a whole layer.

Step outcomes are data. A step without a value stops only its dependants. The run's deadline needs no extra code: no
step's deadline is later, so at the run's deadline all running steps time out and all waiting ones are skipped.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from opentelemetry.trace import Span
from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.binding import Hold, feeding_changes
from executor_svc.choosing import MAX_ITEMS
from executor_svc.graph import Graph
from executor_svc.models import LARGE_BYTES, Adapter, Limits
from executor_svc.references import Unresolved, Use, best_so_far, chosen, taken, unmatched
from executor_svc.steps import AT_ONCE, CANCELLED, Prepared, StepResult, Stop, perform, prepare, uncompared
from executor_svc.values import AnswerTooLarge, AnswerValues, ValueStore, size_of
from executor_svc.workers import NotDone, Workers
from services.contracts.answer import AnswerValue
from services.contracts.evidence import written_said
from services.contracts.execution import ExecutionEvent, ExecutionFinished, StepFinished, StepStarted
from services.contracts.outcome import (
    Failed,
    InDoubt,
    ItemRecord,
    RequestRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    Succeeded,
    UnmatchedItem,
)
from services.contracts.plan import Reference, Step, step_references
from services.contracts.planning import CompiledPlan
from services.partial import PartialValues
from services.size_budget import SizeBudget, SizeExceeded
from services.tracing import Attributes, fail, span


def _record_result(current: Span, result: StepResult) -> None:
    """Record a step's result in its span."""
    current.set_attributes({"nestor.outcome": result.outcome.kind, "nestor.attempts": result.attempts})
    if result.items:
        current.set_attribute("nestor.items", len(result.items))
    if isinstance(result.outcome, Failed):
        fail(current, result.outcome.reason)


_MAX_SENT_BYTES: Final = 4 * 1024 * 1024
"""Total size of the requests that are kept in full in the records of a run."""
_CUT_URL: Final = 200
_MAX_DETAIL_BYTES: Final = 1024 * 1024
"""Total size of what upstreams said of failures that is kept in the records of a run."""
_MAX_UNMATCHED: Final = 5
_NOT_KEPT: Final = "(not kept)"
_NOT_PREPARED: Final = "its values could not be read from earlier answers in time"
P = ParamSpec("P")
T = TypeVar("T")


class Run:
    """One execution of a proved plan. Use it once: ``async for event in Run(...).events()``.

    Args:
        compiled: the plan and the APIs it calls.
        graph: the plan's graph.
        adapter: makes the calls.
        run_id: identifies the run; part of every idempotency key.
        limits: size limits, and deadlines that start when the first event is requested.
        value_store: where large outputs are stored; events hold previews of them.
        begun: keys, without the run id, of the calls that a former process had started.
        hold: keeps steps from making calls until or unless they are approved.
        workers: threads for work on large values; None: all work is done on the event loop.
    """

    def __init__(
        self,
        compiled: CompiledPlan,
        graph: Graph,
        adapter: Adapter,
        run_id: str,
        limits: Limits,
        value_store: ValueStore,
        begun: frozenset[str] = frozenset(),
        hold: Hold | None = None,
        workers: Workers | None = None,
    ) -> None:
        if hold is not None and any(key.partition("/")[0] in hold.scope.held for key in begun):
            hold = None  # a former process has already found the reads unchanged since the approval
        self._hold, self._held_steps = hold, list[str]()
        self._reads_left = len(hold.scope.reads) if hold is not None else 0
        self._compiled, self._graph, self._adapter, self._run_id = compiled, graph, adapter, run_id
        self._limits, self._value_store = limits, value_store
        self._feeding = feeding_changes(compiled, graph)
        self._compared = SizeBudget(limits.compared_bytes)
        self._workers, self._comparing = workers, asyncio.Lock()
        self._sizes: dict[str, int] = {}
        self._looked_at = 0  # bytes of outputs that were looked at on the event loop since the last work beside it
        self._sent_bytes = self._detail_bytes = 0
        self._stop = Stop(begun=begun)
        self._waiting = dict(graph.waiting)
        self._blocked: dict[str, str] = {}
        self.outputs: dict[str, JsonValue] = {}
        self._cut = set[str]()  # the steps whose lists go on
        self._lost = set[str]()  # the steps that succeeded, but whose outputs are not kept
        self._records: dict[str, StepRecord] = {}
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._deadline = 0.0
        self._began = 0.0
        self._events: deque[ExecutionEvent] = deque()
        self._changed = asyncio.Event()

    async def events(self) -> AsyncGenerator[ExecutionEvent, None]:
        """Run the plan and yield its events. The last one is ``ExecutionFinished``.

        Closing the iterator cancels the run: open requests are dropped, and nothing more is sent.
        """
        self._deadline = self._clock() + self._limits.run_s
        self._began = time.perf_counter()  # uvloop's own clock has a resolution of one millisecond
        driver = asyncio.create_task(self._drive())
        driver.add_done_callback(lambda _: self._changed.set())
        try:
            while not driver.done():
                await self._changed.wait()
                self._changed.clear()
                while self._events:
                    yield self._events.popleft()
            await driver  # a bug inside a step is raised here
            yield await self._finished()
        finally:
            driver.cancel()
            await asyncio.gather(driver, return_exceptions=True)

    def cancel(self) -> None:
        """Start no further call. Calls in flight are awaited, since they may have an effect."""
        self._stop.requested = True

    async def _drive(self) -> None:
        attributes: Attributes = {"nestor.run_id": self._run_id, "nestor.steps": len(self._graph.steps)}
        with span("execution", attributes):
            async with asyncio.TaskGroup() as group:
                ready = [step for step, count in self._waiting.items() if count == 0]
                self._launch(await self._start(ready), group)
                self._changed.set()

    def _launch(self, started: list[Prepared], group: asyncio.TaskGroup) -> None:
        """Make the calls of these steps, a few per iteration of the event loop, so that other tasks can run."""
        for prepared in started[:AT_ONCE]:
            group.create_task(self._execute(prepared, group))
        if started[AT_ONCE:]:
            group.create_task(self._launch_later(started[AT_ONCE:], group))

    async def _launch_later(self, started: list[Prepared], group: asyncio.TaskGroup) -> None:
        self._launch(started, group)

    async def _start(self, ready: list[str]) -> list[Prepared]:
        """Start these steps and return those that make calls. A step without a call ends at once and may free more."""
        started, stack = [], ready[::-1]
        while stack:
            step = self._graph.steps[stack.pop()]
            if self._hold is not None and self._reads_left and step.id in self._hold.scope.held:
                self._held_steps.append(step.id)
                continue
            prepared = await self._prepare(step)
            if self._hold is not None and isinstance(prepared, Prepared):
                prepared = self._hold.excess(prepared) or prepared
            if isinstance(prepared, Prepared):
                self._events.append(StepStarted(step=step.id, api=step.api, at_ms=self._now_ms()))
                started.append(prepared)
            else:
                stack.extend(reversed(self._finish(step, StepResult(prepared), self._now_ms())))
        return started

    async def _prepare(self, step: Step) -> Prepared | Failed | Skipped:
        if step.id in self._blocked:
            return Skipped(because=self._blocked[step.id])
        if self._stop.holds(step):
            return Skipped(because=CANCELLED)
        lost = (ref.step for ref in step_references(step) if ref.step in self._lost) if self._lost else iter(())
        if (needed := next(lost, None)) is not None:
            return Failed(reason="refused", message=f"{step.id}: {_not_kept(needed)}")
        if self._hold is not None:
            refused = await self._hold.refusal(step, self.outputs, self._cut, self._deadline)
            if refused is not None:
                return refused
        size = self._size(step_references(step))
        size += LARGE_BYTES + 1 if step.foreach is not None else 0  # they may be looked at for each item
        try:
            return await self._beside(size, self._deadline, self._prepared, step)
        except NotDone as error:
            if not self._stop.has_begun(step):
                return Failed(reason=error.reason, message=f"{step.id}: {_NOT_PREPARED}")
            return self._prepared(step)  # its calls in doubt would go unreported

    def _size(self, used: Iterable[Reference]) -> int:
        """The size of the outputs that these references use, each time that they do."""
        return sum(self._sizes.get(one.step, 0) for one in used)

    async def _beside(
        self, size: int, deadline: float | None, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do work that looks at outputs of ``size`` bytes; in a worker thread if that and the work before are much.

        Raises:
            NotDone: it was not done before the deadline, or too much work is waiting.
        """
        async with self._comparing:  # what is compared and known is counted without locks
            self._looked_at += size
            if self._workers is None or self._looked_at <= LARGE_BYTES:
                return work(*args, **kwargs)
            size, self._looked_at = self._looked_at, 0
            return await self._workers.run(size, deadline, work, *args, **kwargs)

    def _prepared(self, step: Step) -> Prepared | Failed | Skipped:
        api, wanted = self._compiled.apis[step.api], self._graph.items.get(step.id)
        use: Use = "change" if step.id in self._feeding else "read"
        if (
            use == "change"
            and not self._stop.has_begun(step)
            and (refused := uncompared(step, self.outputs, self._cut, self._compared)) is not None
        ):
            return refused
        if use == "change" and wanted is not None and step.id in self._graph.chosen_from:
            wanted = max(wanted, MAX_ITEMS + 1)  # a further page can hold an item that matches as well
        # Another order of the steps must not refuse what a former process began: a call in doubt would go unreported.
        compared = None if self._stop.has_begun(step) else self._compared
        prepared = prepare(step, api, self.outputs, self._limits, wanted, compared, use)
        if isinstance(prepared, Prepared) and step.api in self._compiled.proof.pages_anywhere:
            return replace(prepared, pages_anywhere=True)
        return prepared

    async def _execute(self, prepared: Prepared, group: asyncio.TaskGroup) -> None:
        """Make a step's calls, then those of the steps that it frees. One of these runs in the same task.

        Calls start before events are delivered: the listener wakes after the tasks that are started here.
        """
        left = [prepared]
        while left:
            step, started_ms = left[0].step, self._now_ms()
            deadline = min(self._deadline, self._clock() + self._limits.step_s)
            with span("step", {"nestor.step": step.id, "nestor.api": step.api}) as current:
                result = await perform(left[0], self._adapter, self._run_id, deadline, self._stop, self._value_store)
                await self._keep(step, result)
                _record_result(current, result)
            left = await self._start(self._finish(step, result, started_ms))
            self._launch(left[1:], group)
            self._changed.set()

    async def _keep(self, step: Step, result: StepResult) -> None:
        """Keep the output of a step if there is room for it. In its result, a large one becomes a preview."""
        if isinstance(outcome := result.outcome, Succeeded):
            changed = self._compiled.apis[step.api].mutating
            result.outcome = kept = await self._value_store.for_caller(outcome, result.bytes, changed=changed)
            if isinstance(kept, Succeeded) and kept.kept:
                self.outputs[step.id] = outcome.value
                self._sizes[step.id] = max(result.bytes, kept.stored.bytes if kept.stored is not None else 0)
            elif isinstance(kept, Succeeded):
                self._lost.add(step.id)

    def _finish(self, step: Step, result: StepResult, started_ms: float) -> list[str]:
        """Record a step's outcome and return the steps that are ready now."""
        outcome = result.outcome
        requests = {id(request): self._recorded(request) for request in result.requests}
        record = StepRecord(
            step=step.id,
            api=step.api,
            requests=tuple(requests.values()),
            outcome=self._told_of(outcome),
            started_ms=started_ms,
            duration_ms=max(0.0, self._now_ms() - started_ms),
            attempts=result.attempts,
            items=tuple(self._item(item, requests) for item in result.items),
            pages=result.pages,
            more=result.more,
            violations=result.violations,
            recovered=result.recovered,
            secrets=result.secrets,
        )
        self._records[step.id] = record
        if record.more:
            self._cut.add(step.id)
        self._events.append(StepFinished(record=record))
        freed = self._release(step.id, outcome)
        if self._hold is not None and step.id in self._hold.scope.reads:
            self._reads_left -= 1
            if not self._reads_left:
                freed += self._held_steps
        return freed

    def _recorded(self, request: RequestRecord) -> RequestRecord:
        """The request as it is recorded. Its size is bounded: a loop may send a large body a thousand times."""
        if self._sent_bytes <= _MAX_SENT_BYTES:
            self._sent_bytes += len(request.url) + sum(map(len, request.headers.values()))
            self._sent_bytes += 0 if request.body is None else size_of(to_json(request.body))
        if self._sent_bytes <= _MAX_SENT_BYTES:
            return request
        body = None if request.body is None else _NOT_KEPT
        return request.model_copy(update={"url": request.url[:_CUT_URL], "headers": {}, "body": body})

    def _item(self, item: ItemRecord, requests: Mapping[int, RequestRecord]) -> ItemRecord:
        """The record of an item, with its request and its failure as they are recorded."""
        if item.request is None and not isinstance(item.outcome, Failed):
            return item
        request = requests.get(id(item.request), item.request)
        return item.model_copy(update={"request": request, "outcome": self._told_of(item.outcome)})

    def _told_of(self, outcome: StepOutcome) -> StepOutcome:
        """The outcome as it is recorded. Thousands of calls may fail, each with 16 kB of what the upstream says."""
        if not isinstance(outcome, Failed) or outcome.detail is None:
            return outcome
        self._detail_bytes += size_of(to_json(outcome.detail))
        return outcome if self._detail_bytes <= _MAX_DETAIL_BYTES else outcome.model_copy(update={"detail": None})

    def _release(self, finished: str, outcome: StepOutcome) -> list[str]:
        freed = []
        for dependant in self._graph.dependants.get(finished, ()):
            if self._blocks(finished, outcome, dependant):
                self._blocked.setdefault(dependant, self._cause(finished, outcome))
            self._waiting[dependant] -= 1
            if self._waiting[dependant] == 0:
                freed.append(dependant)
        return freed

    def _blocks(self, finished: str, outcome: StepOutcome, dependant: str) -> bool:
        """Whether an outcome blocks a dependant. A false condition blocks only dependants that use the step's value."""
        if isinstance(outcome, Succeeded):
            return False
        by_condition = isinstance(outcome, Skipped) and finished not in self._blocked
        return self._graph.needs_value(dependant, finished) or not by_condition

    def _cause(self, finished: str, outcome: StepOutcome) -> str:
        """The root cause: for a chain of skipped steps, the step that failed."""
        inherited = isinstance(outcome, Skipped) and finished in self._blocked
        return self._blocked[finished] if inherited else finished

    async def _finished(self) -> ExecutionFinished:
        outcomes = [record.outcome for record in self._records.values()]
        (answer, problem), unmatched = await self._told()
        # A missing field does not invalidate the answer values that exist, nor one without room a change that was made.
        unanswered = bool(problem) and not answer and not self._lost
        failed = unanswered or any(isinstance(outcome, Failed) for outcome in outcomes)
        doubtful = any(isinstance(outcome, InDoubt) for outcome in outcomes)
        cancelled = any(isinstance(outcome, Skipped) and outcome.because == CANCELLED for outcome in outcomes)
        return ExecutionFinished.model_construct(
            status="in_doubt" if doubtful else "cancelled" if cancelled else "failed" if failed else "succeeded",
            records=tuple(self._records[step.id] for step in self._compiled.plan.steps),
            answer=answer,
            problem=problem,
            unmatched=unmatched,
            duration_ms=self._now_ms(),
        )

    async def _told(self) -> tuple[tuple[tuple[AnswerValue, ...], str], tuple[UnmatchedItem, ...]]:
        """The answer with its problems, and the items that may not be meant. Also told after the run's deadline."""
        plan, shown = self._compiled.plan, AnswerValues(self._value_store)
        used = [output.value for output in plan.answer]
        used += [one for step in plan.steps for one in step_references(step) if self._cut or one.match is not None]

        def tell() -> tuple[tuple[tuple[AnswerValue, ...], str], tuple[UnmatchedItem, ...]]:
            return self._answer(shown), self._unmatched()

        try:
            return await self._beside(self._size(used), None, tell)
        except NotDone:  # the process ends
            return tell()
        finally:
            self._value_store.keep(shown.unstored)

    def _answer(self, shown: AnswerValues) -> tuple[tuple[AnswerValue, ...], str]:
        """The available answer values, and the problems with values of steps that succeeded."""
        values, missing = [], []
        partial = PartialValues(map(self._graph.steps.__getitem__, self._graph.order), self.outputs, self._cut)
        for output in self._compiled.plan.answer:
            reference = output.value
            if reference.step in self._lost:
                missing.append(f"answer {output.name!r}: {_not_kept(reference.step)}")
            if reference.step not in self.outputs:
                continue  # the step's own record says why
            found, path = self.outputs[reference.step], reference.path
            if reference.match is not None:
                path = chosen(found, reference, "shown", self._compared)
            try:
                value = taken(found, path, f"the output of {reference.step}", self._compared, gaps=True)
                beginning, stored = shown.of(value)
            except (Unresolved, SizeExceeded, AnswerTooLarge) as error:
                missing.append(f"answer {output.name!r}: {error}")
            else:
                values.append(
                    AnswerValue.model_construct(
                        name=output.name,
                        value=beginning,
                        step=reference.step,
                        path=path,
                        stored=stored,
                        partial=partial.holds(reference.step, path),
                    )
                )
        return tuple(values), "; ".join(missing)

    def _unmatched(self) -> tuple[UnmatchedItem, ...]:
        """The items that were used although another may be meant; at most a few."""
        plan, found = self._compiled.plan, dict[UnmatchedItem, None]()
        made = (step for step in plan.steps if isinstance(self._records[step.id].outcome, Succeeded))
        used = [reference for step in made for reference in step_references(step)]
        for reference in (*used, *(output.value for output in plan.answer)):
            if reference.match is None or reference.step not in self.outputs or len(found) >= _MAX_UNMATCHED:
                continue
            output, more = self.outputs[reference.step], reference.step in self._cut
            said = written_said(reference.match)
            if (label := unmatched(output, reference, self._compared)) is not None:
                found[UnmatchedItem(said=said, label=label)] = None
            elif (label := best_so_far(output, reference, self._compared, more=more)) is not None:
                found[UnmatchedItem(said=said, label=label, unread=True)] = None
        return tuple(found)

    def _now_ms(self) -> float:
        return round((time.perf_counter() - self._began) * 1000, 3)


def _not_kept(step: str) -> str:
    return f"{step} succeeded, but its answer is not kept: the run had no room for it"
