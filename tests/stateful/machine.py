"""What the state machines have in common: a loop, a database, an upstream, processes, and how far they are explored."""

import asyncio
import itertools
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.stateful.processes import Executor, Process
from tests.stateful.upstream import Upstream, serve_upstream
from tests.support.examples import THOROUGH, examples

T = TypeVar("T")
LEASE_S = 0.3
_PATIENCE_S = 60.0


@dataclass
class House:
    """What outlives the examples: an event loop, which turns only while a rule runs, and a database."""

    runner: asyncio.Runner
    url: str
    engine: AsyncEngine
    folder: Path
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))


class Machine(RuleBasedStateMachine):
    """Processes, and the service that they call. Of rules it has none."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house
        self.log = house.folder / f"log-{next(house.numbers)}"
        self.stack = AsyncExitStack()
        self.upstream: Upstream = self.turn(self.stack.enter_async_context(serve_upstream()))
        self.processes: list[Process] = []
        self.failed = False

    def turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Let everything happen until this is done."""

        async def bounded() -> T:
            async with asyncio.timeout(_PATIENCE_S):
                return await work

        try:
            return self.house.runner.run(bounded())
        except BaseException:
            self.failed = True
            raise

    def executor(self, url: str, port: int = 0) -> Executor:
        """One more executor; it believes others dead soon."""
        chosen = {
            "database_url": url,
            "allowed_private_hosts": ["127.0.0.1"],
            "lease_s": LEASE_S,
            "max_takeovers": 1_000,
            "shutdown_grace_s": 0.2,
            "retry_base_s": 0.01,
            "circuit_failures": 1_000,
        }
        executor = Executor(self.log, chosen, port)
        self.processes.append(executor)
        return executor

    def nothing_fell(self) -> None:
        """No process has ended by itself."""
        assert not any(process.fell for process in self.processes), self.log.read_text()

    def heal(self) -> None:
        """Have everything work again, bring every run to its end, and judge it."""
        raise NotImplementedError

    async def clean_up(self) -> None:
        """Close what was opened."""
        raise NotImplementedError

    def teardown(self) -> None:
        """After the last step: see :meth:`heal`."""
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
    """Try that share of the profile's examples, the same ones in every run. Under the thorough profile others, which
    are shrunk where they fail: that takes minutes.
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
