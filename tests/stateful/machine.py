"""The common base of the state machines: event loop, database, upstream, processes, and Hypothesis settings."""

import asyncio
import itertools
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.stateful.clocks import SteppedClock
from tests.stateful.processes import Executor, Process
from tests.stateful.upstream import Upstream, serve_upstream
from tests.support.examples import THOROUGH, examples

T = TypeVar("T")
LEASE_S = 0.3
_PATIENCE_S = 60.0


@dataclass
class House:
    """What all examples share: a database, and an event loop that runs only during a rule."""

    runner: asyncio.Runner
    url: str
    engine: AsyncEngine
    folder: Path
    clock: SteppedClock
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))


class Machine(RuleBasedStateMachine):
    """A state machine with processes, their upstream, and a clock that is stepped."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house
        self.log = house.folder / f"log-{next(house.numbers)}"
        self.stack = AsyncExitStack()
        self.upstream: Upstream = self.turn(self.stack.enter_async_context(serve_upstream()))
        self.processes: list[Process] = []
        self.failed = False

    def turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the event loop until this work is done."""

        async def bounded() -> T:
            async with asyncio.timeout(_PATIENCE_S):
                return await work

        try:
            return self.house.runner.run(bounded())
        except BaseException:
            self.failed = True
            raise

    def executor(self, url: str, port: int = 0) -> Executor:
        """Start an executor with a short lease."""
        chosen = {
            "database_url": url,
            "allowed_private_hosts": ["127.0.0.1"],
            "lease_s": LEASE_S,
            "max_takeovers": 1_000,
            "shutdown_grace_s": 0.2,
            "retry_base_s": 0.01,
            "circuit_failures": 1_000,
        }
        executor = Executor(self.log, self.house.clock, chosen, port)
        self.processes.append(executor)
        return executor

    @rule(seconds=st.sampled_from([-3_600.0, -0.5, 0.5, 3_600.0]))
    def step_the_clock(self, seconds: float) -> None:
        """Step the databases' clock, by more than a lease or by about one."""
        self.turn(self.house.clock.step(seconds, self.house.engine))

    def nothing_fell(self) -> None:
        """Check that no process has ended by itself."""
        assert not any(process.fell for process in self.processes), self.log.read_text()

    def heal(self) -> None:
        """Stop all faults, bring every run to its end and check it."""
        raise NotImplementedError

    async def clean_up(self) -> None:
        """Close what was opened."""
        raise NotImplementedError

    def teardown(self) -> None:
        """After the last step, call :meth:`heal` and end the processes."""
        try:
            if not self.failed:
                self.heal()
        finally:
            codes = self.turn(self._end())
        assert codes <= {0, -signal.SIGTERM, -signal.SIGKILL}, f"a stop did not end: {codes}"
        assert '"bug"' not in self.log.read_text(), self.log.read_text()

    async def _end(self) -> set[int | None]:
        await self.clean_up()
        codes = {await process.gone() for process in self.processes}
        await self.stack.aclose()
        return codes


def explore(machine: type[Machine], house: House, share: float) -> None:
    """Run that share of the profile's examples, the same ones in every run.

    Under the thorough profile the examples differ from run to run, and failures are shrunk, which takes minutes.
    """
    chosen = settings(
        examples(share),
        stateful_step_count=25,
        derandomize=not THOROUGH,
        phases=list(Phase) if THOROUGH else [Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    class Here(machine):  # type: ignore[valid-type, misc]
        def __init__(self) -> None:
            super().__init__(house)

    run_state_machine_as_test(Here, settings=chosen)
