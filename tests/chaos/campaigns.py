"""A campaign: rounds of runs while a fire breaks things, and a check of the runs after each round."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.driver import Driven, Driver
from tests.chaos.fires import Fire, Scene
from tests.chaos.judge import Evidence, Finding, Kind, judge
from tests.chaos.plans import random_case
from tests.chaos.upstream import Upstream

_WORKERS: Final = 10
_ROUND_S: Final = 20.0
_DRAIN_S: Final = 30.0
_QUIET_ROUNDS: Final = 10
_DEADLINE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Report:
    """The figures and findings of a campaign.

    Attributes:
        strikes: how often something was broken; a full campaign has ``wanted`` strikes.
        calls: requests that the upstream saw.
        listed: calls that were ever listed in doubt.
        takeovers: how often another process took over a run.
    """

    name: str
    strikes: int
    wanted: int
    runs: int
    calls: int
    listed: int
    takeovers: int
    findings: tuple[Finding, ...]
    seconds: float

    def count(self, kind: Kind) -> int:
        """The number of findings of this kind."""
        return sum(finding.kind == kind for finding in self.findings)


@dataclass
class Campaign:
    """One kind of fire (a fault injector) on one scene.

    Attributes:
        origin: the upstream's URL.
        step_deadline_s: set if the faults may make calls fail; short, so that they fail soon.
    """

    name: str
    scene: Scene
    fire: Fire
    upstream: Upstream
    origin: str
    step_deadline_s: float | None = None
    _runs: list[Driven] = field(default_factory=list)
    _findings: dict[Finding, None] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._driver = Driver(self.scene.house, self.upstream)

    async def run(self, seconds: float) -> Report:
        """Run rounds until the time is up or the strikes suffice, then rounds without faults until no doubt is left."""
        began, log = time.monotonic(), self.scene.house.log
        taken_over = log.takeovers
        while self.scene.burning and (left := began + seconds - time.monotonic()) > 0:
            await self._round(min(left, _ROUND_S))
        for _ in range(_QUIET_ROUNDS):
            if not self._doubtful():
                break
            await self._round(0.0)
        await self._judge(self._runs)
        for run in self._doubtful():
            self._find("lost", run, "its doubts cannot be settled")
        return Report(
            self.name,
            self.scene.strikes,
            self.scene.wanted,
            runs=len(self._runs),
            calls=sum(len(self.upstream.seen[run.case.run_id]) for run in self._runs),
            listed=sum(len(run.doubts) for run in self._runs),
            takeovers=log.takeovers - taken_over,
            findings=tuple(self._findings),
            seconds=time.monotonic() - began,
        )

    def _doubtful(self) -> list[Driven]:
        return [run for run in self._runs if run.in_doubt]

    async def _round(self, seconds: float) -> None:
        """Settle doubts and make runs under faults for this time; stop the faults; wait for all runs; check them.

        The surviving executors must first finish their work. Then all executors are replaced, and each run that is not
        complete is requested once more. So no executor is left that acts on a request from the time of the faults.
        """
        if seconds:
            async with self._executors():
                await self._burn(seconds)
                if not await self._drain():
                    stuck = (run.case.run_id for run in self._runs if run.ending is None)
                    self._findings |= {
                        Finding("stuck", run_id, "nothing was broken any more"): None for run_id in stuck
                    }
        async with self._executors():
            if not seconds:
                await self._all(self._doubtful(), self._driver.settle)
            await self._drain()
        await self._judge(self._doubtful())

    async def _drain(self) -> bool:
        """Wait until all runs have ended, with their large values; False if that takes too long."""
        unfinished = [run for run in self._runs if run.in_doubt or not run.whole]
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._all(unfinished, self._driver.complete)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def _executors(self) -> AsyncIterator[None]:
        """Start the executors. At the end kill them and wait until their requests have arrived."""
        self.scene.house.start()
        try:
            await self.scene.house.ready()
            yield
        finally:
            await self.scene.house.stop()
            await asyncio.gather(*(proxy.quiet() for proxy in self.scene.proxies))
            await self.upstream.quiet()

    async def _burn(self, seconds: float) -> None:
        fire = asyncio.create_task(self.fire(self.scene))
        doubtful = self._doubtful()
        workers = [asyncio.create_task(self._work(doubtful)) for _ in range(_WORKERS)]
        await asyncio.wait([fire, *workers], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (fire, *workers):
            task.cancel()
        for ended in await asyncio.gather(fire, *workers, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _work(self, doubtful: list[Driven]) -> None:
        """Settle doubts or make runs until cancelled."""
        while True:
            if doubtful and self.scene.rng.random() < 0.6:
                await self._driver.settle(doubtful.pop())
            else:
                self._runs.append(run := self._new())
                await self._driver.finish(run)

    def _new(self) -> Driven:
        run_id = f"{self.name}-{next(self._numbers)}".replace(" ", "-").replace(",", "")
        step_s = self.step_deadline_s or _DEADLINE_S
        return Driven(random_case(self.scene.rng, run_id, self.origin, deadline_s=_DEADLINE_S, step_deadline_s=step_s))

    async def _all(self, runs: Iterable[Driven], work: Callable[[Driven], Awaitable[None]]) -> None:
        left = list(runs)

        async def worker() -> None:
            while left:
                await work(left.pop())

        await asyncio.gather(*(worker() for _ in range(_WORKERS)))

    async def _judge(self, runs: list[Driven]) -> None:
        stored = await self.scene.store.stored([run.case.run_id for run in runs])
        for run in runs:
            seen = tuple(self.upstream.seen[run.case.run_id])
            row, may_fail = stored.get(run.case.run_id), self.step_deadline_s is not None
            evidence = Evidence(run.case, run.accepted, run.ending, row, seen, may_fail)
            self._findings |= dict.fromkeys(judge(evidence))
            for refusal in run.refusals:
                self._find("refused", run, refusal)

    def _find(self, kind: Kind, run: Driven, text: str) -> None:
        self._findings[Finding(kind, run.case.run_id, text)] = None
