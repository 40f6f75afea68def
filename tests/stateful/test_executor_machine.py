"""Runs during crashes, stalls, stops, clock steps, lost answers, cancellations and settlements, in any order."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, precondition, rule

from executor_svc.admission import Sealer
from executor_svc.models import Execution
from executor_svc.storage import LedgerStore
from services.contracts.doubt import doubts_of
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.errors import Conflict, ServiceError
from tests.stateful.judge import Tracked, check_effects, check_ending, truth
from tests.stateful.machine import LEASE_S, House, Machine, explore
from tests.stateful.plans import Case, Kind, Task, task_lists
from tests.stateful.processes import Executor

_MOST_RUNS, _MOST_EXECUTORS = 4, 3


class Executors(Machine):
    """Executors on one database, their callers, their upstream, and a person who settles doubts."""

    runs = Bundle("runs")
    which = st.integers(0, _MOST_EXECUTORS - 1)

    def __init__(self, house: House) -> None:
        super().__init__(house)
        self.store = LedgerStore(house.engine, Sealer(None))
        self.executors: list[Executor] = []
        self.tracked: list[Tracked] = []
        self.refused: set[str] = set()
        self.unchecked: list[Tracked] = []
        self.mourned = self.stalls = 0
        self.start_an_executor()

    def at(self, which: int) -> Executor:
        return self.executors[which % len(self.executors)]

    # ------------------------------------------------------------------ processes

    @rule()
    @precondition(lambda self: len(self.executors) < _MOST_EXECUTORS)
    def start_an_executor(self) -> None:
        executor = self.executor(self.house.url)
        self.turn(executor.ready())
        self.executors.append(executor)

    @rule(which=which)
    @precondition(lambda self: self.executors)
    def crash(self, which: int) -> None:
        self.executors.pop(which % len(self.executors)).kill()

    @rule(which=which)
    @precondition(lambda self: self.executors)
    def stop(self, which: int) -> None:
        self.executors.pop(which % len(self.executors)).stop()

    @rule(which=which)
    @precondition(lambda self: self.executors and self.stalls < 2)
    def stall(self, which: int) -> None:
        self.stalls += 1
        self.turn(self.at(which).stall(1.5 * LEASE_S))

    # ------------------------------------------------------------------ runs

    @initialize(target=runs, tasks=task_lists())
    def start_the_first_run(self, tasks: tuple[Task, ...]) -> Tracked:
        return self.begin(tasks, 0, patience_s=None)

    @rule(target=runs, tasks=task_lists(), which=which, patience_s=st.sampled_from([None, 0.003]))
    @precondition(lambda self: self.executors and len(self.tracked) < _MOST_RUNS)
    def start_a_run(self, tasks: tuple[Task, ...], which: int, patience_s: float | None) -> Tracked:
        return self.begin(tasks, which, patience_s)

    def begin(self, tasks: tuple[Task, ...], which: int, patience_s: float | None) -> Tracked:
        run = Tracked(self.case(tasks))
        self.upstream.fates |= {run.spot(task.id)[0]: list(task.fates) for task in tasks}
        self.tracked.append(run)
        self.turn(self.ask(run, which, patience_s))
        return run

    def case(self, tasks: tuple[Task, ...]) -> Case:
        return Case(f"run-{next(self.house.numbers)}", tasks, self.upstream.origin)

    async def ask(self, run: Tracked, which: int, patience_s: float | None) -> None:
        """Request the run and wait for the first event. If another executor owns it, that may be the final event."""
        run.hang_up()
        heard = asyncio.Event()
        run.following = asyncio.create_task(self.hear(run, self.at(which), heard))
        run.following.add_done_callback(lambda _: heard.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await heard.wait()

    @rule(run=runs, which=which)
    @precondition(lambda self: self.executors)
    def follow(self, run: Tracked, which: int) -> None:
        self.turn(self.ask(run, which, 0.05))

    async def hear(self, run: Tracked, executor: Executor, heard: asyncio.Event) -> None:
        try:
            async for event in executor.client.execute(run.request):
                run.accepted = True
                heard.set()
                if isinstance(event, ExecutionFinished) and run.ending is None:
                    run.ending, run.open = event, doubts_of(event.records)
                    self.unchecked.append(run)
                elif isinstance(event, ExecutionFinished) and run.ending != event:
                    run.complaints.append(f"it ended twice: {run.ending}, {event}")
        except ServiceError as error:
            if not executor.going:
                run.complaints.append(f"execute: {error!r}")

    @rule(tasks=task_lists(), which=which, approved=st.sampled_from([None, "0" * 64]))
    @precondition(lambda self: self.executors and len(self.refused) < 2)
    def start_without_its_approval(self, tasks: tuple[Task, ...], which: int, approved: str | None) -> None:
        run = Tracked(self.case(tasks))
        self.refused.add(run.id)
        self.turn(self.is_refused(which, run.request.model_copy(update={"approved": approved})))

    @rule(run=runs, which=which)
    @precondition(lambda self: self.executors)
    def start_another_plan_under_its_id(self, run: Tracked, which: int) -> None:
        if run.accepted:
            other = Tracked(Case(run.id, (Task("another", Kind.POST),), self.upstream.origin))
            self.turn(self.is_refused(which, other.request))

    async def is_refused(self, which: int, request: ExecuteRequest) -> None:
        with pytest.raises(Conflict):
            await anext(self.at(which).client.execute(request))

    @rule(run=runs, which=which)
    @precondition(lambda self: self.executors)
    def cancel(self, run: Tracked, which: int) -> None:
        if not run.accepted:
            return
        state = self.turn(self.at(which).client.cancel(run.id))
        if state.status in ("running", "in_doubt", "cancelled"):
            run.cancelled = True
            stored = self.turn(self.stored(run))
            # After a cancellation the ledger lets no owner begin a mutating call. Reads do not need the ledger, so an
            # executor that runs the plan, or believes it does, may make some until it learns of the cancellation. It
            # learns of it at once if the cancellation was sent to it and it is the run's only owner so far.
            asked_itself = state.status == "in_doubt" or f"-{self.at(which).pid}-" in stored.owner
            reads = asked_itself and stored.epoch == 1
            run.barred |= {
                task.id
                for task in run.case.tasks
                if (reads or task.kind is not Kind.READ) and self.cannot_have_begun(run, task)
            }

    def cannot_have_begun(self, run: Tracked, task: Task) -> bool:
        """Whether a task that it needs has no answer yet, so that none of its own requests can be in flight."""
        needed = {spot for name in run.case.ancestors(task.id) for spot in run.spots(name)}
        return (
            bool(needed - self.upstream.answered - run.settled.keys())
            and run.spot(task.id)[0] not in self.upstream.sites()
        )

    @rule(run=runs, which=which, number=st.integers(0, 3), other_word=st.booleans())
    @precondition(lambda self: self.executors)
    def settle(self, run: Tracked, which: int, number: int, other_word: bool) -> None:
        """Settle one of the calls in doubt with the truth."""
        if run.open:
            doubt = run.open[number % len(run.open)]
            said = truth(run, doubt, self.upstream, other_word)
            run.settled[run.spot(doubt.step, doubt.item)] = said.outcome
            state = self.turn(self.at(which).client.resolve(run.id, doubt.step, said))
            run.open = state.doubts
            if state.status == "running":
                run.ending = None
                self.follow(run, which)

    async def stored(self, run: Tracked) -> Execution:
        execution = await self.store.execution(run.id)
        assert execution is not None, f"{run.id} was accepted, and is lost"
        return execution

    # ------------------------------------------------------------------ the world

    @rule()
    def release_what_is_held(self) -> None:
        self.upstream.release()
        self.turn(asyncio.sleep(0.02))

    @rule()
    @precondition(lambda self: self.mourned < len(self.processes) - len(self.executors))
    def let_the_leases_of_the_dead_end(self) -> None:
        self.mourned = len(self.processes) - len(self.executors)
        self.turn(asyncio.sleep(1.5 * LEASE_S))

    @invariant()
    def nothing_is_wrong(self) -> None:
        self.nothing_fell()
        check_effects(self.tracked, self.refused, self.upstream)
        while self.unchecked:
            run = self.unchecked.pop()
            execution = self.turn(self.stored(run))
            ending = run.ending
            assert ending is not None
            changed_hands = execution.epoch > 1
            check_ending(run, ending.status, ending.records, self.upstream, changed_hands=changed_hands)

    def heal(self) -> None:
        self.upstream.heal()
        if not self.executors:
            self.start_an_executor()
        for run in self.tracked:
            if run.accepted:
                self.turn(self.stored(run))
            self.bring_to_its_end(run)
        assert all(self.turn(self.store.execution(run_id)) is None for run_id in self.refused)

    def bring_to_its_end(self, run: Tracked) -> None:
        while run.ending is None or run.in_doubt:
            if run.open:
                self.settle(run, 0, 0, False)
            else:
                self.follow(run, 0)
            if run.following is not None:
                self.turn(asyncio.wait({run.following}))
            self.nothing_is_wrong()

    async def clean_up(self) -> None:
        for run in self.tracked:
            run.hang_up()
        self.store.close()


def test_executors_keep_their_promises(house: House) -> None:
    explore(Executors, house, share=0.1)
