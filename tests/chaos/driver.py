"""Requests runs until they end, despite all faults, and settles calls in doubt as a person would."""

import asyncio
from dataclasses import dataclass, field

from pydantic import JsonValue
from pydantic_core import from_json

from services.contracts.answer import AnswerValue
from services.contracts.doubt import DoubtfulCall, ResolveRequest, doubts_of
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import StepRecord, StoredValue, Succeeded
from services.errors import Conflict, DeadlineExceeded, NotFound, NotReady, Overloaded, ServiceError, ServiceUnavailable
from tests.chaos.bindings import Bindings
from tests.chaos.house import House
from tests.chaos.plans import Case, site
from tests.chaos.upstream import Upstream

PATIENCE_S = 5.0
"""If a run has not ended after this time, it is requested again from another executor."""
_EXCUSED = (ServiceUnavailable, DeadlineExceeded, Overloaded, NotReady, TimeoutError)


@dataclass
class Driven:
    """The state of a run.

    Attributes:
        accepted: whether an executor sent any event of it.
        ending: its last final event so far.
        doubts: every call that was ever listed in doubt, by step and item.
        refusals: errors that the faults do not explain.
        broken: how often a request for it was interrupted.
        whole: whether ``ending`` contains the large values.
    """

    case: Case
    accepted: bool = False
    ending: ExecutionFinished | None = None
    doubts: set[tuple[str, int | None]] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    broken: int = 0
    whole: bool = False

    @property
    def in_doubt(self) -> bool:
        """Whether the run waits until its calls in doubt are settled."""
        return self.ending is not None and self.ending.status == "in_doubt"

    @property
    def open_doubts(self) -> tuple[DoubtfulCall, ...]:
        """The calls in doubt."""
        return doubts_of(self.ending.records) if self.ending else ()


class Driver:
    """Requests runs from the executors of a house."""

    def __init__(self, house: House, upstream: Upstream) -> None:
        self._house, self._upstream = house, upstream

    async def finish(self, run: Driven) -> None:
        """Request a run repeatedly until its final event arrives."""
        run.ending, run.whole = None, False
        while run.ending is None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    async for event in self._house.any().execute(run.case.request):
                        run.accepted = True
                        if isinstance(event, ExecutionFinished):
                            run.ending = event
            except _EXCUSED:
                run.broken += 1
            except ServiceError as error:
                run.refusals.append(f"execute: {error!r}")
            if run.ending is None:
                await asyncio.sleep(self._house.rng.uniform(0.005, 0.05))
        run.doubts |= {(doubt.step, doubt.item) for doubt in run.open_doubts}

    async def settle(self, run: Driven) -> None:
        """Settle each call in doubt with the truth, then follow the run to its end.

        There is no retry. A first request may take effect although its response is lost, and the truth may have changed
        by the time of a second one. If the request is lost, the call is still in doubt after the round.
        """
        for doubt in run.open_doubts:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._house.any().resolve(run.case.run_id, doubt.step, self._truth(run, doubt))
            except (*_EXCUSED, Conflict):
                run.broken += 1
            except ServiceError as error:
                run.refusals.append(f"resolve: {error!r}")
        await self.finish(run)

    def _truth(self, run: Driven, doubt: DoubtfulCall) -> ResolveRequest:
        """The resolution that a person would find at the upstream. Only correct while no request is in flight."""
        items = Bindings(run.case, run.ending).items(run.case.task(doubt.step))
        assert items is not None, "a call in doubt was made, so its items are known"
        answer = self._upstream.answer_to(site(run.case.run_id, doubt.step), items[doubt.item or 0])
        if answer is None:
            return ResolveRequest(outcome="retry", item=doubt.item)
        return ResolveRequest(outcome="succeeded", value=answer, item=doubt.item)

    async def complete(self, run: Driven) -> None:
        """Request a run's final event once more and insert its large values."""
        await self.finish(run)
        assert run.ending is not None
        try:
            run.ending = await self._with_values(run.ending)
            run.whole = True
        except NotFound as error:
            run.refusals.append(f"a large value is gone: {error!r}")

    async def _with_values(self, ending: ExecutionFinished) -> ExecutionFinished:
        records = [await self._whole(record) for record in ending.records]
        answer = [await self._whole_answer(value) for value in ending.answer]
        return ending.model_copy(update={"records": tuple(records), "answer": tuple(answer)})

    async def _whole(self, record: StepRecord) -> StepRecord:
        outcome = record.outcome
        if not isinstance(outcome, Succeeded) or outcome.stored is None:
            return record
        value = await self._value(outcome.stored)
        return record.model_copy(update={"outcome": Succeeded(value=value, status=outcome.status)})

    async def _whole_answer(self, answer: AnswerValue) -> AnswerValue:
        if answer.stored is None:
            return answer
        return AnswerValue(name=answer.name, value=await self._value(answer.stored), step=answer.step, path=answer.path)

    async def _value(self, stored: StoredValue) -> JsonValue:
        """A large value in full. Raises NotFound if it was lost."""
        while True:
            try:
                found: JsonValue = from_json(await self._house.any().value(stored.id))
                return found
            except _EXCUSED:
                await asyncio.sleep(self._house.rng.uniform(0.005, 0.05))
