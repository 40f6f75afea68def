"""Requests during faults of gateways, executor restarts, clock steps, approvals, cancellations and races."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, precondition, rule

from services.contracts.doubt import doubts_of
from services.contracts.event import RunEvent, RunFinished
from services.contracts.planning import Decision
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.errors import Conflict, ServiceError
from tests.stateful.judge import Tracked, check_effects, check_ending, truth
from tests.stateful.machine import LEASE_S, House, Machine, explore
from tests.stateful.plans import Case, Task, task_lists
from tests.stateful.processes import Executor, Gateway, in_words
from tests.support.ports import held_port

_MOST_RUNS, _MOST_GATEWAYS = 3, 2
_UNDER_WAY = (RunStatus.PLANNING, RunStatus.RUNNING)


@dataclass
class Asked(Tracked):
    """A request.

    Attributes:
        given: the gateway's id of its run.
        allowed: whether its calls may be made, because the request allows it or the plan was approved.
        events: the events of its stream, which is resumed after each break.
    """

    given: str = ""
    allowed: bool = False
    events: list[RunEvent] = field(default_factory=list)

    def solve(self, mutations: Decision) -> SolveRequest:
        """The request."""
        options = SolveOptions(deadline_ms=600_000, mutations=mutations)
        return SolveRequest(query=in_words(self.case), options=options, wait=False)


class Gateways(Machine):
    """Gateways on one database, an executor that is sometimes restarted, apps, and a person."""

    runs = Bundle("runs")
    which = st.integers(0, _MOST_GATEWAYS - 1)
    decisions = st.sampled_from([Decision.ALLOW, Decision.ASK])

    def __init__(self, house: House) -> None:
        super().__init__(house)
        # The executor has its own SQLite ledger, because only the gateways are tested here.
        self.ledger = f"sqlite+aiosqlite:///{house.folder}/ledger.db"
        self.behind: Executor = self.executor(self.ledger, self.stack.enter_context(held_port()))
        self.turn(self.behind.ready())
        self.gateways: list[Gateway] = []
        self.asked: list[Asked] = []
        self.mourned = self.stalls = self.restarts = 0
        self.start_a_gateway()

    def tried(self, asking: Iterable[Awaitable[Run]]) -> list[Run | BaseException]:
        """Send all requests at once and return results and errors."""

        async def gathered() -> list[Run | BaseException]:
            return await asyncio.gather(*asking, return_exceptions=True)

        return self.turn(gathered())

    def at(self, which: int) -> Gateway:
        return self.gateways[which % len(self.gateways)]

    # ------------------------------------------------------------------ processes

    @rule()
    @precondition(lambda self: len(self.gateways) < _MOST_GATEWAYS)
    def start_a_gateway(self) -> None:
        chosen = {"database_url": self.house.url, "lease_s": LEASE_S, "max_takeovers": 1_000, "shutdown_grace_s": 0.2}
        gateway = Gateway(self.log, self.house.clock, chosen, origin=self.upstream.origin, executor=self.behind.url)
        self.processes.append(gateway)
        self.turn(gateway.ready())
        self.gateways.append(gateway)

    @rule(which=which)
    @precondition(lambda self: self.gateways)
    def crash(self, which: int) -> None:
        self.gateways.pop(which % len(self.gateways)).kill()

    @rule(which=which)
    @precondition(lambda self: self.gateways)
    def stop(self, which: int) -> None:
        self.gateways.pop(which % len(self.gateways)).stop()

    @rule(which=which)
    @precondition(lambda self: self.gateways and self.stalls < 2)
    def stall(self, which: int) -> None:
        self.stalls += 1
        self.turn(self.at(which).stall(1.5 * LEASE_S))

    @rule()
    @precondition(lambda self: self.restarts < 2)
    def crash_the_executor_and_start_it_again(self) -> None:
        self.restarts += 1
        self.behind.kill()
        self.behind = self.executor(self.ledger, self.behind.port)
        self.turn(self.behind.ready())

    # ------------------------------------------------------------------ runs

    @initialize(target=runs, tasks=task_lists(), mutations=decisions)
    def ask_for_the_first_run(self, tasks: tuple[Task, ...], mutations: Decision) -> Asked:
        return self.begin(tasks, mutations, 1)

    @rule(
        target=runs,
        tasks=task_lists(),
        mutations=decisions,
        times=st.integers(1, 3),
    )
    @precondition(lambda self: self.gateways and len(self.asked) < _MOST_RUNS)
    def ask_for_a_run(self, tasks: tuple[Task, ...], mutations: Decision, times: int) -> Asked:
        return self.begin(tasks, mutations, times)

    def begin(self, tasks: tuple[Task, ...], mutations: Decision, times: int) -> Asked:
        """Send the request a number of times through all gateways at once; that must make one run."""
        run = Asked(Case(f"run-{next(self.house.numbers)}", tasks, self.upstream.origin))
        run.allowed = mutations is Decision.ALLOW
        self.upstream.fates |= {run.spot(task.id)[0]: list(task.fates) for task in tasks}
        self.asked.append(run)
        asked = run.solve(mutations)
        answers = self.tried(self.at(n).client.solve(asked, idempotency_key=run.id) for n in range(times))
        assert len({answer.id for answer in answers if isinstance(answer, Run)}) == 1, answers
        assert isinstance(answers[0], Run), answers
        run.given = answers[0].id
        return run

    @rule(run=runs, which=which)
    @precondition(lambda self: self.gateways)
    def ask_for_something_else_under_its_key(self, run: Asked, which: int) -> None:
        other = SolveRequest(query="something else", wait=False)
        answers = self.tried([self.at(which).client.solve(other, idempotency_key=run.id)])
        assert isinstance(answers[0], Conflict)

    @rule(run=runs, times=st.integers(1, 3))
    @precondition(lambda self: self.gateways)
    def approve(self, run: Asked, times: int) -> None:
        """Approve the run a number of times through all gateways at once; one approval must count."""
        seen = self.turn(self.seen(run))
        plan = run.case.plan.plan.id
        answers = self.tried(self.at(n).client.approve(run.given, plan, wait=False) for n in range(times))
        approved = [answer for answer in answers if isinstance(answer, Run)]
        assert len(approved) <= 1, f"{run.id}: approved {len(approved)} times: {answers}"
        assert approved or seen.status is not RunStatus.NEEDS_APPROVAL, f"{run.id} cannot be approved: {answers}"
        run.allowed |= bool(approved)
        assert all(isinstance(answer, Run | Conflict) for answer in answers), answers

    @rule(run=runs, which=which)
    @precondition(lambda self: self.gateways)
    def approve_another_plan(self, run: Asked, which: int) -> None:
        answers = self.tried([self.at(which).client.approve(run.given, "0" * 64, wait=False)])
        assert isinstance(answers[0], Conflict), answers

    @rule(run=runs, which=which)
    @precondition(lambda self: self.gateways)
    def cancel(self, run: Asked, which: int) -> None:
        answer = self.tried([self.at(which).client.cancel(run.given)])[0]
        if isinstance(answer, Run):
            run.cancelled = True
            if answer.status is RunStatus.CANCELLED:
                arrived = self.upstream.sites()
                run.barred |= {task.id for task in run.case.tasks if run.spot(task.id)[0] not in arrived}
        else:
            assert isinstance(answer, Conflict), answer

    @rule(run=runs, which=which, number=st.integers(0, 3), other_word=st.booleans())
    @precondition(lambda self: self.gateways)
    def settle(self, run: Asked, which: int, number: int, other_word: bool) -> None:
        """Settle one of the calls in doubt with the truth."""
        seen = self.turn(self.seen(run))
        if seen.status is RunStatus.IN_DOUBT:
            if seen.doubts == doubts_of(seen.steps):  # none of them is settled yet
                self.judge(run, seen)
            doubt = seen.doubts[number % len(seen.doubts)]
            said = truth(run, doubt, self.upstream, other_word)
            run.settled[run.spot(doubt.step, doubt.item)] = said.outcome
            self.turn(self.at(which).client.resolve(run.given, doubt.step, said, wait=False))

    @rule(run=runs, which=which)
    @precondition(lambda self: self.gateways)
    def follow(self, run: Asked, which: int) -> None:
        """Resume the run's event stream after its last event."""
        run.hang_up()
        run.following = self.house.runner.get_loop().create_task(self.hear(run, self.at(which)))
        self.turn(asyncio.sleep(0.02))

    async def hear(self, run: Asked, gateway: Gateway) -> None:
        try:
            async for event in gateway.client.events(run.given, run.events[-1].id if run.events else 0):
                run.events.append(event)
        except ServiceError as error:
            if not gateway.going:
                run.complaints.append(f"events: {error!r}")

    async def seen(self, run: Asked) -> Run:
        return await self.gateways[0].client.run(run.given)

    # ------------------------------------------------------------------ the world

    @rule()
    def release_what_is_held(self) -> None:
        self.upstream.release()
        self.turn(asyncio.sleep(0.02))

    @rule()
    @precondition(lambda self: self.mourned < self.dead)
    def let_the_leases_of_the_dead_end(self) -> None:
        self.mourned = self.dead
        self.turn(asyncio.sleep(1.5 * LEASE_S))

    @property
    def dead(self) -> int:
        return sum(process.going for process in self.processes)

    @invariant()
    def nothing_is_wrong(self) -> None:
        self.nothing_fell()
        check_effects(self.asked, {run.id for run in self.asked if not run.allowed}, self.upstream)
        for run in self.asked:
            numbers = [event.id for event in run.events]
            assert numbers == sorted(set(numbers)), f"{run.id}: numbers of events: {numbers}"

    def judge(self, run: Asked, seen: Run) -> None:
        """Checks for a run that is not in progress."""
        if seen.steps:
            changed_hands = self.restarts > 0
            check_ending(run, seen.status.value, seen.steps, self.upstream, changed_hands=changed_hands)
        else:
            assert not self.upstream.sites() & {run.spot(task.id)[0] for task in run.case.tasks}, seen
            assert run.cancelled or self.restarts, f"{run.id} ended without a cause: {seen}"
        if run.allowed and seen.approval is not None:
            assert seen.approval.plan_id == run.case.plan.plan.id

    def heal(self) -> None:
        self.upstream.heal()
        if not self.gateways:
            self.start_a_gateway()
        for run in self.asked:
            seen = self.bring_to_its_end(run)
            self.judge(run, seen)
            self.follow(run, 0)
            assert run.following is not None
            self.turn(asyncio.wait({run.following}))
            self.nothing_is_wrong()
            last = run.events[-1].event
            assert isinstance(last, RunFinished), f"{run.id}: the stream ended with {last}"
            assert last.run == seen, f"{run.id}: {last.run} is not {seen}"

    def bring_to_its_end(self, run: Asked) -> Run:
        while True:
            seen = self.turn(self.seen(run))
            if seen.status is RunStatus.NEEDS_APPROVAL:
                self.approve(run, 2)
            elif seen.status is RunStatus.IN_DOUBT:
                self.settle(run, 0, 0, False)
            elif seen.status not in _UNDER_WAY:
                return seen
            self.turn(asyncio.sleep(0.02))
            self.nothing_is_wrong()

    async def clean_up(self) -> None:
        for run in self.asked:
            run.hang_up()


def test_gateways_keep_their_promises(house: House) -> None:
    explore(Gateways, house, share=0.06)
